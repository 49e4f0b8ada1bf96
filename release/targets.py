"""The systems that there are artifacts for."""

from __future__ import annotations

from typing import NamedTuple


class Target(NamedTuple):
    name: str
    zig: str  # as the compiler calls it, with the lowest version of the system
    wheel: str  # as a wheel calls it
    suffix: str = ""  # of programs

    @property
    def is_linux(self) -> bool:
        return self.name.startswith("linux")

    @property
    def is_windows(self) -> bool:
        return self.name.startswith("windows")

    @property
    def is_macos(self) -> bool:
        return self.name.startswith("macos")


TARGETS = {
    target.name: target
    for target in (
        Target("linux-x86_64", "x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64.manylinux2014_x86_64"),
        Target("linux-aarch64", "aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64.manylinux2014_aarch64"),
        Target("windows-x86_64", "x86_64-windows-gnu", "win_amd64", ".exe"),
        Target("macos-arm64", "aarch64-macos.11.0", "macosx_11_0_arm64"),
        Target("macos-x86_64", "x86_64-macos.11.0", "macosx_11_0_x86_64"),
    )
}
