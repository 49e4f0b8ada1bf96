"""Small live models whose code does something with sizes outside of tensors, as users write it.

Each row has what an export is expected to come to: ANY (right at every size at which the model runs), LIMITED (right where its
constraints hold), CHECKED (right at least at the sizes that it claims), or REFUSED. Whatever it is, no claim may be wrong.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

ANY, LIMITED, CHECKED, REFUSED = "any size", "limited", "checked", "refused"
B, S, T, H, W = "batch", "seq", "other", "height", "width"
SAMPLE = {B: 2, S: 7, T: 5, H: 12, W: 10}

Shape = tuple[Any, ...]


@dataclass
class Live:
    """A model, the shapes of its float inputs, and what its export is expected to come to."""

    name: str
    make: Callable[[], nn.Module]
    shapes: tuple[Shape, ...]
    expected: str
    sample: dict[str, int]
    sizes: list[dict[str, int]] = field(default_factory=list)  # to be tried besides those that are drawn

    def inputs(self, at: dict[str, int]) -> tuple[Tensor, ...]:
        return tuple(torch.randn([at.get(d, d) for d in shape]) for shape in self.shapes)

    @property
    def axes(self) -> dict[str, dict[int, str]]:
        names = ("x", "y", "z")
        found = {n: {i: d for i, d in enumerate(s) if isinstance(d, str)} for n, s in zip(names, self.shapes, strict=False)}
        return {n: axes for n, axes in found.items() if axes}

    @property
    def dimensions(self) -> list[str]:
        return list(dict.fromkeys(d for shape in self.shapes for d in shape if isinstance(d, str)))


CORPUS: list[Live] = []


def live(*shapes: Shape, expected: str, sizes: list[dict[str, int]] | None = None, **sample: int) -> Callable[[Any], Any]:
    """Adds a function of tensors x, y, z, or a class of modules."""

    def add(model: Any) -> Any:
        make = model if isinstance(model, type) else lambda: type("Model", (nn.Module,), {"forward": staticmethod(model)})()
        CORPUS.append(Live(model.__name__.lower(), make, shapes, expected, SAMPLE | sample, sizes or []))
        return model

    return add


# ---- one condition on one size


@live((B, S), expected=ANY)
def long_or_short(x: Tensor) -> Tensor:
    if x.shape[1] > 16:
        return x[:, :16].sum(1)
    return x.sum(1)


@live((B, S, 4), expected=ANY)
def only_one(x: Tensor) -> Tensor:
    if x.shape[0] == 1:
        return x[0].sum(0, keepdim=True)
    return x.sum(1) * 2


@live((B, S), expected=ANY)
def padded_to_four(x: Tensor) -> Tensor:
    rest = x.shape[1] % 4
    if rest != 0:
        x = F.pad(x, (0, 4 - rest))
    return x.view(x.shape[0], -1, 4).sum(-1)


@live((B, S), expected=ANY, seq=8)
def padded_to_four_from_a_multiple(x: Tensor) -> Tensor:
    rest = x.size(1) % 4
    if rest:
        x = F.pad(x, (0, 4 - rest))
    return x.reshape(x.size(0), -1, 4).mean(-1)


@live((B, S), expected=ANY)
def clipped(x: Tensor) -> Tensor:
    return x[:, : min(x.shape[1], 16)] * 2


@live((B, S), expected=ANY)
def filled_up(x: Tensor) -> Tensor:
    return F.pad(x, (0, max(0, 16 - x.shape[1])))


@live((B, S), expected=ANY)
def last_ten(x: Tensor) -> Tensor:
    if x.size(1) > 10:
        x = x[:, -10:]
    return x.mean(1)


@live((B, S, 4), expected=ANY)
def known_lengths(x: Tensor) -> Tensor:
    return x * 2 if x.shape[1] in (1, 2, 4) else x + 1


@live((B, S, 4), expected=ANY)
def never_empty(x: Tensor) -> Tensor:
    return x if x.dim() == 3 and x.shape[1] > 0 else x.sum()


@live((B, S, 4), expected=ANY, seq=1)
def one_step(x: Tensor) -> Tensor:
    scores = x @ x.mT
    if x.shape[1] > 1:
        scores = scores + torch.triu(torch.full((x.shape[1], x.shape[1]), float("-inf")), 1)
    return scores.softmax(-1) @ x


@live((B, S), expected=LIMITED)
def asserted(x: Tensor) -> Tensor:
    assert x.shape[1] >= 4, f"too short: {x.shape[1]}"
    return x[:, :4]


@live((B, S), expected=LIMITED)
def raised(x: Tensor) -> Tensor:
    if x.shape[1] > 20:
        raise ValueError(f"at most 20, not {x.shape[1]}")
    return x * 3


# ---- several conditions


@live((B, 3, H, W), expected=ANY, height=16, width=16)
def upsampled_like(x: Tensor) -> Tensor:
    y = F.interpolate(F.max_pool2d(x, 2), scale_factor=2)
    if y.shape[2:] != x.shape[2:]:
        y = F.interpolate(y, size=x.shape[2:])
    return x + y


@live((B, 3, H, W), expected=ANY)
def resized_to_even(x: Tensor) -> Tensor:
    """One of two conditions is asked only where the other does not hold, and both lead to the same."""
    height, width = x.shape[2:]
    even = math.ceil(height / 2) * 2, math.ceil(width / 2) * 2
    if even[0] != height or even[1] != width:
        x = F.interpolate(x, size=even, mode="bilinear")
    x = x.reshape(x.shape[0] * 3 * (even[0] // 2), 2, even[1] // 2, 2).transpose(1, 2)
    return x.reshape(-1, 3, even[1] // 2 * even[0] // 2, 4).amax(2)


@live((B, 3, H, W), expected=ANY, sizes=[{B: 5, H: 9, W: 14}])
def letterboxed(x: Tensor) -> Tensor:
    height, width = x.shape[2:]
    ratio = min(32 / height, 32 / width)
    size = round(height * ratio), round(width * ratio)
    return F.pad(F.interpolate(x, size=size), (0, 32 - size[1], 0, 32 - size[0]))


@live((B, H, W, 4), expected=ANY, sizes=[{B: 1, H: 6, W: 9}, {B: 2, H: 9, W: 6}, {B: 1, H: 8, W: 8}, {B: 2, H: 3, W: 4}])
def shifted_windows(x: Tensor) -> Tensor:
    """As a Swin Transformer does: no shift along an axis that one window covers, and a mask where there is a shift."""
    _, height, width, channels = x.shape
    x = F.pad(x, (0, 0, 0, -width % 4, 0, -height % 4))
    height, width = x.shape[1:3]
    shift = [0 if height <= 4 else 2, 0 if width <= 4 else 2]
    if sum(shift) > 0:
        x = x.roll((-shift[0], -shift[1]), (1, 2))
        mask = x.new_zeros((height, width))
        for i, rows in enumerate(((0, -4), (-4, -shift[0]), (-shift[0], None))):
            for j, columns in enumerate(((0, -4), (-4, -shift[1]), (-shift[1], None))):
                mask[rows[0] : rows[1], columns[0] : columns[1]] = 3 * i + j
        x = x + mask[:, :, None]
    x = x.view(-1, height // 4, 4, width // 4, 4, channels).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(-1, 16, channels).softmax(1)


@live((B, 3, H, W), expected=ANY)
def longer_side_first(x: Tensor) -> Tensor:
    height, width = x.shape[2:]
    if height > width:
        x = x.transpose(2, 3)
    return x.mean(2)


@live((B, S), expected=ANY)
def nested(x: Tensor) -> Tensor:
    if x.shape[1] > 4:
        if x.shape[0] > 3:
            return x * 2
        return x + 1
    return x - 1


@live((B, S), (B, T), expected=ANY)
def shorter_of_two(x: Tensor, y: Tensor) -> Tensor:
    if x.shape[1] >= y.shape[1]:
        return x[:, : y.shape[1]] + y
    return x + y[:, : x.shape[1]]


@live((B, S), expected=ANY)
class Twice(nn.Module):
    """A condition inside a submodule that is called twice, at two sizes."""

    class Part(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[:, 1:] if x.shape[1] > 6 else x * 2

    def __init__(self) -> None:
        super().__init__()
        self.part = self.Part()

    def forward(self, x: Tensor) -> Tensor:
        return self.part(self.part(x))


@live((B, S, 4), expected=LIMITED)
def halved_until_short(x: Tensor) -> Tensor:
    while x.shape[1] > 2:
        x = x[:, ::2] + 1
    return x


@live((B, 3, H, W), expected=ANY)
class Table(nn.Module):
    """A table that was made for one size, and is made again for others."""

    def __init__(self) -> None:
        super().__init__()
        self.size = (12, 10)
        self.register_buffer("table", self.made(12, 10))

    def made(self, height: int, width: int) -> Tensor:
        return torch.arange(height * width).view(height, width).float()

    def forward(self, x: Tensor) -> Tensor:
        size = (x.shape[2], x.shape[3])
        return x + (self.table if size == self.size else self.made(*size))


# ---- arithmetic on sizes


@live((B, S), expected=ANY)
def part_of_it(x: Tensor) -> Tensor:
    return x[:, : int(x.shape[1] * 0.75)]


@live((B, S), expected=ANY)
def as_integers(x: Tensor) -> tuple[Tensor, ...]:
    n = int(x.shape[1])
    return x * (n // 2), x * (n % 5), x * (n // 3 + 1)


@live((B, S), expected=ANY)
def divided(x: Tensor) -> Tensor:
    quotient, rest = divmod(int(x.shape[1]), 3)
    return x * quotient + rest


@live((B, S, 4), expected=ANY)
def scaled(x: Tensor) -> tuple[Tensor, ...]:
    return x / math.sqrt(x.shape[1]), x * (x.shape[1] ** -0.5), x * (1 / x.shape[1])


@live((B, S, 4), expected=ANY)
def at_least_one(x: Tensor) -> Tensor:
    return x * max(1.0, x.shape[1] / 32)


@live((B, S, 4), expected=ANY)
def same_padding(x: Tensor) -> Tensor:
    x = x.transpose(1, 2)
    missing = max((math.ceil(x.shape[-1] / 3) - 1) * 3 + 4 - x.shape[-1], 0)
    return F.conv1d(F.pad(x, (missing // 2, missing - missing // 2)), torch.ones(2, 4, 4), stride=3)


@live((B, S), expected=ANY)
def counted(x: Tensor) -> tuple[Tensor, ...]:
    return x * sum(x.shape), x * math.prod(x.shape), x * x.numel(), x * len(x.shape)


@live((B, S), expected=ANY)
def largest(x: Tensor) -> tuple[Tensor, ...]:
    return x * max(x.shape), x * sorted(x.shape)[0]


@live((B, S), expected=ANY)
def rounded(x: Tensor) -> tuple[Tensor, ...]:
    return x * round(x.shape[1] / 2), x * abs(3 - x.shape[1]), x * math.floor(x.shape[1] / 4)


@live((B, S), expected=ANY)
def through_data(x: Tensor) -> tuple[Tensor, ...]:
    return x * x.data.shape[1], x.new_zeros(x.size(0), 2) + x.new_full((x.size(0), 1), 3.0)


@live((B, S, 4), expected=ANY)
def triangle(x: Tensor) -> Tensor:
    n = x.shape[1]
    return torch.tril(torch.ones(n, n)) @ x


# ---- what escapes


@live((B, S), expected=REFUSED)
def text_of_a_size(x: Tensor) -> Tensor:
    return x * float(len(f"{x.shape[1]}"))


@live((B, S), expected=ANY)
def squeezed_and_summed(x: Tensor) -> Tensor:
    return x.squeeze(0).sum(-1).reshape(-1) + x.squeeze().sum()


@live((B, S), expected=ANY, batch=1)
def squeezed_of_a_sample_of_one(x: Tensor) -> Tensor:
    return x.unsqueeze(1).squeeze((0, 1)).reshape(-1, x.shape[1]) * 2


@live((B, S), expected=LIMITED)
def squeezed(x: Tensor) -> Tensor:
    return x.squeeze(0) * 2


@live((B, S), expected=LIMITED, batch=1)
def squeezed_at_one(x: Tensor) -> Tensor:
    return torch.squeeze(x) * 2


@live((B, S), expected=ANY)
def other_rank_on_a_path(x: Tensor) -> Tensor:
    if x.shape[1] > 10:
        x = x.reshape(x.shape[0], 1, -1) * 2
    return (x + 1).relu().flatten(1)


@live((B, S), expected=ANY)
def arrays_of_numpy(x: Tensor) -> tuple[Tensor, ...]:
    """What numpy computes has the type that numpy gives it: float64 of a float32 and an array of float64."""
    half = x * np.array(0.5) + np.float32(2) - np.int64(1) * x
    return (
        half,
        x / np.ones((1, 1), np.float32),
        (x * 8).int() // np.array(3) % np.array(2),
        x ** np.array(2),
        x[:, :1] @ np.ones((1, 2)),
    )


@live((S, 4), expected=ANY)
def steps_of_a_size(x: Tensor) -> tuple[Tensor, Tensor]:
    step = (x.shape[0] + 1) // 2
    y = x.clone()
    y[1::step] = 7
    y[: -1 : x.shape[0]] += 1
    return x[::step], y


@live((B, S), expected=ANY)
def symbolic_functions_of_torch(x: Tensor) -> tuple[Tensor, ...]:
    n = x.shape[1]
    scale = torch.sym_ite(n > 3, n, 1) + torch.sym_max(n, 5) + torch.sym_float(n) / torch.sym_int(n * 1.5)
    return x[:, : torch.sym_min(n, 3)] * torch._sym_sqrt(n), x * scale, x + 1 if torch.sym_not(n > 6) else x * 2


@live((B, S), expected=LIMITED)
def key_of_a_dict(x: Tensor) -> Tensor:
    return x * {(2, 7): 3.0}.get(tuple(x.shape), 1.0)


@live((B, S), expected=CHECKED)
def number_of_pieces(x: Tensor) -> tuple[Tensor, ...]:
    return x * len(x.unbind(1)), x * len(x.split(2, 1))


@live((B, S), expected=CHECKED)
def length_of_a_range(x: Tensor) -> Tensor:
    return x * len(range(0, x.shape[1], 2))


@live((B, S), expected=CHECKED)
def pairs(x: Tensor) -> Tensor:
    return x * len(list(itertools.product(range(x.shape[0]), range(x.shape[1]))))


@functools.lru_cache(None)
def mask_of(n: int) -> Tensor:
    return torch.tril(torch.ones(n, n))


mask_of(7)


@live((B, S, 4), expected=ANY)
def cached_by_size(x: Tensor) -> Tensor:
    return mask_of(int(x.shape[1])) @ x


@live((B, S), expected=REFUSED)
def weights_of_numpy(x: Tensor) -> Tensor:
    return x * torch.from_numpy(np.linspace(0, 1, x.shape[1]).astype(np.float32))


@live((B, S, 4), expected=CHECKED)
def loop_over_steps(x: Tensor) -> Tensor:
    h = torch.zeros(x.shape[0], 4)
    for t in range(x.shape[1]):
        h = torch.tanh(h + x[:, t])
    return h


# ---- data


@live((B, S, 4), expected=ANY)
def checked_for_nan(x: Tensor) -> Tensor:
    if torch.isnan(x).any():
        raise ValueError("not a number")
    return x * 2


@live((B, S, 4), expected=ANY)
def written_through_data(x: Tensor) -> Tensor:
    y = x * 2
    y.data.clamp_(-1, 1)
    return y + x.detach()


@live((B, S, 4), expected=REFUSED)
def loop_until_small(x: Tensor) -> Tensor:
    while float(x.abs().max()) > 1:
        x = x / 2
    return x


# ---- what numbers and memory are


@live((B, S), expected=ANY)
def asked_for_its_type(x: Tensor) -> Tensor:
    n = x.shape[1]
    return x * n if type(n) is int and type(x.shape) is torch.Size else x


@live((B, S), expected=LIMITED)
def asked_for_its_memory(x: Tensor) -> Tensor:
    return x.t() * 2 if x.t().is_contiguous() else x.t() * 3


@live((B, S, 4), expected=CHECKED)
def asked_for_memory_with_gaps(x: Tensor) -> Tensor:
    y = x[:, ::2]
    return y * 2 if y.is_contiguous() else y * 3


@live((B, S, 4), expected=CHECKED)
def tried_a_view(x: Tensor) -> Tensor:
    """The tracer does not go on by itself after an operator that raised."""
    y = x.transpose(1, 2)
    try:
        return y.view(x.shape[0], -1)
    except RuntimeError:
        return y.reshape(x.shape[0], -1) * 2


@live((B, S, 4), expected=ANY)
def made_contiguous(x: Tensor) -> Tensor:
    y = x.transpose(1, 2)
    if not y.is_contiguous():
        y = y.contiguous()
    return y.view(x.shape[0], -1)


# ---- branches around numbers that escape


@live((B, S), expected=CHECKED)
def longer_by_its_length(x: Tensor) -> Tensor:
    n = len([0] * x.shape[1])
    return x * n + 1 if x.shape[1] > 10 else x * n


@live((B, S), expected=CHECKED)
def one_of_its_length(x: Tensor) -> Tensor:
    y = x.view(-1, int(str(x.shape[1])))
    return y * 2 if x.shape[0] == 1 else y + 1


@live((B, S), expected=LIMITED)
def in_two(x: Tensor) -> tuple[Tensor, ...]:
    return x.tensor_split(2, 1)
