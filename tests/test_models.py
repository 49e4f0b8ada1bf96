"""Whole models: exported, checked, compared with eager PyTorch at every size, and their nodes counted."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
from torch import nn

from tests.driver import DEFAULT_OPSET, Names, asked, export, save_exported
from tests.models import MODELS, Model

COUNTED_OPSET = 20
SMALL = ("linear", "rnn", "lstm", "gru", "view_shape", "view_product", "cnn", "encoder", "tagger")
VISION = (
    "resnet18",
    "resnet50",
    "mobilenet_v3_small",
    "efficientnet_b0",
    "shufflenet_v2_x1_0",
    "vit_b_16",
    "convnext_tiny",
    "swin_t",
    "deeplabv3_resnet50",
)

Record = Callable[[str, object], None]


@pytest.fixture(autouse=True)
def _eager_alone() -> object:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", MODELS)
def test_model(name: str, tmp_path: Path, record_property: Record) -> None:
    """Traced, through torch.export, and scripted where it can be: each as right as the others, and as small."""
    made = MODELS[name]()
    opset = COUNTED_OPSET if made.nodes else DEFAULT_OPSET

    traced = export(made.trace(tmp_path), tmp_path / "traced.onnx", opset=opset, dynamic=made.dynamic)
    made.check(tmp_path / "traced.onnx")
    count = nodes(traced.graph)
    if made.nodes:
        record_property("nodes", (name, count, made.nodes))
        assert count <= made.nodes, f"{count} nodes at opset {opset}, at most {made.nodes} are wanted"

    program, open_axes, runs = _export(made, tmp_path)
    dynamic = asked(made.dynamic, open_axes)
    exported = export(program, tmp_path / "exported.onnx", opset=opset, dynamic=dynamic, flags=["--self-check"], names=open_axes)
    made.check(tmp_path / "exported.onnx", runs)
    other = nodes(exported.graph)
    record_property("nodes", (f"{name}, exported", other, made.nodes or count + count // 10))
    assert made.nodes is None or other <= made.nodes, f"{other} nodes at opset {opset}, at most {made.nodes} are wanted"
    assert abs(count - other) <= max(1, count // 10), f"{other} nodes exported, and {count} traced"

    if name in SMALL + VISION:
        torch.jit.script(made.module).save(str(tmp_path / "scripted.pt"))
        inputs = [_spec(*described) for described in zip(made.names, made.runs[0], made.axes, strict=True)]
        export(tmp_path / "scripted.pt", tmp_path / "scripted.onnx", inputs=inputs, names=made.dynamic)
        made.check(tmp_path / "scripted.onnx")


@pytest.mark.parametrize("opset", [9, 12, 16, 26])
@pytest.mark.parametrize("name", SMALL)
def test_other_opsets(name: str, opset: int, tmp_path: Path) -> None:
    made = MODELS[name]()
    export(made.trace(tmp_path), tmp_path / "model.onnx", opset=opset, dynamic=made.dynamic)
    made.check(tmp_path / "model.onnx")


@pytest.mark.parametrize("name", ["linear", "lstm", "tagger"])
def test_same_bytes_twice(name: str, tmp_path: Path) -> None:
    made = MODELS[name]()
    model = made.trace(tmp_path)
    first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
    for out in (first, second):
        export(model, out, dynamic=made.dynamic)
    assert first.read_bytes() == second.read_bytes()


class Difference(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a - 2 * b


def test_same_tensor_passed_twice(tmp_path: Path) -> None:
    """They are two inputs all the same."""
    x = torch.randn(2, 3)
    axes = [{0: "batch"}, {0: "batch"}]
    made = Model(Difference(), [(x, x), (torch.randn(2, 3), torch.randn(2, 3)), (torch.randn(1, 3), torch.randn(1, 3))], axes)
    export(made.trace(tmp_path), tmp_path / "model.onnx", dynamic=made.dynamic)
    made.check(tmp_path / "model.onnx")


@pytest.mark.parametrize("where", ["always", "never"])
def test_external_data(where: str, tmp_path: Path) -> None:
    made = MODELS["tagger"]()
    out = tmp_path / "model.onnx"
    export(made.trace(tmp_path), out, dynamic=made.dynamic, flags=["--external-data", where])
    beside = [f for f in tmp_path.iterdir() if f.suffix not in (".pt", ".onnx")]
    assert len(beside) == (1 if where == "always" else 0), beside
    made.check(out)


def nodes(graph: onnx.GraphProto) -> int:
    """The nodes of the graph and of all graphs within."""
    inner = [a.g for n in graph.node for a in n.attribute if a.type == onnx.AttributeProto.GRAPH]
    return len(graph.node) + sum(nodes(g) for g in inner)


def _export(made: Model, folder: Path) -> tuple[Path, Names, list[int]]:
    """The saved program, its open axes, and the runs that it takes: torch fixes the length of sequences in RNNs.

    torch.export takes a size of 1 for a constant, also within the model, so the sample is the largest that has none.
    """
    sizes = [
        {(i, a): t.shape[a] for i, (t, axes) in enumerate(zip(run, made.axes, strict=True)) for a in axes} for run in made.runs
    ]
    sample = max(range(len(sizes)), key=lambda i: (min(sizes[i].values(), default=2) > 1, math.prod(sizes[i].values())))
    saved = save_exported(made.module, made.runs[sample], made.names, made.dynamic, folder / "model.pt2")
    assert saved is not None and saved.open is not None, "torch.export does not capture the model"
    return saved.path, saved.open, [i for i, run in enumerate(made.runs) if saved.takes(run)]


def _spec(name: str, sample: torch.Tensor, axes: dict[int, str]) -> str:
    sizes = ",".join(f"{axes[i]}={n}" if i in axes else str(n) for i, n in enumerate(sample.shape))
    return f"{name}:{str(sample.dtype).removeprefix('torch.')}[{sizes}]"
