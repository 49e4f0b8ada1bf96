"""Small models whose traces have sizes of the sample hard-coded, each in its own way.

`hard_codes` makes a model of a function of tensors. Names in a shape are dynamic dimensions; `SIZES` has the sample's sizes.
`one` is the expected outcome of one trace, and `two` that of two traces at different sizes:

    right       the exported model is right at every size
    refused     the export is refused, and a message has a line of the function
    unverified  a warning: the constant reaches values, where no contradiction shows it
    unseen      the size is not in the trace at all
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

B, T, S, H, W = "batch", "seq", "source", "height", "width"
SIZES = {B: 5, T: 7, S: 11, H: 24, W: 28}
OTHER_SIZES = [
    {B: 2, T: 9, S: 3, H: 8, W: 16},
    {B: 1, T: 1, S: 1, H: 4, W: 4},
    {B: 4, T: 13, S: 6, H: 32, W: 12},
    {B: 8, T: 2, S: 14, H: 16, W: 40},
    {B: 3, T: 16, S: 5, H: 12, W: 20},
]
SECOND_CAPTURE = {B: 3, T: 10, S: 13, H: 32, W: 20}


@dataclass(frozen=True)
class HardCoded:
    name: str
    forward: Callable[..., Any]
    shapes: tuple[tuple[str | int, ...], ...]
    one: str
    two: str

    def inputs(self, at: dict[str, int]) -> tuple[Tensor, ...]:
        torch.manual_seed(sum(at.values()))
        return tuple(torch.randn([at[d] if isinstance(d, str) else d for d in shape]) for shape in self.shapes)

    def module(self) -> nn.Module:
        forward = self.forward

        class Model(nn.Module):
            def forward(self, x: Tensor, y: Tensor | None = None) -> Any:
                return forward(x) if y is None else forward(x, y)

        return Model()


CORPUS: list[HardCoded] = []


def hard_codes(*shapes: tuple[str | int, ...], one: str = "right", two: str = "right") -> Callable[[Any], Any]:
    def add(forward: Callable[..., Any]) -> Callable[..., Any]:
        CORPUS.append(HardCoded(forward.__name__, forward, shapes, one, two))
        return forward

    return add


def weight(*sizes: int) -> Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes))) * 0.3


WEIGHT_1_1_16 = weight(1, 1, 16)
WEIGHT_1_16 = weight(1, 16)
WEIGHT_6_3_3_3 = weight(6, 3, 3, 3)
WEIGHT_16 = weight(16)
WEIGHT_16_16 = weight(16, 16)
WEIGHT_16_48 = weight(16, 48)
WEIGHT_48_8 = weight(48, 8)
WEIGHT_64_16 = weight(64, 16)
MASK = torch.tril(torch.ones(64, 64))
LSTM = nn.LSTM(16, 8, batch_first=True).requires_grad_(False)
GRU_CELL = nn.GRUCell(16, 8).requires_grad_(False)


# ---- view, reshape, flatten -------------------------------------------------------------------------


@hard_codes((B, T, 16))
def view_of_ints(x: Tensor) -> Tensor:
    return x.view(int(x.shape[0]), int(x.shape[1]) * 16)


@hard_codes((B, T, 16))
def flatten_and_restore(x: Tensor, w: Tensor = WEIGHT_16_16) -> Tensor:
    b, t = int(x.shape[0]), int(x.shape[1])
    return (x.reshape(b * t, 16) @ w).reshape(b, t, 16)


@hard_codes((B, T, 16))
def view_with_minus_one(x: Tensor) -> Tensor:
    return x.view(-1, int(x.shape[1]), 4, 4).sum(2)


@hard_codes((B, T, 16))
def numel_over_width(x: Tensor) -> Tensor:
    return x.reshape(x.numel() // 16, 16).softmax(1)


@hard_codes((B, T, 16))
def flat_by_numel(x: Tensor) -> Tensor:
    return x.reshape(x.numel())


@hard_codes((B, T, 16))
def length_of_tensor(x: Tensor) -> Tensor:
    return x.reshape(len(x), -1)


@hard_codes((B, T, 16))
def split_heads(x: Tensor) -> Tensor:
    b, t, d = (int(n) for n in x.shape)
    return x.view(b, t, 4, d // 4).transpose(1, 2)


@hard_codes((B, T, 16))
def attention(x: Tensor, w: Tensor = WEIGHT_16_48, out: Tensor = WEIGHT_16_16) -> Tensor:
    b, t = int(x.shape[0]), int(x.shape[1])
    q, k, v = (x @ w).view(b, t, 3, 4, 4).permute(2, 0, 3, 1, 4)
    scores = (q @ k.transpose(-1, -2) / 2.0).softmax(-1)
    return (scores @ v).transpose(1, 2).reshape(b, t, 16) @ out


@hard_codes((B, 3, H, W))
def patches(x: Tensor, w: Tensor = WEIGHT_48_8) -> Tensor:
    b, c, h, wd = (int(n) for n in x.shape)
    x = x.view(b, c, h // 4, 4, wd // 4, 4).permute(0, 2, 4, 1, 3, 5)
    return x.reshape(b, (h // 4) * (wd // 4), 48) @ w


@hard_codes((B, H, W, 3))
def window_partition(x: Tensor) -> Tensor:
    b, h, w, c = (int(n) for n in x.shape)
    x = x.view(b, h // 4, 4, w // 4, 4, c)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, 4, 4, c)


@hard_codes((B, H, W, 3))
def window_partition_and_merge(x: Tensor) -> Tensor:
    b, h, w, c = (int(n) for n in x.shape)
    y = x.view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
    y = y - y.mean(1, keepdim=True)
    return y.view(b, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)


@hard_codes((B, 12, H, W))
def pixel_shuffle_by_view(x: Tensor) -> Tensor:
    b, c, h, w = (int(n) for n in x.shape)
    return x.view(b, c // 4, 2, 2, h, w).permute(0, 1, 4, 2, 5, 3).reshape(b, c // 4, h * 2, w * 2)


@hard_codes((B, 3, H, W))
def space_to_depth(x: Tensor) -> Tensor:
    b, c, h, w = (int(n) for n in x.shape)
    return x.view(b, c, h // 2, 2, w // 2, 2).permute(0, 3, 5, 1, 2, 4).reshape(b, c * 4, h // 2, w // 2)


@hard_codes((B, 8, H, W))
def channel_shuffle(x: Tensor) -> Tensor:
    b, c, h, w = (int(n) for n in x.shape)
    return x.view(b, 2, c // 2, h, w).transpose(1, 2).reshape(b, c, h, w)


@hard_codes((B, 3, H, W))
def image_to_sequence(x: Tensor) -> Tensor:
    b, c, h, w = (int(n) for n in x.shape)
    return x.permute(0, 2, 3, 1).reshape(b, h * w, c).cumsum(1)


@hard_codes((B, 3, H, W))
def view_after_convolution(x: Tensor, w: Tensor = WEIGHT_6_3_3_3) -> Tensor:
    y = F.conv2d(x, w, stride=2, padding=1)
    return y.view(int(y.shape[0]), 6, int(y.shape[2]) * int(y.shape[3])).mean(1)


@hard_codes((B, T, 16))
def rearranged_rows(x: Tensor) -> Tensor:
    b, t = int(x.shape[0]), int(x.shape[1])
    return x.reshape(b, t, 2, 8).permute(1, 2, 0, 3).reshape(t * 2, b * 8)


# ---- expand, repeat, stack --------------------------------------------------------------------------


@hard_codes((B, T, 16))
def expanded_token(x: Tensor, token: Tensor = WEIGHT_1_1_16) -> Tensor:
    return torch.cat([token.expand(int(x.shape[0]), -1, -1), x], 1)


@hard_codes((B, T, 16))
def repeated_token(x: Tensor, token: Tensor = WEIGHT_1_16) -> Tensor:
    return torch.cat([token.repeat(int(x.shape[0]), 1, 1), x], 1)


@hard_codes((B, 16), (S, 16))
def expanded_pairs(x: Tensor, y: Tensor) -> Tensor:
    b, s = int(x.shape[0]), int(y.shape[0])
    return (x.unsqueeze(1).expand(b, s, 16) * y.unsqueeze(0).expand(b, s, 16)).sum(-1)


@hard_codes((B, 16), (S, 16))
def repeated_pairs(x: Tensor, y: Tensor) -> Tensor:
    b, s = int(x.shape[0]), int(y.shape[0])
    return torch.cat([x.unsqueeze(1).repeat(1, s, 1), y.unsqueeze(0).repeat(b, 1, 1)], -1)


@hard_codes((B, T, 16), one="refused", two="refused")
def stacked_copies(x: Tensor, token: Tensor = WEIGHT_16) -> Tensor:
    return x + torch.stack([token] * int(x.shape[1]))


@hard_codes((B, T, 16))
def broadcast_to_sizes(x: Tensor, w: Tensor = WEIGHT_16) -> Tensor:
    return torch.cat([x, w.broadcast_to(int(x.shape[0]), int(x.shape[1]), 16)], -1)


# ---- new tensors --------------------------------------------------------------------------------------


@hard_codes((B, T))
def zeros_of_sizes(x: Tensor) -> Tensor:
    return torch.zeros(int(x.shape[0]), int(x.shape[1])) + x


@hard_codes((B, T, 16))
def ones_joined(x: Tensor) -> Tensor:
    return torch.cat([x, torch.ones(int(x.shape[0]), int(x.shape[1]), 1)], -1)


@hard_codes((B, T, 16))
def padded_by_zeros(x: Tensor) -> Tensor:
    return torch.cat([torch.zeros(int(x.shape[0]), 2, 16), x], 1)


@hard_codes((B, T, 16))
def positions(x: Tensor, table: Tensor = WEIGHT_64_16) -> Tensor:
    return x + F.embedding(torch.arange(int(x.shape[1])), table)


@hard_codes((B, T, 16))
def positions_of_batch(x: Tensor, table: Tensor = WEIGHT_64_16) -> Tensor:
    b, t = int(x.shape[0]), int(x.shape[1])
    return x + F.embedding(torch.arange(t).unsqueeze(0).expand(b, t), table)


@hard_codes((B, T, 16))
def sinusoids(x: Tensor) -> Tensor:
    t = torch.arange(int(x.shape[1])).unsqueeze(1).float()
    f = torch.exp(torch.arange(8) * -0.5)
    return x + torch.cat([torch.sin(t * f), torch.cos(t * f)], 1)


@hard_codes((B, T, T))
def causal_mask(x: Tensor) -> Tensor:
    t = int(x.shape[1])
    return x.masked_fill(torch.tril(torch.ones(t, t)) == 0, -1e4).softmax(-1)


@hard_codes((B, T, T))
def causal_mask_by_triu(x: Tensor) -> Tensor:
    t = int(x.shape[1])
    return (x + torch.triu(torch.full((t, t), -1e4), diagonal=1)).softmax(-1)


@hard_codes((B, T, T))
def mask_from_buffer(x: Tensor, mask: Tensor = MASK) -> Tensor:
    t = int(x.shape[1])
    return x * mask[:t, :t]


@hard_codes((B, T, 16))
def table_sliced_by_int(x: Tensor, table: Tensor = WEIGHT_64_16) -> Tensor:
    return x + table[: int(x.shape[1])]


@hard_codes((B, T, 16), one="refused")
def relative_positions(x: Tensor, table: Tensor = WEIGHT_16) -> Tensor:
    t = int(x.shape[1])
    distance = torch.arange(t).unsqueeze(0) - torch.arange(t).unsqueeze(1)
    return torch.exp(-distance.abs().float()) @ x


@hard_codes((B, T, 16))
def counts_down(x: Tensor) -> Tensor:
    return x / torch.tensor(list(range(int(x.shape[1])))[::-1]).add(1).unsqueeze(1)


@hard_codes((B, T, 16), one="unverified")
def as_many_rows_of_a_table(x: Tensor, table: Tensor = WEIGHT_64_16) -> Tensor:
    return x + table[torch.arange(int(x.shape[1]))].sum(0)


@hard_codes((B, T, 16))
def identity_of_size(x: Tensor) -> Tensor:
    return (torch.eye(int(x.shape[1])) * 2.0) @ x


@hard_codes((B, 3, H, W))
def coordinates(x: Tensor) -> Tensor:
    b, _, h, w = (int(n) for n in x.shape)
    ys = torch.arange(h).float().view(1, 1, h, 1).expand(b, 1, h, w)
    xs = torch.arange(w).float().view(1, 1, 1, w).expand(b, 1, h, w)
    return torch.cat([x, ys, xs], 1)


@hard_codes((B, T, 16))
def like_with_new_sizes(x: Tensor) -> Tensor:
    return torch.cat([x, x.new_zeros(int(x.shape[0]), int(x.shape[1]), 4)], 2)


@hard_codes((B, T, 16))
def lstm_with_initial_state(x: Tensor, lstm: nn.Module = LSTM) -> Tensor:
    state = torch.zeros(1, int(x.shape[0]), 8)
    return lstm(x, (state, state))[0]


@hard_codes((B, T, 16))
def gru_cell_once(x: Tensor, cell: nn.Module = GRU_CELL) -> Tensor:
    return cell(x[:, 0], torch.zeros(int(x.shape[0]), 8))


# ---- arithmetic on sizes ----------------------------------------------------------------------------


@hard_codes((B, 3, H, W))
def resized_to_double(x: Tensor) -> Tensor:
    h, w = int(x.shape[2]), int(x.shape[3])
    y = F.interpolate(x, size=(h * 2, w * 2), mode="nearest")
    return F.avg_pool2d(y, 2) + x


@hard_codes((B, 3, H, W))
def resized_back(x: Tensor) -> Tensor:
    y = F.max_pool2d(x, 2)
    return x + F.interpolate(y, size=(int(x.shape[2]), int(x.shape[3])), mode="bilinear")


@hard_codes((B, 3, H, W))
def pooled_by_window(x: Tensor) -> Tensor:
    y = F.avg_pool2d(x, (int(x.shape[2]), int(x.shape[3])))
    return y.view(int(x.shape[0]), 3)


@hard_codes((B, T, 16))
def split_by_size(x: Tensor) -> Tensor:
    t = int(x.shape[1])
    doubled = torch.cat([x, x * 2], 1)
    first, second = torch.split(doubled, t, 1)
    return first - second


@hard_codes((B, T, 16))
def split_in_unequal_parts(x: Tensor) -> Tensor:
    t = int(x.shape[1])
    first, rest = torch.split(torch.cat([x, x, x], 1), [t, 2 * t], 1)
    return first + rest[:, :t]


@hard_codes((B, T, 16))
def shifted(x: Tensor) -> Tensor:
    t = int(x.shape[1])
    return torch.cat([x.new_zeros(int(x.shape[0]), 1, 16), x[:, : t - 1]], 1) + x


@hard_codes((B, T, 16))
def matrix_of_batch(x: Tensor, w: Tensor = WEIGHT_16_16) -> Tensor:
    return torch.bmm(x, w.expand(int(x.shape[0]), 16, 16))


@hard_codes((B, T, 16))
def gathered_by_expanded_index(x: Tensor) -> Tensor:
    index = torch.tensor([3, 1]).view(1, 1, 2).expand(int(x.shape[0]), int(x.shape[1]), 2)
    return x.gather(2, index)


@hard_codes((B, T, 16))
def chunks_of_the_batch(x: Tensor) -> Tensor:
    b = int(x.shape[0])
    both = torch.cat([x, -x], 0)
    return both[:b] * both[b:]


@hard_codes((B, S, 16))
def positions_from_numpy(x: Tensor, table: Tensor = WEIGHT_64_16) -> Tensor:
    return x + F.embedding(torch.from_numpy(np.arange(int(x.shape[1]))), table)


# ---- values: no contradiction shows them --------------------------------------------------------------


@hard_codes((B, T, 16), one="unverified")
def mean_by_division(x: Tensor) -> Tensor:
    return x.sum(1) / int(x.shape[1])


@hard_codes((B, T, 16), one="unverified")
def last_step_by_index(x: Tensor) -> Tensor:
    return x[:, int(x.shape[1]) - 1]


@hard_codes((B, T, 16))
def overlapping_windows_by_strides(x: Tensor) -> Tensor:
    size, stride = list(x.size()), list(x.stride())
    return x.as_strided((size[0], size[1], 3, 8), (stride[0], stride[1], 4, 1))


@hard_codes((B, T, 16))
def rows_by_mask(x: Tensor) -> Tensor:
    keep = torch.ones(int(x.shape[0])) > 0
    return x[keep].sum(0)


@hard_codes((B, T, 16))
def put_by_mask(x: Tensor) -> Tensor:
    keep = torch.ones(int(x.shape[0]), int(x.shape[1])) > 0
    y = torch.zeros_like(x)
    y[keep] = x[keep] + 1
    return y


@hard_codes((B, T, 16))
def steps_of_every_row(x: Tensor) -> Tensor:
    rows = torch.arange(x.shape[0])
    table = torch.arange(x.shape[1]).expand(int(x.shape[0]), -1)
    return x + table[rows][:, :, None]


@hard_codes((B, T, 16), one="refused")
def part_of_all_distances(x: Tensor) -> Tensor:
    length = int(x.shape[1])
    distances = torch.arange(length, -length, -1.0).sin()
    return x + distances[: x.shape[1], None]


# ---- constants that equal a size of the sample by chance -------------------------------------------------


TABLE = torch.linspace(-1, 1, 15).reshape(5, 3).sin()


@hard_codes((B, T, 16))
def rows_of_a_table(x: Tensor) -> Tensor:
    return x.reshape(int(x.shape[0]), -1).sum(1) + (torch.zeros(5, 3) + TABLE).sum()


@hard_codes((B, T, 16))
def layers_as_many_as_batches(x: Tensor) -> Tensor:
    weights = [torch.full(shape, 0.1) for shape in ((48, 16), (48, 16), (48,), (48,))] * 5
    x = x.reshape(int(x.shape[0]), -1, 16)
    return torch.gru(x, torch.zeros(5, x.shape[0], 16), weights, True, 5, 0.0, False, False, True)[0]


@hard_codes((B, T, 16), one="refused", two="refused")
def groups_as_many_as_batches(x: Tensor) -> Tensor:
    rows = x.reshape(int(x.shape[0]), -1).sum(1)
    return rows + F.group_norm(torch.ones(1, int(x.shape[0]), 4), int(x.shape[0])).sum()


# ---- structure that changes with sizes ----------------------------------------------------------------


@hard_codes((B, T, 16))
def loop_over_steps(x: Tensor) -> Tensor:
    h = torch.zeros_like(x[:, 0])
    out = []
    for t in range(int(x.shape[1])):
        h = torch.tanh(h + x[:, t])
        out.append(h)
    return torch.stack(out, 1) + x


@hard_codes((B, T, 16))
def sum_over_steps(x: Tensor) -> Tensor:
    h = torch.zeros_like(x[:, 0])
    for t in range(int(x.shape[1])):
        h = torch.tanh(h + x[:, t])
    return h.relu()


@hard_codes((B, T, 16))
def state_that_the_last_step_leaves(x: Tensor) -> Tensor:
    state, out = torch.zeros_like(x[:, 0]), []
    for t in range(int(x.shape[1])):
        out.append(torch.tanh(state + x[:, t]) + x[:, t : t + 1].sum(1))
        state = state * 0.5 + x[:, t].sin()
    return torch.stack(out, 1)


@hard_codes((B, T), one="refused", two="refused")
def parts_as_long_as_the_data_asks(x: Tensor) -> Tensor:
    return torch.stack([part.sum() for part in x[x > 0].split((x > 0).sum(1).tolist())])


@hard_codes((B, T, 16), one="unseen", two="refused")
def branch_on_length(x: Tensor) -> Tensor:
    if int(x.shape[1]) > 8:
        x = x.relu()
    return x * 2
