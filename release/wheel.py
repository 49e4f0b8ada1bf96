"""Wheels: the Python package, the program, and where there is one the extension module."""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from pathlib import Path

from release.archives import zipped

ROOT = Path(__file__).resolve().parents[1]


def metadata() -> bytes:
    """METADATA as pyproject.toml has it."""
    from scikit_build_core.build import prepare_metadata_for_build_wheel

    before = Path.cwd()
    os.chdir(ROOT)
    try:
        with tempfile.TemporaryDirectory() as folder:
            info = prepare_metadata_for_build_wheel(folder)
            return Path(folder, info, "METADATA").read_bytes()
    finally:
        os.chdir(before)


def write(into: Path, version: str, tag: str, program: Path, modules: dict[str, Path], licenses: str) -> Path:
    """Writes the wheel with a tag such as cp312-abi3-win_amd64. `modules` are the compiled modules, by the names of files."""
    files: dict[str, tuple[bytes, bool]] = {}
    package = ROOT / "python" / "lithify"
    for path in sorted(package.rglob("*")):
        if path.suffix in (".py", ".pyi", ".typed") or path.name == "py.typed":
            files[path.relative_to(package.parent).as_posix()] = (path.read_bytes(), False)
    for name, module in sorted(modules.items()):
        files[f"lithify/{name}"] = (module.read_bytes(), True)
    files[f"lithify-{version}.data/scripts/lithify{'.exe' if program.suffix == '.exe' else ''}"] = (program.read_bytes(), True)

    info = f"lithify-{version}.dist-info"
    python, abi, platforms = tag.split("-")
    tags = "".join(f"Tag: {python}-{abi}-{platform}\n" for platform in platforms.split("."))
    files[f"{info}/METADATA"] = (metadata(), False)
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: lithify\nRoot-Is-Purelib: false\n{tags}".encode(), False)
    files[f"{info}/licenses/LICENSE"] = ((ROOT / "LICENSE").read_bytes(), False)
    files[f"{info}/licenses/LICENSES.txt"] = (licenses.encode(), False)
    record = "".join(f"{name},sha256={_digest(contents)},{len(contents)}\n" for name, (contents, _) in files.items())
    files[f"{info}/RECORD"] = (f"{record}{info}/RECORD,,\n".encode(), False)

    wheel = into / f"lithify-{version}-{tag}.whl"
    wheel.write_bytes(zipped(files))
    return wheel


def _digest(contents: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).rstrip(b"=").decode()
