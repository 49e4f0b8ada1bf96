"""Models in half precision: ONNX Runtime loads them, values have the types of PyTorch, and results are as close as its own."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
from torch import nn

from tests.driver import Session, asked, export, flat, save_exported
from tests.models import Inputs, Masked, Model, floats, ids, transformers
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
