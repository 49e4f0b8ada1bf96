"""The whole models through lithify.export, from the live module to a file that is right at all sizes."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch

import lithify
from lithify._capture import live_weights
from tests.driver import Session, compare, flat
from tests.models import MODELS, Model


def right(made: Model, path: Path) -> None:
    """At all sizes for small models; the files of large ones are compared at all sizes in tests/test_models.py."""
    session = Session(path)
    small = sum(p.numel() for p in made.module.parameters()) < 1e6
    with torch.no_grad():
        for run in made.runs if small else made.runs[-1:]:
            expected = flat(made.module(*run))
            scale = max(1.0, *(float(e.abs().max()) for e in expected))
            compare(session.run(*run), expected, rtol=1e-3, atol=2e-4 * scale, outputs=session.outputs)


@pytest.mark.parametrize("name", MODELS)
def test_live_model(name: str, tmp_path: Path) -> None:
    made = MODELS[name]()
    out = tmp_path / "model.onnx"
    result = lithify.export(made.module, made.runs[0], out, dynamic_axes=made.dynamic)
    assert result.capture == "trace", result.why
    assert [i.name for i in result.inputs] == made.names
    for value, axes in zip(result.inputs, made.axes, strict=True):
        assert {a: value.shape[a] for a in axes} == axes
    right(made, out)
    names = set(live_weights(made.module)[0])
    large = [i.name for i in onnx.load(str(out)).graph.initializer if len(i.raw_data) > 1 << 16]
    assert any(n in names for n in large) or not large, "weights have the names of the state dict"
