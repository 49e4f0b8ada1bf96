"""CONTRIBUTING.md: the operator that it adds works, on a copy of the sources."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import ROOT
from tests.driver import LITHIFY

BUILD = LITHIFY.resolve().parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
RULES = Path("src/ops/activation.cpp")
CASES = Path("src/ops/activation_cases.py")
END_OF_RULES = "}\n\n}  // namespace lithify::ops\n"

pytestmark = pytest.mark.skipif(not (BUILD / "build.ninja").exists(), reason="the program is not of a build tree")


def snippet(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return found


def run(command: str | list[str], cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    shell = isinstance(command, str)
    return subprocess.run(command, shell=shell, cwd=cwd, capture_output=True, text=True, timeout=300, env=os.environ | env)


def compiled_with(source: Path) -> tuple[Path, str]:
    """The file that is given to the compiler for a source, itself or one that includes several, and the command."""
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        unit = Path(entry["file"])
        if unit == source or (unit.suffix == ".cxx" and f'"{source}"' in unit.read_text()):
            return unit, entry["command"]
    raise AssertionError(f"{source} is not compiled in {BUILD}")


def build(copy: Path) -> Path:
    """The program with the rules of the copy: what changed is compiled, and linked with the library of the build.

    The new object comes first, so nothing takes the old one out of the library."""
    unit, command = compiled_with(ROOT / RULES)
    changed, made, program = copy / RULES, copy / "changed.o", copy / "lithify"
    if unit != ROOT / RULES:
        changed = copy / unit.name
        changed.write_text(unit.read_text().replace(str(ROOT / RULES), str(copy / RULES)))
    words = shlex.split(command)
    words[words.index("-o") + 1], words[words.index("-c") + 1] = str(made), str(changed)
    done = run(words, BUILD)
    assert done.returncode == 0, done.stderr
    link = run(["ninja", "-t", "commands", "-s", "lithify"], BUILD).stdout
    link = link.replace(" -o lithify ", f" {shlex.quote(str(made))} -o {shlex.quote(str(program))} ")
    assert str(program) in link, link
    done = run(link, BUILD)
    assert done.returncode == 0, done.stderr
    return program


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The sources that the example is about, and what runs its cases, after the page was followed."""
    for file in (RULES, CASES, Path("pyproject.toml"), *(p.relative_to(ROOT) for p in (ROOT / "tests").glob("*.*"))):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    rules = (tmp_path / RULES).read_text()
    assert rules.endswith(END_OF_RULES), f"{RULES} does not end with the function that registers its rules"
    (tmp_path / RULES).write_text(rules.removesuffix(END_OF_RULES) + snippet("cpp") + END_OF_RULES)
    with (tmp_path / CASES).open("a") as cases:
        cases.write("\n" + snippet("python"))
    return tmp_path


def test_operator_from_scratch(copy: Path) -> None:
    built, *others = snippet("sh").splitlines()
    assert built == "make build"
    program = build(copy)
    (command,) = (line.replace(".venv/bin/python", shlex.quote(sys.executable)) for line in others)
    done = run(command, copy, LITHIFY=str(program))
    cases = 3 + snippet("python").count("case(") - 1  # the first line is one of three element types
    assert done.returncode == 0 and f"{cases} passed" in done.stdout, done.stdout + done.stderr
    assert f"{cases} cases exported" in done.stdout, "the example is to show all routes: " + done.stdout
    without = run(f"{command} -x", copy, LITHIFY=str(LITHIFY.resolve()))
    assert without.returncode == 1 and "LTH040" in without.stdout, "the rule of the example makes no difference"
