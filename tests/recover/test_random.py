"""Random programs on symbolic sizes: the shapes in the graph hold at every size, and so do the values."""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.driver import Session, compare, export

SAMPLE = (3, 5)
WIDTH = 12
MOST_ELEMENTS = 20_000
LARGEST = (8, 9)  # of the sizes that are drawn

Step = tuple[str, int, int]


def merge(x: Tensor, a: int, _: int) -> Tensor:
    if x.dim() < 2:
        return x
    i = a % (x.dim() - 1)
    return x.reshape(*x.shape[:i], x.shape[i] * x.shape[i + 1], *x.shape[i + 2 :])


def unmerge(x: Tensor, a: int, b: int) -> Tensor:
    """Splits the last dimension, or all elements, by rows of 2, 3 or 4."""
    rows = 2 + a % 3
    if b % 2:
        return x.reshape(*x.shape[:-1], x.shape[-1] // rows, rows) if int(x.shape[-1]) == WIDTH else x
    return torch.cat([x] * rows, 0).view(rows, *x.shape)


def permute(x: Tensor, a: int, b: int) -> Tensor:
    order = list(range(x.dim()))
    order.insert(a % x.dim(), order.pop(b % x.dim()))
    return x.permute(order)


def join(x: Tensor, a: int, b: int) -> Tensor:
    return torch.cat([x, x * 0.5, -x][: 2 + b % 2], a % x.dim())


def part(x: Tensor, a: int, b: int) -> Tensor:
    dim = a % x.dim()
    half = x.shape[dim] // 2
    return torch.split(x, [x.shape[dim] - half, half], dim)[0] if b % 2 else x.narrow(dim, half, x.shape[dim] - half)


def product(x: Tensor, a: int, _: int) -> Tensor:
    if x.dim() < 2:
        return x * x
    return x @ x.transpose(-1, -2) * 0.1 if a % 2 else x.transpose(-1, -2) @ x * 0.1


def reduce(x: Tensor, a: int, b: int) -> Tensor:
    if x.dim() < 2:
        return x
    return (x.sum, x.mean, x.amax)[b % 3](a % x.dim(), keepdim=bool(b % 2))


STEPS: dict[str, Callable[[Tensor, int, int], Tensor]] = {
    f.__name__: f for f in (merge, unmerge, permute, join, part, product, reduce)
}


class Program(nn.Module):
    """The steps, but those that would make the tensor too large or too deep."""

    def __init__(self, steps: list[Step]) -> None:
        super().__init__()
        self.steps: list[Step] = []
        x = torch.zeros(*LARGEST, WIDTH)
        for name, a, b in steps:
            y = STEPS[name](x, a, b)
            if y.numel() <= MOST_ELEMENTS and y.dim() <= 6:
                x = y
                self.steps.append((name, a, b))

    def forward(self, x: Tensor) -> Tensor:
        for name, a, b in self.steps:
            x = STEPS[name](x, a, b)
        return x + 0


def size_at(size: Any, at: dict[str, int]) -> int:
    if size.HasField("dim_value"):
        return size.dim_value
    functions = {"floor": math.floor, "min": min, "max": max, "broadcast": max}
    return int(eval(size.dim_param, {"__builtins__": {}}, {**functions, **at}))


numbers = st.integers(0, 11)
programs = st.lists(st.tuples(st.sampled_from(sorted(STEPS)), numbers, numbers), min_size=1, max_size=6)
sizes = st.lists(st.tuples(st.integers(1, LARGEST[0]), st.integers(1, LARGEST[1])), min_size=2, max_size=2)


@settings(max_examples=200, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(steps=programs, others=sizes)
def test_random_programs(steps: list[Step], others: list[tuple[int, int]]) -> None:
    program = Program(steps)
    with tempfile.TemporaryDirectory(prefix="lithify-") as name, torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pt, out = Path(name) / "model.pt", Path(name) / "model.onnx"
        torch.jit.trace(program, torch.randn(*SAMPLE, WIDTH), check_trace=False).save(str(pt))
        export(pt, out, dynamic={"x": {0: "b", 1: "t"}})
        session = Session(out)
        for b, t in [SAMPLE, *others]:
            x = torch.randn(b, t, WIDTH, generator=torch.Generator().manual_seed(b * 100 + t))
            expected = program(x)
            inferred = [size_at(d, {"b": b, "t": t}) for d in session.outputs[0][1].shape.dim]
            assert inferred == list(expected.shape), f"{program.steps} at {b}, {t}"
            compare(session.run(x), [expected], rtol=1e-3, atol=1e-3)
