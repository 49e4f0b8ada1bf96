"""Nested arguments and results as flat lists of tensors with readable names, and back.

`flatten` walks tuples, lists, mappings (`ModelOutput` among them), dataclasses, caches of keys and values, and what is registered
as a pytree. A name is the way to the tensor: `pair_0`, `batch_mask`, `past_key_values.0.key`. None and other constants have none.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from lithify import _caches, _torch

Leaves = list[tuple[str, Any]]  # tensors and numbers
NUMBERS = bool | int | float | torch.SymInt | torch.SymFloat  # the last two in programs of torch.export
Rebuild = Callable[[Iterator[Any]], Any]  # takes its leaves from the iterator, in the order in which they were found


def flatten(value: Any, name: str, leaves: Leaves, others: Leaves | None = None) -> Rebuild:
    """Appends the tensors and numbers in `value`, and what is neither to `others`."""
    if isinstance(value, torch.Tensor | NUMBERS):
        leaves.append((name, value))
        return (lambda tensors: _quantized_like(value, next(tensors))) if is_quantized(value) else next
    found = _children(value, name)
    if found is None:
        if others is not None:
            others.append((name, value))
        return lambda _: value
    children, make = found
    parts = [flatten(child, child_name, leaves, others) for child_name, child in children]
    return lambda tensors: make([part(tensors) for part in parts])


def join(name: str, part: Any) -> str:
    text = re.sub(r"\W", "_", str(part))
    return f"{name}_{text}" if name else text


def unique(names: list[str]) -> list[str]:
    """The names, with a number after one that was there before."""
    seen: set[str] = set()
    out = []
    for name in names:
        candidate, n = name, 0
        while candidate in seen:
            n += 1
            candidate = f"{name}_{n}"
        seen.add(candidate)
        out.append(candidate)
    return out


def is_quantized(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_quantized


def scheme_of(quantized: torch.Tensor) -> str:
    """What the integers of a quantized tensor stand for."""
    if quantized.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return f"{quantized.dtype} with the scale {quantized.q_scale()} and the zero point {quantized.q_zero_point()}"
    return f"{quantized.dtype} with a scale for each position of axis {quantized.q_per_channel_axis()}"


def _quantized_like(quantized: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    if quantized.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return torch.quantize_per_tensor(values, quantized.q_scale(), quantized.q_zero_point(), quantized.dtype)
    scales, zero_points = quantized.q_per_channel_scales(), quantized.q_per_channel_zero_points()
    return torch.quantize_per_channel(values, scales, zero_points, quantized.q_per_channel_axis(), quantized.dtype)


def tensor_of(value: Any) -> torch.Tensor:
    """Of a leaf: a number of Python is a tensor without dimensions, and a quantized tensor is its dequantized values, as in
    torch.onnx.export."""
    if isinstance(value, torch.Tensor):
        return value.dequantize() if value.is_quantized else value
    if isinstance(value, bool):
        return torch.tensor(value)
    return torch.scalar_tensor(value, dtype=torch.float64 if isinstance(value, float | torch.SymFloat) else torch.int64)


Children = tuple[list[tuple[str, Any]], Callable[[list[Any]], Any]]


def _children(value: Any, name: str) -> Children | None:
    """What a container holds, with names, and how to make another one; None when it is not a container."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(join(name, f), v) for f, v in zip(value._fields, value, strict=True)], lambda items: type(value)(*items)
    if isinstance(value, tuple | list):
        kind = tuple if isinstance(value, tuple) else list
        return list(zip(_names_of_items(value, name), value, strict=True)), kind
    if isinstance(value, Mapping):
        return [(join(name, key), v) for key, v in value.items()], lambda items: _mapping(value, items)
    if _caches.is_cache(value):
        return _cache(value, name)
    if type(value) in _torch.container_types:
        node = _torch.container_types[type(value)]
        items, context = node.flatten_fn(value)
        return [(join(name, i), v) for i, v in enumerate(items)], lambda made: node.unflatten_fn(made, context)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [f.name for f in dataclasses.fields(value)]
        return [(join(name, f), getattr(value, f)) for f in fields], lambda items: _with(
            value, dict(zip(fields, items, strict=True))
        )
    return None


def _mapping(like: Mapping[Any, Any], items: list[Any]) -> Any:
    made: Any = copy.copy(like)
    for key, item in zip(list(like), items, strict=True):
        made[key] = item
    return made


def _cache(value: Any, name: str) -> Children:
    """A cache of transformers: the tensors of each layer."""
    state = _caches.state(value, name)
    paths = [path for _, path in state]
    return [(n, _caches.get(value, path)) for n, path in state], lambda items: _caches.with_state(value, paths, items)


# What a tuple of tensors of a layer holds, where tuples stand for a cache, as in older models.
_OF_LAYER = {2: ("key", "value"), 4: ("decoder.key", "decoder.value", "encoder.key", "encoder.value")}


def _names_of_items(value: tuple[Any, ...] | list[Any], name: str) -> list[str]:
    if name == "past_key_values" and all(isinstance(v, tuple | list) and len(v) in _OF_LAYER for v in value):
        return [f"{name}.{i}" for i in range(len(value))]
    if re.fullmatch(r"past_key_values\.\d+", name):
        return [f"{name}.{kind}" for kind in _OF_LAYER[len(value)]]
    return [join(name, i) for i in range(len(value))]


def _with(value: Any, attributes: dict[str, Any]) -> Any:
    made = copy.copy(value)
    for name, item in attributes.items():
        object.__setattr__(made, name, item)
    return made
