"""Sizes that Python computes with while a trace is recorded: what is followed, what is a condition, and what escapes.

Each row is a model of two inputs x[B, S] and y[C, T] on one line. Formulas are compared with the names of these dimensions in
place of s0, s1, ...; the traced program is run at other sizes on the same path, and has to give what the model gives there.
"""

from __future__ import annotations

import copy
import functools
import io
import itertools
import math
import operator
import pickle
import re
import threading
from collections.abc import Callable
from math import ceil, gcd, log2, sqrt
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lithify import _capture
from lithify._capture import Capture
from lithify._functions import Functions
from lithify._signature import bind

SAMPLE = {"B": 2, "S": 7, "C": 3, "T": 11}
OTHERS = [{"B": 3, "S": 9, "C": 5, "T": 13}, {"B": 1, "S": 1, "C": 1, "T": 1}, {"B": 6, "S": 16, "C": 4, "T": 64}]
Model = Callable[[Tensor, Tensor], Any]


def inputs(at: dict[str, int]) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(at["B"], at["S"]), torch.randn(at["C"], at["T"])


def captured(model: Any, *args: Any) -> Capture:
    call = model.forward if isinstance(model, nn.Module) else model
    root = model if isinstance(model, nn.Module) else None
    with _capture.undisturbed(root, None):
        return _capture.trace(root, model, bind(call, args, {}), Functions({}, lambda *_: None))


def flat(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, tuple | list):
        return [t for v in value for t in flat(v)]
    return [torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)]


class Run:
    """The traced program at some sizes: outputs of the model, outcomes of the conditions, and sizes."""

    def __init__(self, capture: Capture, at: dict[str, int]) -> None:
        assert capture.followed is not None
        results = torch.jit.load(io.BytesIO(capture.file))(*inputs(at))
        sizes = len(results) - capture.followed.sizes
        conditions = sizes - len(capture.followed.conditions)
        self.outputs, self.conditions, self.sizes = results[:conditions], results[conditions:sizes], results[sizes:]
        assert all(t.dim() == 0 and t.dtype == torch.bool for t in self.conditions)
        assert all(t.dim() == 0 and t.dtype == torch.int64 for t in self.sizes)


def named(capture: Capture) -> Callable[[str], str]:
    """Replaces s0, s1, ... by the names of dimensions that have these values."""
    assert capture.followed is not None
    seen = [[int(t) for t in Run(capture, at).sizes] for at in (SAMPLE,)]
    names = {f"s{i}": next((n for n, v in SAMPLE.items() if v == values), f"s{i}") for i, values in enumerate(seen[0])}
    return lambda text: re.sub(r"\bs\d+\b", lambda m: names[m[0]], text)


def check(model: Model, conditions: list[str], escapes: list[str]) -> Capture:
    """`conditions` as "S > 5", where the outcome is that of the sample; `escapes` as "index: S // 2"."""
    capture = captured(model, *inputs(SAMPLE))
    assert capture.followed is not None, capture.notes
    name = named(capture)
    line = f"{__file__}:{model.__code__.co_firstlineno}"
    assert [name(c.formula) for c in capture.followed.conditions] == conditions
    assert [f"{e.what}: {name(e.formula)}" for e in capture.followed.escapes] == escapes
    assert all(found.where == line for found in [*capture.followed.conditions, *capture.followed.escapes])
    for at in [SAMPLE, *OTHERS]:
        check_at(model, capture, at, exact=not escapes and not capture.data)
    return capture


def check_at(model: Model, capture: Capture, at: dict[str, int], exact: bool) -> None:
    assert capture.followed is not None
    if not exact and at != SAMPLE:
        return
    path = [(c.formula, c.outcome) for c in capture.followed.conditions]
    if path and path != outcomes(model, at):
        return
    run = Run(capture, at)
    assert [bool(t) for t in run.conditions] == [c.outcome for c in capture.followed.conditions]
    expected = flat(model(*inputs(at)))
    assert len(run.outputs) == len(expected)
    for got, want in zip(run.outputs, expected, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape, (at, got, want)
        assert torch.allclose(got.double(), want.double(), rtol=1e-6, atol=1e-12, equal_nan=True), (at, got, want)


def outcomes(model: Model, at: dict[str, int]) -> list[tuple[str, bool]]:
    """The conditions on the path at these sizes."""
    capture = captured(model, *inputs(at))
    assert capture.followed is not None
    return [(c.formula, c.outcome) for c in capture.followed.conditions]


# What is followed: no condition, no escape, and the program is right at every size.
FOLLOWED: list[Model] = [
    lambda x, y: x.view(x.shape[0], -1) * x.shape[1],
    lambda x, y: x.view(x.size(0), x.size(-1)) + x.size(dim=1),
    lambda x, y: x * x.numel() + x.nelement() + torch.numel(x),
    lambda x, y: x * len(x) + len(x[0]),
    lambda x, y: x * x.nbytes + x.element_size() * x.itemsize,
    lambda x, y: x * x.stride(0) + x.stride()[1] + x.t().stride(1),
    lambda x, y: (x * (x.shape[1] + 3), x * (3 - x.shape[1]), x * (x.shape[1] - x.shape[0]), x * -x.shape[1]),
    lambda x, y: (
        x * (x.shape[1] // 2),
        x * (-x.shape[1] // 2),
        x * (20 // x.shape[1]),
        x * (x.shape[1] % 3),
        x * (-x.shape[1] % 3),
    ),
    lambda x, y: (x * (x.shape[1] / 2), x * (1 / x.shape[1]), x * (x.shape[0] / x.shape[1]), x * (x.shape[1] * 0.1)),
    lambda x, y: (x * x.shape[1] ** 2, x * 2 ** x.shape[0], x * x.shape[1] ** -0.5, x * x.shape[1] ** -1, x * 3 ** x.shape[0]),
    lambda x, y: (x * divmod(x.shape[1], 3)[0], x * divmod(x.shape[1], 3)[1], x * divmod(40, x.shape[1])[1]),
    lambda x, y: (x * abs(x.shape[1] - 9), x * abs(x.shape[1]), x * abs(2.5 - x.shape[1])),
    lambda x, y: (
        x * round(x.shape[1] / 2),
        x * round(x.shape[1] / 4),
        x * round(x.shape[1] / 3),
        x * round((3 - x.shape[1]) / 2),
    ),
    lambda x, y: (x * int(x.shape[1] * 0.75), x * int((4 - x.shape[1]) / 3), x * int(x.shape[1] * 0.7), x * int(x.shape[1])),
    lambda x, y: (x * math.ceil(x.shape[1] / 3), x * math.floor(x.shape[1] / 3), x * math.trunc(x.shape[1] / 3)),
    lambda x, y: (
        x * math.ceil((3 - x.shape[1]) / 4),
        x * math.floor((3 - x.shape[1]) / 4),
        x * math.trunc((3 - x.shape[1]) / 4),
    ),
    lambda x, y: (x * math.sqrt(x.shape[1]), x * math.log(x.shape[1]), x * math.log2(x.shape[1]), x * math.log10(x.shape[1])),
    lambda x, y: (x * math.exp(-x.shape[1]), x * math.sin(x.shape[1]), x * math.cos(x.shape[1]), x * math.log(x.shape[1], 3)),
    lambda x, y: (
        x * math.gcd(x.shape[1], 6),
        x * math.lcm(x.shape[1], 6),
        x * math.comb(x.shape[1], 2),
        x * math.perm(x.shape[1], 2),
    ),
    lambda x, y: (x * math.isqrt(x.shape[1]), x * math.prod(x.shape), x * math.pow(x.shape[1], 2), x * math.fabs(3 - x.shape[1])),
    lambda x, y: (x * sqrt(x.shape[1]), x * ceil(log2(x.shape[1])), x * gcd(x.shape[1], 6)),
    lambda x, y: (x * min(x.shape[1], 4), x * max(x.shape[1], x.shape[0]), x * min(x.shape), x * max(0.5, x.shape[1] / 8)),
    lambda x, y: x * sum(x.shape) + sum([x.shape[0], 2, x.shape[1] / 2]),
    lambda x, y: (x * (x.shape[1] << 1), x * (x.shape[1] >> 1), x * (1 << x.shape[0]), x * (x.shape[1] & 3), x * ~x.shape[1]),
    lambda x, y: (x * (x.shape[1] & 5), x * (x.shape[1] | 1), x * (x.shape[1] ^ 5), x * (1 << (x.shape[1] - 1).bit_length())),
    lambda x, y: (x * (x.shape[1] > 4), x * int(x.shape[1] > 4), x * float(x.shape[1] % 2 == 0), x * ((x.shape[1] > 4) + 1)),
    lambda x, y: x * ((x.shape[1] > 4) & (x.shape[0] > 1)) + ((x.shape[1] > 4) | (x.shape[0] > 1)) * 1.0,
    lambda x, y: (
        x * float(x.shape[1]),
        x * float(x.shape[1] / 3),
        float(x.shape[1]),
        x.shape[1],
        x.shape[1] / 2,
        x.shape[1] > 3,
    ),
    lambda x, y: (
        x * x.shape[1:].numel(),
        x * (x.shape + y.shape).numel(),
        x * torch.Size(x.shape).numel(),
        x * x.shape[::-1][0],
    ),
    lambda x, y: x * tuple(x.shape)[0] + list(x.shape)[-1] + [*x.shape][0],
    lambda x, y: x * int(np.prod(x.shape)) + np.prod([x.shape[0], 2]),
    lambda x, y: (
        x * np.sqrt(x.shape[1]),
        x * np.ceil(x.shape[1] / 2),
        x * (np.float64(2) * x.shape[1]),
        x * np.maximum(x.shape[1], 4),
    ),
    lambda x, y: x * functools.reduce(operator.mul, x.shape) + math.prod(itertools.chain(x.shape, (2,))),
    lambda x, y: x * np.int64(3) * x.shape[1] + x.shape[1] * np.float32(0.5),
    lambda x, y: (torch.zeros(x.shape), torch.zeros(x.shape[1], 2), torch.ones(x.shape[1:]), torch.empty(x.size()).fill_(1)),
    lambda x, y: (
        torch.arange(x.shape[1]),
        torch.arange(1, x.shape[1], 2),
        torch.arange(x.shape[1] / 2),
        torch.linspace(0, 1, x.shape[1]),
    ),
    lambda x, y: (
        torch.full((2,), x.shape[1]),
        torch.full((x.shape[0],), 2.0),
        torch.full((2,), x.shape[1] / 2),
        torch.eye(x.shape[1]),
    ),
    lambda x, y: (
        torch.tensor(x.shape),
        torch.tensor([x.shape[0], 2.5]),
        torch.tensor(x.shape[1]),
        torch.tensor([[x.shape[1]], [1]]),
    ),
    lambda x, y: (torch.tensor(x.shape[1], dtype=torch.float32), torch.as_tensor(x.shape), torch.as_tensor([x.shape[1] / 2])),
    lambda x, y: (
        x.new_tensor([x.shape[1]]),
        x.new_zeros(x.shape[1], 2),
        x.new_full((x.shape[1],), 2.0),
        x.new_ones((x.shape[0],)),
    ),
    lambda x, y: (x.new(x.shape[0], 2).fill_(3.0), x.new(x.shape).zero_(), torch.FloatTensor(x.shape[0], 2).zero_()),
    lambda x, y: (torch.Tensor(x.shape[0], 2).zero_(), torch.LongTensor([x.shape[0], 2]), torch.zeros(3).new([x.shape[1]])),
    lambda x, y: (
        x[:, : x.shape[1] // 2],
        x[:, x.shape[1] // 2 :],
        x[x.shape[0] - 1],
        x[..., -1 - x.shape[1] // 3],
        x[:: x.shape[0]],
    ),
    lambda x, y: (
        x.narrow(1, 0, x.shape[1] // 2),
        x.repeat(x.shape[0], 1),
        x.expand(x.shape[0], *x.shape),
        x.roll(x.shape[1] // 2, 1),
    ),
    lambda x, y: (F.pad(x, (0, x.shape[1])), F.pad(x, (1, 4 - x.shape[1] % 4), value=0.5), F.pad(x, (0, -(x.shape[1] // 2)))),
    lambda x, y: (
        F.interpolate(x[None], size=x.shape[1] * 2),
        F.adaptive_avg_pool1d(x[None], x.shape[1] * 2),
        F.max_pool1d(x, x.shape[1]),
    ),
    lambda x, y: (F.avg_pool1d(x, x.shape[1]), F.avg_pool2d(x[None], x.shape), F.adaptive_max_pool1d(x, x.shape[1])),
    lambda x, y: (
        x.clamp(max=x.shape[1] / 8),
        x.masked_fill(x > 0, x.shape[1]),
        x.add(x, alpha=x.shape[1]),
        x.topk(x.shape[1])[0],
    ),
    lambda x, y: (
        x.long() * (x.shape[1] / 2),
        torch.arange(3) * x.shape[1],
        x.int() % x.shape[1],
        x.sum().int() * x.shape[1],
        x.sum() / x.shape[1],
    ),
    lambda x, y: (x.half() * x.shape[1], x.half() * (x.shape[1] / 3), x.double() * (x.shape[1] / 3), (x > 0) * x.shape[1]),
    lambda x, y: (x.shape[1] * x, x.shape[1] - x, x.shape[1] / x, 2 ** x.shape[0] * x, x.shape[1] > x, x.shape[1] // x.abs()),
    lambda x, y: (torch.where(x > 0, x.shape[1], x), torch.where(x > 0, x.shape[1] / 2, 1.5), torch.pow(x.abs(), x.shape[1] / 7)),
    lambda x, y: (
        x / x.shape[1] ** 0.5,
        (x @ x.t()) * x.size(1) ** -0.5,
        F.layer_norm(x, x.shape[1:]),
        F.softmax(x, -1) * x.size(0),
    ),
    lambda x, y: torch.tensor(x.shape[1]).item() * x + torch.tensor(x.shape).prod().item() + int(torch.tensor(x.shape[1]) + 1),
    lambda x, y: (x.data * x.data.shape[1], x.detach().shape[1] * x, copy.deepcopy(x).shape[1] * x),
    lambda x, y: (torch.broadcast_to(x, (x.shape[0], *x.shape)), x.unflatten(1, (x.shape[1], 1)), x.reshape(x.shape[::-1])),
    lambda x, y: (torch.sym_max(x.shape[0], x.shape[1]) * x, torch.sym_float(x.shape[1]) * x, torch.sym_int(x.shape[1] / 2) * x),
    lambda x, y: x * copy.copy(x.shape[1]) + copy.deepcopy(x.shape)[0] + x.shape[1].real + x.shape[1].numerator,
    lambda x, y: (x * (x.shape[1] / 2).is_integer(), x * (1 + isinstance(x.shape[1], int) + isinstance(x.shape[1] / 2, float))),
    lambda x, y: x.split([1, x.shape[1] - 1], 1)[1] if x.dim() == 2 else x,
    lambda x, y: torch.tensor_split(x, 2, dim=1)[0] * reversed(x).shape[1],
    lambda x, y: x.as_strided((x.shape[0], x.shape[1]), (x.shape[1], 1)) + x.new_empty((x.shape[1],)).fill_(1),
    lambda x, y: (torch.ones(x.shape[1], x.shape[1]).tril(), torch.triu(torch.full((x.shape[1], x.shape[1]), -1.0), 1)),
    lambda x, y: (
        x * x.element_size() if x.dim() == 2 and x.is_floating_point() and x.is_contiguous() and not x.requires_grad else y
    ),
]


@pytest.mark.parametrize("model", FOLLOWED, ids=lambda m: f"line{m.__code__.co_firstlineno}")
def test_followed(model: Model) -> None:
    check(model, [], [])


# Conditions, each with the outcome of the sample.
CONDITIONS: list[tuple[Model, list[str]]] = [
    (lambda x, y: x + 1 if x.shape[1] > 5 else x * 2, ["S > 5"]),
    (lambda x, y: x + 1 if 5 < x.shape[1] <= 8 else x * 2, ["S > 5", "S <= 8"]),
    (lambda x, y: x + 1 if x.shape[1] != 5 and x.shape[0] == 2 else x * 2, ["S != 5", "B == 2"]),
    (lambda x, y: x + 1 if x.shape[1] else x * 2, ["S != 0"]),
    (lambda x, y: x + 1 if not x.shape[1] % 2 else x * 2, ["S % 2 != 0"]),
    (lambda x, y: x + 1 if x.shape[1] > x.shape[0] else x * 2, ["S > B"]),
    (lambda x, y: x + 1 if x.shape == y.shape else x * 2, ["B == C"]),
    (lambda x, y: x + 1 if x.shape[1:] != y.shape[1:] else x * 2, ["S == T"]),
    (lambda x, y: x + 1 if tuple(x.shape) == (2, 7) else x * 2, ["B == 2", "S == 7"]),
    (lambda x, y: x + 1 if x.shape[1] in (1, 4, 7) else x * 2, ["S == 1", "S == 4", "S == 7"]),
    (lambda x, y: x + 1 if x.shape[1] in range(1) else x * 2, ["S == 0"]),
    (lambda x, y: x * x.shape.count(7) + (*x.shape, 7).index(7), ["B == 7", "S == 7"]),
    (lambda x, y: x * sorted(x.shape)[0], ["S < B"]),
    (lambda x, y: x * sorted(x.shape, reverse=True)[0], ["B < S"]),
    (lambda x, y: x * min(4, x.shape[1] / 2), ["S / 2 < 4"]),
    (lambda x, y: x * max(x.shape, key=lambda n: n)[0] if False else x * max(x.shape, key=int), ["S > B"]),
    (lambda x, y: x + 1 if x.shape[1] / 2 > 3 else x * 2, ["S / 2 > 3"]),
    (lambda x, y: x + 1 if x.shape[1] / 3 > 2.25 else x * 2, ["S / 3 > 2.25"]),
    (lambda x, y: x + 1 if math.ceil(x.shape[1] / 2) * 2 != x.shape[1] else x * 2, ["ceil(S / 2) * 2 != S"]),
    (
        lambda x, y: x + 1 if x.shape[1] == 2 ** round(log2(x.shape[1])) else x * 2,
        ["round(log2(S)) >= 0", "S == 2 ** round(log2(S))"],
    ),
    (lambda x, y: x + 1 if (x.shape[1] - 1) * 2 - (x.shape[0] - 3) < 9 else x, ["(S - 1) * 2 - (B - 3) < 9"]),
    (lambda x, y: x + 1 if -(-x.shape[1] // 4) == 2 and (-x.shape[0]) ** 2 > 3 else x, ["-(-S // 4) == 2", "(-B) ** 2 > 3"]),
    (lambda x, y: x + 1 if (x.shape[1] > 5) & (x.shape[0] < 4) else x, ["S > 5 and B < 4"]),
    (lambda x, y: x + 1 if (x.shape[1] > 5) == (x.shape[0] > 1) else x, ["int(S > 5) == int(B > 1)"]),
    (lambda x, y: x + 1 if any(n == 7 for n in x.shape) else x, ["B == 7", "S == 7"]),
    (lambda x, y: x + 1 if all(n > 1 for n in x.shape) else x, ["B > 1", "S > 1"]),
    (lambda x, y: x[x.shape[1] > 5], ["S > 5"]),
    (lambda x, y: x.sum(1, keepdim=bool(x.shape[1] > 5)), ["S > 5"]),
    (lambda x, y: [x, x + 1][x.shape[1] > 5], ["S > 5"]),
    (lambda x, y: x + 1 if x.is_same_size(y) else x, ["B == C"]),
    (lambda x, y: x + 1 if x.numel() > 10 and len(x) < 3 and x.nbytes > 3 else x, ["B * S > 10", "B < 3", "B * S * 4 > 3"]),
    (lambda x, y: x + 1 if torch.tensor(x.shape[1]) > 5 else x, ["s0 != 0"]),
    (
        lambda x, y: (
            x + 1 if x.shape[1] >= 0 and not x.shape[1] < 0 and x.shape[1] == x.size(1) and x.shape[1] < float("inf") else y
        ),
        [],
    ),
]


@pytest.mark.parametrize(
    ("model", "conditions"), CONDITIONS, ids=lambda m: f"line{m.__code__.co_firstlineno}" if callable(m) else ""
)
def test_conditions(model: Model, conditions: list[str]) -> None:
    check(model, conditions, [])


CACHE: dict[Any, Any] = {7: 2.0, 9: 3.0, (2, 7): 4.0}
cached = functools.lru_cache(lambda n: n * 2)

# Numbers that Python takes.
ESCAPES: list[tuple[Model, list[str]]] = [
    (lambda x, y: x * len(range(x.shape[1] // 2)), ["index: S // 2"]),
    (lambda x, y: x * sum(1 for _ in range(1, x.shape[1])), ["index: S"]),
    (lambda x, y: x * len([0] * x.shape[1]), ["index: S"]),
    (lambda x, y: x * [1, 2, 3, 4][x.shape[0]], ["index: B"]),
    (lambda x, y: x * len([1, 2, 3][: x.shape[0]]), ["index: B"]),
    (lambda x, y: x * operator.index(x.shape[1]), ["index: S"]),
    (lambda x, y: x * len(bytes(x.shape[1])), ["index: S"]),
    (lambda x, y: x * len(list(itertools.repeat(0, x.shape[1]))), ["index: S"]),
    (lambda x, y: x * len(list(itertools.islice(range(99), x.shape[1]))), ["index: S"]),
    (lambda x, y: x * len(f"{x.shape[1]}"), ["text: str(S)"]),
    (lambda x, y: x * len(str(x.shape[1] // 2)), ["text: str(S // 2)"]),
    (lambda x, y: x * len(f"{x.shape}"), ["text: str(B)", "text: str(S)"]),
    (lambda x, y: x * len(f"{x.shape[1]:03d}") + len("%d" % x.shape[0]), ["text: str(S)", "int: B"]),
    (lambda x, y: x * len(repr(x.shape[1] / 2)), ["text: str(S / 2)"]),
    (lambda x, y: x * (hash(x.shape[1]) % 3), ["hash: S"]),
    (lambda x, y: x * math.tan(x.shape[1] / 3) + math.factorial(x.shape[0]), ["float: S / 3", "index: B"]),
    (lambda x, y: x * round(x.shape[1] / 3, 1), ["round: S / 3"]),
    (lambda x, y: x * pow(x.shape[1], 2, 5), ["number: S"]),
    (lambda x, y: x + torch.from_numpy(np.ones(tuple(x.shape), np.float32)), ["index: B", "index: S"]),
    (lambda x, y: x * np.array(x.shape)[1], ["numpy: B", "numpy: S"]),
    (lambda x, y: x * torch.from_numpy(np.arange(7.0) * x.shape[1]), ["numpy: S"]),
    (lambda x, y: x * torch.from_numpy(np.linspace(0, 1, x.shape[1])), ["index: S"]),
    (lambda x, y: x * len(x.unbind(1)), ["length: S"]),
    (lambda x, y: x * len(x.split(4, 1)), ["length: max(ceil(S / 4), 1)"]),
    (lambda x, y: x * len(torch.split(x, x.shape[0], 1)), ["length: max(ceil(S / B), 1)"]),
    (lambda x, y: x * len(x.chunk(3, 1)), ["length: ceil(S / max(ceil(S / 3), 1))"]),
    (lambda x, y: sum(row.sum() for row in x), ["length: B"]),
    (lambda x, y: torch.stack([*x]) + torch.stack(list(x)), ["length: B", "length: B"][:1]),
    (lambda x, y: (lambda a, b: a + b)(*x), ["length: B"]),
    (lambda x, y: [a + b for a, b in [x]][0], ["length: B"]),
    (lambda x, y: x * x.untyped_storage().nbytes(), ["untyped_storage: B", "untyped_storage: S"]),
    (lambda x, y: x * x.storage().size(), ["untyped_storage: B", "untyped_storage: S"]),
    (lambda x, y: x * x[:, 1:].stride(0), ["stride: B", "stride: S - 1"][:1] + ["stride: s1"]),
    (lambda x, y: x * x[1:].storage_offset(), ["storage_offset: s0", "storage_offset: S"]),
    (lambda x, y: x * pickle.loads(pickle.dumps(x.shape[1])), ["pickle: S"]),
    (lambda x, y: x * (1 + (x.shape[1] is 7)), ["is: B", "is: S"]),  # noqa: F632
    (lambda x, y: F.interpolate(x[None], scale_factor=8 / x.shape[1]), ["argument: 8 / S"]),
    (lambda x, y: torch.ops.aten.view.default(x, [x.shape[1], -1]), ["argument: S"]),
    (lambda x, y: scripted(x, x.shape[1]), ["argument: S"]),
    (lambda x, y: x * torch.tensor(x.shape[1] / 2).item(), ["item: S"]),
    (lambda x, y: x * float(torch.arange(x.shape[1]).double().mean()), ["float: S"]),
    (lambda x, y: x * x.shape[1].to_bytes(2, "big")[1], ["to_bytes: S"]),
    (lambda x, y: x * complex(x.shape[1]).real, ["complex: S"]),
]


@torch.jit.script
def scripted(x: Tensor, n: int) -> Tensor:
    return x.view(n, -1)


@pytest.mark.parametrize(("model", "escapes"), ESCAPES, ids=lambda m: f"line{m.__code__.co_firstlineno}" if callable(m) else "")
def test_escapes(model: Model, escapes: list[str]) -> None:
    check(model, [], escapes)


# Both: keys of dicts and sets.
KEYS: list[tuple[Model, list[str], list[str]]] = [
    (lambda x, y: x * CACHE.get(x.shape[1], 1.0), ["S == 7"], ["hash: S"]),
    (lambda x, y: x * CACHE.get(x.shape[0], 1.0), [], ["hash: B"]),
    (lambda x, y: x * CACHE.get(tuple(x.shape), 1.0), ["B == 2", "S == 7"], ["hash: B", "hash: S"]),
    (lambda x, y: x * (2.0 if x.shape[1] in {7, 9} else 1.0), ["S == 7"], ["hash: S"]),
    (lambda x, y: x * (2.0 if x.shape[1] in {8, 9} else 1.0), [], ["hash: S"]),
    (lambda x, y: x * len({x.shape[0], x.shape[1]}), [], ["hash: B", "hash: S"]),
    (lambda x, y: x * cached(x.shape[1]), [], ["hash: S"]),
]


@pytest.mark.parametrize(
    ("model", "conditions", "escapes"), KEYS, ids=lambda m: f"line{m.__code__.co_firstlineno}" if callable(m) else ""
)
def test_keys(model: Model, conditions: list[str], escapes: list[str]) -> None:
    cached.cache_clear()
    check(model, conditions, escapes)


# ---- contents ----------------------------------------------------------------------------------------------------------------


def written(x: Tensor, y: Tensor) -> Tensor:
    z = x * 2
    z.data.clamp_(-1, 1)
    z.data[:, 0] = 3.0
    return z + x


def replaced(x: Tensor, y: Tensor) -> Tensor:
    z = x * 2
    z.data = x * 3
    return z + x


def copied(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    z, alias, deep = x * 2, copy.copy(x), copy.deepcopy({"a": [x, x]})
    deep["a"][0].add_(1)
    copy.copy(z).mul_(2)
    return z, alias + 1, deep["a"][1], copy.deepcopy(x) * 2


@pytest.mark.parametrize("model", [written, replaced, copied])
def test_memory_of_traced_tensors(model: Model) -> None:
    """x.data and copies are tensors of the program."""
    capture = captured(model, *inputs(SAMPLE))
    assert capture.followed == _capture.Followed() and not capture.data
    for at in [SAMPLE, *OTHERS]:
        for got, want in zip(Run(capture, at).outputs, flat(model(*inputs(at))), strict=True):
            assert torch.equal(got, want)


def filled(x: Tensor) -> Tensor:
    x.apply_(lambda v: v + 1)
    return x


DATA: list[tuple[Model, str]] = [
    (lambda x, y: x * x.sum().item(), "item of a tensor"),
    (lambda x, y: x * int(x.sum()), "int of a tensor"),
    (lambda x, y: x * float(x.sum()), "float of a tensor"),
    (lambda x, y: x * [1, 2, 3, 4][x.sum().long().clamp(0, 3)], "index of a tensor"),
    (lambda x, y: x * x.tolist()[0][0], "tolist of a tensor"),
    (lambda x, y: x + torch.from_numpy(x.numpy()), "numpy of a tensor"),
    (lambda x, y: x + torch.from_numpy(np.asarray(x)), "numpy of a tensor"),
    (lambda x, y: x + torch.from_numpy(np.from_dlpack(x.clone())), "dlpack of a tensor"),
    (lambda x, y: filled(x.clone()), "apply_ of a tensor".replace("_ ", " ")),
    (lambda x, y: x * 2 if x.sum() > 0 else x, "bool of a tensor"),
    (lambda x, y: x * 2 if torch.equal(x, x + 1) else x, "equal of a tensor"),
    (lambda x, y: x * 2 if x.allclose(x + 1) else x, "allclose of a tensor"),
    (lambda x, y: x * 2 if 3.0 in x else x, "item of a tensor"),
    (lambda x, y: x * len(str(x)), "text of a tensor"),
    (lambda x, y: x * len(f"{x.sum()}"), "item of a tensor"),
    (lambda x, y: x + pickle.loads(pickle.dumps(x.clone())), "pickle of a tensor"),
    (lambda x, y: x * len(x.nonzero()), ""),
    (lambda x, y: x * 2 if len(x[x > 0]) > 3 else x, "condition on a size"),
    (lambda x, y: x * len([0] * torch.where(x > 0)[0].shape[0]), "index of a size"),
    (lambda x, y: x * x.untyped_storage()[0], "getitem of a storage"),
]


@pytest.mark.parametrize(("model", "what"), DATA, ids=lambda m: f"line{m.__code__.co_firstlineno}" if callable(m) else "")
def test_contents(model: Model, what: str) -> None:
    capture = captured(model, *inputs(SAMPLE))
    line = f" at {__file__}:{model.__code__.co_firstlineno}"
    if what:
        assert capture.data and capture.data[0].startswith(what), capture.data
    assert all(text.endswith(line) for text in capture.data) or model.__code__.co_names[:1] == ("filled",), capture.data


def test_threads_are_not_seen() -> None:
    def model(x: Tensor, y: Tensor) -> Tensor:
        made: list[int] = []
        thread = threading.Thread(target=lambda: made.append(x.shape[1]))
        thread.start()
        thread.join()
        return x * made[0]

    capture = captured(model, *inputs(SAMPLE))
    assert capture.followed is not None and [e.what for e in capture.followed.escapes] == ["thread"] * 4
    assert capture.data[0].startswith("use by another thread")


# ---- checks of contents --------------------------------------------------------------------------------------------------------


def raises(x: Tensor, y: Tensor) -> Tensor:
    if torch.isnan(x).any():
        raise ValueError(f"{x.sum()} of {x.shape}")
    return x * 2


def asserts(x: Tensor, y: Tensor) -> Tensor:
    assert x.abs().max() < 100, f"{x.abs().max()}"
    torch._assert(bool((y < 100).all()), "too large")
    return x * 2


def distribution(x: Tensor, y: Tensor) -> Tensor:
    return torch.distributions.Normal(x, x.abs() + 1).log_prob(x)


def fails_at_once(x: Tensor, y: Tensor) -> Tensor:
    return x * (2 if x.sum() < 1000 else {}["missing"])


def branches(x: Tensor, y: Tensor) -> Tensor:
    return x * 2 if x.sum() > 0 else x * 3


def fails_later(x: Tensor, y: Tensor) -> Tensor:
    """The other side is computed, and only fails on this sample."""
    return x[:, :3] * 2 if x.sum() > -1000 else (x @ x)


def raises_elsewhere(x: Tensor, y: Tensor) -> Tensor:
    z = x * 2 if x.sum() > -1000 else x[:0]
    if z.shape[0] == 0:
        raise ValueError
    return z


@pytest.mark.parametrize("model", [raises, asserts, distribution, fails_at_once])
def test_guards(model: Model) -> None:
    """A check whose other outcome raises is no reason to refuse."""
    capture = captured(model, *inputs(SAMPLE))
    assert not capture.data and capture.guards and all(__file__ in text for text in capture.guards)


@pytest.mark.parametrize("model", [branches, fails_later])
def test_not_guards(model: Model) -> None:
    capture = captured(model, *inputs(SAMPLE))
    assert len(capture.data) == 1 and not capture.guards
