"""Complex numbers at the borders of a model, and where they are refused."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.driver import LITHIFY, Mismatch, Session, compare, export


class Apply(nn.Module):
    def __init__(self, fn: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return self.fn(z)


def saved(fn: Callable[[torch.Tensor], torch.Tensor], z: torch.Tensor, folder: Path) -> Path:
    path = folder / "model.pt"
    torch.jit.trace(Apply(fn), (z,)).save(str(path))
    return path


def test_complex_inputs_and_outputs_are_reported_as_pairs(tmp_path: Path) -> None:
    z = torch.randn(2, 3, dtype=torch.complex64)
    model, out = saved(lambda z: z * 2j, z, tmp_path), tmp_path / "model.onnx"
    done = subprocess.run([str(LITHIFY), "export", str(model), "-o", str(out)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "the output 'output' is complex64" in done.stdout + done.stderr
    session = Session(out)
    compare(session.run(z), [z * 2j], outputs=session.outputs)


@pytest.mark.parametrize("fn", [lambda z: z.var(), lambda z: z.prod(), lambda z: torch.linalg.vecdot(z, z), lambda z: z.std(0)])
def test_what_is_not_known_for_complex_numbers_is_refused(fn: Callable[[torch.Tensor], torch.Tensor], tmp_path: Path) -> None:
    model = saved(fn, torch.randn(2, 3, dtype=torch.complex64), tmp_path)
    with pytest.raises(Mismatch, match="complex numbers is not supported"):
        export(model, tmp_path / "model.onnx")
