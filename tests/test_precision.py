"""Models in half precision: ONNX Runtime loads them, values have the types of PyTorch, and results are as close as its own."""

from __future__ import annotations

import copy
import math
import subprocess
import warnings
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
from torch import nn

import lithify
from tests.driver import DEFAULT_OPSET, Session, asked, export, export_command, flat, refusal, run, save_exported
from tests.models import MODELS, Inputs, Masked, Model, floats, ids, transformers
from tests.vision import torchvision

NUMBERS = {torch.float16: onnx.TensorProto.FLOAT16, torch.bfloat16: onnx.TensorProto.BFLOAT16}
SMALL = {"vocab_size": 1000, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}


def text(inner: nn.Module) -> Model:
    runs: list[Inputs] = []
    for batch, seq in ((2, 16), (3, 9), (2, 5)):
        mask = torch.ones(batch, seq, dtype=torch.int64)
        mask[0, seq - seq // 3 :] = 0
        runs.append((ids(batch, seq), mask))
    return Model(Masked(inner), runs, [{0: "batch", 1: "seq"}] * 2)


def bert() -> Model:
    hf = transformers()
    return text(hf.BertModel(hf.BertConfig(**SMALL), add_pooling_layer=False))


def llama() -> Model:
    hf = transformers()
    return text(hf.LlamaForCausalLM(hf.LlamaConfig(**SMALL, num_key_value_heads=2, use_cache=False)))


def resnet18() -> Model:
    net = torchvision().models.get_model("resnet18", weights=None)
    return Model(net, floats((2, 3, 64, 64), (3, 3, 48, 80), (2, 3, 33, 65)), [{0: "batch", 2: "height", 3: "width"}])


@pytest.mark.parametrize(
    ("dtype", "capture"), [(torch.float16, "traced"), (torch.bfloat16, "traced"), (torch.bfloat16, "exported")]
)
@pytest.mark.parametrize("build", [bert, llama, resnet18])
def test_model(build: Callable[[], Model], dtype: torch.dtype, capture: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    made = build()
    whole = made.module.eval()
    module = copy.deepcopy(whole).to(dtype)
    runs = [tuple(t.to(dtype) if t.is_floating_point() else t for t in run) for run in made.runs]
    out = tmp_path / "model.onnx"
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if capture == "traced":
            torch.jit.trace(module, runs[0], check_trace=False).save(str(tmp_path / "model.pt"))
            exported = export(tmp_path / "model.pt", out, dynamic=made.dynamic)
        else:
            saved = save_exported(module, runs[0], made.names, made.dynamic, tmp_path / "model.pt2")
            assert saved is not None and saved.open is not None
            dynamic = asked(made.dynamic, saved.open)
            exported = export(saved.path, out, dynamic=dynamic, flags=["--self-check"], names=saved.open)
        session = Session(out)
        for run, precise in zip(runs, made.runs, strict=True):
            (got,), (eager,), (exact,) = session.run(*run), flat(module(*run)), flat(whole(*precise))
            assert got.dtype == eager.dtype == dtype and got.shape == eager.shape
            distance, eagers = ((v.float() - exact).abs().max().item() for v in (got, eager))
            assert distance <= 2 * eagers, f"{distance} from the exact result, and eager PyTorch {eagers}"
    check_types(exported, dtype)


def check_types(model: onnx.ModelProto, dtype: torch.dtype) -> None:
    """Weights are stored as the model has them, and inference by the rules of onnx agrees on every value."""
    stored = {i.data_type for i in model.graph.initializer if math.prod(i.dims) > 4096}
    assert stored == {NUMBERS[dtype]}
    inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    known = {v.name: v.type.tensor_type.elem_type for v in (*inferred.graph.value_info, *inferred.graph.output)}
    assert all(known[o] for n in inferred.graph.node for o in n.output)


# ---- models of float32 that are exported with less ----

LOWER = {"float16": (onnx.TensorProto.FLOAT16, 0.004), "bfloat16": (onnx.TensorProto.BFLOAT16, 0.04)}


def lowered(made: Model, tmp_path: Path, *flags: str, opset: int = DEFAULT_OPSET) -> tuple[onnx.ModelProto, list[str]]:
    """The exported model, and what it tells about precision."""
    torch.jit.trace(made.module, made.runs[0], check_trace=False).save(str(tmp_path / "model.pt"))
    command = export_command(tmp_path / "model.pt", tmp_path / "model.onnx", dynamic=made.dynamic, opset=opset, flags=flags)
    done = run([c for c in command if c != "-q"])
    assert done.returncode == 0, done.stderr
    onnx.checker.check_model(str(tmp_path / "model.onnx"), full_check=True)
    notes = [line for line in (done.stdout + done.stderr).splitlines() if "LTH083" in line]
    return onnx.load(str(tmp_path / "model.onnx")), notes


@pytest.mark.parametrize("precision", LOWER)
@pytest.mark.parametrize("build", [bert, llama, resnet18, MODELS["tagger"], MODELS["lstm"]])
def test_lower_precision(build: Callable[[], Model], precision: str, tmp_path: Path) -> None:
    number, tolerance = LOWER[precision]
    torch.manual_seed(0)
    made = build()
    made.module.eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported, notes = lowered(made, tmp_path, "--precision", precision)
        session = Session(tmp_path / "model.onnx")
        for inputs in made.runs:
            for got, eager in zip(session.run(*inputs), flat(made.module(*inputs)), strict=True):
                assert got.dtype == eager.dtype and got.shape == eager.shape
                assert (got - eager).abs().max() <= tolerance * eager.abs().max()
    assert len(notes) == 1 and ("no kernels" in notes[0]) == (precision == "bfloat16")
    large = {i.data_type for i in exported.graph.initializer if math.prod(i.dims) >= 4096}
    assert large == ({number} if build is not MODELS["lstm"] else set())


class Ranges(nn.Module):
    """A weight, a mask and sums beyond the range of float16, and a module that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.large, self.usual = nn.Linear(64, 64, bias=False), nn.Linear(64, 64)
        with torch.no_grad():
            self.large.weight[0, 0] = 1e5

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        squares = (300 * self.usual(x)).pow(2).sum(-1, keepdim=True)
        scores = torch.where(mask, self.usual(x), -1e9).softmax(-1) + self.large(x * 1e-5)
        return scores / (squares + 1e-12).sqrt()


def test_what_float16_cannot_hold(tmp_path: Path) -> None:
    module = Ranges().eval()
    runs: list[Inputs] = [(torch.randn(2, 64), torch.rand(2, 64) > 0.5)]
    with torch.no_grad():
        exported, (note,) = lowered(Model(module, runs, [{}, {}]), tmp_path, "--precision", "float16")
        (got,) = Session(tmp_path / "model.onnx").run(*runs[0])
        torch.testing.assert_close(got, module(*runs[0]), rtol=0.02, atol=1e-6)
    assert "beyond the range of float16: large.weight" in note
    types = {i.name: i.data_type for i in exported.graph.initializer if len(i.dims) == 2}
    assert sorted(types.values()) == [onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16]


@pytest.mark.parametrize(("keep", "left"), [("usual", 1), ("usual.bias", 1), ("other", 0)])
def test_kept_modules_stay_float32(keep: str, left: int, tmp_path: Path) -> None:
    module = nn.Sequential(OrderedDict(usual=nn.Linear(64, 64), last=nn.Linear(64, 64))).eval()
    made = Model(module, [(torch.randn(2, 64),)], [{}])
    exported, _ = lowered(made, tmp_path, "--precision", "float16", "--keep-weights", keep)
    types = [i.data_type for i in exported.graph.initializer if len(i.dims) == 2]
    assert types.count(onnx.TensorProto.FLOAT) == left and len(types) == 2


@pytest.mark.parametrize("target", [(), ("--target", "ort")])
@pytest.mark.parametrize("precision", LOWER)
def test_with_quantized_weights(precision: str, target: tuple[str, ...], tmp_path: Path) -> None:
    module = nn.Sequential(nn.Embedding(4096, 64), nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)).eval()
    runs: list[Inputs] = [(torch.randint(0, 4096, (2, 9)),)]
    with torch.no_grad():
        flags = "--precision", precision, "--weights", "int8", *target
        exported, notes = lowered(Model(module, runs, [{}]), tmp_path, *flags, opset=21)
        (got,), expected = Session(tmp_path / "model.onnx").run(*runs[0]), module(*runs[0])
    assert notes and (got - expected).abs().max() <= 0.04 * expected.abs().max()
    assert not any(i.data_type == onnx.TensorProto.FLOAT and math.prod(i.dims) > 4096 for i in exported.graph.initializer)


def test_weights_are_rounded_as_they_are_written(tmp_path: Path) -> None:
    torch.jit.trace(nn.Linear(4096, 8192).eval(), torch.randn(1, 4096)).save(str(tmp_path / "model.pt"))
    command = export_command(tmp_path / "model.pt", tmp_path / "model.onnx", flags=["--precision", "float16"])
    limited = ["sh", "-c", 'ulimit -d 40000; exec "$@"', "sh", *command, "--external-data", "always"]
    assert subprocess.run(limited, check=False).returncode == 0
    assert (tmp_path / "model.onnx.data").stat().st_size < 4096 * 8192 * 2.1


def test_precision_that_cannot_be(tmp_path: Path) -> None:
    torch.jit.trace(nn.Linear(4, 4).eval(), torch.randn(1, 4)).save(str(tmp_path / "model.pt"))
    command = export_command(tmp_path / "model.pt", tmp_path / "model.onnx", opset=12, flags=["--precision", "bfloat16"])
    assert "--opset 13" in refusal(run(command), "LTH043", out=tmp_path / "model.onnx")
    with pytest.raises(lithify.ExportError, match="verify=True"):
        lithify.export(nn.Linear(4, 4), torch.randn(1, 4), tmp_path / "model.onnx", precision="float16", verify=True)
