"""Texts for users are in the terms of PyTorch, ONNX and compilers: documents, help texts, diagnostics, public headers."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cases import ROOT
from tests.driver import LITHIFY

# What is not used, as a pattern, and what is written instead.
WORDS = {
    r"\b(un)?burn(t|s|ed|ing)?( in)?\b": "hard-coded",
    r"\bunbak(e|es|ed|ing)\b": "recover",
    r"\btold\b|\btells?\b|\btelling\b": "reported, documented; or name what does it",
    r"\bsays so\b|\b(is|are) said\b": "reported, documented",
    r"\bsay (it|so)\b": "specify it",
    r"\bturns of\b|\bfrom turn to turn\b|\b(no|one|each|every|few|known) turns?\b": "iterations",
    r"\bcaptures part\b|\btraces part\b": "traces diverge",
    r"\bsizes? (that )?(left|leaves?)\b|\bleaves? the trace\b": "escapes",
    r"\bin doubt\b|\bdoubt(s|ed|ful)?\b": "suspected",
    r"\bunproven\b": "unverified",
    r"\bproven\b": "any size; checked at ...",
    r"\bfor granted\b": "assumed",
    r"\bfound by trying\b": "detected automatically",
    r"\banew\b": "again, resets, rebuilt",
    r"\bonce more\b": "again",
    r"\boperators of (your|one's|the user's|their) own\b": "custom operators",
    r"\bof (your|one's) own\b": "custom, separate",
    r"\bin a (file|process|body) of (its|their) own\b": "separate",
    r"\ba way out\b": "suggested fix",
    r"\bwhat (became|becomes) of\b": "results for",
    r"\bis after\b(?! the)": "goals",
    r"\bdoors?\b": "interface, front end, API",
    r"(?<!there )\b(is|are) no (model|input|output|operator|integer|container|object|tensor|multiple|path|valid)\b": "is not a",
    r"\bno rule takes\b": "is not supported with these arguments",
    r"\bthat (is|are) meant\b": "dequantized values",
    r"\bweav(e|es|ing)\b": "merging traces",
    r"\broll(s|ed|ing)? up\b": "loop rerolling",
    r"\bexploring paths\b": "path exploration",
    r"\b(neighbour|behaviour|colour|initialis|optimis|normalis)": "American spelling",
}
PATTERNS = [(re.compile(pattern, re.IGNORECASE), instead) for pattern, instead in WORDS.items()]
COMMANDS = ["", "export", "inspect", "check", "show", "diff", "ops", "explain", "verify", "llm", "completion"]
WIDTH = 100

CPP_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<d>\w*)\((?P<raw>.*?)\)(?P=d)"|"(?P<text>(?:[^"\\\n]|\\.)*)"|' + r"'(?:[^'\\\n]|\\.)+'", re.DOTALL
)


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


Texts = Iterator[tuple[int, str]]


def lines(path: Path) -> Texts:
    yield from enumerate(path.read_text(encoding="utf-8").splitlines(), 1)


def cpp_literals(path: Path) -> Texts:
    """String literals with their lines; digits with separators (1'000) are not characters."""
    text = re.sub(r"(?<=\d)'(?=\d)", "_", path.read_text(encoding="utf-8"))
    for token in CPP_TOKEN.finditer(text):
        literal = token["text"] if token["text"] is not None else token["raw"]
        if literal is not None:
            yield text.count("\n", 0, token.start()) + 1, literal


def python_literals(path: Path) -> Texts:
    """Strings with their lines; those of documentation too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def unwanted(where: str, texts: Texts) -> list[str]:
    return [
        f"{where}:{line}: '{found[0]}' (write: {instead}) in: {text.strip()[:120]}"
        for line, text in texts
        for pattern, instead in PATTERNS
        if (found := pattern.search(text))
    ]


def check(paths: list[Path], read: Callable[[Path], Texts]) -> None:
    assert len(paths) > 1
    wrong = [fault for path in paths for fault in unwanted(str(path.relative_to(ROOT)), read(path))]
    assert not wrong, "\n" + "\n".join(wrong)


def test_documents() -> None:
    check(tracked("*.md"), lines)


def test_public_headers() -> None:
    check(tracked("include/*.h", "include/*.hpp"), lines)


def test_diagnostics_of_the_core() -> None:
    check(tracked("src/*.cpp", "src/*.hpp", "src/*.def", "libtorch/*.cpp", "python/bind/*.cpp"), cpp_literals)


def test_diagnostics_of_the_package() -> None:
    check(tracked("python/lithify/*.py", "python/lithify/*.pyi"), python_literals)


def help_of(command: str) -> str:
    """`verify` is run by the Python package, in the interpreter on the path."""
    env = os.environ | {"PYTHONPATH": str(ROOT / "python"), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run([str(LITHIFY), *command.split(), "--help"], capture_output=True, text=True, env=env)
    assert done.returncode == 0 and len(done.stdout) > 100, done.stderr
    return done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command: str) -> None:
    wrong = unwanted(f"lithify {command} --help".replace("  ", " "), iter(enumerate(help_of(command).splitlines(), 1)))
    assert not wrong, "\n" + "\n".join(wrong)


def test_commands_are_all() -> None:
    _, listed = re.split(r"^commands:", help_of(""), flags=re.IGNORECASE | re.MULTILINE)
    assert set(re.findall(r"^  (\w+)", listed.split("Examples:")[0], re.MULTILINE)) == set(COMMANDS[1:])


def test_width_of_documents() -> None:
    """Tables and code blocks between fences may be wider."""
    wrong = []
    for path in tracked("*.md"):
        fenced = False
        for number, line in lines(path):
            if line.lstrip().startswith("```"):
                fenced = not fenced
            elif not fenced and not line.startswith("|") and len(line) > WIDTH:
                wrong.append(f"{path.relative_to(ROOT)}:{number}: {len(line)} columns, at most {WIDTH}")
        assert not fenced, f"{path.relative_to(ROOT)}: a code block has no end"
    assert not wrong, "\n" + "\n".join(wrong)


def test_the_test_itself() -> None:
    texts = iter([(1, "A size is burnt in"), (2, "hard-coded"), (3, "the line is told")])
    assert [fault.split(": ")[0] for fault in unwanted("x", texts)] == ["x:1", "x:3"]
    assert next(cpp_literals(ROOT / "src/base/codes.def"))[1].startswith("the file cannot")
