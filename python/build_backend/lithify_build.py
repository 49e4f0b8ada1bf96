"""The build backend of the wheel: scikit-build-core, with the pinned sources of the C++ libraries (cmake/dependencies.json).

`pip install . -C cmake.define.LITHIFY_DEPENDENCIES=` compiles against the libraries of the system instead.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from scikit_build_core import build as _build
from scikit_build_core.build import *  # noqa: F403

ROOT = Path(__file__).resolve().parents[2]
SETTING = "cmake.define.LITHIFY_DEPENDENCIES"
NO_COMPILER = """\
lithify is compiled here, and there is no C++ compiler. Install one:
  Debian, Ubuntu  apt-get install g++
  Fedora          dnf install gcc-c++
  macOS           xcode-select --install
or name one in the environment variable CXX. It must know C++20: GCC 12, Clang 16, or later."""


def build_wheel(directory: str, config: dict[str, Any] | None = None, metadata: str | None = None) -> str:
    return _build.build_wheel(directory, _prepared(config), metadata)


def build_editable(directory: str, config: dict[str, Any] | None = None, metadata: str | None = None) -> str:
    return _build.build_editable(directory, _prepared(config), metadata)


def _prepared(config: dict[str, Any] | None) -> dict[str, Any]:
    """The configuration of a build that can begin: with a compiler and the libraries."""
    compilers = [os.environ["CXX"].split()[0]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    if sys.platform != "win32" and not any(map(shutil.which, compilers)):  # there, CMake knows where to look
        raise SystemExit(NO_COMPILER)
    config = dict(config or {})
    if SETTING not in config:
        sys.path.insert(0, str(ROOT / "scripts"))
        import dependencies

        folder = ROOT / "build-dependencies"
        dependencies.fetch(folder)
        config[SETTING] = str(folder)
    return config
