"""Committed model files of older releases of PyTorch (tests/data/make.py wrote them)."""

from __future__ import annotations

import json
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
