"""The arguments of a call of export: what belongs to which parameter of forward, as flat named tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from lithify import _caches
from lithify._errors import ExportError
from lithify._structure import Leaves, Rebuild, flatten, is_quantized, join, tensor_of, unique


@dataclass
class Arguments:
    """The sample arguments. `names` are those of the tensors in them, `tensors` the tensors, both in the order of forward."""

    names: list[str]
    tensors: list[torch.Tensor]
    numbers: list[bool | int | float | None]  # what was given where a tensor stands for a number
    structure: dict[str, Any]  # by parameter, as given
    quantized: dict[str, torch.Tensor]  # by name, those of which `tensors` has the dequantized values
    made: Callable[[Sequence[Any]], dict[str, Any]] = field(repr=False)  # arguments by parameter, from the tensors
    by_name: frozenset[str]  # parameters that are passed by name
    counters: list[tuple[_caches.Counter, Callable[[_caches.Values], Any]]] = field(default_factory=list, repr=False)

    def rebuild(self, tensors: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call, with these tensors in them."""
        made = self.made(tensors)
        for counter, of in self.counters:
            _caches.put(made, counter.path, of(made))
        return self.positional(made), self.keywords(made)

    def positional(self, made: dict[str, Any]) -> list[Any]:
        return [value for name, value in made.items() if name not in self.by_name]

    def keywords(self, made: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in made.items() if name in self.by_name}

    def without(self, index: int) -> Arguments:
        """The arguments with a number as it was given, and no tensor in its place."""
        number = self.numbers[index]

        def made(tensors: Sequence[Any]) -> dict[str, Any]:
            return self.made([*tensors[:index], number, *tensors[index:]])

        names, tensors, numbers = ([*x[:index], *x[index + 1 :]] for x in (self.names, self.tensors, self.numbers))
        return replace(self, names=names, tensors=tensors, numbers=numbers, made=made)


def split_kwargs(args: Any, kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """As torch.onnx.export has it: a dict at the end of args is kwargs, unless kwargs is given or an empty dict follows it."""
    args = tuple(args) if isinstance(args, tuple | list) else (args,)
    if kwargs is not None:
        return args, dict(kwargs)
    if args and isinstance(args[-1], dict):
        return args[:-1], dict(args[-1])
    return args, {}


def bind(call: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Arguments:
    """Flattens the arguments in the order of the parameters of `call`. Raises ExportError when they do not fit."""
    leaves: Leaves = []
    parts: dict[str, Rebuild] = {}
    named: list[str] = []  # what is passed by name
    structure: dict[str, Any] = {}
    others: Leaves = []
    for name, kind, value in _bound(call, args, kwargs):
        structure[name] = value
        parts[name] = flatten(value, name, leaves, others)
        if kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
            named.append(name)
    for name, value in others:
        _caches.check_argument(value, name)

    def made(tensors: Sequence[Any]) -> dict[str, Any]:
        rest = iter(tensors)
        return {name: part(rest) for name, part in parts.items()}

    numbers = [None if isinstance(v, torch.Tensor) else v for _, v in leaves]
    names, tensors = unique([n for n, _ in leaves]), [tensor_of(v) for _, v in leaves]
    quantized = {name: v for name, (_, v) in zip(names, leaves, strict=True) if is_quantized(v)}
    return Arguments(names, tensors, numbers, structure, quantized, made, frozenset(named))


def _signature(call: Callable[..., Any]) -> inspect.Signature:
    """Also of a method of TorchScript, which has a schema."""
    schema = getattr(call, "schema", None)
    if schema is None:
        return inspect.signature(call)
    kind, none = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
    # The module itself comes first, whatever its name is.
    arguments = [a for i, a in enumerate(schema.arguments) if i > 0 or a.type.kind() != "ClassType"]
    return inspect.Signature(
        [inspect.Parameter(a.name, kind, default=a.default_value if a.has_default_value() else none) for a in arguments]
    )


def _bound(call: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Name, kind and value of each argument."""
    kinds = inspect.Parameter
    try:
        signature = _signature(call)
    except (TypeError, ValueError):  # something built in
        return [(f"input_{i}", kinds.POSITIONAL_ONLY, v) for i, v in enumerate(args)] + [
            (name, kinds.KEYWORD_ONLY, v) for name, v in kwargs.items()
        ]
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        shown = ", ".join(str(p) for p in signature.parameters.values())
        raise ExportError(f"the arguments do not fit forward({shown}): {error}") from None
    out: list[tuple[str, Any, Any]] = []
    skipped = False
    for name, parameter in signature.parameters.items():
        if name not in bound.arguments:
            skipped = True
            continue
        value = bound.arguments[name]
        if parameter.kind is kinds.VAR_POSITIONAL:
            out += [(join(name, i), kinds.VAR_POSITIONAL, v) for i, v in enumerate(value)]
        elif parameter.kind is kinds.VAR_KEYWORD:
            out += [(key, kinds.VAR_KEYWORD, v) for key, v in value.items()]
        else:
            by_name = skipped and parameter.kind is kinds.POSITIONAL_OR_KEYWORD
            out.append((name, kinds.KEYWORD_ONLY if by_name else parameter.kind, value))
    return out
