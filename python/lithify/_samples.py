"""The sample arguments at other sizes of their dynamic dimensions, or with other contents: what is in them is repeated or moved,
so it stays valid."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch

from lithify import _core

Axes = Sequence[Mapping[int, str]]  # of each tensor: axis and name of the dimension
Sizes = dict[str, int]  # by name


def sizes(tensors: Sequence[torch.Tensor], axes: Axes) -> Sizes:
    """The sizes that the tensors have, without those whose names are formulas of others. A dimension of size 0 cannot be
    repeated, and one that is not there not resized."""
    found: Sizes = {}
    for tensor, named in zip(tensors, axes, strict=True):
        for axis, name in named.items():
            if -tensor.dim() <= axis < tensor.dim() and tensor.size(axis) > 0:
                found.setdefault(name, tensor.size(axis))
    return {name: size for name, size in found.items() if tied(name, found) is None}


def tied(name: str, at: Mapping[str, int]) -> int | None:
    """The size of a dimension whose name is a formula of others, "past+sequence"; None for any other name."""
    return None if name.isidentifier() else _core.tied_size(name, [item for item in at.items() if item[0] != name])


def resized(tensors: Sequence[torch.Tensor], axes: Axes, at: Mapping[str, int]) -> list[torch.Tensor]:
    """The tensors with other sizes, filled by repeating or cutting off what they hold. Sizes that follow from those in `at`
    change with them."""
    every = {**sizes(tensors, axes), **at}

    def size_of(name: str) -> int | None:
        return at[name] if name in at else tied(name, every)

    return [
        _resized(t, {axis: size for axis, name in named.items() if (size := size_of(name)) is not None})
        for t, named in zip(tensors, axes, strict=True)
    ]


def with_elements(tensors: Sequence[torch.Tensor], axes: Axes, with_past: Collection[str]) -> list[torch.Tensor]:
    """The tensors with elements where a dimension has none, such as the past of an empty cache: a trace without any does not
    show what is computed from them. Dimensions `with_past` grow by as many."""
    found: Sizes = {}
    for tensor, named in zip(tensors, axes, strict=True):
        for axis, name in named.items():
            if name.isidentifier() and -tensor.dim() <= axis < tensor.dim():
                found.setdefault(name, tensor.size(axis))
    empty = {name: _FEW for name, size in found.items() if size == 0}
    if not empty:
        return list(tensors)
    return resized(tensors, axes, {n: empty.get(n, size + _FEW if n in with_past else size) for n, size in found.items()})


_FEW = 3


def shuffled(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors with their real numbers in another order. Integers and masks may be bound to sizes: they stay."""
    generator = torch.Generator().manual_seed(0)
    return [
        t.detach().flatten()[torch.randperm(t.numel(), generator=generator)].reshape(t.shape) if t.is_floating_point() else t
        for t in tensors
    ]


def _filled(shape: Sequence[int], like: torch.Tensor) -> torch.Tensor:
    if not like.is_floating_point():
        return like.new_zeros(shape)
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(like)


def _resized(tensor: torch.Tensor, to: Mapping[int, int]) -> torch.Tensor:
    for axis, size in to.items():
        if tensor.size(axis) == 0 and size:
            tensor = _filled([size if i == axis % tensor.dim() else n for i, n in enumerate(tensor.shape)], tensor)
        elif tensor.size(axis) not in (0, size):
            tensor = tensor.detach().index_select(axis, torch.arange(size, device=tensor.device) % tensor.size(axis))
    return tensor
