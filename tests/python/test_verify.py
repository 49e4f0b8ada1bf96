"""lithify.verify: right models are right, and faults that are put into a file are caught and named."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from torch import nn

import lithify
from lithify._check import Checker
from lithify._errors import CannotCheck, CannotRun
from lithify._signature import bind
from tests.cases import ROOT
from tests.driver import LITHIFY


class Picture(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.deep = nn.Conv2d(8, 8, 3, padding=1, groups=2)
        self.fc = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.conv(x.transpose(2, 3)))
        y = torch.cat([y, y - self.deep(y)], 1)
        return self.fc(y.mean((2, 3))).softmax(1)


class Sentence(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 12)
        self.lstm = nn.LSTM(12, 6, batch_first=True)
        self.norm = nn.LayerNorm(6)
        self.up = nn.Linear(6, 8)
        self.out = nn.Linear(8, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.lstm(self.embed(ids))[0])
        y = self.out(torch.tanh(self.up(y)) * 0.5)
        scores = (y @ y.transpose(1, 2)).softmax(-1)
        return (scores @ y).flatten(1)


MODELS: dict[str, tuple[nn.Module, torch.Tensor, dict[int, str]]] = {}
torch.manual_seed(0)
MODELS["picture"] = (Picture().eval(), torch.randn(2, 3, 9, 9), {0: "batch", 2: "height"})
MODELS["sentence"] = (Sentence().eval(), torch.randint(0, 20, (2, 5)), {0: "batch"})


def attribute(node: onnx.NodeProto, **values: Any) -> None:
    kept = [a for a in node.attribute if a.name not in values]
    del node.attribute[:]
    node.attribute.extend([*kept, *(onnx.helper.make_attribute(name, value) for name, value in values.items())])


def weight(model: onnx.ModelProto, name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    """Gives it other contents."""
    for i in model.graph.initializer:
        if i.name == name:
            i.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(change(numpy_helper.to_array(i).copy())), name))


def swapped_gates(w: np.ndarray) -> np.ndarray:
    i, o, f, c = np.split(w, 4, axis=1)
    return np.concatenate([o, i, f, c], axis=1)


Fault = Callable[[onnx.ModelProto, onnx.NodeProto], Any]
FAULTS: list[tuple[str, str, str, Fault]] = [  # what, model, node, how
    ("wrong axis of a softmax", "picture", "/Softmax", lambda m, n: attribute(n, axis=0)),
    ("wrong axis of another", "sentence", "/Softmax", lambda m, n: attribute(n, axis=1)),
    ("dropped bias of a convolution", "picture", "/deep/Conv", lambda m, n: n.input.pop()),
    ("dropped bias of a layer", "sentence", "/up/Add", lambda m, n: weight(m, n.input[1], lambda w: w * 0)),
    ("wrong epsilon", "sentence", "/norm/LayerNormalization", lambda m, n: attribute(n, epsilon=1e-3)),
    ("swapped gates", "sentence", "/lstm/LSTM", lambda m, n: weight(m, n.input[1], swapped_gates)),
    ("hard-coded size", "sentence", "/Reshape", lambda m, n: weight(m, n.input[1], lambda w: np.array([2, 20]))),
    ("wrong permutation", "picture", "/Transpose", lambda m, n: attribute(n, perm=[0, 1, 2, 3])),
    ("wrong function", "picture", "/Relu", lambda m, n: setattr(n, "op_type", "Sigmoid")),
    ("wrong padding", "picture", "/conv/Conv", lambda m, n: attribute(n, pads=[2, 1, 0, 1])),
    ("swapped operands", "picture", "/Sub", lambda m, n: n.input.reverse()),
    ("swapped order of parts", "picture", "/Concat", lambda m, n: n.input.reverse()),
    ("wrong factor", "sentence", "/Mul", lambda m, n: weight(m, n.input[1], lambda w: w / 2)),
    ("wrong groups of weights", "picture", "/deep/Conv", lambda m, n: weight(m, n.input[1], lambda w: np.roll(w, 4, 0))),
]


@pytest.mark.parametrize("name", MODELS)
def test_right(name: str, tmp_path: Path) -> None:
    model, x, axes = MODELS[name]
    result = lithify.export(model, x, tmp_path / "m.onnx", input_names=["x"], dynamic_axes={"x": axes}, verify=True)
    seen = lithify.verify(model, result, x)
    assert seen and len(seen.runs) >= 4
    assert "batch=1" in str(seen) and "right" in str(seen)


@pytest.mark.parametrize(("what", "name", "node", "fault"), FAULTS, ids=[f[0].replace(" ", "-") for f in FAULTS])
def test_seeded_fault(what: str, name: str, node: str, fault: Fault) -> None:
    model, x, axes = MODELS[name]
    file = onnx.load_from_string(lithify.export(model, x, input_names=["x"], dynamic_axes={"x": axes}).bytes or b"")
    fault(file, next(n for n in file.graph.node if n.name == node))
    del file.graph.value_info[:]  # or the checker would see some of them by their sizes
    seen = lithify.verify(model, file.SerializeToString(), x)
    assert not seen, f"{what} is not noticed"
    assert seen.divergence is not None and seen.divergence.node == node, str(seen)
    assert "test_verify.py:" in seen.divergence.source
    with pytest.raises(lithify.ExportError, match=node):
        seen.check()


def test_sizes_that_are_asked_for() -> None:
    model, x, axes = MODELS["picture"]
    result = lithify.export(model, x, input_names=["x"], dynamic_axes={"x": axes})
    seen = lithify.verify(model, result, x, sizes=[{"batch": 7}, {"height": 4, "batch": 1}])
    assert [r.what for r in seen.runs][-2:] == ["batch=7", "height=4, batch=1"]


def test_reference_in_a_file(tmp_path: Path) -> None:
    model, x, axes = MODELS["picture"]
    torch.jit.trace(model, x).save(str(tmp_path / "m.pt"))
    lithify.convert(tmp_path / "m.pt", tmp_path / "m.onnx", dynamic_axes={"x": axes})
    assert lithify.verify(tmp_path / "m.pt", tmp_path / "m.onnx", x)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "m.pt2")
    assert lithify.verify(tmp_path / "m.pt2", tmp_path / "m.onnx", x, sizes=[])


def test_command_line(tmp_path: Path) -> None:
    model, x, axes = MODELS["picture"]
    torch.jit.trace(model, x).save(str(tmp_path / "m.pt"))
    lithify.convert(tmp_path / "m.pt", tmp_path / "m.onnx", dynamic_axes={"x": axes})
    # As installed, the interpreter is beside the program, or on the path.
    env = os.environ | {"PYTHONPATH": str(ROOT / "python"), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def run(*args: str | Path) -> subprocess.CompletedProcess[str]:
        command = [str(LITHIFY), "verify", str(tmp_path / "m.pt"), *map(str, args)]
        return subprocess.run(command, capture_output=True, text=True, env=env, timeout=120)

    done = run(tmp_path / "m.onnx", "--size", "batch=5,height=4")
    assert done.returncode == 0 and "batch=5, height=4" in done.stdout, done.stderr
    torch.manual_seed(1)
    lithify.export(Picture(), x, tmp_path / "other.onnx")
    done = run(tmp_path / "other.onnx", "--size", "batch=2")
    assert done.returncode == 1 and "first at the node '/conv/Conv'" in done.stdout, done.stdout


def test_no_valid_model(tmp_path: Path) -> None:
    model, x, _ = MODELS["picture"]
    file = onnx.load_from_string(lithify.export(model, x).bytes or b"")
    file.graph.node[0].op_type = "NoSuchOperator"
    with pytest.raises(lithify.ExportError, match="checker"):
        lithify.verify(model, file.SerializeToString(), x)


class ByLength(nn.Module):
    """Traced, it has one side."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(40, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x) if x.shape[0] > 2 else self.fc(x) + 1


@pytest.mark.parametrize("external", [False, True])
def test_a_failed_verification_leaves_what_was_there(external: bool, tmp_path: Path) -> None:
    file, x, axes = tmp_path / "m.onnx", torch.randn(3, 40), {"x": {0: "n"}}

    def export(**more: Any) -> lithify.Result:
        return lithify.export(ByLength(), x, file, dynamic_axes=axes, capture="trace", external_data=external, **more)

    with pytest.raises(lithify.ExportError, match=r"(?s)differs from the live one.*n=1 .*differs by"):
        export(verify=True)
    assert list(tmp_path.iterdir()) == []
    written = export(verify=False)
    assert written.path == file and (written.external_file == tmp_path / "m.onnx.data") == external
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert len(before) == 1 + external
    with pytest.raises(lithify.ExportError):
        export(verify=True)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    stream = io.BytesIO()
    with pytest.raises(lithify.ExportError):
        lithify.export(ByLength(), x, stream, dynamic_axes=axes, capture="trace", verify=True)
    assert stream.getvalue() == b""


@pytest.mark.parametrize("external", [False, True])
def test_a_verified_file_is_the_same(external: bool, tmp_path: Path) -> None:
    x, model = torch.randn(3, 40), nn.Linear(40, 40)
    files = []
    for verify in (True, False, None):
        folder = tmp_path / str(verify)
        folder.mkdir()
        result = lithify.export(model, x, folder / "m.onnx", external_data=external, verify=verify)
        assert result.path == folder / "m.onnx" and result.external_file == (folder / "m.onnx.data" if external else None)
        files.append({p.name: p.read_bytes() for p in folder.iterdir()})
    assert files[0] == files[1] == files[2] and len(files[0]) == 1 + external


class Cached(nn.Module):
    """It runs where total = past + sequence, and nowhere else."""

    def forward(self, x: torch.Tensor, past: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return (torch.cat([past, x], 1) * mask.unsqueeze(-1)).softmax(1)


def cached(batch: int = 4, past: int = 5, sequence: int = 3) -> tuple[torch.Tensor, ...]:
    return torch.randn(batch, sequence, 4), torch.randn(batch, past, 4), torch.rand(batch, past + sequence)


@pytest.mark.parametrize("total", ["total", "past+sequence", "sequence + past"])
def test_dimensions_that_depend_on_each_other_change_together(total: str) -> None:
    axes = {"x": {0: "batch", 1: "sequence"}, "past": {0: "batch", 1: "past"}, "mask": {0: "batch", 1: total}}
    result = lithify.export(Cached(), cached(), dynamic_axes=axes, verify=True)
    assert result.inputs[2].shape[1] == ("total" if total == "total" else "sequence + past")
    seen = lithify.verify(Cached(), result, cached())
    assert seen and not any(run.skipped for run in seen.runs), str(seen)
    ran = [run.what for run in seen.runs]
    if total == "total":
        assert "past=1, total=4" in ran and "total=9, sequence=4, past=5" in ran
    else:
        assert "past=1" in ran and "sequence=11" in ran


def checker(result: lithify.Result, model: nn.Module, *sample: torch.Tensor) -> Checker:
    axes = [{i: d for i, d in enumerate(v.shape) if not d.isdigit()} for v in result.inputs]
    return Checker(model, bind(model.forward, sample, {}), axes, result.bytes or b"")


def wrong_at(checker: Checker, **sizes: int) -> str:
    return str(checker.compare(checker.inputs(sizes)))


def test_one_comparison() -> None:
    x = torch.randn(3, 40)
    wrong = checker(lithify.export(ByLength(), x, dynamic_axes={"x": {0: "n"}}, capture="trace"), model := ByLength(), x)
    right = checker(lithify.export(model, x, dynamic_axes={"x": {0: "n"}}, capture="trace"), model, x)
    assert not wrong_at(right) and not wrong_at(right, n=5)
    assert re.match(r"output: differs by [\d.]+ of its largest element", wrong_at(right, n=2))
    assert wrong_at(wrong)  # its weights are others
    tied = {"x": {1: "sequence"}, "past": {1: "past"}, "mask": {1: "past+sequence"}}
    both = checker(lithify.export(Cached(), cached(), dynamic_axes=tied), Cached(), *cached())
    assert not wrong_at(both, past=1) and not wrong_at(both, past=9, sequence=1)
    both.axes = [{1: "sequence"}, {1: "past"}, {}]
    with pytest.raises(CannotRun, match="does not run: RuntimeError"):
        wrong_at(both, past=1)


def test_what_the_runtime_lacks_is_not_a_difference() -> None:
    library = torch.library.Library("lithify_check", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x + x, "CompositeExplicitAutograd")

    class Twice(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.lithify_check.twice(x)

    result = lithify.export(Twice(), torch.randn(2), allow_custom=True)
    with pytest.raises(CannotCheck, match="ONNX Runtime cannot run the model"):
        wrong_at(checker(result, Twice(), torch.randn(2)))


def test_random_numbers_state_and_types_that_numpy_lacks() -> None:
    class Random(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x + torch.rand(3, 4), x * 2

    class Sums(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.ones(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total += x.sum(0)
            return x + self.total

    class Halved(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 0.5

    x = torch.randn(3, 4)
    lithify.export(Random(), x, verify=True)
    lithify.export(Sums(), x, verify=True, state="io")
    lithify.export(Halved(), x.bfloat16(), verify=True)
    lithify.export(Halved(), torch.randn(3, 4, dtype=torch.complex64), verify=True)
    lithify.export(nn.Dropout(0.5), x, verify=True, training=torch.onnx.TrainingMode.TRAINING)


def test_what_verification_needs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("")
    env = os.environ | {"PYTHONPATH": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = [str(LITHIFY), "verify", "m.pt", "m.onnx"]
    done = subprocess.run(command, capture_output=True, text=True, env=env | {"PYTHONNOUSERSITE": "1"}, timeout=60)
    if "No module named 'lithify'" in done.stderr:  # it is not installed here
        assert done.returncode == 2 and "needs the Python package lithify, with torch, onnx and onnxruntime" in done.stderr
    done = subprocess.run(command, capture_output=True, text=True, env=env | {"PATH": str(tmp_path)}, timeout=60)
    assert done.returncode != 0 and "verify needs the Python package lithify" in done.stderr
