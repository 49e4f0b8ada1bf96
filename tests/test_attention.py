"""Attention and rotary embeddings as one node, from opset 23 on: where they are, with the results of eager PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import lithify
from tests.driver import Session

Function = Callable[..., torch.Tensor]
OPSETS = (22, 23, 24)


class Calls(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.function(*args)


def grouped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True, scale=0.3)


def spelled_out(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    scores = q @ k.transpose(-1, -2) / 4
    return scores.masked_fill(~mask, torch.finfo(torch.float32).min).softmax(-1) @ v


def added(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (0.25 * q @ k.transpose(2, 3) + torch.where(mask, 0.0, -1e9)).softmax(-1) @ v


def lowest(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    bias = torch.where(mask, 0.0, torch.finfo(torch.float32).min)
    return (q @ k.transpose(2, 3) + bias).softmax(-1) @ v


def infinite(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (q @ k.transpose(2, 3)).masked_fill(~mask, -torch.inf).softmax(-1) @ v


def narrow(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (q @ k.transpose(2, 3)).masked_fill(~mask, -100.0).softmax(-1) @ v


def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k[:, :, : q.shape[2]], v[:, :, : q.shape[2]], is_causal=True) + mask.any()


def unmasked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v) * mask.any()


def selected(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, mask)


def floating(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, torch.where(mask, 0.0, -torch.inf))


def joined(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """One mask for all keys of a row."""
    return F.scaled_dot_product_attention(q, k, v, mask[:, :, :, :1])


# Whether it is one node: not where an infinite score or another number of masked keys makes a difference.
KINDS: dict[Function, tuple[int, bool]] = {
    grouped: (2, True),
    selected: (4, True),
    spelled_out: (4, True),
    added: (4, True),
    lowest: (4, True),
    causal: (4, True),
    unmasked: (4, True),
    infinite: (4, False),
    narrow: (4, False),
    floating: (4, False),
    joined: (4, False),
}


def tensors(heads: int, batch: int, queries: int, keys: int) -> tuple[torch.Tensor, ...]:
    """A query that all keys are masked for is there as well."""
    mask = torch.ones(batch, 1, queries, keys, dtype=torch.bool).tril(keys - queries)
    mask[0, 0, 0] = False
    kv = torch.randn(batch, heads, keys, 16), torch.randn(batch, heads, keys, 16)
    return torch.randn(batch, 4, queries, 16), *kv, mask


def export(function: Function, args: tuple[torch.Tensor, ...], axes: dict, out: Path, opset: int) -> list[str]:
    model = Calls(function).eval()
    names = ["q", "k", "v", "mask"][: len(args)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lithify.export(model, args, out, input_names=names, dynamic_axes=axes, opset_version=opset)
    onnx.checker.check_model(str(out), full_check=True)
    return [n.op_type for n in onnx.load(str(out)).graph.node]


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("function", KINDS)
def test_attention(function: Function, opset: int, out: Path) -> None:
    heads, is_one = KINDS[function]
    axes = {
        "q": {0: "batch", 2: "queries"},
        "k": {0: "batch", 2: "keys"},
        "v": {0: "batch", 2: "keys"},
        "mask": {0: "batch", 2: "queries", 3: "keys"},
    }
    ops = export(function, tensors(heads, 2, 3, 5), axes, out, opset)
    assert ("Attention" in ops) == (is_one and opset >= 23)
    session = Session(out)
    for sizes in ((2, 3, 5), (1, 1, 1), (3, 1, 7), (1, 4, 4)):
        args = tensors(heads, *sizes)
        torch.testing.assert_close(session.run(*args)[0], function(*args), rtol=1e-4, atol=1e-5, equal_nan=True)


def rotated(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    both = torch.cat([angles, angles], -1)
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return x * (1.5 * both.cos()).unsqueeze(1) + torch.cat([-second, first], -1) * (1.5 * both.sin()).unsqueeze(1)


def turned_back(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    both = torch.cat([angles, angles], -1)
    first, second = x.chunk(2, -1)
    return x * both.cos().unsqueeze(1) + torch.cat([second, -first], -1) * both.sin().unsqueeze(1)


def of_two_angles(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    both = torch.cat([angles, 2 * angles], -1)
    first, second = x.chunk(2, -1)
    return x * both.cos().unsqueeze(1) + torch.cat([-second, first], -1) * both.sin().unsqueeze(1)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize(("function", "is_one"), [(rotated, True), (turned_back, False), (of_two_angles, False)])
def test_rotary_embedding(function: Function, is_one: bool, opset: int, out: Path) -> None:
    def args(batch: int, length: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(batch, 3, length, 8), 5 * torch.randn(batch, length, 4)

    axes = {"q": {0: "batch", 2: "length"}, "k": {0: "batch", 1: "length"}}
    ops = export(function, args(2, 3), axes, out, opset)
    assert ("RotaryEmbedding" in ops) == (is_one and opset >= 23)
    session = Session(out)
    for sizes in ((2, 3), (1, 1), (3, 7)):
        x, angles = args(*sizes)
        torch.testing.assert_close(session.run(x, angles)[0], function(x, angles), rtol=1e-4, atol=1e-5)
