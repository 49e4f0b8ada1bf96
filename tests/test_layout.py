"""The layout of the sources: which folder may include which, and that no file knows the machine it was written on."""

from __future__ import annotations

import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.cases import ROOT

# The table of ARCHITECTURE.md. A folder may always include itself and the public headers (lithify/).
MAY_INCLUDE: dict[str, set[str]] = {
    "platform": set(),
    "base": {"platform"},
    "sym": {"base"},
    "claims": {"base"},
    "archive": {"platform", "base"},
    "program": {"base", "sym"},
    "merge": {"base", "sym", "program"},
    "read": {"base", "sym", "archive", "program"},
    "onnx": {"base", "sym"},
    "rewrite": {"base", "sym", "onnx"},
    "provenance": {"base", "sym", "program"},
    "eval": {"base", "sym", "program", "provenance", "onnx"},
    "ops": {"base", "sym", "onnx", "eval"},
    "write": {"platform", "base", "sym", "onnx"},
    "onnxfile": {"base"},
    "driver": {
        "platform",
        "base",
        "sym",
        "claims",
        "archive",
        "program",
        "merge",
        "provenance",
        "read",
        "onnx",
        "rewrite",
        "eval",
        "ops",
        "write",
        "onnxfile",
    },
    "capi": set(),
    "cli": {"platform", "base"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
MACHINE = re.compile(rb"(?<![\w.])/(?:work|root|tmp)/\w")


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def headers_of(source: Path) -> list[str]:
    return INCLUDE.findall(source.read_text(encoding="utf-8"))


SOURCES = [p for p in tracked() if p.suffix in (".cpp", ".hpp", ".h")]


@pytest.mark.parametrize(
    "folder", sorted({p.relative_to(ROOT / "src").parts[0] for p in SOURCES if p.is_relative_to(ROOT / "src")})
)
def test_direction_of_includes(folder: str) -> None:
    assert folder in MAY_INCLUDE, f"src/{folder} is not in the table of folders"
    allowed = MAY_INCLUDE[folder] | {folder, "lithify"}
    wrong = [
        f"{source.relative_to(ROOT)} includes {header}"
        for source in SOURCES
        if source.is_relative_to(ROOT / "src" / folder)
        for header in headers_of(source)
        if header.split("/")[0] not in allowed and (source.parent / header).parent != source.parent
    ]
    assert not wrong, "\n".join(wrong)


def test_table_of_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `src/(\w+)` \|[^|]*\|([^|]*)\|$", text, re.MULTILINE))
    assert set(rows) == set(MAY_INCLUDE)
    above: set[str] = set()
    for folder, cell in rows.items():
        listed = above if cell.strip() == "all of the above" else {name.strip() for name in cell.split(",")} - {"", "the API"}
        assert listed == MAY_INCLUDE[folder], folder
        above = above | {folder}


def test_front_ends_see_only_the_api() -> None:
    front_ends = [p for p in SOURCES if p.relative_to(ROOT).parts[0] in ("python", "libtorch", "web")]
    assert len(front_ends) > 1
    wrong = [f"{p.relative_to(ROOT)} includes {h}" for p in front_ends for h in headers_of(p) if not h.startswith("lithify/")]
    assert not wrong, "\n".join(wrong)


def test_public_headers_stand_alone() -> None:
    public = [p for p in SOURCES if p.is_relative_to(ROOT / "include")]
    wrong = [f"{p.relative_to(ROOT)} includes {h}" for p in public for h in headers_of(p) if not h.startswith("lithify/")]
    assert not wrong, "\n".join(wrong)


# What rules and folding index by numbers of a program keeps to its bounds, and real numbers become integers by functions
# that check (base/vector.hpp, base/checked.hpp). Bytes, and parts of programs, are not indexed so.
UNCHECKED = re.compile(
    r"std::vector<(?!bool>|char>|std::byte>|program::|Stmt>|Expr>|Data>)"
    r"|std::sto(?:i|l|ll|f|d)\(|static_cast<(?:u?int64_t|int|size_t)>\((?:\*?(?:real|scale)\b|std::(?:ceil|floor|round)|\w+\.real\()"
)
CHECKED = ("ops", "onnx", "eval", "rewrite")


def test_checked_access() -> None:
    found = [
        f"{p.relative_to(ROOT)}: {m.group()}"
        for p in SOURCES
        if p.is_relative_to(ROOT / "src") and p.relative_to(ROOT / "src").parts[0] in CHECKED and p.name != "schema.cpp"
        for m in UNCHECKED.finditer(p.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def test_no_machine_paths() -> None:
    found = []
    for path in tracked():
        name = str(path.relative_to(ROOT))
        contents = {name: path.read_bytes()}
        if path.suffix == ".pt":
            with zipfile.ZipFile(path) as archive:
                contents |= {f"{name}!{record}": archive.read(record) for record in archive.namelist()}
        found += [f"{n}: {m.group().decode()}" for n, data in contents.items() for m in MACHINE.finditer(data)]
    assert not found, "\n".join(found)


def test_layout_of_code() -> None:
    """clang-format and ruff decide; `make format` applies them."""
    cpp = [str(p) for p in SOURCES]
    for command in (["clang-format", "--dry-run", "-Werror", *cpp], [str(ROOT / ".venv/bin/ruff"), "check", "-q", "."]):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, (done.stdout + done.stderr)[:4000]
    done = subprocess.run(
        [str(ROOT / ".venv/bin/ruff"), "format", "-q", "--check", "."], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
