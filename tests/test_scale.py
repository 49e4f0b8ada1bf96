"""The time of an export grows with the number of operators, and no faster."""

from __future__ import annotations

import math
import os
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
from torch import nn

from bench import growth
from tests.driver import LITHIFY, SECONDS

FEWEST_ROUNDS, ROUNDS = 5, 40


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


def seconds(model: Path, *options: str) -> float:
    """The time of the processor that an export takes, without the verification of graphs that tests ask for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [str(LITHIFY), "export", str(model), "-o", str(model.with_suffix(".onnx")), "-q", *options]
    subprocess.run(command, check=True, timeout=SECONDS, env=os.environ | {"LITHIFY_VERIFY": "0"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def check_growth(models: dict[int, Path], most: float, *options: str) -> None:
    """Other programs on the machine only add to a time: the least of several is compared, of sizes that are run in turn."""
    few, many = models
    each = dict.fromkeys(models, math.inf)
    for i in range(ROUNDS):
        for count, model in models.items():
            each[count] = min(each[count], seconds(model, *options) / count)
        if i >= FEWEST_ROUNDS and each[many] <= most * each[few]:
            break
    assert each[many] <= most * each[few], f"seconds per operator: {each}"


@pytest.mark.parametrize("build", [layers, Operators])
def test_time_per_operator(build: Callable[[int], nn.Module], tmp_path: Path) -> None:
    """What no longer fits into the caches of the processor takes up to 1.7 times as long; a quadratic part, 16 times."""
    models = {count: tmp_path / f"{count}.pt" for count in (256, 4096)}
    for count, model in models.items():
        torch.jit.trace(build(count).eval(), torch.randn(2, 4), check_trace=False).save(str(model))
    check_growth(models, 2.0)
    for count, model in models.items():
        assert len(onnx.load(str(model.with_suffix(".onnx"))).graph.node) == count


@pytest.mark.parametrize("kind", growth.KINDS)
def test_growth_to_many_operators(kind: str, tmp_path: Path) -> None:
    """In writes to one tensor and entries of one dict, the part that could be quadratic is small: it shows among many."""
    models = {count: tmp_path / f"{count}.pt" for count in (2000, 40000)}
    for count, model in models.items():
        model.write_bytes(growth.model(kind, count))
    check_growth(models, 3.0, "--skip-sync", "--input", growth.INPUT)


def test_a_thousand_nested_modules(tmp_path: Path) -> None:
    model = tmp_path / "nested.pt"
    model.write_bytes(growth.nested(1000))
    seconds(model, "--input", growth.INPUT)
    assert len(onnx.load(str(model.with_suffix(".onnx"))).graph.node) == 1000
