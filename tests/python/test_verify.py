"""lithify.verify: right models are right, and faults that are put into a file are caught and named."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from torch import nn

import lithify
from tests.cases import ROOT
from tests.driver import LITHIFY


class Picture(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.deep = nn.Conv2d(8, 8, 3, padding=1, groups=2)
        self.fc = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.conv(x.transpose(2, 3)))
        y = torch.cat([y, y - self.deep(y)], 1)
        return self.fc(y.mean((2, 3))).softmax(1)


class Sentence(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 12)
        self.lstm = nn.LSTM(12, 6, batch_first=True)
        self.norm = nn.LayerNorm(6)
        self.up = nn.Linear(6, 8)
        self.out = nn.Linear(8, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.lstm(self.embed(ids))[0])
        y = self.out(torch.tanh(self.up(y)) * 0.5)
        scores = (y @ y.transpose(1, 2)).softmax(-1)
        return (scores @ y).flatten(1)


MODELS: dict[str, tuple[nn.Module, torch.Tensor, dict[int, str]]] = {}
torch.manual_seed(0)
MODELS["picture"] = (Picture().eval(), torch.randn(2, 3, 9, 9), {0: "batch", 2: "height"})
MODELS["sentence"] = (Sentence().eval(), torch.randint(0, 20, (2, 5)), {0: "batch"})


def attribute(node: onnx.NodeProto, **values: Any) -> None:
    kept = [a for a in node.attribute if a.name not in values]
    del node.attribute[:]
    node.attribute.extend([*kept, *(onnx.helper.make_attribute(name, value) for name, value in values.items())])


def weight(model: onnx.ModelProto, name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    """Gives it other contents."""
    for i in model.graph.initializer:
        if i.name == name:
            i.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(change(numpy_helper.to_array(i).copy())), name))


def swapped_gates(w: np.ndarray) -> np.ndarray:
    i, o, f, c = np.split(w, 4, axis=1)
    return np.concatenate([o, i, f, c], axis=1)


Fault = Callable[[onnx.ModelProto, onnx.NodeProto], Any]
FAULTS: list[tuple[str, str, str, Fault]] = [  # what, model, node, how
    ("wrong axis of a softmax", "picture", "/Softmax", lambda m, n: attribute(n, axis=0)),
    ("wrong axis of another", "sentence", "/Softmax", lambda m, n: attribute(n, axis=1)),
    ("dropped bias of a convolution", "picture", "/deep/Conv", lambda m, n: n.input.pop()),
    ("dropped bias of a layer", "sentence", "/up/Add", lambda m, n: weight(m, n.input[1], lambda w: w * 0)),
    ("wrong epsilon", "sentence", "/norm/LayerNormalization", lambda m, n: attribute(n, epsilon=1e-3)),
    ("swapped gates", "sentence", "/lstm/LSTM", lambda m, n: weight(m, n.input[1], swapped_gates)),
    ("hard-coded size", "sentence", "/Reshape", lambda m, n: weight(m, n.input[1], lambda w: np.array([2, 20]))),
    ("wrong permutation", "picture", "/Transpose", lambda m, n: attribute(n, perm=[0, 1, 2, 3])),
    ("wrong function", "picture", "/Relu", lambda m, n: setattr(n, "op_type", "Sigmoid")),
    ("wrong padding", "picture", "/conv/Conv", lambda m, n: attribute(n, pads=[2, 1, 0, 1])),
    ("swapped operands", "picture", "/Sub", lambda m, n: n.input.reverse()),
    ("swapped order of parts", "picture", "/Concat", lambda m, n: n.input.reverse()),
    ("wrong factor", "sentence", "/Mul", lambda m, n: weight(m, n.input[1], lambda w: w / 2)),
    ("wrong groups of weights", "picture", "/deep/Conv", lambda m, n: weight(m, n.input[1], lambda w: np.roll(w, 4, 0))),
]


@pytest.mark.parametrize("name", MODELS)
def test_right(name: str, tmp_path: Path) -> None:
    model, x, axes = MODELS[name]
    result = lithify.export(model, x, tmp_path / "m.onnx", input_names=["x"], dynamic_axes={"x": axes}, verify=True)
    seen = lithify.verify(model, result, x)
    assert seen and len(seen.runs) >= 4
    assert "batch=1" in str(seen) and "right" in str(seen)


@pytest.mark.parametrize(("what", "name", "node", "fault"), FAULTS, ids=[f[0].replace(" ", "-") for f in FAULTS])
def test_seeded_fault(what: str, name: str, node: str, fault: Fault) -> None:
    model, x, axes = MODELS[name]
    file = onnx.load_from_string(lithify.export(model, x, input_names=["x"], dynamic_axes={"x": axes}).bytes or b"")
    fault(file, next(n for n in file.graph.node if n.name == node))
    del file.graph.value_info[:]  # or the checker would see some of them by their sizes
    seen = lithify.verify(model, file.SerializeToString(), x)
    assert not seen, f"{what} is not noticed"
    assert seen.divergence is not None and seen.divergence.node == node, str(seen)
    assert "test_verify.py:" in seen.divergence.source
    with pytest.raises(lithify.ExportError, match=node):
        seen.check()


def test_sizes_that_are_asked_for() -> None:
    model, x, axes = MODELS["picture"]
    result = lithify.export(model, x, input_names=["x"], dynamic_axes={"x": axes})
    seen = lithify.verify(model, result, x, sizes=[{"batch": 7}, {"height": 4, "batch": 1}])
    assert [r.what for r in seen.runs][-2:] == ["batch=7", "height=4, batch=1"]


def test_reference_in_a_file(tmp_path: Path) -> None:
    model, x, axes = MODELS["picture"]
    torch.jit.trace(model, x).save(str(tmp_path / "m.pt"))
    lithify.convert(tmp_path / "m.pt", tmp_path / "m.onnx", dynamic_axes={"x": axes})
    assert lithify.verify(tmp_path / "m.pt", tmp_path / "m.onnx", x)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "m.pt2")
    assert lithify.verify(tmp_path / "m.pt2", tmp_path / "m.onnx", x, sizes=[])


def test_command_line(tmp_path: Path) -> None:
    model, x, axes = MODELS["picture"]
    torch.jit.trace(model, x).save(str(tmp_path / "m.pt"))
    lithify.convert(tmp_path / "m.pt", tmp_path / "m.onnx", dynamic_axes={"x": axes})
    # As installed, the interpreter is beside the program, or on the path.
    env = os.environ | {"PYTHONPATH": str(ROOT / "python"), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def run(*args: str | Path) -> subprocess.CompletedProcess[str]:
        command = [str(LITHIFY), "verify", str(tmp_path / "m.pt"), *map(str, args)]
        return subprocess.run(command, capture_output=True, text=True, env=env, timeout=120)

    done = run(tmp_path / "m.onnx", "--size", "batch=5,height=4")
    assert done.returncode == 0 and "batch=5, height=4" in done.stdout, done.stderr
    torch.manual_seed(1)
    lithify.export(Picture(), x, tmp_path / "other.onnx")
    done = run(tmp_path / "other.onnx", "--size", "batch=2")
    assert done.returncode == 1 and "first at the node '/conv/Conv'" in done.stdout, done.stdout


def test_no_valid_model(tmp_path: Path) -> None:
    model, x, _ = MODELS["picture"]
    file = onnx.load_from_string(lithify.export(model, x).bytes or b"")
    file.graph.node[0].op_type = "NoSuchOperator"
    with pytest.raises(lithify.ExportError, match="checker"):
        lithify.verify(model, file.SerializeToString(), x)
