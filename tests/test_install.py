"""The installed package, as projects outside of the source tree use it, and what CPack makes of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import torch

from tests.cases import ROOT
from tests.driver import LITHIFY, Session, compare

BUILD = LITHIFY.parent
DATA = ROOT / "tests" / "data"
SPEC = json.loads((DATA / "files.json").read_text())["linear"][0]

pytestmark = pytest.mark.skipif(BUILD != ROOT / "build", reason="needs the build that is installed")


# Where LibTorch is, and the C++ that it needs: that of the wheel, or another one.
LIBTORCH = os.environ.get("LIBTORCH", torch.utils.cmake_prefix_path)
LIBTORCH_STANDARD = os.environ.get("LIBTORCH_STANDARD", "20")


def run(*command: str | Path, at: Path | None = None) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=at, timeout=900)
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--prefix", where, "--strip")
    return where


def build(source: Path, prefix: str | Path, to: Path, *options: str) -> Path:
    run("cmake", "-S", source, "-B", to, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", *options)
    run("cmake", "--build", to, "-j", "2")
    return to


def test_program_needs_little(prefix: Path) -> None:
    program = prefix / "bin" / "lithify"
    assert program.stat().st_size < 10_000_000
    needed = {line.split()[0] for line in run("ldd", program).splitlines()}
    libc = {"linux-vdso.so.1", "libc.so.6", "libm.so.6", "/lib64/ld-linux-x86-64.so.2"}
    json = {"libsimdjson.so.14", "libstdc++.so.6", "libgcc_s.so.1"}  # Debian has no static one
    assert needed <= libc | json, needed - libc


def test_no_path_of_the_source_tree(prefix: Path) -> None:
    for path in prefix.rglob("*"):
        if path.is_file() and path.suffix in (".cmake", ".pc", ".h", ".hpp"):
            assert str(ROOT) not in path.read_text(), path


def test_outside_project(prefix: Path, tmp_path: Path) -> None:
    built = build(ROOT / "tests" / "outside", prefix, tmp_path / "build")
    for kind in ("lithify", "static", "shared"):
        printed = run(built / f"outside_{kind}", DATA / "linear.pt", tmp_path / f"{kind}.onnx", SPEC)
        assert printed == "LTH001\noutput: float32[B, 3]\n"
    assert "liblithify" in run("ldd", built / "outside_shared")
    assert "liblithify" not in run("ldd", built / "outside_static")


def test_examples_of_c(prefix: Path, tmp_path: Path) -> None:
    built = build(ROOT / "examples" / "c", prefix, tmp_path / "build")
    printed = run(built / "export", DATA / "linear.pt", tmp_path / "c.onnx", SPEC)
    assert printed == "input  input: float32[B, 4]\noutput output: float32[B, 3]\n"
    library = next(prefix.rglob("liblithify.so"))
    script = ROOT / "examples" / "ctypes" / "export.py"
    printed = run(sys.executable, script, library, DATA / "linear.pt", tmp_path / "ctypes.onnx", SPEC)
    assert [v["shape"] for v in json.loads(printed)["outputs"]] == [["B", 3]]
    assert (tmp_path / "c.onnx").read_bytes() == (tmp_path / "ctypes.onnx").read_bytes()


def test_examples_of_libtorch(prefix: Path, tmp_path: Path) -> None:
    """Each exports a model and saves what the model gives at three other sizes of every dynamic axis."""
    # By the other compiler than the project itself, and fast.
    options = (f"-DCMAKE_CXX_STANDARD={LIBTORCH_STANDARD}", "-DCMAKE_CXX_COMPILER=clang++", "-DCMAKE_CXX_FLAGS=-O0")
    built = build(ROOT / "examples" / "cpp", f"{prefix};{LIBTORCH}", tmp_path / "build", *options)
    expected_notes = {
        "mlp": "y: float32[batch, 10]\n",
        "cnn": "batch: checked at 1, 2, 3, 4, 5, 8, 9, 1 size recovered\n",
        "lstm": "tags: float32[batch, length, 5]\nlast: float32[batch, 24]\n",
        "transformer": "output: float32[batch, to, 30]\n",
        "load": "input: float32[batch, 4] -> y: float32[batch, 3]\n",
    }
    for name, expected in expected_notes.items():
        arguments = [DATA / "linear.pt"] if name == "load" else []
        assert expected in run(built / name, *arguments, at=tmp_path)
        session = Session(tmp_path / f"{name}.onnx")
        for saved in (tmp_path / f"{name}.{i}.pt" for i in range(3)):
            inputs, outputs = torch.load(saved, weights_only=False)
            compare(session.run(*inputs), outputs, outputs=session.outputs)


def test_documentation_of_libtorch() -> None:
    """What docs/cpp.md shows is in the examples."""
    shown = re.findall(r"```(?:cmake|cpp)\n(.*?)```", (ROOT / "docs" / "cpp.md").read_text(), re.DOTALL)
    sources = [(ROOT / "examples" / "cpp" / name).read_text() for name in ("CMakeLists.txt", "mlp.cpp")]
    assert len(shown) == 5
    assert all(any(block in source for source in sources) for block in shown)


def test_packages(tmp_path: Path) -> None:
    run("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", tmp_path)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as contents:
        names = {name.split("/", 1)[-1] for name in contents.getnames()}
    assert {"bin/lithify", "include/lithify/lithify.h", "include/lithify/lithify.hpp"} <= names
    (package,) = tmp_path.glob("*.deb")
    listed = run("dpkg-deb", "-c", package)
    assert "./usr/bin/lithify" in listed
    assert "liblithify.so.0 ->" in listed
    assert "libc6" in run("dpkg-deb", "-f", package, "Depends")
