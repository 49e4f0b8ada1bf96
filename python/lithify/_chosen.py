"""Modules that code takes out of a container by a number that a tensor holds, such as the expert that a router chooses.

Where they differ in nothing but parameters, what the code gets is a module with the parameters of that position.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn


def chosen(modules: Sequence[nn.Module], index: torch.Tensor) -> nn.Module | None:
    """The module at a position; None where they are not alike. The index is a tensor without dimensions."""
    return _at(modules, index) if modules and all(_are_alike(modules[0], m) for m in modules[1:]) else None


def by_name(container: nn.ModuleDict, key: str, number: int, index: torch.Tensor) -> nn.Module | None:
    """The module of a key that has the number in it, where all modules have such a key, of the numbers from 0 on."""
    prefix, text, suffix = key.partition(str(number))
    if not text or text in suffix or key not in container:
        return None
    names = [f"{prefix}{i}{suffix}" for i in range(len(container))]
    found = [container._modules[name] for name in itertools.takewhile(container._modules.__contains__, names)]
    return chosen([m for m in found if m is not None], index) if len(found) == len(container) else None


def _at(modules: Sequence[nn.Module], index: torch.Tensor) -> nn.Module:
    made = copy.copy(modules[0])
    vars(made)["_parameters"] = {
        name: None if tensor is None else torch.stack([m._parameters[name] for m in modules])[index]  # type: ignore[arg-type]
        for name, tensor in made._parameters.items()
    }
    vars(made)["_modules"] = {
        name: None if module is None else _at([m._modules[name] for m in modules], index)  # type: ignore[misc]
        for name, module in made._modules.items()
    }
    return made


def _are_alike(a: nn.Module | None, b: nn.Module | None) -> bool:
    if a is None or b is None:
        return a is b
    if type(a) is not type(b) or vars(a).keys() != vars(b).keys():
        return False
    for name, value in vars(a).items():
        other = vars(b)[name]
        if name == "_buffers" and value:
            return False  # a run may write to them
        if name in ("_parameters", "_modules"):
            alike = _are_alike if name == "_modules" else _fit
            if value.keys() != other.keys() or not all(alike(value[n], other[n]) for n in value):
                return False
        elif not _is_same(value, other):
            return False
    return True


def _fit(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    return type(a) is type(b) and torch.Size(a.shape) == torch.Size(b.shape) and a.dtype == b.dtype


def _is_same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    plain = (bool, int, float, str, tuple, list, dict, set)
    return type(a) is type(b) and (isinstance(a, plain) and not isinstance(a, torch.Tensor)) and bool(a == b)
