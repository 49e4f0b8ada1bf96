"""docs/codes.md: a section for every diagnostic code, whose example gives that diagnostic."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cases import ROOT
from tests.driver import LITHIFY, SECONDS

PAGE = (ROOT / "docs/codes.md").read_text()
ROWS = re.findall(r'^CODE\((\d+), \w+, "(.*)"\)', (ROOT / "src/base/codes.def").read_text(), re.MULTILINE)
CODES = {f"LTH{int(number):03}": meaning for number, meaning in ROWS}
WITHOUT_EXAMPLE = {"LTH066", "LTH099"}


@dataclass
class Section:
    code: str
    text: str

    def block(self, language: str) -> str:
        found = re.search(rf"^```{language}\n(.*?)^```", self.text, re.MULTILINE | re.DOTALL)
        return found[1] if found else ""


FOUND = re.findall(r"^## (LTH\d+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
SECTIONS = {code: Section(code, text) for code, text in FOUND}


def plain(text: str) -> str:
    return " ".join(text.split()).lower().rstrip(".")


@pytest.mark.parametrize("code", CODES)
def test_section_is_whole(code: str) -> None:
    assert code in SECTIONS, f"docs/codes.md has no section {code}"
    text = SECTIONS[code].text
    meaning = plain(text.strip().split("\n\n")[0])
    assert CODES[code].lower().startswith(meaning) or meaning == plain(CODES[code]), "the first sentence is that of codes.def"
    assert "**Cause.**" in text and "**Fix.**" in text
    assert bool(SECTIONS[code].block("sh") or SECTIONS[code].block("python")) == (code not in WITHOUT_EXAMPLE)


def test_no_section_is_of_nothing() -> None:
    assert list(SECTIONS) == sorted(CODES)


@pytest.mark.parametrize("code", sorted(set(CODES) - WITHOUT_EXAMPLE))
def test_example(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = SECTIONS[code]
    monkeypatch.chdir(tmp_path)
    printed = run_python(section.block("python"), tmp_path / "model.py") + run_commands(section.block("sh"))
    assert code in printed, printed
    assert "LTH099" not in printed


def run_python(text: str, path: Path) -> str:
    """Runs a block as a module: scripting needs the source of its functions."""
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(f"example_{path.parent.name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    return out.getvalue()


def run_commands(text: str) -> str:
    printed = ""
    for line in text.splitlines():
        _, *words = shlex.split(line)
        done = subprocess.run([str(LITHIFY.resolve()), *words], capture_output=True, text=True, timeout=SECONDS)
        printed += done.stdout + done.stderr
    return printed


@pytest.mark.parametrize("code", ["LTH064", "lth064", "64"])
def test_explain(code: str) -> None:
    done = subprocess.run([str(LITHIFY), "explain", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("LTH064\n") and "--also" in done.stdout


def test_explain_of_an_unknown_code() -> None:
    done = subprocess.run([str(LITHIFY), "explain", "LTH065x"], capture_output=True, text=True)
    assert done.returncode == 2 and "did you mean 'LTH065'?" in done.stderr
