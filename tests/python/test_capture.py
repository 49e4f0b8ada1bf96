"""How capture="auto" takes a program from a model: what it chooses, and that it is right at every size or refused."""

from __future__ import annotations

import contextlib
import copy
import inspect
import logging
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import lithify
from lithify import _call, _core, _samples
from tests.driver import Session, compare, flat
from tests.recover.corpus import CORPUS, OTHER_SIZES, SIZES, HardCoded
from tests.vision import torchvision


@pytest.mark.parametrize("model", CORPUS, ids=lambda m: m.name)
def test_hard_coded_sizes_are_solved_for(model: HardCoded, out: Path) -> None:
    """The second capture is made without being asked for: what two captures can show, one call does."""
    axes = {n: {i: d for i, d in enumerate(s) if isinstance(d, str)} for n, s in zip("xy", model.shapes, strict=False)}
    module, sample = model.module(), model.inputs(SIZES)
    try:
        result = lithify.export(module, sample, out, dynamic_axes=axes)
    except lithify.ExportError as error:
        assert model.two == "refused", str(error)
        lines, first = inspect.getsourcelines(model.forward)
        places = [int(n) for n in re.findall(r"corpus\.py:(\d+)", str(error))]
        assert any(first <= n < first + len(lines) for n in places), str(error)
        return
    assert result.capture == "trace"
    session, names = Session(out), {d for named in axes.values() for d in named.values()}
    for at in [SIZES, *OTHER_SIZES]:
        inputs = model.inputs(at)
        held = result.claims.holds(**{name: at[name] for name in names})
        if held or model.two != "refused":  # of what two captures in files do not show, the claim says where it is right
            compare(session.run(*inputs), flat(module(*inputs)), outputs=session.outputs)


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Mean(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(1) / len(x[0])


class ByLength(nn.Module):
    """A trace has one side, and so has torch.export, as a condition."""

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
    (ByLength(), {1: "n"}, "trace", "2 paths, merged"),
    (ByData(), {1: "n"}, "trace", "2 paths, merged"),
    (OnlySample(), {0: "n"}, "trace", "one run shows all"),
]


@pytest.mark.parametrize(("model", "axes", "kind", "why"), CHOICES, ids=[f"{type(c[0]).__name__}{len(c[1])}" for c in CHOICES])
def test_choice(model: nn.Module, axes: Any, kind: str, why: str, out: Path) -> None:
    result = lithify.export(model, torch.randn(3, 4), out, dynamic_axes={"x": axes})
    assert result.capture == kind
    assert re.search(why, result.why), result.why
    session = Session(out)
    fits = 4 if any("n <= 4" in d.constraints for d in result.dimensions) else 9
    for x in (torch.randn(3, 4), -torch.rand(3, 4), torch.randn(3 + 5 * (0 in axes), fits if 1 in axes else 4)):
        compare(session.run(x), [model(x)], outputs=session.outputs)


def test_model_that_acts_otherwise_while_exported() -> None:
    with pytest.raises(lithify.ExportError, match=r"torch\.export captured gives other results"):
        lithify.export(WhileExported(), torch.randn(3, 4), capture="export")
    assert lithify.export(Unlike(), torch.randn(3, 4), capture="export").capture == "export"


class WithCond(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,))


class Rounds(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, : round(x.shape[1] * 0.5)]


class FailsWhileTraced(nn.Module):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.jit.is_tracing():
            raise self.error
        return x * 2


class Scripted(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.jit.is_scripting():
            return x * 2
        return x * 3


def note_use(name: str) -> None:
    if not torch.jit.is_tracing():
        warnings.warn(f"{name} is used", stacklevel=2)


class Logged(nn.Module):
    def __init__(self, *, asks: bool) -> None:
        super().__init__()
        self.asks = asks

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        note_use("logged")
        return x * 2 if not self.asks or torch.jit.is_tracing() else x + x


def note(name: str) -> None:
    logging.getLogger(__name__).debug(name)


def remember(name: str) -> None:
    SEEN.append(name)


def remember_later(name: str) -> None:
    remember(name)


class NotesItself(nn.Module):
    def __init__(self, function: Callable[[str], object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        function = self.function
        if not torch.jit.is_scripting() and not torch.jit.is_tracing():
            function("seen")
        return x * (2 + len(SEEN))


class Guarded(nn.Module):
    """Raises by conditions on sizes, in several forms."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] > 77:
            raise ValueError(f"too long: {x.shape[1]}")
        if x.shape[1] == 76:
            raise ValueError
        if x.shape[1] == 70 or x.shape[1] == 71:
            message = "neither 70 nor 71"
            raise ValueError(message)
        if x.shape[0] < 90 and x.shape[1] > 0:
            return x * 2
        else:
            raise ValueError


def test_the_side_of_a_condition_that_raises_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    at: list[object] = []
    capture = _call.Call._capture
    monkeypatch.setattr(
        _call.Call, "_capture", lambda self, kind, sizes, *rest, **o: at.append(sizes) or capture(self, kind, sizes, *rest, **o)
    )
    result = lithify.export(Guarded(), torch.randn(3, 4), dynamic_axes={"x": {0: "batch", 1: "seq"}})
    assert len(at) == 1
    assert result.claims.holds(batch=89, seq=69) is True
    for sizes in ({"batch": 90}, {"seq": 78}, {"seq": 76}, {"seq": 70}, {"seq": 71}):
        assert result.claims.holds(**{"batch": 3, "seq": 4, **sizes}) is False


def limited(x: torch.Tensor, most: int) -> torch.Tensor:
    if x.shape[0] > most:
        raise ValueError("too many")
    return x * 2


class Caught(nn.Module):
    """Goes on where a condition on sizes raises; the same line asks for other sizes."""

    def __init__(self, *, suppressed: bool) -> None:
        super().__init__()
        self.suppressed = suppressed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for most in (10, 3):
            if self.suppressed:
                with contextlib.suppress(ValueError):
                    x = limited(x, most)
                continue
            try:
                x = limited(x, most)
            except ValueError:
                x = x + 1
        return x


@pytest.mark.parametrize("suppressed", [False, True])
def test_a_raise_that_is_caught_is_a_branch(suppressed: bool, out: Path) -> None:
    model = Caught(suppressed=suppressed)
    result = lithify.export(model, torch.randn(2, 4), out, dynamic_axes={"x": {0: "batch"}})
    session = Session(out)
    for batch in (1, 2, 3, 4, 10, 11):
        x = torch.randn(batch, 4)
        compare(session.run(x), flat(model(x)), outputs=session.outputs)
        assert result.claims.holds(batch=batch) is True


class AsksForKind(nn.Module):
    def __init__(self, kind: type) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size, kind = len(x.shape), self.kind
        return x + x if torch.jit.is_tracing() and isinstance(size, kind) else x * 2


SEEN: list[str] = []
ASKS = [
    (Logged(asks=False), False),
    (Logged(asks=True), True),
    (AsksForKind(torch.Tensor), False),
    (AsksForKind(int), True),
    (NotesItself(note), False),
    (NotesItself(SEEN.append), True),
    (NotesItself(remember), True),
    (NotesItself(remember_later), True),
]


@pytest.mark.parametrize(("model", "compared"), ASKS)
def test_a_question_about_tracing_that_changes_nothing_costs_no_run(
    model: nn.Module, compared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []
    monkeypatch.setattr(_call.Call, "_is_other_when_traced", lambda self: bool(calls.append(self)))
    lithify.export(model, torch.randn(3, 4), capture="trace")
    assert len(calls) == compared


def test_what_the_tracer_cannot_record_is_captured_otherwise(out: Path) -> None:
    result = lithify.export(WithCond(), torch.randn(3, 4), out, dynamic_axes={"x": {1: "n"}})
    assert result.capture == "export" and result.why.startswith("the tracer does not record higher-order operators")
    session = Session(out)
    for x in (torch.ones(3, 5), -torch.ones(3, 6)):
        compare(session.run(x), [WithCond()(x)], outputs=session.outputs)


@pytest.mark.parametrize("error", [ValueError("mine"), RuntimeError("INTERNAL ASSERT\nmore"), RecursionError()])
def test_exceptions_are_reasons_why_an_attempt_failed(error: BaseException) -> None:
    result = lithify.export(FailsWhileTraced(error), torch.randn(3, 4))
    assert result.capture == "export" and "\n" not in result.why
    with pytest.raises(lithify.ExportError, match=f"the tracer cannot record the model: {type(error).__name__}"):
        lithify.export(FailsWhileTraced(error), torch.randn(3, 4), capture="trace")


class Shy(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.jit.is_tracing() or torch.compiler.is_exporting():
            raise RuntimeError("not while it is captured")
        return x * 2


def test_every_reason_is_reported_where_no_attempt_is_left() -> None:
    with pytest.raises(lithify.ExportError) as caught:
        lithify.export(Shy(), torch.randn(3, 4), dynamic_axes={"x": {1: "n"}})
    reasons = [m.text for m in caught.value.messages]
    assert len(reasons) == 3 and reasons[0].startswith("the tracer cannot record the model: ")
    assert reasons[1].startswith("torch.export cannot capture the model: ")
    assert reasons[2].startswith("torch.jit.script cannot capture the model: ")


@pytest.mark.parametrize("how", ["auto", "trace", "script", "export"])
def test_only_a_model_that_fails_in_eager_mode_cannot_be_run(how: Any) -> None:
    with pytest.raises(lithify.ExportError, match=r"cannot be run on the sample \(input: float32\[3, 4\]\): RuntimeError"):
        lithify.export(nn.Linear(5, 6), torch.randn(3, 4), capture=how)


def test_a_scripted_program_is_compared_with_the_model() -> None:
    with pytest.raises(lithify.ExportError, match=r"torch\.jit\.script gives other results"):
        lithify.export(Scripted(), torch.randn(3, 4), capture="script")
    assert lithify.export(Doubled(), torch.randn(3, 4), capture="script").capture == "script"


def test_a_cache_takes_traces_alone(out: Path) -> None:
    """total = past + sequence holds at the sizes of the second trace, too; at others the model does something else."""
    torchvision()  # transformers imports it
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, vocab_size=30
    )
    model = transformers.LlamaForCausalLM(config).eval()

    def arguments(batch: int, past: int, sequence: int) -> dict[str, Any]:
        cache = transformers.DynamicCache(config=config)
        cache.update(torch.randn(batch, 1, past, 8), torch.randn(batch, 1, past, 8), 0)
        ids, mask = torch.randint(0, 30, (batch, sequence)), torch.ones(batch, past + sequence, dtype=torch.int64)
        return {"input_ids": ids, "attention_mask": mask, "past_key_values": cache}

    axes = {"input_ids": {0: "batch", 1: "sequence"}, "attention_mask": {0: "batch", 1: "total"}}
    axes |= {f"past_key_values.0.{kind}": {0: "batch", 2: "past"} for kind in ("key", "value")}
    result = lithify.export(model, (), out, kwargs=arguments(2, 5, 3), dynamic_axes=axes)
    assert result.capture == "trace" and result.why.startswith("traces of ")
    session = Session(out)
    for sizes in ((2, 5, 3), (1, 4, 1), (3, 2, 6)):
        given = arguments(*sizes)
        with torch.no_grad():
            expected = model(**copy.deepcopy(given))
        layer = given["past_key_values"].layers[0]
        got = session.run(given["input_ids"], given["attention_mask"], layer.keys, layer.values)
        compare(got, flat([expected.logits, expected.past_key_values.layers[0].keys, expected.past_key_values.layers[0].values]))


def test_a_model_that_runs_at_the_sample_only_claims_no_other_size() -> None:
    result = lithify.export(OnlySample(), torch.randn(3, 4), dynamic_axes={"x": {1: "n"}})
    assert result.claims.holds(n=4) is True
    assert result.claims.holds(n=5) is not True


def test_other_sizes_keep_what_ties_those_of_the_sample_first() -> None:
    sample = {"batch": 2, "height": 224, "width": 224, "past": 6, "total": 8}
    tried = [dict(sizes) for sizes in _core.other_sizes(list(sample.items()))]
    for at in tried:
        assert all(at[name] != size and at[name] > 0 for name, size in sample.items())
        assert at["height"] % 32 == at["width"] % 32 == 0
    tied = [(at["past"] + at["batch"] == at["total"], at["height"] == at["width"]) for at in tried]
    assert tied[:4] == [(True, True), (True, False), (False, True), (False, False)]
    assert len(set(tried[3].values())) == 5


def test_other_sizes_repeat_what_is_there() -> None:
    x, mask = torch.arange(6).view(2, 3), torch.tensor([[1, 1, 0]])
    made = _samples.resized([x, mask], [{0: "b", 1: "s"}, {1: "s"}], {"b": 1, "s": 5})
    assert made[0].tolist() == [[0, 1, 2, 0, 1]] and made[1].tolist() == [[1, 1, 0, 1, 1]]
