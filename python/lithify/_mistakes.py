"""Common mistakes in a call of export: each is reported in one sentence that says what to pass instead."""

from __future__ import annotations

import difflib
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from lithify._errors import ExportError

if TYPE_CHECKING:
    from lithify._signature import Arguments

# Of which PyTorch has the bytes alone.
UNSUPPORTED_TYPES = {f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)} | {
    *(f"bits{layout}" for layout in ("8", "16", "1x8", "2x4", "4x2")),
    "float4_e2m1fn_x2",
}


def check_model(model: Any) -> None:
    kind = type(model).__name__
    if isinstance(model, type):
        raise ExportError(f"{model.__name__} is a class, not a model: pass an instance of it, such as {model.__name__}(...)")
    if isinstance(model, str | os.PathLike):
        raise ExportError(f"{os.fspath(model)!r} is a path, not a model: lithify.convert exports a model file")
    if isinstance(model, Mapping):
        raise ExportError(
            f"an object of type {kind} is not a model: a state_dict has weights and no code; build the model, load the weights "
            "by model.load_state_dict(...), and pass the model"
        )
    if not callable(model):
        raise ExportError(f"an object of type {kind} is not a model: pass an nn.Module, a ScriptModule or a function")


def check_arguments(args: Any) -> None:
    if isinstance(args, torch.Size):
        raise ExportError(f"args is the shape {list(args)}: pass tensors, such as (torch.randn({', '.join(map(str, args))}),)")
    if isinstance(args, Iterator):
        raise ExportError(f"args is an object of type {type(args).__name__}: pass a tuple of the arguments, such as tuple(args)")
    for i, value in enumerate(args if isinstance(args, tuple | list) else [args]):
        if type(value).__module__ == "numpy" and type(value).__name__ == "ndarray":
            raise ExportError(f"argument {i} is a NumPy array: pass a tensor, such as torch.from_numpy(array)")
        if isinstance(value, Iterator):
            raise ExportError(f"argument {i} is an object of type {type(value).__name__}, which can be read only once")


def check_like(first: Arguments, other: Arguments, axes: Sequence[Mapping[int, str]], what: str) -> None:
    """Another sample has the tensors of the first, with other sizes of dynamic axes alone."""
    if sorted(other.names) != sorted(first.names):
        raise ExportError(f"{what} has {', '.join(other.names) or 'nothing'}, and args {', '.join(first.names) or 'nothing'}")
    tensors = dict(zip(other.names, other.tensors, strict=True))
    for name, tensor, dynamic in zip(first.names, first.tensors, axes, strict=True):
        given = tensors[name]
        if given.dtype != tensor.dtype:
            raise ExportError(f"{name!r} is {given.dtype} in {what}, and {tensor.dtype} in args")
        named = {axis % tensor.dim() for axis in dynamic if -tensor.dim() <= axis < tensor.dim()}
        sizes = [list(enumerate(t.shape)) for t in (given, tensor)]
        if len({tuple(item for item in s if item[0] not in named) for s in sizes}) > 1 or given.dim() != tensor.dim():
            shapes = f"{list(given.shape)} in {what}, and {list(tensor.shape)} in args"
            raise ExportError(f"{name!r} is {shapes}: only axes in dynamic_axes can have other sizes")


def check_types(values: Iterable[tuple[str, Any]]) -> None:
    """Of arguments, and of what a state_dict has, which need not be tensors."""
    for name, value in values:
        kind = str(value.dtype).removeprefix("torch.") if isinstance(value, torch.Tensor) else ""
        if kind in UNSUPPORTED_TYPES:
            raise ExportError(
                f"{name!r} is a tensor of {kind}, in which neither PyTorch nor ONNX Runtime computes: pass or keep its bytes as "
                "uint8, and unpack them in the model"
            )


def check_names(what: str, names: Any) -> None:
    if names is None:
        return
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ExportError(f"{what} is {names!r}: pass a list of names, such as [{str(names)!r}]")
    for name in names:
        if not isinstance(name, str):
            raise ExportError(f"{what} has {name!r}, which is not a name")


def check_file(f: Any) -> None:
    if isinstance(f, io.TextIOBase):
        raise TypeError("f is open for text: open it for writing bytes, as open(path, 'wb') does")
    if f is not None and not isinstance(f, str | os.PathLike) and not hasattr(f, "write"):
        raise TypeError(f"f is a path, a file that is open for writing bytes, or None, not {f!r}")


def did_you_mean(name: Any, names: Iterable[str]) -> str:
    """The end of a message about a name that is not among these."""
    known = list(names)
    close = difflib.get_close_matches(str(name), known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"the names are {', '.join(known)}"


def other_device(root: torch.nn.Module | None, tensors: Iterable[torch.Tensor]) -> str:
    """What to do where the weights of a model that does not run are on another device than its sample; else nothing."""
    weights = {t.device.type for t in root.parameters()} if root is not None else set()
    if "meta" in weights:
        return "the weights of the model are on the device meta, so they have no values: load them first"
    given = {t.device.type for t in tensors}
    if not weights or not given or weights == given:
        return ""
    return (
        f"the weights of the model are on {', '.join(sorted(weights))} and the sample is on {', '.join(sorted(given))}: "
        "move one of them, such as by model.cpu()"
    )
