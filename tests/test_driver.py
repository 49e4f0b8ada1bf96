"""What the tests' own driver accepts, and what it does not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.driver import Mismatch, refusal

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
