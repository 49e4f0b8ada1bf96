"""How capture="auto" takes a program from a model: what it chooses, and that it is right at every size or refused."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import lithify
from lithify import _core, _samples
from tests.driver import Session, compare, flat
from tests.recover.corpus import CORPUS, OTHER_SIZES, SIZES, HardCoded


@pytest.mark.parametrize("model", CORPUS, ids=lambda m: m.name)
def test_hard_coded_sizes_are_solved_for(model: HardCoded, out: Path) -> None:
    """The second capture is made without being asked for: what two captures can show, one call does."""
    axes = {n: {i: d for i, d in enumerate(s) if isinstance(d, str)} for n, s in zip("xy", model.shapes, strict=False)}
    module, sample = model.module(), model.inputs(SIZES)
    if model.two == "refused":
        with pytest.raises(lithify.ExportError) as caught:
            lithify.export(module, sample, dynamic_axes=axes)
        lines, first = inspect.getsourcelines(model.forward)
        places = [int(n) for n in re.findall(r"corpus\.py:(\d+)", str(caught.value))]
        assert any(first <= n < first + len(lines) for n in places), str(caught.value)
        return
    assert lithify.export(module, sample, out, dynamic_axes=axes).capture == "trace"
    session = Session(out)
    for at in [SIZES, *OTHER_SIZES]:
        inputs = model.inputs(at)
        compare(session.run(*inputs), flat(module(*inputs)), outputs=session.outputs)


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Mean(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(1) / len(x[0])


class ByLength(nn.Module):
    """TorchScript and torch.export can have it; a trace has one side."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] > 4:
            return x + 1
        return x * 2


class ByData(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            return x + 1
        return x * 2


class OnlySample(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert int(x.shape[1]) == 4
        return x.view(int(x.shape[0]), 2, 2)


class WhileExported(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if torch.compiler.is_compiling() else x * 3


class Unlike(nn.Module):
    """Gives something else with every run."""

    runs = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.runs += 1
        return x * self.runs


CHOICES: list[tuple[nn.Module, dict[int, str], str, str]] = [
    (Doubled(), {}, "trace", "no size is dynamic"),
    (Doubled(), {1: "n"}, "trace", "one run shows all"),
    (Mean(), {1: "n"}, "trace", "one run shows all"),
    (ByLength(), {1: "n"}, "script", "do not determine what it does at others"),
    (ByData(), {1: "n"}, "script", "one outcome of bool of a tensor at .*test_capture.py"),
    (OnlySample(), {0: "n"}, "trace", "one run shows all"),
]


@pytest.mark.parametrize(("model", "axes", "kind", "why"), CHOICES, ids=[f"{type(c[0]).__name__}{len(c[1])}" for c in CHOICES])
def test_choice(model: nn.Module, axes: Any, kind: str, why: str, out: Path) -> None:
    result = lithify.export(model, torch.randn(3, 4), out, dynamic_axes={"x": axes})
    assert result.capture == kind
    assert re.search(why, result.why), result.why
    session = Session(out)
    for x in (torch.randn(3, 4), -torch.rand(3, 4), torch.randn(3 + 5 * (0 in axes), 4 + 5 * (1 in axes))):
        compare(session.run(x), [model(x)], outputs=session.outputs)


def test_model_that_acts_otherwise_while_exported() -> None:
    with pytest.raises(lithify.ExportError, match=r"torch\.export captured gives other results"):
        lithify.export(WhileExported(), torch.randn(3, 4), capture="export")
    assert lithify.export(Unlike(), torch.randn(3, 4), capture="export").capture == "export"


def test_a_model_that_runs_at_the_sample_only_is_refused_another_size() -> None:
    with pytest.raises(lithify.ExportError, match="LTH063"):
        lithify.export(OnlySample(), torch.randn(3, 4), dynamic_axes={"x": {1: "n"}})


def test_other_sizes_differ_by_different_amounts() -> None:
    sample = {"batch": 2, "height": 224, "width": 224, "past": 6, "total": 8}
    tried = [dict(sizes) for sizes in _core.other_sizes(list(sample.items()))]
    for at in tried:
        assert all(at[name] != size and at[name] > 0 for name, size in sample.items())
    assert len(set(tried[0].values())) == 5 and tried[0]["height"] % 32 == tried[0]["width"] % 32 == 0
    assert any(at["past"] + at["batch"] == at["total"] for at in tried)


def test_other_sizes_repeat_what_is_there() -> None:
    x, mask = torch.arange(6).view(2, 3), torch.tensor([[1, 1, 0]])
    made = _samples.resized([x, mask], [{0: "b", 1: "s"}, {1: "s"}], {"b": 1, "s": 5})
    assert made[0].tolist() == [[0, 1, 2, 0, 1]] and made[1].tolist() == [[1, 1, 0, 1, 1]]
