"""What the tests' own driver accepts, and what it does not."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cases import Case
from tests.driver import Mismatch, refusal
from tests.routes import Recorded

REFUSED = "error LTH061: a number that tracing hard-coded\n"


def ended(code: int, messages: str) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess([], code, "", messages)


def test_refusal(tmp_path: Path) -> None:
    for codes in ((), ("LTH061",), ("LTH063", "LTH061")):
        assert refusal(ended(1, REFUSED), *codes, out=tmp_path / "model.onnx") == REFUSED


@pytest.mark.parametrize(
    "done",
    [
        ended(-11, REFUSED),
        ended(139, REFUSED),
        ended(0, REFUSED),
        ended(1, ""),
        ended(1, "terminate called\n"),
        ended(1, "warning LTH061: a number\n"),
        ended(1, "error LTH099: a fault of the exporter itself\n"),
        ended(1, REFUSED + "error LTH099: a fault of the exporter itself\n"),
        ended(1, REFUSED + "ERROR: AddressSanitizer\n"),
    ],
)
def test_crash_is_not_a_refusal(done: subprocess.CompletedProcess[str]) -> None:
    with pytest.raises(Mismatch, match="not refused with an error"):
        refusal(done)


def test_refusal_with_another_code() -> None:
    with pytest.raises(Mismatch, match="not refused with LTH063 or LTH064"):
        refusal(ended(1, REFUSED), "LTH063", "LTH064")


def test_refusal_that_leaves_a_file(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()
    with pytest.raises(Mismatch, match="was written"):
        refusal(ended(1, REFUSED), out=tmp_path / "model.onnx")


# ---- routes ---------------------------------------------------------------------------------------


def a_case(name: str, **options: bool) -> Case:
    parts: dict[str, Any] = {"inputs": {}, "source": "", "namespace": {}, "modules": {}, "buffers": {}, "first": True}
    return Case(name, "family", "family_cases.py:1", **parts, **options)


def recorded() -> Recorded:
    return Recorded({"family": Counter(traced=2, scripted=1, exported=1)}, {"family-b": {"scripted", "exported"}})


def test_routes_as_recorded() -> None:
    recorded().compare(a_case("family-a"), {"traced": True, "scripted": True, "exported": True})
    recorded().compare(a_case("family-b"), {"traced": True, "scripted": False, "exported": False})
    recorded().compare(a_case("family-b"), {"traced": True, "scripted": False})


def test_lost_route() -> None:
    with pytest.raises(Mismatch, match="family-a cannot be exported"):
        recorded().compare(a_case("family-a"), {"traced": True, "scripted": True, "exported": False})


def test_gained_route() -> None:
    with pytest.raises(Mismatch, match="family-b can now be scripted"):
        recorded().compare(a_case("family-b"), {"traced": True, "scripted": True, "exported": False})


def test_file_of_routes() -> None:
    assert Recorded.read(recorded().text()) == recorded()
    assert Recorded.read("") == Recorded()


def test_recording_some_cases_keeps_the_others() -> None:
    cases = [a_case("family-a"), a_case("family-b"), a_case("family-c", script=False)]
    now = recorded()
    now.update(cases, {"family-a": {"traced": True, "exported": False}, "family-b": {"scripted": True}})
    assert now.missing == {"family-a": {"exported"}, "family-b": {"exported"}}
    assert now.counts == {"family": Counter(traced=3, scripted=2, exported=1)}
    now.update(cases[:1], {})
    assert now.missing == {"family-a": {"exported"}}, "cases that are gone are not kept"
