"""Sizes that Python computes with while a trace is recorded: what is followed, what is a condition, and what escapes.

Each row is a model of two inputs x[B, S] and y[C, T] on one line, which gets the sizes b and s of x too. Formulas are compared
with the names of dimensions in place of s0, s1, ...; the traced program has to give what the model gives at other sizes too.
"""

from __future__ import annotations

import builtins
import contextlib
import copy
import functools
import io
import itertools
import logging
import math
import operator
import pickle
import re
import threading
import warnings
from collections.abc import Callable, Sequence
from math import ceil, gcd, log2, sqrt
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lithify import _answers, _capture, _patched, _restore
from lithify._capture import Capture
from lithify._functions import Functions
from lithify._signature import bind
from lithify._watch import Level

SAMPLE = {"B": 2, "S": 7, "C": 3, "T": 11}
OTHERS = [{"B": 3, "S": 9, "C": 5, "T": 13}, {"B": 1, "S": 1, "C": 1, "T": 1}, {"B": 6, "S": 16, "C": 4, "T": 64}]
Row = Callable[..., Any]  # of x, y, and the sizes b and s of x


def inputs(at: dict[str, int] = SAMPLE) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(at["B"], at["S"]), torch.randn(at["C"], at["T"])


def model_of(row: Row) -> Callable[[Tensor, Tensor], Any]:
    return lambda x, y: row(x, y, *x.shape)


def captured(model: Any, *args: Any) -> Capture:
    call = model.forward if isinstance(model, nn.Module) else model
    root = model if isinstance(model, nn.Module) else None
    with _restore.undisturbed(root, None) as changes:
        bound, functions = bind(call, args or inputs(), {}), Functions({}, lambda *_: None)
        return _capture.trace(root, model, bound, functions, _capture.Known(bound.numbers), changes.reset, lambda: None)


def flat(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, tuple | list):
        return [t for v in value for t in flat(v)]
    return [torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)]


class Run:
    """The traced program at some sizes: outputs of the model, outcomes of the conditions, and sizes."""

    def __init__(self, capture: Capture, *args: Tensor) -> None:
        assert capture.followed is not None, capture.notes
        results = torch.jit.load(io.BytesIO(capture.file))(*args)
        sizes = len(results) - capture.followed.sizes
        conditions = sizes - len(capture.followed.conditions)
        self.outputs, self.conditions, self.sizes = results[:conditions], results[conditions:sizes], results[sizes:]
        assert all(t.dim() == 0 and t.dtype == torch.bool for t in self.conditions)
        assert all(t.dim() == 0 for t in self.sizes)


def path(capture: Capture) -> list[tuple[str, bool]]:
    assert capture.followed is not None, capture.notes
    return [(c.formula, c.outcome) for c in capture.followed.conditions]


def named(capture: Capture) -> Callable[[str], str]:
    """Replaces s0, s1, ... by the names of the dimensions that have these sizes."""
    sizes = [int(t) for t in Run(capture, *inputs()).sizes]
    names = {f"s{i}": next((n for n, v in SAMPLE.items() if v == size), f"s{i}") for i, size in enumerate(sizes)}
    return lambda text: re.sub(r"\bs\d+\b", lambda m: names[m[0]], text)


def check(row: Row, conditions: Sequence[str] = (), escapes: Sequence[str] = ()) -> None:
    """`conditions` as "S > 5"; the outcome is that of the sample. `escapes` as "index: S // 2". Without escapes, the program is
    right at all sizes that take the same path."""
    model = model_of(row)
    capture = captured(model)
    assert capture.followed is not None, capture.notes
    assert not capture.data and not capture.guards
    name, line = named(capture), f"{__file__}:{row.__code__.co_firstlineno}"
    assert [name(c.formula) for c in capture.followed.conditions] == [*conditions]
    assert [f"{e.what}: {name(e.formula)}" for e in capture.followed.escapes] == [*escapes]
    assert all(found.where == line for found in [*capture.followed.conditions, *capture.followed.escapes])
    for at in [SAMPLE, *OTHERS] if not escapes else [SAMPLE]:
        if not conditions or path(captured(model, *inputs(at))) == path(capture):
            compare(model, capture, *inputs(at))


def compare(model: Any, capture: Capture, *args: Tensor) -> None:
    run = Run(capture, *(t.clone() for t in args))  # the model may change them
    assert [bool(t) for t in run.conditions] == [outcome for _, outcome in path(capture)]
    for got, want in zip(run.outputs, flat(model(*args)), strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape, (args[0].shape, got, want)
        assert torch.allclose(got.double(), want.double(), rtol=1e-6, atol=1e-12, equal_nan=True), (args[0].shape, got, want)


def by_line(value: Any) -> str:
    return f"line{value.__code__.co_firstlineno}" if callable(value) else ""


# ---- what is followed ----------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=2)
def cached(n: Any) -> Any:
    return n * 2


class Table:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    @functools.cache  # noqa: B019
    def row(self, n: Any) -> Tensor:
        return torch.arange(n) * self.factor


cached(7)
cached((2, 7))


FOLLOWED: list[Row] = [
    # what asks for sizes
    lambda x, y, b, s: x.view(x.shape[0], -1) * x.shape[1] + x.size(1) - x.size(dim=-1) + x.size()[0],
    lambda x, y, b, s: x * x.numel() + x.nelement() + torch.numel(x) + x.nbytes + x.element_size() * x.itemsize,
    lambda x, y, b, s: x * len(x) + len(x[0]),
    lambda x, y, b, s: x * x.stride(0) + x.stride()[1] + x.t().stride(1),
    lambda x, y, b, s: x * torch.ops.aten.sym_size.int(x, 1) + torch.ops.aten.sym_numel(x),
    lambda x, y, b, s: (
        x.data * x.data.shape[1],
        x.detach().shape[1] * x,
        copy.deepcopy(x).shape[1] * x,
        reversed(x).shape[1] * x,
    ),
    # arithmetic
    lambda x, y, b, s: (x * (s + 3), x * (3 - s), x * (s - b), x * -s, x * +s, x * (s - 2) * (b + 1)),
    lambda x, y, b, s: (x * (s // 2), x * (-s // 2), x * (20 // s), x * (s % 3), x * (-s % 3), x * (s // 2.0), x * (s % 2.5)),
    lambda x, y, b, s: (x * (s / 2), x * (1 / s), x * (b / s), x * (s * 0.1), x * (s / 2 + 1), x * (s / 3 - b), x * (2.5 - s)),
    lambda x, y, b, s: (x * s**2, x * 2**b, x * s**-0.5, x * s**-1, x * 3**b, x * s**b, x * (s / 3) ** 2, x * pow(s, 3)),
    lambda x, y, b, s: (x * divmod(s, 3)[0], x * divmod(s, 3)[1], x * divmod(40, s)[1], x * divmod(s / 2, 2)[0]),
    lambda x, y, b, s: (x * abs(s - 9), x * abs(s), x * abs(2.5 - s), x * abs(-s)),
    lambda x, y, b, s: (x * (s << 1), x * (s >> 1), x * (1 << b), x * (s & 3), x * ~s, x * (s & 5), x * (s | 1), x * (s ^ 5)),
    lambda x, y, b, s: x * (1 << (s - 1).bit_length()) + s.bit_length() + s.real + s.numerator + s.denominator,
    # rounding
    lambda x, y, b, s: (
        x * round(s / 2),
        x * round(s / 4),
        x * round(s / 3),
        x * round((3 - s) / 2),
        x * round(s),
        x * round(s, 2),
    ),
    lambda x, y, b, s: (x * int(s * 0.75), x * int((4 - s) / 3), x * int(s * 0.7), x * int(s), x * int(s / b), x * int(b / s)),
    lambda x, y, b, s: (
        x * math.ceil(s / 3),
        x * math.floor(s / 3),
        x * math.trunc(s / 3),
        x * math.ceil(s / b),
        x * math.ceil(s),
    ),
    lambda x, y, b, s: (
        x * math.ceil((3 - s) / 4),
        x * math.floor((3 - s) / 4),
        x * math.trunc((3 - s) / 4),
        x * round((2 - s) / 4),
    ),
    lambda x, y, b, s: (
        x * math.ceil(s / 3 + 1),
        x * math.ceil(s * 0.5 + 0.25),
        x * math.ceil((s + 1) / 2 - b),
        x * -math.ceil(-s / 3),
    ),
    lambda x, y, b, s: (x * float(s), x * float(s / 3), x * float(s > 3), x * int(s > 4), x * (s / 2).is_integer()),
    # functions
    lambda x, y, b, s: (x * math.sqrt(s), x * math.log(s), x * math.log2(s), x * math.log10(s), x * math.log(s, 3)),
    lambda x, y, b, s: (
        x * math.exp(-s),
        x * math.sin(s),
        x * math.cos(s),
        x * math.pow(s, 2),
        x * math.pow(2, b),
        x * math.fabs(3 - s),
    ),
    lambda x, y, b, s: (x * math.fmod(-s, 3), x * math.fmod(s / 4, b), x * math.hypot(s, b, 3), x * math.dist((s, 1), (b, 2))),
    lambda x, y, b, s: (x * math.remainder(s, 4), x * math.remainder(-s, b)),
    lambda x, y, b, s: (x * math.modf(s / 4)[0], x[:, : math.trunc(s / 2)], x[:, : int(math.modf(s / 2)[1])]),
    lambda x, y, b, s: (x * math.copysign(2, 3 - s), x * math.atan2(s, b), x * math.degrees(s), x * math.radians(s)),
    lambda x, y, b, s: (x * math.tan(s), x * math.tanh(s / 9), x * math.log1p(s), x * math.expm1(1 / s), x * math.atan(b)),
    lambda x, y, b, s: (x * math.gcd(s, 6), x * math.lcm(s, 6), x * math.comb(s, 2), x * math.perm(s, 2), x * math.isqrt(s)),
    lambda x, y, b, s: (x * sqrt(s), x * ceil(log2(s)), x * gcd(s, 6), x * 2 ** ceil(sqrt(s)), x * math.prod(x.shape)),
    lambda x, y, b, s: (
        x * min(s, 4),
        x * max(s, b),
        x * min(x.shape),
        x * max([b, 3, s]),
        x * max(0.5, s / 8),
        x * max(0, 4 - s),
    ),
    lambda x, y, b, s: x * sum(x.shape) + sum([b, 2, s / 2]) + functools.reduce(operator.mul, x.shape),
    lambda x, y, b, s: x * int(np.prod(x.shape)) + np.prod([b, 2]) + np.sqrt(s) + np.ceil(s / 2) + np.maximum(s, 4) + np.log2(s),
    lambda x, y, b, s: x * np.int64(3) * s + s * np.float32(0.5) + np.float64(2) * s,
    # outcomes that Python does not ask for
    lambda x, y, b, s: (x * (s > 4), x * ((s > 4) + 1), x * ((s > 4) & (b > 1)), x * ((s > 4) | (b > 1)), x * (s != 4) * 2),
    lambda x, y, b, s: (float(s), s, s / 2, s > 3, x.shape, [b, (s,)]) if isinstance(s, int) and isinstance(s / 2, float) else x,
    # caches, whatever they hold already
    lambda x, y, b, s: x * cached(s) + cached(tuple(x.shape))[1] + cached(n=b) + Table(2).row(s),
    # torch.Size
    lambda x, y, b, s: (
        x * x.shape[1:].numel(),
        x * (x.shape + y.shape).numel(),
        x * torch.Size(x.shape).numel(),
        x * x.shape[::-1][0],
    ),
    lambda x, y, b, s: x * tuple(x.shape)[-1] + [*x.shape][-1] + copy.deepcopy(x.shape)[0] + copy.copy(s) + len(x.shape) * x.ndim,
    # tensors
    lambda x, y, b, s: (
        torch.zeros(x.shape),
        torch.zeros(s, 2),
        torch.ones(x.shape[1:]),
        torch.empty(x.size()).fill_(1),
        torch.eye(s),
    ),
    lambda x, y, b, s: (
        torch.arange(s),
        torch.arange(1, s, 2),
        torch.arange(s / 2),
        torch.linspace(0, 1, s),
        torch.hann_window(s),
    ),
    lambda x, y, b, s: (torch.full((2,), s), torch.full((b,), 2.0), torch.full((2,), s / 2), torch.ones(s, s).tril(s - 3)),
    lambda x, y, b, s: (
        torch.tensor(x.shape),
        torch.tensor([b, 2.5]),
        torch.tensor(s),
        torch.tensor([[s], [1]]),
        torch.tensor(s / 2),
    ),
    lambda x, y, b, s: (
        torch.tensor(s, dtype=torch.float32),
        torch.as_tensor(x.shape),
        torch.as_tensor([s / 2]),
        torch.tensor(s > 3),
    ),
    lambda x, y, b, s: (
        x.new_tensor([s]),
        x.new_zeros(s, 2),
        x.new_full((s,), 2.0),
        x.new_ones((b,)),
        x.new_empty(x.shape).fill_(s),
    ),
    lambda x, y, b, s: (x.new(b, 2).fill_(3.0), x.new(x.shape).zero_(), x.new([s, 2]), torch.FloatTensor(b, 2).zero_()),
    lambda x, y, b, s: (
        torch.Tensor(b, 2).zero_(),
        torch.LongTensor([b, 2]),
        torch.Tensor(x.shape).zero_(),
        torch.IntTensor([s]),
    ),
    lambda x, y, b, s: (torch.tensor(s).item() * x, torch.tensor(x.shape).prod().item() * x, int(torch.tensor(s) + 1) * x),
    lambda x, y, b, s: (torch.tensor([x.sum(), s]), torch.tensor(x), torch.stack([x, x]).mean() * torch.tensor(x.sum())),
    # operators
    lambda x, y, b, s: (x[:, : s // 2], x[:, s // 2 :], x[b - 1], x[..., -1 - s // 3], x[::b], x[[0, b - 1]], x[:, [s - 1]]),
    lambda x, y, b, s: (
        x.narrow(1, 0, s // 2),
        x.repeat(b, 1),
        x.expand(b, *x.shape),
        x.roll(s // 2, 1),
        x.reshape(x.shape[::-1]),
    ),
    lambda x, y, b, s: (F.pad(x, (0, s)), F.pad(x, (1, 4 - s % 4), value=0.5), F.pad(x, (0, -(s // 2))), x.unflatten(1, (s, 1))),
    lambda x, y, b, s: (F.interpolate(x[None], size=s * 2), F.adaptive_avg_pool1d(x[None], s * 2), F.max_pool1d(x, s)),
    lambda x, y, b, s: (
        F.avg_pool1d(x, s),
        F.avg_pool2d(x[None], x.shape),
        F.adaptive_max_pool1d(x, s),
        F.layer_norm(x, x.shape[1:]),
    ),
    lambda x, y, b, s: (x.clamp(max=s / 8), x.masked_fill(x > 0, s), x.add(x, alpha=s), x.topk(s)[0], x.split([1, s - 1], 1)[1]),
    lambda x, y, b, s: (
        x.as_strided((b, s), (s, 1)),
        torch.tensor_split(x, 2, dim=1)[0],
        torch.zeros(torch.broadcast_shapes(x.shape, (1, s))),
    ),
    lambda x, y, b, s: (
        torch.where(x > 0, s, x),
        torch.where(x > 0, s / 2, 1.5),
        torch.pow(x.abs(), s / 7),
        torch.cat([x] * 2).view(2 * b, s),
    ),
    # numbers do not widen types
    lambda x, y, b, s: (x.long() * (s / 2), torch.arange(3) * s, x.int() % s, x.sum().int() * s, x.sum() / s, (x > 0) * s),
    lambda x, y, b, s: (
        x.half() * s,
        x.half() * (s / 3),
        x.double() * (s / 3),
        x.sum() * (s / 3),
        x.bfloat16() + s / 2,
        x.byte() // s,
    ),
    lambda x, y, b, s: (s * x, s - x, s / x, 2**b * x, s > x, s // x.abs(), s**x, s % x.abs()),
    # functions for torch.SymInt
    lambda x, y, b, s: (torch.sym_max(b, s) * x, torch.sym_float(s) * x, torch.sym_int(s / 2) * x, torch.sym_min(s, 4.5) * x),
    lambda x, y, b, s: (
        x * x.element_size() if x.dim() == 2 and x.is_floating_point() and x.is_contiguous() and not x.requires_grad else y
    ),
    # messages
    lambda x, y, b, s: (x, print(f"{s}", s), warnings.warn(f"{x.shape}", stacklevel=1), logging.getLogger().debug("%d", s))[0],
]


@pytest.mark.parametrize("row", FOLLOWED, ids=by_line)
def test_followed(row: Row) -> None:
    """No condition, no escape, and the program is right at every size."""
    check(row)


# ---- conditions ----------------------------------------------------------------------------------------------------------------

CONDITIONS: list[tuple[Row, list[str]]] = [
    (lambda x, y, b, s: x + 1 if s > 5 else x * 2, ["S > 5"]),
    (lambda x, y, b, s: x + 1 if 5 < s <= 8 else x * 2, ["S > 5", "S <= 8"]),
    (lambda x, y, b, s: x + 1 if s != 5 and b == 2 else x * 2, ["S != 5", "B == 2"]),
    (lambda x, y, b, s: x + 1 if s > 5 and s > 5 and b else x * 2, ["S > 5", "B != 0"]),
    (lambda x, y, b, s: x + 1 if not s % 2 else x * 2, ["S % 2 != 0"]),
    (lambda x, y, b, s: x + 1 if s > b else x * 2, ["S > B"]),
    (lambda x, y, b, s: x + 1 if x.shape == y.shape else x * 2, ["B == C"]),
    (lambda x, y, b, s: x + 1 if x.shape[1:] != y.shape[1:] else x * 2, ["S == T"]),
    (lambda x, y, b, s: x + 1 if tuple(x.shape) == (2, 7) else x * 2, ["B == 2", "S == 7"]),
    (lambda x, y, b, s: x + 1 if x.shape == torch.Size([2, 9]) else x * 2, ["B == 2", "S == 9"]),
    (lambda x, y, b, s: x + 1 if s in (1, 4, 7) else x * 2, ["S == 1", "S == 4", "S == 7"]),
    (lambda x, y, b, s: x * x.shape.count(7) + (*x.shape, 7).index(7), ["B == 7", "S == 7"]),
    (lambda x, y, b, s: x * sorted(x.shape)[0], ["S < B"]),
    (lambda x, y, b, s: x * sorted(x.shape, reverse=True)[0], ["B < S"]),
    (lambda x, y, b, s: x * min(4, s / 2), ["S / 2 < 4"]),
    (lambda x, y, b, s: x * max(x.shape, key=int), ["S > B"]),
    (lambda x, y, b, s: x + 1 if s / 2 > 3 else x * 2, ["S / 2 > 3"]),
    (lambda x, y, b, s: x + 1 if s / 3 > 2.25 and s * 0.5 == 3.5 else x * 2, ["S / 3 > 2.25", "S * 0.5 == 3.5"]),
    (lambda x, y, b, s: x + 1 if math.ceil(s / 2) * 2 != s else x * 2, ["ceil(S / 2) * 2 != S"]),
    (lambda x, y, b, s: x + 1 if s == 2 ** round(log2(s)) else x, ["round(log2(S)) >= 0", "S == 2 ** round(log2(S))"]),
    (lambda x, y, b, s: x + 1 if (s - 1) * 2 - (b - 3) < 9 else x, ["(S - 1) * 2 - (B - 3) < 9"]),
    (lambda x, y, b, s: x + 1 if -(-s // 4) == 2 and (-b) ** 2 > 3 else x, ["-(-S // 4) == 2", "(-B) ** 2 > 3"]),
    (
        lambda x, y, b, s: x + 1 if s - (b + 1) == 4 and s // (b * 2) * 2 == 2 else x,
        ["S - (B + 1) == 4", "S // (B * 2) * 2 == 2"],
    ),
    (lambda x, y, b, s: x + 1 if (s > 5) & (b < 4) else x, ["S > 5 and B < 4"]),
    (lambda x, y, b, s: x + 1 if (s > 5) == (b > 1) else x, ["int(S > 5) == int(B > 1)"]),
    (lambda x, y, b, s: x + 1 if min(s, 4) * max(b, 2) > 3 else x, ["min(S, 4) * max(B, 2) > 3"]),
    (lambda x, y, b, s: x + 1 if any(n == 7 for n in x.shape) else x, ["B == 7", "S == 7"]),
    (lambda x, y, b, s: x + 1 if all(n > 1 for n in x.shape) else x, ["B > 1", "S > 1"]),
    (lambda x, y, b, s: x[s > 5], ["S > 5"]),
    (lambda x, y, b, s: x.sum(1, keepdim=bool(s > 5)), ["S > 5"]),
    (lambda x, y, b, s: x.sum(1, keepdim=s > 100 and b > 1), ["S > 100"]),
    (lambda x, y, b, s: x.sum(1, keepdim=s > 5 or b > 1), ["S > 5"]),
    (lambda x, y, b, s: [x, x + 1][s > 5], ["S > 5"]),
    (lambda x, y, b, s: x + 1 if x.is_same_size(y) else x, ["B == C"]),
    (lambda x, y, b, s: x + 1 if x.numel() > 10 and len(x) < 3 and x.nbytes > 3 else x, ["B * S > 10", "B < 3", "B * S * 4 > 3"]),
    (lambda x, y, b, s: x + 1 if torch.tensor(s) > 5 else x, ["s0 != 0"]),
    (lambda x, y, b, s: x + 1 if torch._check(s > 0) is None else x, ["S > 0"]),
    (lambda x, y, b, s: x + 1 if s >= 0 and not s < 0 and s == x.size(1) and s < float("inf") and s is not None else y, []),
]


@pytest.mark.parametrize(("row", "conditions"), CONDITIONS, ids=by_line)
def test_conditions(row: Row, conditions: list[str]) -> None:
    check(row, conditions)


def test_large_formulas_have_names_for_their_parts() -> None:
    def model(x: Tensor, y: Tensor) -> Tensor:
        n = 1
        for i in range(500):
            n = (n * x.shape[1] + i) % 1009
        return x * n if n > 3 else x

    capture = captured(model)
    (condition,) = path(capture)
    assert len(condition[0]) < 2000 and condition[1]
    compare(model, capture, *inputs(OTHERS[0]))


def test_complex_results_escape() -> None:
    check(lambda x, y, b, s: x * ((1 - s) ** 0.5).imag, [], ["number: (1 - S) ** 0.5"])


# ---- escapes -------------------------------------------------------------------------------------------------------------------


@torch.jit.script
def scripted(x: Tensor, n: int) -> Tensor:
    return x.view(n, -1)


ESCAPES: list[tuple[Row, list[str]]] = [
    (lambda x, y, b, s: x * len(range(s // 2)), ["index: S // 2"]),
    (lambda x, y, b, s: x * sum(1 for _ in range(1, s)), ["index: S"]),
    (lambda x, y, b, s: x * len([0] * s), ["index: S"]),
    (lambda x, y, b, s: x * [1, 2, 3, 4][b], ["index: B"]),
    (lambda x, y, b, s: x * len([1, 2, 3][:b]), ["index: B"]),
    (lambda x, y, b, s: x * operator.index(s), ["index: S"]),
    (lambda x, y, b, s: x * len(bytes(s)), ["index: S"]),
    (lambda x, y, b, s: x * len(list(itertools.repeat(0, s))), ["index: S"]),
    (lambda x, y, b, s: x * len(list(itertools.islice(range(99), s))), ["index: S"]),
    (lambda x, y, b, s: x * len(f"{s}"), ["text: str(S)"]),
    (lambda x, y, b, s: x * len(str(s // 2)), ["text: str(S // 2)"]),
    (lambda x, y, b, s: x * len(f"{x.shape}"), ["text: str(B)", "text: str(S)"]),
    (lambda x, y, b, s: x * len(f"{s:03d}") + len("%d" % b), ["text: str(S)", "int: B"]),  # noqa: UP031
    (lambda x, y, b, s: x * len(repr(s / 2)), ["text: str(S / 2)"]),
    (lambda x, y, b, s: x * len({"n": f"{s}"}["n"]), ["text: str(S)"]),
    (lambda x, y, b, s: x * (hash(s) % 3), ["hash: S"]),
    (lambda x, y, b, s: x * math.gamma(s / 3) + math.factorial(b), ["float: S / 3", "index: B"]),
    (lambda x, y, b, s: x * round(s / 3, 1), ["round: S / 3"]),
    (lambda x, y, b, s: x * pow(s, 2, 5), ["number: S"]),
    (lambda x, y, b, s: x * s.to_bytes(2, "big")[1], ["to_bytes: S"]),
    (lambda x, y, b, s: x * complex(s).real, ["complex: S"]),
    (lambda x, y, b, s: x * pickle.loads(pickle.dumps(s)), ["pickle: S"]),
    (lambda x, y, b, s: x * (1 + (x.shape[1] is 7)), ["size: B", "size: S"]),  # noqa: F632
    (lambda x, y, b, s: x + torch.from_numpy(np.ones(tuple(x.shape), np.float32)), ["index: B", "index: S"]),
    (lambda x, y, b, s: x * np.array(x.shape)[1], ["numpy: B", "numpy: S"]),
    (lambda x, y, b, s: x * torch.from_numpy(np.arange(7.0) * s), ["numpy: S"]),
    (lambda x, y, b, s: x * torch.from_numpy(np.linspace(0, 1, s)), ["index: S"]),
    (lambda x, y, b, s: x * len(x.unbind(1)), ["length: S"]),
    (lambda x, y, b, s: x * len(x.split(4, 1)), ["length: max(ceil(S / 4), 1)"]),
    (lambda x, y, b, s: x * len(torch.split(x, b, 1)), ["length: max(ceil(S / B), 1)"]),
    (lambda x, y, b, s: x * len(x.chunk(3, 1)), ["length: ceil(S / max(ceil(S / 3), 1))"]),
    (lambda x, y, b, s: x * len(torch.tensor_split(x, s, 1)), ["length: S"]),
    (lambda x, y, b, s: sum(row.sum() for row in x), ["length: B"]),
    (lambda x, y, b, s: torch.stack([*x]) + torch.stack(list(x)), ["length: B"]),
    (lambda x, y, b, s: (lambda first, second: first + second)(*x), ["length: B"]),
    (lambda x, y, b, s: next(first + second for first, second in [x]), ["length: B"]),
    (lambda x, y, b, s: x * x.untyped_storage().nbytes(), ["untyped_storage: B", "untyped_storage: S"]),
    (lambda x, y, b, s: x * x.storage().size(), ["untyped_storage: B", "untyped_storage: S"]),
    (lambda x, y, b, s: x * x[:, 1:].stride(0), ["stride: B", "stride: s1"]),
    (lambda x, y, b, s: x * x[1:].storage_offset(), ["storage_offset: s0", "storage_offset: S"]),
    (lambda x, y, b, s: F.interpolate(x[None], scale_factor=8 / s), ["argument: 8 / S"]),
    (lambda x, y, b, s: torch.ops.aten.view.default(x, [s, -1]), ["argument: S"]),
    (lambda x, y, b, s: scripted(x, s), ["argument: S"]),
    (lambda x, y, b, s: x * torch.tensor(s / 2).item(), ["item: S"]),
    (lambda x, y, b, s: x * float(torch.arange(s).double().mean()), ["float: S"]),
    (lambda x, y, b, s: x * torch.arange(s).tolist()[-1] if b else x, ["tolist: S"]),
]


@pytest.mark.parametrize(("row", "escapes"), ESCAPES[:-1], ids=by_line)
def test_escapes(row: Row, escapes: list[str]) -> None:
    check(row, [], escapes)


CACHE: dict[Any, Any] = {7: 2.0, 9: 3.0, (2, 7): 4.0}

# Keys of dicts, sets and caches: a hash is an escape, and a key that is found is a condition.
KEYS: list[tuple[Row, list[str], list[str]]] = [
    (lambda x, y, b, s: x * CACHE.get(s, 1.0), ["S == 7"], ["hash: S"]),
    (lambda x, y, b, s: x * CACHE.get(b, 1.0), [], ["hash: B"]),
    (lambda x, y, b, s: x * CACHE.get(tuple(x.shape), 1.0), ["B == 2", "S == 7"], ["hash: B", "hash: S"]),
    (lambda x, y, b, s: x * (2.0 if s in {7, 9} else 1.0), ["S == 7"], ["hash: S"]),
    (lambda x, y, b, s: x * (2.0 if s in {8, 9} else 1.0), [], ["hash: S"]),
    (lambda x, y, b, s: x * len({b, s}), [], ["hash: B", "hash: S"]),
]


@pytest.mark.parametrize(("row", "conditions", "escapes"), KEYS, ids=by_line)
def test_keys(row: Row, conditions: list[str], escapes: list[str]) -> None:
    check(row, conditions, escapes)


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


def reshaped(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """The sizes of before are used when an in-place operator has changed them."""
    z, before, given = x * 2, x.shape, y.shape
    first = z.shape
    z.unsqueeze_(0)
    y.t_()
    return z.view(first[0], -1), z.transpose_(0, 1) + z.shape[0], y.reshape(given), torch.zeros(before)


@pytest.mark.parametrize("model", [written, replaced, copied, reshaped])
def test_memory_of_traced_tensors(model: Callable[..., Any]) -> None:
    """x.data and copies are tensors of the program."""
    capture = captured(model)
    assert capture.followed == _capture.Followed() and not capture.data
    for at in [SAMPLE, *OTHERS]:
        compare(model, capture, *inputs(at))


def filled(x: Tensor) -> Tensor:
    x.apply_(lambda v: v + 1)
    return x


DATA: list[tuple[Callable[..., Any], str]] = [
    (lambda x, y: x * [1, 2, 3, 4][x.sum().long().clamp(0, 3)], "index of a number"),
    (lambda x, y: x * x.repeat(5, 5).tolist()[0][0], "tolist of a tensor"),
    (lambda x, y: x + torch.from_numpy(x.numpy()), "numpy of a tensor"),
    (lambda x, y: x + torch.from_numpy(np.asarray(x)), "numpy of a tensor"),
    (lambda x, y: x + torch.from_numpy(np.from_dlpack(x.clone())), "dlpack of a tensor"),
    (lambda x, y: filled(x.clone()), "apply_ of a tensor".replace("_ ", " ")),
    (lambda x, y: x * 2 if torch.equal(x, x + 1) else x, "equal of a tensor"),
    (lambda x, y: x * 2 if x.allclose(x + 1) else x, "allclose of a tensor"),
    (lambda x, y: x * len(str(x)), "text of a tensor"),
    (lambda x, y: x * len(f"{x.sum()}"), "text of a number"),
    (lambda x, y: x + pickle.loads(pickle.dumps(x.clone())), "pickle of a tensor"),
    (lambda x, y: x * len(x.nonzero()), ""),
    (lambda x, y: x * len([0] * torch.where(x > 0)[0].shape[0]), "index of a number"),
    (lambda x, y: x * x.untyped_storage()[0], "getitem of a storage"),
]


@pytest.mark.parametrize(("model", "what"), DATA, ids=by_line)
def test_contents(model: Callable[..., Any], what: str) -> None:
    capture = captured(model)
    assert capture.followed is not None
    line = f" at {__file__}:{model.__code__.co_firstlineno}"
    numbers = [f"{e.what} of a number at {e.where}" for e in capture.followed.escapes if e.of_contents]
    data = [*capture.data, *numbers]
    if what:
        assert data and data[0].startswith(what), data
    assert all(text.endswith(line) for text in data) or model.__code__.co_names[:1] == ("filled",), data


NUMBERS_OF_CONTENTS: list[Callable[..., Any]] = [
    lambda x, y: x * x.sum().item(),
    lambda x, y: x * int(x.sum() * 10) + float(x.max()),
    lambda x, y: x * x.tolist()[0][0],
    lambda x, y: x[:, : int(x.abs().sum()) % 3 + 1],
    lambda x, y: torch.arange(int(x.abs().max() * 4) + 2, device=x.device),
    lambda x, y: torch.full((2, int(x.abs().max()) + 1), x.min().item()),
    lambda x, y: y.repeat(int(x.abs().sum() / x.numel() + 1), 1),
    lambda x, y: x * (x > 0).any().item() + (x.sum() > 0).item(),
    lambda x, y: torch.tensor([x.max().item(), 1.5]) * (x.argmax().item() // 2),
    lambda x, y: x.sum(1).add_(1)[: max(1, min(int(x.max()), 2))],
]


@pytest.mark.parametrize("model", NUMBERS_OF_CONTENTS, ids=by_line)
def test_numbers_of_contents(model: Callable[..., Any]) -> None:
    """A number that a tensor holds is a value of the program."""
    capture = captured(model)
    assert not capture.data
    for at in [SAMPLE, *OTHERS]:
        compare(model, capture, *inputs(at))


def test_number_of_a_tensor_that_is_written_later() -> None:
    def model(x: Tensor, y: Tensor) -> Tensor:
        largest = x.max(1)[0]
        before = largest[0].item()
        largest += 5
        return x * before + largest.sum()

    capture = captured(model)
    assert not capture.data
    compare(model, capture, *inputs(OTHERS[0]))


CONDITIONS_ON_CONTENTS: list[Callable[..., Any]] = [
    lambda x, y: x * 2 if x.sum() > 0 else x,
    lambda x, y: x * 2 if 3.0 in x else x,
    lambda x, y: x * 2 if len(x[x > 0]) > 3 else x,
    lambda x, y: x * 2 if x.sum().item() * x.shape[0] > 3 else x,
    lambda x, y: x * 2 if not x[:, : int(x.abs().max()) + 1].numel() else x,
]


@pytest.mark.parametrize("model", CONDITIONS_ON_CONTENTS, ids=by_line)
def test_conditions_on_contents(model: Callable[..., Any]) -> None:
    """Each can be answered otherwise, and the program has the outcome."""
    capture = captured(model)
    assert capture.followed is not None and not capture.data
    assert [c.question is not None for c in capture.followed.conditions] == [True]
    assert bool(Run(capture, *inputs()).conditions[0]) == capture.followed.conditions[0].outcome


def test_threads_are_not_seen() -> None:
    def model(x: Tensor, y: Tensor) -> Tensor:
        made: list[int] = []
        thread = threading.Thread(target=lambda: made.append(x.shape[1]))
        thread.start()
        thread.join()
        return x * made[0]

    capture = captured(model)
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
    return torch.distributions.Normal(x, x.abs() + 1, validate_args=True).log_prob(x)


def fails_at_once(x: Tensor, y: Tensor) -> Tensor:
    return x * (2 if x.sum() < 1000 else {}["missing"])


def raises_on_a_size(x: Tensor, y: Tensor) -> Tensor:
    if (x > 0).nonzero().size(0) > 1000:
        raise ValueError("too many")
    return x * 2


def raises_on_ones(x: Tensor, y: Tensor) -> Tensor:
    return torch.distributions.Geometric(x.sigmoid(), validate_args=True).log_prob(torch.ones_like(x))


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


def branches_on_a_size(x: Tensor, y: Tensor) -> Tensor:
    return x * 2 if (x > 0).nonzero().size(0) > 1000 else x * 3


def catches(x: Tensor, y: Tensor) -> Tensor:
    try:
        return raises_on_a_size(x, y)
    except ValueError:
        return x * 3


@pytest.mark.parametrize("model", [raises, asserts, distribution, fails_at_once, raises_on_a_size, raises_on_ones])
def test_guards(model: Callable[..., Any]) -> None:
    """A check whose other outcome raises is no reason to refuse."""
    capture = captured(model)
    assert not capture.data and capture.guards and all(__file__ in text for text in capture.guards)
    assert capture.followed is not None and all(c.question is None for c in capture.followed.conditions)


@pytest.mark.parametrize("model", [branches, fails_later, branches_on_a_size, catches])
def test_not_guards(model: Callable[..., Any]) -> None:
    capture = captured(model)
    assert not capture.data and not capture.guards
    assert capture.followed is not None and [c.question is not None for c in capture.followed.conditions] == [True]


def unused(x: Tensor, y: Tensor) -> Tensor:
    part = x[:, : int(x.abs().max()) + 1]
    for row in part:
        causal = row.shape[0] > 1 and y is None
    return part * 2 if not causal else part


def test_questions_whose_outcome_changes_nothing() -> None:
    capture = captured(unused)
    assert capture.followed is not None and not capture.followed.conditions and not capture.guards and not capture.data


# ---- modules -------------------------------------------------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Any]:
        n = x.shape[1] // 2
        return (self.linear(x) if n > 2 else x)[:, :n], n


class Nested(nn.Module):
    """Numbers of one module are used in others, before and after in-place operators that change sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Block(), Block()
        self.narrow = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y, n = self.first(x)
        z, m = self.second(x + 1)
        before = z.shape
        z = z.clone().unsqueeze_(0)
        return y[:, : n - 1], z.view(before[0], -1), torch.zeros(n * m, z.shape[0] + before[1]), self.narrow(y).flatten(1)


def test_numbers_cross_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Nested()
    monkeypatch.setattr(_capture, "live_weights", lambda _: ({}, []))  # the program has its weights
    capture = captured(model, torch.randn(2, 8, 4))
    assert path(capture) == [("s0 // 2 > 2", True), ("s1 // 2 > 2", True)]
    for size in ((2, 8, 4), (1, 6, 4), (5, 13, 4)):
        compare(model, capture, torch.randn(size))


@torch.jit.script_if_tracing
def compiled_when_traced(x: Tensor, n: int) -> Tensor:
    return x[: min(len(x.shape) + n, 3)] * math.sqrt(max(x.size(1), 2))


def test_parts_that_are_compiled_when_the_model_runs() -> None:
    capture = captured(lambda x, y: compiled_when_traced(x, 1) * len(x))
    assert path(capture) == []
    compare(lambda x, y: compiled_when_traced(x, 1) * len(x), capture, *inputs(OTHERS[0]))


# ---- levels --------------------------------------------------------------------------------------------------------------------


def exact_type(x: Tensor, y: Tensor) -> Tensor:
    n = int(x.shape[1])
    if builtins.type(n) is not int:
        raise TypeError("not an int")
    return x * n


def no_symbols(x: Tensor, y: Tensor) -> Tensor:
    if "Integer" in builtins.type(x.shape[1]).__name__:
        raise TypeError("not an int")
    return x * x.shape[1]


def only_integers(x: Tensor, y: Tensor) -> Tensor:
    if builtins.type(x.shape[1]) is not int:
        raise TypeError("not an int")
    return x * x.shape[1]


def fails(x: Tensor, y: Tensor) -> Tensor:
    raise ValueError("always")


def test_a_model_that_needs_ints_is_captured_with_less() -> None:
    capture = captured(exact_type)
    assert capture.followed is not None and [e.what for e in capture.followed.escapes] == ["int"]
    assert capture.notes == ["int() of a size is not followed: TypeError: not an int"]
    capture = captured(no_symbols)
    assert capture.followed is None and capture.notes[0].startswith("sizes are not followed")
    capture = captured(only_integers)
    assert capture.followed is not None and [e.what for e in capture.followed.escapes] == ["size"] * 4
    with pytest.raises(ValueError, match="always"):  # whoever captures says what it means
        captured(fails)


def unhashable(x: Tensor, y: Tensor) -> Tensor:
    try:
        return x * {7: 2}[x.shape[1]]
    except TypeError:  # as libraries do that know symbolic sizes
        return x * (x.shape[1] - 5)


def test_hashes_are_refused_first() -> None:
    capture = captured(unhashable)
    assert capture.followed == _capture.Followed()


# ---- what is replaced ----------------------------------------------------------------------------------------------------------

PATCHED = [
    (math, "sqrt"),
    (builtins, "len"),
    (builtins, "min"),
    (torch.Tensor, "__deepcopy__"),
    (torch.overrides, "has_torch_function"),
]
PATCHED += [(torch.nn.functional, "has_torch_function_unary"), (np, "prod"), (threading.Thread, "start")]


def state_of_python() -> list[Any]:
    return [vars(owner).get(name) for owner, name in PATCHED] + ["__copy__" in vars(torch.Tensor)]


@pytest.mark.parametrize("model", [branches, fails])
def test_everything_is_put_back(model: Callable[..., Any]) -> None:
    before = state_of_python()
    with contextlib.suppress(ValueError):
        captured(model)
    assert state_of_python() == before
    assert type(int(3.5)) is int and type(int(torch.tensor(3))) is int and type(float(torch.tensor(3))) is float
    assert isinstance(torch.Tensor(2, 3), Tensor) and type(torch.Size([1, 2])) is torch.Size


def test_other_threads_are_not_affected() -> None:
    seen: list[Any] = []
    started, done = threading.Event(), threading.Event()

    def other() -> None:
        started.wait()
        z = torch.ones(3, 4)
        seen.extend([z.shape, len(z), int(z.shape[1]), min(z.shape), math.sqrt(z.shape[1]), copy.deepcopy(z).sum().item()])
        done.set()

    def model(x: Tensor) -> Tensor:
        started.set()
        done.wait()
        return x * len(x)

    thread = threading.Thread(target=other)
    thread.start()
    captured(model, torch.randn(2, 3))
    thread.join()
    assert seen == [torch.Size([3, 4]), 3, 4, 3, 2.0, 12.0] and [type(v) for v in seen[1:4]] == [int] * 3


@pytest.mark.skipif(not _patched.can_replace_constructors(), reason="int() is not replaced in this Python")
def test_int_and_float_in_hot_loops() -> None:
    """The interpreter specializes calls that run often; they are specialized before, during and after a capture."""

    def convert(value: Any, times: int = 2000) -> Any:
        for _ in range(times):
            n, f = int(value), float(value)
        return n, f

    plain = convert(3.7)
    assert plain == (3, 3.7) and convert("5") == (5, 5.0)

    def model(x: Tensor) -> Tensor:
        n, f = convert(x.shape[1])
        assert convert(3.7) == plain and type(convert(2.5)[0]) is int and convert("7") == (7, 7.0)
        assert int("11", 2) == 3 and int(x=3.5) if False else 0 == 0
        return torch.zeros(n) * f

    capture = captured(model, torch.randn(2, 7))
    assert capture.followed == _capture.Followed()
    compare(model, capture, torch.randn(2, 9))
    assert convert(3.7) == plain and type(convert(True)[0]) is int

    class Mine(int):
        pass

    assert type(Mine(3)) is Mine and isinstance(3, int) and not isinstance(3.0, int)


def test_without_the_extension_int_is_an_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_patched, "_builtins", None)
    check(lambda x, y, b, s: x * int(s), [], ["int: S"])
    check(lambda x, y, b, s: x * cached(s), [], ["hash: S"])


class Keeps(nn.Module):
    kept: Any = None

    def forward(self, x: Tensor) -> Tensor:
        self.kept = {"size": x.shape[1], "all": [x.shape[0], x.shape[1] / 2]}
        return x * cached(x.shape[1])


def test_numbers_that_a_model_keeps_are_plain() -> None:
    model = Keeps()
    kept = Keeps.forward.__get__(model)
    captured(kept, torch.randn(2, 7))
    assert model.kept == {"size": 7, "all": [2, 3.5]}
    assert [type(v) for v in (model.kept["size"], *model.kept["all"])] == [int, int, float]
    assert torch.zeros(cached(7), model.kept["size"]).shape == (14, 7)


def test_captures_by_several_threads() -> None:
    found: list[Any] = []

    def run(size: int) -> None:
        capture = captured(lambda x: x * 2 if x.shape[1] > 5 else x, torch.randn(2, size))
        found.append((size, path(capture)))

    threads = [threading.Thread(target=run, args=(size,)) for size in range(3, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [(size, [("s0 > 5", size > 5)]) for size in range(3, 9)]


# ---- coverage ------------------------------------------------------------------------------------------------------------------

# Of operators that return numbers: those that no model calls, and those of TorchScript.
INTERNAL = """
    Bool Complex ComplexImplicit Float FloatImplicit Int IntImplicit ScalarImplicit __contains__ count eq index len ne _dimI _dimV
    _batch_norm_impl_index _choose_qparams_per_tensor _cslt_sparse_mm_search _cudnn_attention_forward _debug_has_internal_overlap
    _efficient_attention_forward _nested_get_ragged_idx _scaled_dot_product_cudnn_attention _scaled_dot_product_flash_attention
    _scaled_dot_product_fused_attention_overrideable fbgemm_linear_quantize_weight result_type sym_storage_offset _tensor_to_list
    _has_same_storage_numel _nested_tensor_from_mask_left_aligned _use_miopen_ctc_loss is_strides_like_format sym_is_contiguous
    retains_grad is_leaf _version is_non_overlapping_and_dense
"""
# Of operators that return lists of tensors: those whose length does not depend on sizes.
FIXED = """
    _amp_foreach_non_finite_check_and_unscale _cudnn_rnn_backward _histogramdd_bin_edges _to_cpu atleast_1d atleast_2d atleast_3d
    broadcast_tensors dequantize gradient histogramdd keys lstm_mps_backward meshgrid miopen_rnn_backward nonzero_numpy where
    sorted quantize_per_tensor split_with_sizes split_with_sizes_copy unflatten_dense_tensors unsafe_split_with_sizes
"""
ANSWERED = {getattr(f, "__name__", "") for f in [*_answers.answers(Level()), *_answers.HARMLESS]}


def returning(kinds: tuple[str, ...]) -> set[str]:
    schemas = [s for s in torch._C._jit_get_all_schemas() if s.name.startswith("aten::")]
    of_tensors = [s for s in schemas if any("Tensor" in str(a.type) for a in s.arguments)]
    return {s.name.removeprefix("aten::") for s in of_tensors if any(str(r.type) in kinds for r in s.returns)}


def test_every_operator_that_returns_numbers_is_known() -> None:
    unknown = returning(("int", "float", "bool", "number", "complex", "List[int]")) - ANSWERED - set(INTERNAL.split())
    assert not unknown


def test_every_operator_that_returns_lists_is_known() -> None:
    unknown = (
        {n for n in returning(("List[Tensor]",)) if not n.startswith(("_foreach", "_fused"))} - ANSWERED - set(FIXED.split())
    )
    assert not unknown
