"""Fetches the sources of the C++ libraries that cmake/dependencies.json pins, for builds without those of the system.

    python scripts/dependencies.py FOLDER [NAME ...]

Each library is part of a source package of a Python package. pip downloads it; nothing in it is run. FOLDER then has a folder for
each library. What is there already is left as it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

PINS = Path(__file__).resolve().parents[1] / "cmake" / "dependencies.json"

# pip asks the build backend of what it downloads for name and version. This one answers in the place of the package's.
BACKEND = """
import re, sys
from pathlib import Path

def prepare_metadata_for_build_wheel(directory, config=None):
    text = Path("PKG-INFO").read_text(encoding="utf-8")
    name, version = (re.search(f"^{key}: *(.*)$", text, re.MULTILINE)[1] for key in ("Name", "Version"))
    info = Path(directory, f"{name.replace('-', '_')}-{version}.dist-info")
    info.mkdir(parents=True)
    info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
    return info.name

__legacy__ = sys.modules[__name__]
"""
BACKENDS = ("setuptools/build_meta.py", "scikit_build_core/build.py")


def pins() -> dict[str, dict[str, Any]]:
    return json.loads(PINS.read_text(encoding="utf-8"))


def download(sdist: str, sha256: str, work: Path) -> Path:
    """The archive of a source package, of these bytes."""
    for name in BACKENDS:
        backend = work / "backends" / name
        backend.parent.mkdir(parents=True, exist_ok=True)
        backend.with_name("__init__.py").touch()
        backend.write_text(BACKEND, encoding="utf-8")
    requirement = work / "requirement.txt"
    requirement.write_text(f"{sdist} --hash=sha256:{sha256}\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--require-hashes", "--no-deps"]
    options = ["--no-binary", ":all:", "--no-build-isolation", "--use-pep517", "-d", str(work / "archives")]
    path = os.pathsep.join(filter(None, [str(work / "backends"), os.environ.get("PYTHONPATH")]))
    subprocess.run([*pip, *options, "-r", str(requirement)], check=True, env=os.environ | {"PYTHONPATH": path})
    (archive,) = (p for p in (work / "archives").iterdir() if hashlib.sha256(p.read_bytes()).hexdigest() == sha256)
    return archive


def unpack(archive: Path, folder: str, files: list[str], into: Path) -> None:
    """The files below a folder of the archive; a name with a slash at its end is a folder."""
    with tarfile.open(archive) as contents:
        for member in contents.getmembers():
            path = PurePosixPath(*PurePosixPath(member.name).parts[1:])
            if not member.isfile() or not path.is_relative_to(folder) or ".." in path.parts:
                continue
            name = path.relative_to(folder)
            if any(str(name).startswith(f) if f.endswith("/") else str(name) == f for f in files):
                target = into / name
                target.parent.mkdir(parents=True, exist_ok=True)
                source = contents.extractfile(member)
                assert source
                target.write_bytes(source.read())


def fetch(into: Path, names: list[str] | None = None) -> None:
    """Puts the libraries, or some of them, into a folder."""
    for name, pin in pins().items():
        stamp = into / name / ".sha256"
        if (names and name not in names) or (stamp.is_file() and stamp.read_text() == pin["sha256"]):
            continue
        print(f"dependencies: fetching {name} {pin['version']}", file=sys.stderr)
        shutil.rmtree(into / name, ignore_errors=True)
        with tempfile.TemporaryDirectory() as work:
            unpack(download(pin["sdist"], pin["sha256"], Path(work)), pin["folder"], pin["files"], into / name)
        stamp.write_text(pin["sha256"])


if __name__ == "__main__":
    fetch(Path(sys.argv[1]), sys.argv[2:])
