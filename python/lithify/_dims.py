"""Dynamic dimensions: from what torch.onnx.export takes to names of axes of named inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from lithify import _caches, _core
from lithify._errors import ExportError
from lithify._mistakes import did_you_mean
from lithify._signature import Arguments
from lithify._structure import NUMBERS, _children

Axes = dict[str, dict[int, str]]
Bounds = dict[str, tuple[int, int | None]]  # the least and the largest size of dimensions


def from_axes(dynamic_axes: Mapping[str, Any]) -> Axes:
    """`{"x": {0: "batch"}}`, or `{"x": [0]}`, whose names are those that torch.onnx.export gives."""
    out: Axes = {}
    if not isinstance(dynamic_axes, Mapping):
        raise ExportError(f"dynamic_axes is {dynamic_axes!r}: pass a dict such as {{'x': {{0: 'batch'}}}}, or 'auto'")
    for name, axes in dynamic_axes.items():
        if isinstance(axes, Mapping):
            out[name] = {_axis(name, a): _dimension(name, d) for a, d in axes.items()}
        elif isinstance(axes, Sequence) and not isinstance(axes, str):
            out[name] = {_axis(name, a): f"{name}_dynamic_axes_{i + 1}" for i, a in enumerate(axes)}
        else:
            raise ExportError(f"dynamic_axes of '{name}' is neither a dict from axes to names nor a list of axes: {axes!r}")
    return out


def _axis(name: str, axis: Any) -> int:
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise ExportError(f"dynamic_axes of '{name}' has the axis {axis!r}, which is not an integer")
    return axis


def _dimension(name: str, dimension: Any) -> str:
    if isinstance(dimension, int):
        raise ExportError(f"dynamic_axes of '{name}' has {dimension!r} for the name of a dimension: pass a text, such as 'batch'")
    return str(dimension)


def with_windows(axes: Axes, arguments: Arguments) -> tuple[Axes, Bounds]:
    """The axes with formulas for the lengths of layers that keep the last tokens of the past only. What the user calls the length
    of the past is that of all tokens: `past` is `Min(past, 7)` there. Where no other axis has it, it follows from the mask.
    Without a mask, a full window does not show how long the past is, and positions that are given do: the length has a bound."""
    windows = {n: w for n, w in _caches.windows(arguments.structure).items() if 2 in axes.get(n, {})}
    bounds: Bounds = {}
    if not windows:
        return axes, bounds
    out = {name: dict(named) for name, named in axes.items()}
    others = [label for name, named in axes.items() for axis, label in named.items() if name not in windows or axis != 2]
    mask, tokens = out.get("attention_mask", {}), out.get("input_ids") or out.get("inputs_embeds", {})
    for name, window in windows.items():
        label = axes[name][2]
        if label not in others and not (1 in mask and 1 in tokens):
            bounds[label] = 0, window if "position_ids" in arguments.names else window - 1
            continue
        if label not in others:
            if not mask[1].isidentifier():
                mask[1] = "total"
            label = f"{mask[1]}-{tokens[1]}"
        out[name][2] = f"Min({label}, {window})"
    return out, bounds


def from_shapes(dynamic_shapes: Any, arguments: Arguments, names: Sequence[str]) -> tuple[Axes, Bounds]:
    """`dynamic_shapes` of torch.export: a dict by parameter, or a sequence in their order; nested as the arguments are."""
    described: dict[int, Any] = {}  # by the tensor's number
    counter = iter(range(len(arguments.tensors)))
    given = arguments.structure
    if isinstance(dynamic_shapes, Mapping):
        for name in dynamic_shapes:
            if name not in given:
                raise ExportError(f"dynamic_shapes names {name!r}, which is not an argument: {did_you_mean(name, given)}")
        pairs = [(value, dynamic_shapes.get(name)) for name, value in given.items()]
    else:
        shapes = list(dynamic_shapes)
        if len(shapes) == 1 and len(given) > 1 and isinstance(shapes[0], tuple | list):  # *args are one parameter
            shapes = list(shapes[0])
        if len(shapes) != len(given):
            raise ExportError(f"dynamic_shapes has {len(shapes)} entries for {len(given)} arguments ({', '.join(given)})")
        pairs = list(zip(given.values(), shapes, strict=True))
    for value, shape in pairs:
        _match(value, shape, counter, described)
    out: Axes = {}
    bounds: Bounds = {}
    for i, shape in described.items():
        axes = _shape_axes(shape, arguments.tensors[i], names[i], bounds)
        if axes:
            out[names[i]] = axes
    _check_formulas(out)
    return out, bounds


def _check_formulas(axes: Axes) -> None:
    """Raises ExportError for a dimension that is a formula of one that no axis is."""
    sizes = [(label, 1) for named in axes.values() for label in named.values() if label.isidentifier()]
    for name, named in axes.items():
        for axis, label in named.items():
            if not label.isidentifier() and _core.tied_size(label, sizes) is None:
                raise ExportError(
                    f"axis {axis} of '{name}' is {label}: a dimension that is a formula of others needs an axis for each of them"
                )


def _match(value: Any, shape: Any, counter: Any, described: dict[int, Any]) -> None:
    """Pairs the tensors in `value`, in the order of flattening, with what `shape` has for them."""
    if isinstance(value, torch.Tensor):
        described[next(counter)] = shape
        return
    if isinstance(value, NUMBERS):
        next(counter)
        return
    found = _children(value, "")
    if found is None:
        return
    children = found[0]
    if shape is None:
        parts: list[Any] = [None] * len(children)
    elif isinstance(shape, Mapping) and isinstance(value, Mapping):
        parts = [shape.get(key) for key in value]
    elif isinstance(shape, tuple | list):
        parts = [p for s in shape for p in (s if _nested_pairs(s, len(shape), len(children)) else [s])]
    else:
        parts = [getattr(shape, "get", lambda _n: None)(name) for name, _ in children]
    if len(parts) != len(children):
        raise ExportError(f"dynamic_shapes has {len(parts)} entries for an argument of {len(children)} tensors")
    for (_, child), part in zip(children, parts, strict=True):
        _match(child, part, counter, described)


def _nested_pairs(shape: Any, given: int, wanted: int) -> bool:
    """Whether one list of keys and one of values, or a pair for each layer, stands for a cache's tensors."""
    return given != wanted and isinstance(shape, tuple | list)


def _shape_axes(shape: Any, tensor: torch.Tensor, name: str, bounds: Bounds) -> dict[int, str]:
    if shape is None:
        return {}
    rank = tensor.dim()
    if isinstance(shape, Mapping):
        entries = {(a + rank if a < 0 else a): d for a, d in shape.items()}
    elif isinstance(shape, tuple | list):
        if len(shape) != rank:
            raise ExportError(f"dynamic_shapes of '{name}' has {len(shape)} entries, and the tensor has {rank} dimensions")
        entries = dict(enumerate(shape))
    else:
        raise ExportError(f"dynamic_shapes of '{name}' is {shape!r}: a dict, a tuple or None is wanted")
    out: dict[int, str] = {}
    for axis, dim in entries.items():
        label = _dim_name(dim, name, axis, tensor, bounds)
        if label is not None:
            out[axis] = label
    return out


def _dim_name(dim: Any, name: str, axis: int, tensor: torch.Tensor, bounds: Bounds) -> str | None:
    """The name of a dimension; None for one that stays as it is. Its bounds are added to `bounds`."""
    if dim is None or dim is torch.export.Dim.STATIC:
        return None
    if isinstance(dim, str):
        return dim
    if dim is torch.export.Dim.AUTO or dim is torch.export.Dim.DYNAMIC or type(dim).__name__ == "_DimHint":
        return None if "STATIC" in str(dim) else f"{name}_dim_{axis}"
    if isinstance(dim, int):
        if dim != tensor.shape[axis]:
            raise ExportError(f"dynamic_shapes sets axis {axis} of '{name}' to {dim}; the sample has {tensor.shape[axis]}")
        return None
    label = getattr(dim, "__name__", None)
    if label is None:
        raise ExportError(f"axis {axis} of '{name}' is {dim!r}, which is not a dimension of torch.export")
    least, most = getattr(dim, "min", 0), getattr(dim, "max", None)
    if tensor.shape[axis] < least or (most is not None and tensor.shape[axis] > most):
        raise ExportError(f"axis {axis} of '{name}' is {tensor.shape[axis]} in the sample; {label} is from {least} to {most}")
    if str(label).isidentifier():  # the bounds of a formula are those of the dimensions in it
        bounds[str(label)] = int(least), most if isinstance(most, int) and most < _UNLIMITED else None
    return str(label)


_UNLIMITED = 2**31  # torch.export has a large number for the largest size of a dimension without one
