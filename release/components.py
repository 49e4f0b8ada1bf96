"""What the artifacts contain besides our code: as an SBOM, and with its licenses."""

from __future__ import annotations

import importlib.metadata
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Component(NamedTuple):
    name: str
    version: str
    license: str  # as SPDX calls it
    text: str
    where: str  # which artifacts contain it
    sha256: str = ""  # of the source package

    def bom(self) -> dict[str, Any]:
        license_ = {"expression": self.license} if " " in self.license else {"license": {"id": self.license}}
        entry: dict[str, Any] = {"type": "library", "name": self.name, "version": self.version, "licenses": [license_]}
        entry["purl"] = f"pkg:generic/{self.name}@{self.version}"
        entry["properties"] = [{"name": "lithify:artifacts", "value": self.where}]
        if self.sha256:
            entry["properties"].append({"name": "lithify:source-package:sha256", "value": self.sha256})
        return entry


def components(libraries: Path, compiler: Path) -> list[Component]:
    """Of the folder with the fetched libraries, and the folder of the ziglang package."""
    apache = (ROOT / "LICENSE").read_text(encoding="utf-8")
    header = (libraries / "CLI11" / "CLI11.hpp").read_text(encoding="utf-8")
    texts = {
        "fmt": (libraries / "fmt" / "LICENSE").read_text(encoding="utf-8"),
        "simdjson": apache,
        "libdeflate": (libraries / "libdeflate" / "COPYING").read_text(encoding="utf-8"),
        "protozero": (ROOT / "release" / "licenses" / "protozero.txt").read_text(encoding="utf-8"),
        "CLI11": re.sub("^// ?", "", header.split("#pragma once")[0], flags=re.MULTILINE),
    }
    pins = json.loads((ROOT / "cmake" / "dependencies.json").read_text(encoding="utf-8"))
    found = [Component(name, pin["version"], pin["license"], texts[name], "all", pin["sha256"]) for name, pin in pins.items()]
    (binding,) = (f for f in importlib.metadata.files("nanobind") or () if f.name == "LICENSE")
    nanobind = binding.read_text(encoding="utf-8")
    found.append(Component("nanobind", importlib.metadata.version("nanobind"), "BSD-3-Clause", nanobind, "wheels"))
    zig = importlib.metadata.version("ziglang")
    llvm = (compiler / "lib" / "libcxx" / "LICENSE.TXT").read_text(encoding="utf-8")
    mingw = (compiler / "lib" / "libc" / "mingw" / "COPYING").read_text(encoding="utf-8")
    programs = "programs and wheels"
    found.append(Component("libc++", f"ziglang-{zig}", "Apache-2.0 WITH LLVM-exception", llvm, programs))
    found.append(Component("mingw-w64", f"ziglang-{zig}", "ZPL-2.1", mingw, f"{programs} for Windows"))
    return found


def licenses(found: list[Component]) -> str:
    """All texts as one."""
    parts = ["Lithify contains parts of these. Its own license is in the file LICENSE.\n"]
    for c in found:
        parts.append(f"{'=' * 100}\n{c.name} {c.version}: {c.license}; in {c.where}\n{'=' * 100}\n\n{c.text.strip()}\n")
    return "\n".join(parts)


def bom(found: list[Component], version: str) -> str:
    """CycloneDX 1.5."""
    own = {"type": "application", "name": "lithify", "version": version, "licenses": [{"license": {"id": "Apache-2.0"}}]}
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": own},
        "components": [c.bom() for c in found],
    }
    return json.dumps(document, indent=2) + "\n"
