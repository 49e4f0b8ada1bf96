"""The sample arguments at other sizes of their dynamic dimensions: what is in them is repeated, so it stays valid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

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


def other_sizes(sample: Sizes) -> Iterator[Sizes]:
    """Sizes at which a model may run that runs at the sample's: the likeliest first. They differ from the sample's, and from each
    other, by different amounts, so that a number of the model shows which size it is."""
    tried = []
    for steps in (1, -1):
        moved = _moved(sample, steps)
        for candidate in (moved, _sums_kept(sample, moved), _together(sample, moved)):
            if candidate not in tried and all(size > 0 for size in candidate.values()):
                tried.append(candidate)
    tried.append({name: 2 * size for name, size in sample.items()})
    return iter(tried)


def _moved(sample: Sizes, direction: int) -> Sizes:
    moved: Sizes = {}
    used, by = set(sample.values()), set()
    for name, size in sample.items():
        step = _step(size)
        n = 1
        while size + direction * n * step in used or n * step in by:
            n += 1
        by.add(n * step)
        moved[name] = size + direction * n * step
        used.add(moved[name])
    return moved


def _step(size: int) -> int:
    """A quarter at most; what powers of two divide the size divide the step, as windows and strides want it."""
    step = 1
    while size % (2 * step) == 0 and 8 * step <= size:
        step *= 2
    return step


def _sums_kept(sample: Sizes, moved: Sizes) -> Sizes:
    """A dimension that is the sum of two others stays so: the past, the present, and both."""
    out = dict(moved)
    for name, size in sample.items():
        for a, b in combinations([n for n in sample if n != name], 2):
            if sample[a] + sample[b] == size:
                out[name] = moved[a] + moved[b]
    return out


def _together(sample: Sizes, moved: Sizes) -> Sizes:
    """Dimensions of equal size stay equal: some models need it under whatever names."""
    first = {size: name for name, size in reversed(sample.items())}
    return {name: moved[first[size]] for name, size in sample.items()}
