"""C++ models through lithify::export_module (tests/libtorch/models.cpp): the files are right at all sizes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import onnx
import pytest
import torch

from tests.cases import ROOT
from tests.driver import LITHIFY, Session, compare

PROGRAM = LITHIFY.parent / "lithify_torch_models"
SOURCE = (ROOT / "tests" / "libtorch" / "models.cpp").read_text()
MODELS = re.findall(r'\bLAYER\(\s*"(\w+)"', SOURCE)
REFUSED = {
    "hidden_number": "LTH065: the traces diverge here: the number",
    "hidden_tensor": "LTH065: the traces diverge here: a constant tensor has other values",
    "branches_everywhere": "LTH065: the traces diverge here",
    "padded_to_four": "LTH065: the traces diverge here",
    "branch_on_contents": "LTH030: the model cannot be captured: its code reads a number from a tensor",
    "comparison": "LTH030: the model cannot be captured: its code checks whether two tensors are the same",
    "resize": "LTH030: the model cannot be captured: its code calls resize_as_",
    "one_size": "LTH030: the model runs at too few sizes of the dimension 'batch'",
    "no_result": "LTH030: the model cannot be captured: it returns no tensor",
    "too_many_inputs": "LTH030: the model cannot be captured: forward cannot be called with 2 inputs",
}

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="the build has no LibTorch")


def test_all_models_are_known() -> None:
    names = subprocess.run([PROGRAM], capture_output=True, text=True, check=True).stdout.split()
    assert names == [*MODELS, *REFUSED] and len(set(names)) == len(names)


@pytest.mark.parametrize("name", MODELS)
def test_model(name: str, tmp_path: Path) -> None:
    done = subprocess.run([PROGRAM, name, tmp_path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    onnx.checker.check_model(str(tmp_path / "model.onnx"), full_check=True)
    session = Session(tmp_path / "model.onnx")
    for run in range(4):
        inputs, expected = torch.load(tmp_path / f"{run}.pt", weights_only=False)
        compare(session.run(*inputs), expected, outputs=session.outputs)
    if name.startswith("loop_"):
        assert sum(n.op_type == "Loop" for n in onnx.load(tmp_path / "model.onnx").graph.node) == 1


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, tmp_path: Path) -> None:
    done = subprocess.run([PROGRAM, name, tmp_path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and REFUSED[name] in done.stderr, done.stderr
    assert not list(tmp_path.iterdir())
