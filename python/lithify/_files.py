"""Model files: the core by itself, without torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from lithify import _core
from lithify._messages import announce

PathLike = str | os.PathLike[str]
Opset = int | str  # a number, "latest", or a runtime, whose newest opset it stands for: "ort-1.17", "tensorrt-8.6"
Recover = Literal["never", "decided", "guess"]
State = Literal["error", "io", "frozen"]
Weights = Literal["unchanged", "int8", "uint8", "int4", "uint4"]
Precision = Literal["unchanged", "float16", "bfloat16"]


def convert(
    model: PathLike,
    out: PathLike,
    *,
    opset_version: Opset | None = None,
    target: str = "",
    inputs: Sequence[str] = (),
    dynamic_axes: Mapping[str, Mapping[int, str]] | None = None,
    discover: bool = False,
    input_names: Sequence[str] = (),
    output_names: Sequence[str] = (),
    also: Sequence[PathLike] = (),
    recover: Recover = "decided",
    strict: bool = False,
    state: State = "error",
    unroll: int = 128,
    budget: int = 1,
    custom_ops: PathLike | None = None,
    custom_opsets: Mapping[str, int] | None = None,
    allow_custom: bool = False,
    external_data: Literal["auto", "always", "never"] = "auto",
    weights: Weights = "unchanged",
    weights_block: int = 32,
    precision: Precision = "unchanged",
    keep_weights: Sequence[str] = (),
    skip_sync: bool = False,
    progress: Callable[[int, int], None] | None = None,
    self_check: bool = False,
) -> _core.ExportResult:
    """Writes a file of torch.jit.save or torch.export.save as ONNX. `inputs` has types and sizes that the file lacks:
    "x:float32[batch,3,224,224]". docs/python.md describes all arguments."""
    chosen = _chosen(locals())
    result, _ = _core.export_model(_path_of(model), {}, os.fspath(out), chosen)
    announce(result.messages)
    return result


def check(
    model: PathLike,
    *,
    opset_version: Opset | None = None,
    target: str = "",
    inputs: Sequence[str] = (),
    dynamic_axes: Mapping[str, Mapping[int, str]] | None = None,
    discover: bool = False,
    input_names: Sequence[str] = (),
    output_names: Sequence[str] = (),
    also: Sequence[PathLike] = (),
    recover: Recover = "decided",
    strict: bool = False,
    state: State = "error",
    unroll: int = 128,
    budget: int = 1,
    custom_ops: PathLike | None = None,
    custom_opsets: Mapping[str, int] | None = None,
    allow_custom: bool = False,
    self_check: bool = False,
) -> _core.CheckResult:
    """Checks whether `convert` can export a model file with these arguments, and finds every reason why not. The result
    is true or false as a condition."""
    chosen = _chosen(locals())
    return _core.check_model(_path_of(model), {}, chosen)


def _path_of(model: Any) -> str:
    if not isinstance(model, str | bytes | os.PathLike):
        raise TypeError(
            f"an object of type {type(model).__name__} is not the path of a model file: lithify.export exports models"
        )
    return os.fsdecode(model)


def _chosen(arguments: Mapping[str, Any]) -> _core.Options:
    """The options of a call of `convert` or `check`, of all its arguments by name."""
    given = {name: value for name, value in arguments.items() if name not in ("model", "out") and value is not None}
    given["opset"] = opset_of(given.pop("opset_version", None))
    given["custom_ops"] = declarations(given.get("custom_ops"))
    given["also"] = [(os.fspath(other), {}) for other in given["also"]]
    return options(**given)


def options(**values: Any) -> _core.Options:
    """Options of the core, by their names there."""
    out = _core.Options()
    for name, value in values.items():
        try:
            setattr(out, name, value)
        except TypeError:
            raise TypeError(f"{name} cannot be {value!r}") from None
    return out


def inspect(model: PathLike) -> _core.InspectResult:
    """Reads a model file without exporting it."""
    return _core.inspect_model(os.fspath(model))


def show(model: PathLike) -> _core.OnnxSummary:
    """Summarizes an ONNX file of any exporter, without torch. Printed, it is the table of `lithify show`."""
    return _core.show_file(os.fspath(model))


def diff(before: PathLike, after: PathLike) -> _core.DiffResult:
    """Compares two ONNX files of any exporters, without torch. The result is true where they differ; printed, it is the text of
    `lithify diff`."""
    return _core.diff_files(os.fspath(before), os.fspath(after))


def claims(file: PathLike | bytes) -> _core.Claims:
    """Reads what an ONNX file claims, from its path or its bytes: at which sizes its results are those of the model. Raises
    ExportError for a file that Lithify did not write."""
    return _core.read_claims(file if isinstance(file, bytes) else os.fspath(file))


def opset_of(asked: Opset | None) -> int | None:
    """The number of an opset. None leaves the choice to the core."""
    if asked is None:
        return None
    if asked == "latest":
        return _core.highest_opset
    if isinstance(asked, str) and "-" in asked:
        return _core.opset_for(asked)
    if isinstance(asked, bool) or not isinstance(asked, int):
        raise ValueError(f"opset_version is an integer such as 18, 'latest', or a runtime such as 'ort-1.17', not {asked!r}")
    return asked


def declarations(custom_ops: PathLike | None) -> str:
    """The text of a file of custom operators."""
    return Path(custom_ops).read_text() if custom_ops is not None else ""
