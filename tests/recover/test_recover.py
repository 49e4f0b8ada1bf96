"""Sizes that tracing hard-coded: recovered and right at every size, or refused with their line."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from tests.driver import LITHIFY, Names, Session, compare, export, export_command, flat, refusal, run
from tests.recover.corpus import CORPUS, OTHER_SIZES, SECOND_CAPTURE, SIZES, HardCoded

HARD_CODED = ("LTH061", "LTH064", "LTH042")
UNVERIFIED = "LTH064"
HIDDEN = (*HARD_CODED, "LTH063", "LTH066")

by_name = pytest.mark.parametrize("model", CORPUS, ids=lambda m: m.name)


@pytest.fixture(autouse=True)
def _quiet() -> object:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def trace(model: HardCoded, at: dict[str, int], path: Path) -> Path:
    torch.jit.trace(model.module(), model.inputs(at), check_trace=False).save(str(path))
    return path


def axes(model: HardCoded) -> Names:
    return {
        name: {i: d for i, d in enumerate(shape) if isinstance(d, str)} for name, shape in zip("xy", model.shapes, strict=False)
    }


def check_sizes(model: HardCoded, onnx_file: Path) -> None:
    session = Session(onnx_file)
    eager = model.module()
    for at in [SIZES, *OTHER_SIZES]:
        inputs = model.inputs(at)
        compare(session.run(*inputs), flat(eager(*inputs)), outputs=session.outputs)


def refused(model: HardCoded, pt: Path, *codes: str, flags: Sequence[str] = ()) -> None:
    """The export is refused with errors of these codes, and a message has a line of the model."""
    out = pt.with_suffix(".onnx")
    messages = refusal(run(export_command(pt, out, dynamic=axes(model), flags=flags)), *codes, out=out)
    lines, first = inspect.getsourcelines(model.forward)
    places = [int(n) for n in re.findall(r"corpus\.py:(\d+)", messages)]
    assert any(first <= n < first + len(lines) for n in places), messages


@by_name
def test_one_capture(model: HardCoded, tmp_path: Path) -> None:
    pt = trace(model, SIZES, tmp_path / "model.pt")
    if model.one == "refused":
        refused(model, pt, *HARD_CODED)
    elif model.one == "unverified":
        refused(model, pt, UNVERIFIED, flags=["--strict"])
    elif model.one == "right":
        export(pt, tmp_path / "model.onnx", dynamic=axes(model))
        check_sizes(model, tmp_path / "model.onnx")


@by_name
def test_two_captures(model: HardCoded, tmp_path: Path) -> None:
    pt = trace(model, SIZES, tmp_path / "model.pt")
    also = ["--also", str(trace(model, SECOND_CAPTURE, tmp_path / "other.pt"))]
    if model.two == "refused":
        refused(model, pt, "LTH065", "LTH042", flags=also)  # they diverge, or a size is where ONNX has a constant
    else:
        export(pt, tmp_path / "model.onnx", dynamic=axes(model), flags=also)
        check_sizes(model, tmp_path / "model.onnx")


def test_refusal_on_request(tmp_path: Path) -> None:
    model = next(m for m in CORPUS if m.name == "view_of_ints")
    refused(model, trace(model, SIZES, tmp_path / "model.pt"), "LTH061", flags=["--no-recover"])


def test_report(tmp_path: Path) -> None:
    """Recovered sizes and constraints are reported as JSON, and are in the file."""
    model = next(m for m in CORPUS if m.name == "window_partition")
    pt = trace(model, SIZES, tmp_path / "model.pt")
    command = [*export_command(pt, tmp_path / "model.onnx", dynamic=axes(model)), "--json"]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)
    found = {d["name"]: d for d in report["dimensions"]}
    assert found["height"]["constraints"] == ["height % 4 == 0"]
    assert found["width"]["constraints"] == ["width % 4 == 0"]
    assert found["batch"]["constraints"] == [] and found["batch"]["recovered"] > 0
    notes = [m for m in report["messages"] if m["code"] == "LTH062"]
    lines, first = inspect.getsourcelines(model.forward)
    assert all(m["file"].endswith("corpus.py") and first <= m["line"] < first + len(lines) for m in notes)
    properties = {p.key: p.value for p in Session(tmp_path / "model.onnx").model.metadata_props}
    assert properties["lithify.dimension.height"].startswith("any size where height % 4 == 0")


HIDING = {
    "one": {"batch": 1},
    "step": {"seq": 1},
    "ones": {"batch": 1, "seq": 1, "source": 1, "height": 4, "width": 4},
    "colliding": {"batch": 4, "seq": 16},
}
# At a single step, these are a first step: nothing but a position in the dimension itself is left of the loop or the shift.
ONE_STEP = {"loop_over_steps", "sum_over_steps", "state_that_the_last_step_leaves", "shifted"}


@pytest.mark.parametrize("sample", HIDING)
@by_name
def test_sample_that_hides_sizes(model: HardCoded, sample: str, tmp_path: Path) -> None:
    """A 1 may be any other 1, and a 16 a width: right at every size or refused; wrong only if reported as unverified."""
    pt = trace(model, {**SIZES, **HIDING[sample]}, tmp_path / "model.pt")
    out = tmp_path / "exported.onnx"
    done = run([word for word in export_command(pt, out, dynamic=axes(model)) if word != "-q"])
    if done.returncode != 0:
        refusal(done, *HIDDEN, out=out)
    elif model.one == "unverified" or (model.name in ONE_STEP and HIDING[sample].get("seq") == 1):
        assert f"warning {UNVERIFIED}" in done.stderr
        refused(model, pt, UNVERIFIED, flags=["--strict"])
    elif model.one != "unseen":
        check_sizes(model, out)


@pytest.mark.parametrize("name", ["positions", "positions_from_numpy", "causal_mask", "mask_from_buffer", "chunks_of_the_batch"])
def test_broadcast_one(name: str, tmp_path: Path) -> None:
    """A 1 that comes from a constant, and is broadcast to a dimension of size 1, may be that dimension."""
    model = next(m for m in CORPUS if m.name == name)
    refused(model, trace(model, {**SIZES, **HIDING["ones"]}, tmp_path / "model.pt"), "LTH063")


@pytest.mark.parametrize("name", ["attention", "positions", "mean_by_division"])
def test_two_exported_programs(name: str, tmp_path: Path) -> None:
    """Sizes that torch.export fixed are opened by a second program of other sizes."""
    model = next(m for m in CORPUS if m.name == name)
    files = []
    for at in (SIZES, SECOND_CAPTURE):
        files.append(tmp_path / f"{at['batch']}.pt2")
        torch.export.save(torch.export.export(model.module(), model.inputs(at)), files[-1])
    out = tmp_path / "model.onnx"
    refusal(run(export_command(files[0], out, dynamic=axes(model))), "LTH061", out=out)
    export(files[0], tmp_path / "model.onnx", dynamic=axes(model), flags=["--also", str(files[1])])
    check_sizes(model, tmp_path / "model.onnx")


def test_discovery(tmp_path: Path) -> None:
    model = next(m for m in CORPUS if m.name == "attention")
    pt = trace(model, SIZES, tmp_path / "model.pt")
    export(pt, tmp_path / "model.onnx", flags=["--dynamic", "auto"], names={"x": {0: "x_0", 1: "x_1"}})
    check_sizes(model, tmp_path / "model.onnx")
    command = [str(LITHIFY), "inspect", "--dynamic", "--json", str(pt)]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)
    assert report["dynamic_inputs"][0]["shape"] == ["x_0", "x_1", 16]
    assert [d["name"] for d in report["dimensions"]] == ["x_0", "x_1"]


def test_colliding_sizes(tmp_path: Path) -> None:
    """A batch of 2 beside 2 heads: the reshape that keeps dimensions in their places is chosen."""

    def heads(x: torch.Tensor) -> torch.Tensor:
        b, t = int(x.shape[0]), int(x.shape[1])
        return x.view(b, t, 2, 8).transpose(1, 2).reshape(b, 2, t * 8)

    model = HardCoded("heads", heads, (("batch", "seq", 16),), "right", "right")
    pt = trace(model, {**SIZES, "batch": 2}, tmp_path / "model.pt")
    export(pt, tmp_path / "model.onnx", dynamic=axes(model))
    check_sizes(model, tmp_path / "model.onnx")
