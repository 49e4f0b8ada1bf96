"""Which axes of a model's inputs are dynamic, and as which formulas of the dimensions: found by arguments at other sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lithify._signature import bind

Axes = dict[str, dict[int, str]]
TOTAL = "total_sequence_length"  # where no axis is the length of the past


def dynamic_axes(call: Callable[..., Any], arguments: Callable[..., dict[str, Any]], sample: Mapping[str, int]) -> Axes:
    """The axes by name of the input. `arguments` makes those of `call` at given sizes of the dimensions, in their order. A size
    is a sum of multiples of the dimensions: each counts as often as the size grows with it."""
    base = _shapes(call, arguments(*sample.values()))
    grown = {}
    for name in sample:
        others = {other: size + (other == name) for other, size in sample.items()}
        grown[name] = _shapes(call, arguments(*others.values()))
    axes: Axes = {}
    for tensor, sizes in base.items():
        for axis, size in enumerate(sizes):
            factors = {name: shapes[tensor][axis] - size for name, shapes in grown.items()}
            label = _label(factors, size - sum(factors[name] * sample[name] for name in sample))
            if label:
                axes.setdefault(tensor, {})[axis] = label
    return _with_plain_names(axes, sample)


def _shapes(call: Callable[..., Any], given: dict[str, Any]) -> dict[str, list[int]]:
    arguments = bind(call, (), given)
    return {name: list(t.shape) for name, t in zip(arguments.names, arguments.tensors, strict=True)}


def _label(factors: Mapping[str, int], rest: int) -> str:
    """The formula; empty for a constant."""
    terms = [name if n == 1 else f"{n}*{name}" for name, n in factors.items() if n]
    return "+".join([*terms, *([str(rest)] if rest else [])]) if terms else ""


def _with_plain_names(axes: Axes, sample: Mapping[str, int]) -> Axes:
    """A formula of a dimension that no axis is gets a plain name."""
    plain = {label for named in axes.values() for label in named.values() if label in sample}
    missing = [name for name in sample if name not in plain]

    def label(text: str) -> str:
        return TOTAL if any(name in text for name in missing) else text

    return {tensor: {axis: label(text) for axis, text in named.items()} for tensor, named in axes.items()}
