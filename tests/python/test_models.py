"""The whole models through lithify.export, from the live module to a file that is right at all sizes.

Every day, the small ones and a few of the large; with --every all of them, by every way of capture that torch has for them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
import pytest
import torch

import lithify
from lithify import _core, _samples
from lithify._capture import live_weights
from tests.models import MODELS, Inputs, Model

SIZES = 5
SOME = ["linear", "rnn", "lstm", "gru", "view_shape", "view_product", "cnn", "encoder", "tagger"]
SOME += ["resnet18", "mobilenet_v3_small", "llama", "t5_small"]
ALL = [*((name, "auto") for name in MODELS), *((name, how) for how in ("trace", "export") for name in MODELS)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    every = metafunc.config.getoption("--every")
    rows = ALL if every else [(name, "auto") for name in SOME]
    metafunc.parametrize(("name", "how"), rows, ids=[f"{name}-{how}" for name, how in rows])


def runs(made: Model) -> list[Inputs]:
    """At five sizes, the sample's among them."""
    sample = _samples.sizes(made.runs[0], made.axes)
    more = map(dict, _core.other_sizes(list(sample.items())))
    return [*made.runs, *(tuple(_samples.resized(made.runs[0], made.axes, at)) for at in more)][:SIZES]


def test_live_model(name: str, how: str, tmp_path: Path) -> None:
    made = MODELS[name]()
    out = tmp_path / "model.onnx"
    try:
        result = lithify.export(made.module, made.runs[0], out, dynamic_axes=made.dynamic, capture=how)  # type: ignore[arg-type]
    except lithify.ExportError as error:
        if how == "export" and ("torch.export cannot capture" in str(error) or "has the fixed size" in str(error)):
            pytest.skip(str(error).splitlines()[0])
        raise
    assert how != "auto" or result.capture == "trace", result.why
    assert [i.name for i in result.inputs] == made.names
    for value, axes in zip(result.inputs, made.axes, strict=True):
        assert {a: value.shape[a] for a in axes} == axes
    with torch.no_grad():
        replace(made, runs=runs(made)).check(out)
    names = set(live_weights(made.module)[0])
    large = [i.name for i in onnx.load(str(out)).graph.initializer if len(i.raw_data) > 1 << 16]
    assert any(n in names for n in large) or not large, "weights have the names of the state dict"
