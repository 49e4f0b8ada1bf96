"""What Python users see besides the file: printed results, notebooks, warnings, logs, and the commands as functions."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
import warnings
from pathlib import Path

import onnx
import pytest
import torch
from torch import nn

import lithify
from tests.driver import LITHIFY


class Divided(nn.Module):
    """A trace of it has a number that may be the size of the batch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(0) / int(x.shape[0])


@pytest.fixture
def traced(tmp_path: Path) -> Path:
    torch.jit.trace(Divided(), torch.ones(7, 3)).save(str(tmp_path / "divided.pt"))
    return tmp_path / "divided.pt"


def test_printed_result_is_the_table_of_the_command_line(tmp_path: Path) -> None:
    model = torch.jit.trace(nn.Linear(4, 2), torch.ones(3, 4))
    model.save(str(tmp_path / "model.pt"))
    result = lithify.export(model, (torch.ones(3, 4),), tmp_path / "model.onnx", dynamic_axes={"input": {0: "batch"}})
    command = [str(LITHIFY), "export", "model.pt", "--dynamic", "input:0=batch"]
    printed = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True).stdout.splitlines()
    ours = str(result).splitlines()
    assert ours[0] == f"{tmp_path / 'model.onnx'} (opset 18)"
    for label in ("  input ", "  output ", "  size ", "  nodes ", "  weights "):
        assert [x for x in ours if x.startswith(label)] == [x for x in printed if x.startswith(label)] != []


def test_table_of_a_notebook() -> None:
    result = lithify.export(nn.Linear(4, 2), (torch.ones(3, 4),), input_names=["<x>"])
    html = result._repr_html_()
    assert html.startswith("<table>") and "&lt;x&gt;: float32[3, 4]" in html and "<x>" not in html


@pytest.mark.parametrize("kind", ["str", "path", "file", "memory"])
def test_where_a_model_goes(kind: str, tmp_path: Path) -> None:
    path, stream = tmp_path / "model.onnx", io.BytesIO()
    where = {"str": str(path), "path": path, "file": stream, "memory": None}[kind]
    result = lithify.export(nn.Linear(4, 2), (torch.ones(3, 4),), where)
    contents = result.bytes or stream.getvalue() or path.read_bytes()
    onnx.checker.check_model(onnx.load_from_string(contents))


def test_warnings_have_the_line_of_the_model(traced: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lithify.convert(traced, traced.with_suffix(".onnx"), dynamic_axes={"x": {0: "batch"}})
    (warning,) = [w for w in caught if issubclass(w.category, lithify.ExportWarning)]
    line = Path(warning.filename).read_text().splitlines()[warning.lineno - 1]
    assert Path(warning.filename).name == Path(__file__).name and "int(x.shape[0])" in line
    assert str(warning.message).startswith("LTH064: ")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lithify.ExportWarning)
        lithify.convert(traced, traced.with_suffix(".onnx"), dynamic_axes={"x": {0: "batch"}})


def test_notes_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Viewed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.view(int(x.shape[0]), 2, 3)

    torch.jit.trace(Viewed(), torch.ones(5, 6)).save(str(tmp_path / "model.pt"))
    with caplog.at_level(logging.INFO, logger="lithify"):
        lithify.convert(tmp_path / "model.pt", tmp_path / "model.onnx", dynamic_axes={"x": {0: "batch"}})
    assert any(r.name == "lithify" and r.getMessage().startswith("LTH062 ") for r in caplog.records)


def test_commands_as_functions(traced: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "a.onnx", tmp_path / "b.onnx"
    lithify.convert(traced, first)
    lithify.convert(traced, second, opset_version=17)
    summary = lithify.show(first)
    assert dict(summary.opsets)["ai.onnx"] == 18 and [v.name for v in summary.inputs] == ["x"]
    assert "nodes" in str(summary) and not lithify.diff(first, first)
    changed = lithify.diff(first, second)
    assert changed and "+ opset ai.onnx 17" in str(changed) and changed.same_graph
    assert "aten::sum" in str(lithify.inspect(traced)) and "opset" in str(lithify.check(traced))
    with pytest.raises(lithify.ExportError, match="LTH002"):
        lithify.show(traced)


EXAMPLE = """
from pathlib import Path

import torch

import lithify

result = lithify.export(torch.nn.ReLU(), (torch.ones(2),), Path("model.onnx"), dynamic_axes={"input": {0: "batch"}})
path: Path | None = result.path
names: list[str] = [value.name for value in result.inputs]
nodes: dict[str, int] = result.nodes
holds: bool | None = result.claims.holds(batch=3)
summary = lithify.show("model.onnx")
largest: list[int] = [tensor.bytes for tensor in summary.largest]
changed: bool = bool(lithify.diff("model.onnx", "model.onnx"))
problems: list[str] = [message.code for message in lithify.check("model.pt").messages]
"""


def test_types_of_an_example(tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(EXAMPLE)
    package = Path(lithify.__file__).parents[1]
    # Without torch's own types, which take half a minute to read.
    flags = ["--strict", "--no-site-packages", "--ignore-missing-imports", "--follow-imports=silent"]
    command = [sys.executable, "-m", "mypy", *flags, "example.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={"MYPYPATH": str(package)})
    assert done.returncode == 0, done.stdout
