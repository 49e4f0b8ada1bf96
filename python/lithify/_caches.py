"""Caches of transformers: which of their parts are state, and how they are made again from tensors.

A cache holds objects, its layers, whose attributes are tensors, flags and counters. Every tensor is state, whatever kind of layer
it belongs to. A counter is a number that a run of the model changes, such as the tokens that a layer with a window has seen. It
follows from sizes of the arguments (see formula).
"""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

from lithify._errors import ExportError

Path = tuple[Any, ...]  # from a cache to a part of it: names of attributes, indices of lists, keys of dicts
Values = Mapping[str, Any]  # arguments by parameter

# Parts of a cache that have a shorter name, or none.
_NAMES = {"layers": "", "self_attention_cache": "decoder", "cross_attention_cache": "encoder"}
_PLAIN = (torch.Tensor, nn.Parameter, nn.Buffer)
_DEPTH = 6  # of objects in a cache


def is_cache(value: Any) -> bool:
    """Whether it is a cache of transformers, or has layers like one."""
    if isinstance(value, nn.Module | type):
        return False
    kind = getattr(sys.modules.get("transformers.cache_utils"), "Cache", None)
    if kind is not None and isinstance(value, kind):
        return True
    layers = getattr(value, "layers", None)
    return isinstance(layers, list) and bool(layers) and all(hasattr(layer, "keys") for layer in layers)


def state(cache: Any, name: str) -> list[tuple[str, Path]]:
    """The tensors of a cache, with names such as `past_key_values.0.key`."""
    return list(_state(cache, name, (), _DEPTH))


def _state(value: Any, name: str, path: Path, depth: int) -> Iterator[tuple[str, Path]]:
    if isinstance(value, torch.Tensor):
        _check_plain(value, name)
        yield name, path
        return
    parts = [(key, part) for key, part in _parts(value) if _has_tensors(part, depth)] if depth else []
    for key, part in parts:
        if isinstance(value, dict | tuple) and len(parts) == 1:
            label = name
        elif isinstance(key, str):
            label = _joined(name, _NAMES[key] if key in _NAMES else _singular(key))
        else:
            label = _joined(name, str(key))
        yield from _state(part, label, (*path, key), depth - 1)


def _parts(value: Any) -> list[tuple[Any, Any]]:
    """What a container or an object in a cache holds."""
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, list | tuple):
        return list(enumerate(value))
    if not _is_object(value):
        return []
    return [(key, part) for key, part in vars(value).items() if not _is_constant(key, part)]


def _is_object(value: Any) -> bool:
    return hasattr(value, "__dict__") and not isinstance(value, nn.Module | type) and not callable(value)


def _is_constant(attribute: str, value: Any) -> bool:
    """Whether it is a number of the class that is kept as a tensor."""
    return attribute.startswith("_") and isinstance(value, torch.Tensor) and value.dim() == 0


def _has_tensors(value: Any, depth: int) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    return depth > 0 and any(_has_tensors(part, depth - 1) for _, part in _parts(value))


def _singular(attribute: str) -> str:
    return re.sub(r"s$", "", attribute.strip("_"))


def _joined(name: str, part: str) -> str:
    return ".".join(filter(None, (name, part)))


def _check_plain(tensor: torch.Tensor, name: str) -> None:
    is_own = type(tensor) in _PLAIN or type(tensor).__module__.startswith("torch._subclasses")  # of torch.export
    if not is_own or tensor.layout != torch.strided:
        raise ExportError(f"'{name}' is a {type(tensor).__name__}, which cannot be an input: use a cache of plain tensors")


# ---- copies ----------------------------------------------------------------------------------------------------------------


def with_state(cache: Any, paths: list[Path], tensors: list[Any]) -> Any:
    """A copy of a cache with other tensors."""
    made = copied(cache)
    for path, tensor in zip(paths, tensors, strict=True):
        put(made, path, tensor)
    return made


def copied(value: Any, depth: int = _DEPTH) -> Any:
    """A copy that shares tensors and constants, but no object that a run changes."""
    if isinstance(value, torch.Tensor) or depth == 0:
        return value
    if isinstance(value, dict):
        return {key: copied(part, depth - 1) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(copied(part, depth - 1) for part in value)
    if not is_cache(value) and not _is_layer(value):
        return value
    made = copy.copy(value)
    for key, part in vars(value).items():
        object.__setattr__(made, key, copied(part, depth - 1))
    return made


def _is_layer(value: Any) -> bool:
    """Whether it is an object of a class that is there to be updated."""
    return _is_object(value) and any(hasattr(value, method) for method in ("update", "update_conv_state", "lazy_initialization"))


def get(value: Any, path: Path) -> Any:
    for key in path:
        value = getattr(value, key) if isinstance(key, str) and not isinstance(value, dict) else value[key]
    return value


def put(value: Any, path: Path, part: Any) -> None:
    *way, last = path
    owner = get(value, tuple(way))
    if isinstance(owner, tuple):
        items = list(owner)
        items[last] = part
        put(value, tuple(way), tuple(items))
    elif isinstance(owner, dict | list):
        owner[last] = part
    else:
        object.__setattr__(owner, last, part)


# ---- what a run changes ----------------------------------------------------------------------------------------------------


class Counter(NamedTuple):
    """A number in a cache that a run of the model changes: the tokens that a layer has seen, for one."""

    path: Path  # from the arguments by parameter
    value: int  # in the sample


def counters(before: Values, after: Values) -> list[Counter]:
    """Those of the caches among the arguments, before and after a run."""
    return [Counter(path, n) for path, n in _numbers(before, (), _DEPTH) if _found(after, path) != n]


def _numbers(value: Any, path: Path, depth: int) -> Iterator[tuple[Path, int]]:
    if isinstance(value, int) and not isinstance(value, bool):
        yield path, value
    elif depth and (is_cache(value) or _is_layer(value) or isinstance(value, dict | list | tuple)):
        for key, part in _parts(value):
            yield from _numbers(part, (*path, key), depth - 1)


def _found(value: Any, path: Path) -> Any:
    try:
        return get(value, path)
    except (AttributeError, LookupError, TypeError):
        return None


def formula(counter: Counter, given: Values) -> Callable[[Values], Any] | None:
    """How a counter follows from sizes of the arguments; None where no size has it. It counts the tokens of the past: those that
    the mask has beside those of the input, and those that a layer without a window holds. The own length of a layer with a window
    does until the window is full."""
    own = counter.path[:-1]
    for of in (*map(_by_mask, ("", "decoder_")), *_by_layers(given), lambda made: get(made, own).keys.shape[-2]):
        try:
            if of(given) == counter.value:
                return of
        except (AttributeError, LookupError, TypeError):
            continue
    return None


def _by_mask(prefix: str) -> Callable[[Values], Any]:
    def past(given: Values) -> Any:
        ids = given.get(f"{prefix}input_ids")
        tokens = given[f"{prefix}inputs_embeds"] if ids is None else ids
        return given[f"{prefix}attention_mask"].shape[-1] - tokens.shape[1]

    return past


def _by_layers(given: Values) -> list[Callable[[Values], Any]]:
    full = [path for path, layer in _layers(given, (), _DEPTH) if window(layer) is None and _is_growing(layer)]
    return [lambda made, path=path: get(made, path).keys.shape[-2] for path in full]


def _layers(value: Any, path: Path, depth: int) -> Iterator[tuple[Path, Any]]:
    """Those with keys and values."""
    if isinstance(getattr(value, "keys", None), torch.Tensor):
        yield path, value
    elif depth and (is_cache(value) or isinstance(value, dict | list | tuple)):
        for key, part in _parts(value):
            yield from _layers(part, (*path, key), depth - 1)


def _is_growing(layer: Any) -> bool:
    return layer.keys.dim() == 4 and not hasattr(layer, "max_cache_len")


def window(layer: Any) -> int | None:
    """The number of tokens of the past that a layer keeps at most; None for one that keeps all."""
    size = getattr(layer, "sliding_window", None)
    return size - 1 if isinstance(size, int) and not hasattr(layer, "max_cache_len") else None


def windows(given: Values) -> dict[str, int]:
    """The tensors of layers that keep the last tokens only, by name, with how many these are."""
    found = {}
    for parameter, cache in given.items():
        for name, path in state(cache, parameter) if is_cache(cache) else ():
            size = window(get(cache, path[:-1])) if path[-1] in ("keys", "values") else None
            if size is not None:
                found[name] = size
    return found


def has_numbers(given: Values) -> bool:
    return any(is_cache(value) and any(_numbers(value, (), _DEPTH)) for value in given.values())


def is_empty(cache: Any) -> bool:
    """Whether it is a cache that no run has filled yet."""
    return is_cache(cache) and not state(cache, "")


def emptied(cache: Any, filled: Any) -> Any:
    """An empty cache with its tensors, as the first run has left them in `filled`: those that grow with the tokens have none, and
    others are what the layers reset them to."""
    paths = [path for _, path in state(filled, "")]
    tensors = [get(filled, path) for path in paths]
    fresh = with_state(filled, paths, [t.clone() for t in tensors])
    fresh.reset()
    made = with_state(filled, paths, [_emptied(t, _found(fresh, path)) for t, path in zip(tensors, paths, strict=True)])
    for path, number in _numbers(cache, (), _DEPTH):
        put(made, path, number)
    return made


def _emptied(tensor: torch.Tensor, fresh: Any) -> torch.Tensor:
    return fresh if isinstance(fresh, torch.Tensor) else tensor.narrow(-2, 0, 0).contiguous()


# ---- objects that are not known --------------------------------------------------------------------------------------------


def check_argument(value: Any, name: str) -> None:
    """Raises ExportError for an object whose tensors would be constants of the file."""
    if _is_object(value) and not isinstance(value, torch.Generator) and _has_tensors(value, 3):
        raise ExportError(
            f"the argument '{name}' is a {type(value).__name__}, whose tensors cannot become inputs: pass tensors, a cache of "
            f"transformers or a dataclass, or register {type(value).__name__} with torch.utils._pytree.register_pytree_node"
        )


def check_result(value: Any, name: str) -> None:
    """Raises ExportError for a cache of an unknown kind."""
    is_named = "cache" in type(value).__name__.lower() or "past_key_values" in name or "cache" in name
    if is_named and _is_object(value) and _has_tensors(value, 3):
        raise ExportError(
            f"the result '{name}' is a {type(value).__name__}, whose tensors cannot become outputs: return tensors, a cache of "
            f"transformers or a dataclass, or register {type(value).__name__} with torch.utils._pytree.register_pytree_node"
        )
