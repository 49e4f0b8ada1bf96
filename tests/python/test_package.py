"""The package as it is installed: its stubs, and the wheel in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
import torch

from tests.cases import ROOT


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | environment
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=env, timeout=1800, cwd=cwd)
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


def test_stubs_are_those_of_the_extension(tmp_path: Path) -> None:
    made = tmp_path / "_core.pyi"
    run(sys.executable, "-m", "nanobind.stubgen", "-m", "lithify._core", "-o", made, PYTHONPATH=str(ROOT / "python"))
    kept = ROOT / "python" / "lithify" / "_core.pyi"
    assert made.read_text() == kept.read_text(), f"python -m nanobind.stubgen -m lithify._core -o {kept.relative_to(ROOT)}"


def test_files_need_no_torch(tmp_path: Path) -> None:
    """Nothing of torch or onnxruntime is imported for files."""
    torch.jit.trace(torch.nn.Linear(4, 2), torch.randn(3, 4)).save(str(tmp_path / "m.pt"))
    program = (
        "import sys, lithify\n"
        "assert lithify.check('m.pt') and lithify.inspect('m.pt').kind == 'TorchScript'\n"
        "lithify.convert('m.pt', 'm.onnx', dynamic_axes={'input': {0: 'batch'}})\n"
        "assert not {'torch', 'onnx', 'onnxruntime'} & set(sys.modules)\n"
    )
    run(sys.executable, "-c", program, cwd=tmp_path, PYTHONPATH=str(ROOT / "python"))
    assert (tmp_path / "m.onnx").stat().st_size > 0


# The library is that of `make build`: to compile it again would take minutes, and show the same.
LINKED = (
    "build-dir=build-wheel-linked",
    f"cmake.define.LITHIFY_LIBRARY={ROOT / 'build' / 'liblithify.a'}",
    "cmake.define.LITHIFY_DEPENDENCIES=",  # it is compiled against those of the system
)


def test_installed(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """pip in a fresh environment, with build requirements of its own, as on a bare machine; --every compiles all of the wheel."""
    home = tmp_path / "venv"
    run(sys.executable, "-m", "venv", home)
    python = home / "bin" / "python"
    if request.config.getoption("--every"):
        run(python, "-m", "pip", "wheel", "--no-deps", "-w", tmp_path, ROOT)
        (source,) = tmp_path.glob("lithify-*.whl")
        names = zipfile.ZipFile(source).namelist()
        assert {"lithify/py.typed", "lithify/_core.pyi", "lithify/__init__.py"} <= set(names)
        assert any(n.endswith(".data/scripts/lithify") for n in names), names
        assert not any("include/" in n or n.endswith(".a") for n in names), names
        run(python, "-m", "pip", "install", "-q", source)
    else:
        run(python, "-m", "pip", "install", "-q", ROOT, *(word for setting in LINKED for word in ("-C", setting)))
    assert run(home / "bin" / "lithify", "--version").startswith("lithify ")
    run(python, "-c", "import lithify; assert len(lithify.supported_operators()) > 500")
    # torch, onnx and onnxruntime are those of the tests; the package is the installed one.
    shared = home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages" / "tests.pth"
    shared.write_text(sysconfig.get_path("purelib") + "\n")
    assert str(home) in run(python, "-c", "import lithify; print(lithify.__file__)", cwd=tmp_path)
    blocks = (ROOT / "docs" / "python.md").read_text(encoding="utf-8").split("```python\n")[1:]
    (tmp_path / "examples.py").write_text("\n".join(block.split("```")[0] for block in blocks))
    run(python, "examples.py", cwd=tmp_path)
    assert len(list(tmp_path.glob("*.onnx"))) == 7
