"""Model files: the core by itself, without torch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from lithify import _core

PathLike = str | os.PathLike[str]
Opset = int | str  # a number, "latest", or a runtime, whose newest opset it stands for: "ort-1.17"


def convert(
    model: PathLike,
    out: PathLike,
    *,
    opset_version: Opset = _core.default_opset,
    inputs: Sequence[str] = (),
    dynamic_axes: Mapping[str, Mapping[int, str]] | None = None,
    input_names: Sequence[str] = (),
    output_names: Sequence[str] = (),
    custom_ops: PathLike | None = None,
    allow_custom: bool = False,
    external_data: Literal["auto", "always", "never"] = "auto",
    state: Literal["error", "io", "frozen"] = "error",
    also: Sequence[PathLike] = (),
    recover: Literal["never", "decided", "guess"] = "decided",
    strict: bool = False,
) -> _core.ExportResult:
    """Writes a file of torch.jit.save or torch.export.save as ONNX. `inputs` says what the file does not:
    "x:float32[batch,3,224,224]". `also` has captures of the same model at other sizes; docs/sizes.md says what they are good
    for, and what `recover` and `strict` do."""
    result, _ = _core.export_model(
        os.fspath(model),
        {},
        os.fspath(out),
        opset=opset_of(opset_version),
        inputs=list(inputs),
        dynamic_axes=_plain(dynamic_axes),
        input_names=list(input_names),
        output_names=list(output_names),
        custom_ops=declarations(custom_ops),
        allow_custom=allow_custom,
        external_data=external_data,
        progress=None,
        state=state,
        also=[(os.fspath(other), {}) for other in also],
        recover=recover,
        strict=strict,
        left=None,
        plugins=[],
        custom_opsets={},
    )
    return result


def check(
    model: PathLike,
    *,
    opset_version: Opset = _core.default_opset,
    inputs: Sequence[str] = (),
    dynamic_axes: Mapping[str, Mapping[int, str]] | None = None,
    custom_ops: PathLike | None = None,
    allow_custom: bool = False,
) -> _core.CheckResult:
    """Whether a model file can be exported, with every reason why not. True or false as a condition."""
    return _core.check_model(
        os.fspath(model),
        {},
        opset=opset_of(opset_version),
        inputs=list(inputs),
        dynamic_axes=_plain(dynamic_axes),
        custom_ops=declarations(custom_ops),
        allow_custom=allow_custom,
    )


def inspect(model: PathLike) -> _core.InspectResult:
    """What is in a model file."""
    return _core.inspect_model(os.fspath(model))


def opset_of(asked: Opset | None) -> int:
    if asked is None:
        return _core.default_opset
    if isinstance(asked, str):
        return _core.highest_opset if asked == "latest" else _core.opset_for(asked)
    return asked


def declarations(custom_ops: PathLike | None) -> str:
    """The text of a file of custom operators."""
    return Path(custom_ops).read_text() if custom_ops is not None else ""


def _plain(axes: Mapping[str, Mapping[int, str]] | None) -> dict[str, dict[int, Any]]:
    return {name: dict(dims) for name, dims in (axes or {}).items()}
