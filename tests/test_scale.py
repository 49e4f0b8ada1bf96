"""The time of an export grows with the number of operators, and no faster."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
from torch import nn

from tests.driver import LITHIFY, SECONDS


class Operators(nn.Module):
    """A program without weights; sums and products, so that nothing is shared or folded."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        for i in range(self.count // 2):
            y = torch.tanh(y + x) if i % 2 else torch.sigmoid(y * x)
        return y


def layers(count: int) -> nn.Module:
    return nn.Sequential(*(nn.Linear(4, 4) for _ in range(count)))


def seconds(model: Path, out: Path) -> float:
    """The least time of the processor that an export takes in five; it hardly depends on what else the machine does."""
    used = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([str(LITHIFY), "export", str(model), "-o", str(out), "-q"], check=True, timeout=SECONDS)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(used)


@pytest.mark.parametrize("build", [layers, Operators])
def test_time_per_operator(build: Callable[[int], nn.Module], tmp_path: Path) -> None:
    each = {}
    for count in (256, 4096):
        model, out = tmp_path / f"{count}.pt", tmp_path / f"{count}.onnx"
        module = build(count).eval()
        torch.jit.trace(module, torch.randn(2, 4), check_trace=False).save(str(model))
        each[count] = seconds(model, out) / count
        assert len(onnx.load(str(out)).graph.node) == count
    assert each[4096] <= 1.5 * each[256], f"seconds per operator: {each}"
