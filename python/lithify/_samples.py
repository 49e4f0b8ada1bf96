"""The sample arguments at other sizes of their dynamic dimensions: what is in them is repeated, so it stays valid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

Axes = Sequence[Mapping[int, str]]  # of each tensor: axis and name of the dimension
Sizes = dict[str, int]  # by name


def sizes(tensors: Sequence[torch.Tensor], axes: Axes) -> Sizes:
    """The sizes that the tensors have. A dimension of size 0 cannot be repeated, and one that is not there not resized."""
    found: Sizes = {}
    for tensor, named in zip(tensors, axes, strict=True):
        for axis, name in named.items():
            if -tensor.dim() <= axis < tensor.dim() and tensor.size(axis) > 0:
                found.setdefault(name, tensor.size(axis))
    return found


def resized(tensors: Sequence[torch.Tensor], axes: Axes, at: Mapping[str, int]) -> list[torch.Tensor]:
    """The tensors with other sizes, filled by repeating or cutting off what they hold."""
    return [
        _resized(t, {axis: at[name] for axis, name in named.items() if name in at})
        for t, named in zip(tensors, axes, strict=True)
    ]


def _resized(tensor: torch.Tensor, to: Mapping[int, int]) -> torch.Tensor:
    for axis, size in to.items():
        if tensor.size(axis) not in (0, size):
            tensor = tensor.detach().index_select(axis, torch.arange(size, device=tensor.device) % tensor.size(axis))
    return tensor
