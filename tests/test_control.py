"""Control flow that cannot be exported: refused where it is used, with the reason and the line, and never wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.driver import refusal
from tests.test_cli import lithify


def one_tensor_appended_in_every_iteration(x: Tensor) -> Tensor:
    out: list[Tensor] = []
    h = torch.zeros(4)
    for i in range(x.size(0)):
        h += x[i]
        out.append(h)
    return torch.stack(out)


def appended_and_written_after_the_loop(x: Tensor) -> Tensor:
    out: list[Tensor] = []
    h = torch.zeros(4)
    for _ in range(x.size(0)):
        out.append(h)
    h.add_(1)
    return torch.stack(out)


def appended_in_a_branch_and_written(x: Tensor) -> Tensor:
    out: list[Tensor] = []
    h = torch.zeros(4)
    if x.sum() > 0:
        out.append(h)
        out.append(h * 2)
    h.add_(1)
    out.append(x[0])
    return torch.stack(out)


def element_written_by_the_run(x: Tensor) -> Tensor:
    a, b = torch.zeros(4), torch.ones(4)
    parts = [a, b]
    parts[int(x.sum() > 0)].add_(1)
    return a + b


def elements_of_two_ranks(x: Tensor) -> Tensor:
    out = [x]
    for i in range(x.size(0)):
        out.append(x[i])
    return out[-1]


def none_for_an_operator(x: Tensor) -> Tensor:
    low: Tensor | None = None
    if x.sum() > 0:
        low = torch.zeros(4)
    return torch.clamp(x, low, x.amax(0) + 1)


def two_ranks(x: Tensor) -> Tensor:
    y = x
    if x.sum() > 0:
        y = x[0]
    return y * 2


def written_after_it_was_changed(x: Tensor) -> Tensor:
    y = x.clone()
    z = y.unsqueeze(0)
    z.squeeze_(0)
    z.neg_()
    return y + 1


WRITES = "LTH045"
SHARED = "a write to another one may have changed"


@pytest.mark.parametrize(
    ("model", "code", "words", "line"),
    [
        (one_tensor_appended_in_every_iteration, WRITES, SHARED, "return torch.stack(out)"),
        (appended_and_written_after_the_loop, WRITES, SHARED, "return torch.stack(out)"),
        (appended_in_a_branch_and_written, WRITES, SHARED, "return torch.stack(out)"),
        (element_written_by_the_run, WRITES, SHARED, "return a + b"),
        (written_after_it_was_changed, WRITES, SHARED, "return y + 1"),
        (elements_of_two_ranks, "LTH044", "differ in type or in the number of dimensions", "out.append(x[i])"),
        (none_for_an_operator, "LTH044", "is None on another path", "torch.clamp(x, low"),
        (two_ranks, "LTH044", "has 1 dimensions on one path and 2 on the other", "y = x[0]"),
    ],
    ids=lambda v: v.__name__ if callable(v) else "",
)
def test_refused(model: Callable[[Tensor], Tensor], code: str, words: str, line: str, tmp_path: Path, out: Path) -> None:
    path = tmp_path / "net.pt"
    torch.jit.script(model).save(str(path))
    done = lithify("export", str(path), "-o", str(out), "--input", "x:float32[rows=3,4]")
    messages = refusal(done, code, out=out)
    assert words in messages and line in messages, messages
