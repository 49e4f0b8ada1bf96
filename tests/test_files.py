"""Committed model files of older releases of PyTorch (tests/data/make.py wrote them)."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.driver import Session, compare, export

DATA = Path(__file__).parent / "data"
FILES: dict[str, list[str]] = json.loads((DATA / "files.json").read_text())


@pytest.mark.parametrize("opset", [11, 18, 23])
@pytest.mark.parametrize("name", FILES)
def test_file(name: str, opset: int, tmp_path: Path) -> None:
    out = tmp_path / "model.onnx"
    export(DATA / f"{name}.pt", out, opset=opset, inputs=FILES[name], names=_axes(FILES[name]))
    session = Session(out)
    arrays = np.load(DATA / f"{name}.npz")
    for run in range(3):
        inputs, expected = (_tensors(arrays, f"{run}.{side}.") for side in ("in", "out"))
        compare(session.run(*inputs), expected, outputs=session.outputs)


def _tensors(arrays: dict[str, np.ndarray], prefix: str) -> list[torch.Tensor]:
    return [torch.from_numpy(arrays[key]) for key in sorted(arrays) if key.startswith(prefix)]


def _axes(specs: list[str]) -> dict[str, dict[int, str]]:
    """{"x": {0: "B"}} of ["x:float32[B=2,4]"]."""
    axes = {}
    for spec in specs:
        name, sizes = spec.split(":")[0], spec.rstrip("]").split("[")[1].split(",")
        axes[name] = {i: size.split("=")[0] for i, size in enumerate(sizes) if "=" in size}
    return axes


class Quotients(torch.nn.Module):
    """Operators whose meaning has changed between versions of the file format."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        in_place = a.clone()
        in_place.div_(b)
        return [torch.div(a, b), torch.div(a, 2), torch.div(a, 2.5), in_place, torch.full([2], 7), torch.full([2], True)]


@pytest.mark.parametrize(
    ("version", "dtype"), [*((v, torch.float32) for v in (2, 3, 4, 10)), *((v, torch.int64) for v in (2, 3))]
)
def test_old_meanings(version: int, dtype: torch.dtype, tmp_path: Path) -> None:
    """The reference is PyTorch itself, which takes a file of any version as it was meant (and refuses `div_` of integers
    in one of version 4 and later)."""
    torch.jit.script(Quotients()).save(str(tmp_path / "new.pt"))
    old = tmp_path / "old.pt"
    with zipfile.ZipFile(tmp_path / "new.pt") as new, zipfile.ZipFile(old, "w") as archive:
        for name in new.namelist():
            inner = name.split("/", 1)[1]
            if inner not in ("version", ".data/version"):
                archive.writestr(name, new.read(name))
        archive.writestr("new/version", f"{version}\n")
    a, b = torch.tensor([7, -7, 5, -8]).to(dtype), torch.tensor([2, 2, -3, 3]).to(dtype)
    kind = str(dtype).removeprefix("torch.")
    expected = torch.jit.load(str(old))(a.clone(), b)
    out = tmp_path / "model.onnx"
    export(old, out, inputs=[f"a:{kind}[4]", f"b:{kind}[4]"])
    session = Session(out)
    compare(session.run(a, b), expected, outputs=session.outputs)
