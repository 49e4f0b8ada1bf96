"""Live models that PyTorch has quantized: arguments and results, packed parameters, embeddings of 8 and 4 bits, cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnxruntime
import pytest
import torch
import torch.ao.nn.quantized as quantized
import torch.nn.functional as F
from torch import Tensor, nn

import lithify
from lithify._structure import Leaves, flatten, tensor_of
from tests.dequantized import choose_engine

choose_engine()
torch.manual_seed(0)


def q(x: Tensor, dtype: torch.dtype = torch.quint8) -> Tensor:
    return torch.quantize_per_tensor(x, 0.0625, 128 if dtype == torch.quint8 else 0, dtype)


def packed(layer: Any, *shape: int) -> nn.Module:
    """The layer with a matrix and a bias, and a scheme of its own for results."""
    layer.set_weight_bias(torch.quantize_per_tensor(torch.randn(*shape), 0.0625, 0, torch.qint8), torch.randn(4))
    layer.scale, layer.zero_point = 0.5, 100
    return layer  # type: ignore[no-any-return]


def leaves_of(value: Any) -> list[Tensor]:
    leaves: Leaves = []
    flatten(value, "", leaves)
    return [v for _, v in leaves]


def check(model: Callable[..., Any], *args: Tensor) -> lithify.Result:
    """Results may be one step apart, where they lie between two."""
    result = lithify.export(model, args)
    session = onnxruntime.InferenceSession(result.bytes)
    names = [i.name for i in session.get_inputs()]
    got = session.run(None, {n: tensor_of(t).numpy() for n, t in zip(names, args, strict=True)})
    for g, e in zip(got, leaves_of(model(*args)), strict=True):
        step = e.q_scale() if e.is_quantized else 0.0
        torch.testing.assert_close(torch.from_numpy(g), tensor_of(e), rtol=1e-4, atol=1.01 * step + 1e-4)
    return result


image = torch.randn(2, 4, 6, 6)
LAYERS: dict[str, tuple[Callable[[], Any], Tensor]] = {
    "conv1d": (lambda: packed(quantized.Conv1d(3, 4, 3), 4, 3, 3), torch.randn(2, 3, 9)),
    "conv2d": (lambda: packed(quantized.Conv2d(4, 4, 3, padding=1), 4, 4, 3, 3), image),
    "conv3d": (lambda: packed(quantized.Conv3d(3, 4, 2), 4, 3, 2, 2, 2), torch.randn(2, 3, 4, 4, 4)),
    "conv_transpose2d": (lambda: packed(quantized.ConvTranspose2d(4, 4, 3, stride=2), 4, 4, 3, 3), image),
    "linear": (lambda: packed(quantized.Linear(6, 4), 4, 6), torch.randn(3, 6)),
    "batch_norm": (lambda: quantized.BatchNorm2d(4), image),
    "max_pool": (lambda: nn.MaxPool2d(2), image),
    "flatten": (lambda: nn.Flatten(), image),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_takes_and_gives_dequantized_values(name: str) -> None:
    make, x = LAYERS[name]
    result = check(make().eval(), q(x))
    assert [v.dtype for v in (*result.inputs, *result.outputs)] == ["float32", "float32"]
    assert "has the dequantized values of a quantized tensor: torch.quint8 with the scale 0.0625" in result.notes[-2]
    assert "'output' has the dequantized values" in result.notes[-1]


def functions(x: Tensor, y: Tensor) -> dict[str, Any]:
    ops = torch.ops.quantized
    return {
        "cat": ops.cat([x, y], 1, 0.25, 100),
        "add": ops.add(x, y, 0.25, 100),
        "select": x.select(1, 0),
        "sigmoid": torch.sigmoid(x),
        "tanh": torch.tanh(x),
        "pool": F.adaptive_avg_pool2d(x, 1),
        "integers": x.int_repr(),
        "plain": x.dequantize() * 2,
    }


def test_functions_of_quantized_arguments() -> None:
    check(functions, q(image), q(torch.randn(2, 4, 6, 6)))
    check(lambda x: x.dequantize() * 2, q(image, torch.qint8))
    scales, zeros = torch.tensor([0.25, 0.5, 0.75]), torch.tensor([0, 1, 2])
    check(lambda x: x.dequantize() * 2, torch.quantize_per_channel(torch.randn(3, 4), scales, zeros, 0, torch.qint8))


def table(dtype: torch.dtype) -> Tensor:
    scale, zero = torch.rand(10) + 0.1, torch.full((10,), 7.5)
    return torch.quantize_per_channel(torch.randn(10, 16), scale, zero, 0, dtype)


@pytest.mark.parametrize("dtype", [torch.quint8, torch.quint4x2])
def test_embeddings(dtype: torch.dtype) -> None:
    rows = quantized.Embedding(10, 16, dtype=dtype)
    rows.set_weight(table(dtype))
    check(rows, torch.tensor([[1, 2, 9], [0, 0, 3]]))
    bags = quantized.EmbeddingBag(10, 16, mode="sum", include_last_offset=True, dtype=dtype)
    bags.set_weight(table(dtype))
    check(bags, torch.tensor([1, 2, 9, 0, 3]), torch.tensor([0, 2, 2, 5]))


@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_dynamic_cells(cell: type[nn.Module]) -> None:
    model = torch.ao.quantization.quantize_dynamic(nn.Sequential(cell(6, 4)), {cell})
    result = lithify.export(model, torch.randn(3, 6))
    x = torch.randn(3, 6)
    got = onnxruntime.InferenceSession(result.bytes).run(None, {result.inputs[0].name: x.numpy()})
    for g, e in zip(got, leaves_of(model(x)), strict=True):
        torch.testing.assert_close(torch.from_numpy(g), e, rtol=0, atol=0.02)  # values between two steps
