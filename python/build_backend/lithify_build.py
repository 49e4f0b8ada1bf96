"""The build backend of the wheel: scikit-build-core, after a look at the C++ libraries that it compiles against.

They come from the system. On Debian and with the rights to do so, what is missing is installed; else the build reports what to
install.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from scikit_build_core import build as _build
from scikit_build_core.build import *  # noqa: F403

SETUP = Path(__file__).resolve().parents[2] / "scripts" / "setup"


def build_wheel(directory: str, config: dict[str, Any] | None = None, metadata: str | None = None) -> str:
    _install_libraries()
    return _build.build_wheel(directory, config, metadata)


def build_editable(directory: str, config: dict[str, Any] | None = None, metadata: str | None = None) -> str:
    _install_libraries()
    return _build.build_editable(directory, config, metadata)


def _install_libraries() -> None:
    if shutil.which("c++"):  # as CMake by itself; another name of the same compiler is another one to ccache
        os.environ.setdefault("CXX", "c++")
    if shutil.which("dpkg-query") is None:
        return  # another system: CMake reports what is missing
    may_install = os.geteuid() == 0 or (
        shutil.which("sudo") is not None and subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode == 0
    )
    subprocess.run(["bash", str(SETUP), "libraries" if may_install else "check-libraries"], check=True)
