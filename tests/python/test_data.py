"""Python code that takes numbers out of tensors, decides something with them, or loops over them: right whatever inputs hold."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
from torch import Tensor, nn

import lithify
from tests.driver import Session, compare, flat

SAMPLE = (3, 6)
SIZES = [SAMPLE, (2, 9), (1, 7), (5, 4), (7, 12), (1, 1)]  # batch, steps

Forward = Callable[[nn.Module, Tensor, Tensor], object]
MODELS: dict[str, tuple[Forward, str]] = {}


def model(operator: str) -> Callable[[Forward], Forward]:
    """Adds a model by its forward. Its graph has such an operator."""

    def add(forward: Forward) -> Forward:
        MODELS[forward.__name__] = forward, operator
        return forward

    return add


def model_of(forward: Forward) -> nn.Module:
    module = type("Model", (nn.Module,), {"forward": forward})()
    module.linear = nn.Linear(4, 4)
    return module.eval()


# ---- numbers --------------------------------------------------------------------------------------


@model("Slice")
def longest(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    return self.linear(x)[:, : lengths.max().item()]


@model("Range")
def mask_of_lengths(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    return torch.arange(int(lengths.max()))[None] < lengths[:, None]


@model("Div")
def scaled(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    return x / max(x.abs().max().item(), 0.5)


@model("TopK")
def half_of_them(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    return x.topk(int(0.5 * lengths.max().item()), 1)[0]


@model("ReduceMax")
def of_a_list(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    sizes = lengths.tolist()
    return x[:, : max(sizes)] * sizes[-1], x + sum(sizes) / len(sizes), sizes[0]


@model("Gather")
def of_a_list_of_floats(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    sizes = (lengths * 0.5).tolist()
    return x * min(sizes), sum(sizes), sizes[0]


@model("Gather")
def of_a_changed_list(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    sizes = x[0, 0].tolist()
    sizes.append(sizes[0])
    sizes[1] = 3.0
    return x * sizes[-1] + sizes[1] + sizes[2]


# ---- branches -------------------------------------------------------------------------------------


@model("If")
def if_long(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    if lengths.max().item() > 5:
        return self.linear(x)
    return x * 2


@model("If")
def if_any(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    if (x > 2).any():
        x = x.clamp(max=2)
    return self.linear(x)


@model("If")
def by_data_and_size(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    if x.shape[1] > 7:
        x = x + 1
    if x.sum() > 0 and lengths.min() > 1:
        x = self.linear(x)
    return x * (3 if x.shape[0] == 1 else 2)


@model("If")
def experts(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    out = torch.zeros_like(x)
    for expert in range(3):
        chosen = torch.nonzero(lengths % 3 == expert).squeeze(-1)
        if chosen.numel() == 0:
            continue
        out[chosen] = self.linear(x[chosen]) * (expert + 1)
    return out


@model("If")
def masks_that_are_left_out(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    """Traces diverge right behind a number that a tensor holds."""
    steps = x.shape[1]
    mask = torch.arange(steps)[None] < lengths[:, None]

    def hides_nothing() -> bool:
        if (steps == 1 or mask.shape[1] == steps) and mask.sum() == mask.numel():
            return True
        return bool(mask[:, :steps].sum() == mask[:, :steps].numel() and mask[:, steps:].sum() == 0)

    mask = None if hides_nothing() else mask[:, None, :] & torch.ones(steps, steps, dtype=torch.bool).tril()
    return nn.functional.scaled_dot_product_attention(x, x, x, mask, is_causal=steps > 1 and mask is None)


def check(condition: Tensor, message: str) -> None:
    if not condition:
        raise ValueError(message)


@model("Gather")
def texts_that_change_nothing(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    found = torch.nonzero(lengths > 1)[:, 0]
    check(lengths.max() > 0, f"rows {lengths.max()} of {found.shape[0]}")
    return x[found] + 1


# ---- loops ----------------------------------------------------------------------------------------


@model("Loop")
def without_padding(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    return torch.cat([row[:length] for row, length in zip(x, lengths.tolist(), strict=True)])


@model("Loop")
def means(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    return torch.stack([x[i, : int(n)].mean(0) for i, n in enumerate(lengths)])


@model("Loop")
def padded_to_the_longest(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    sizes = [int(n) for n in lengths]
    longest = max(sizes)
    return torch.stack([nn.functional.pad(row[:n], (0, 0, 0, longest - n)) for row, n in zip(x, sizes, strict=True)])


@model("Loop")
def sums_of_pieces(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    packed = torch.cat([row[:length] for row, length in zip(x, lengths.tolist(), strict=True)])
    return torch.stack([piece.sum(0) for piece in packed.split(lengths.tolist())])


@model("Loop")
def repeated(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    return torch.stack([torch.repeat_interleave(row, int(n), 0).sum(0) for row, n in zip(x, lengths, strict=True)])


@model("Loop")
def grids(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    positions = []
    for h, w in torch.stack([lengths, lengths + 1], 1).tolist():
        rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        positions.append(torch.stack([rows.reshape(h, w).flatten(), columns.flatten()]))
    return torch.cat(positions, 1)


@model("Loop")
def pieces_of_a_number_that_is_data(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    each = torch.repeat_interleave(lengths, lengths % 3 + 1)
    rows = torch.arange(each.sum().item()).float()
    return torch.cat([piece - piece.mean() for piece in rows.split(each.tolist())])


@model("Loop")
def experts_that_are_hit(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    out, weights = torch.zeros_like(x[:, 0]), torch.stack([self.linear.weight * i for i in range(4)])
    mask = nn.functional.one_hot(lengths % 4, 4).permute(1, 0)
    for expert in (mask.sum(-1) > 0).nonzero():
        chosen = torch.where(mask[expert].squeeze(0))[0]
        out.index_add_(0, chosen, x[chosen, 0] @ weights[expert[0]])
    return out


@model("Loop")
def experts_that_are_hit_but_for_none(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    """A position is never the number behind the last one."""
    out, weights = torch.zeros_like(x[:, 0]), torch.stack([self.linear.weight * i for i in range(4)])
    mask = nn.functional.one_hot(lengths % 4, 4).permute(1, 0)
    for expert in (mask.sum(-1) > 0).nonzero():
        expert = expert[0]
        if expert == 4:
            continue
        chosen = torch.where(mask[expert])[0]
        first, second = (x[chosen, 0] @ weights[expert]).chunk(2, -1)
        out.index_add_(0, chosen, torch.cat([first, second * 2], -1))
    return out


@model("Loop")
def experts_by_unique(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    out, weights = torch.zeros_like(x[:, 0]), torch.stack([self.linear.weight * i for i in range(13)])
    for expert in torch.unique(lengths):
        chosen = torch.where(lengths == expert)[0]
        out = out.index_add(0, chosen, x[chosen, 0] @ weights[expert])
    return out


@model("Loop")
def experts_of_real_numbers(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    """How many are hit differs only with other contents."""
    rows, out = x[:, 0], torch.zeros_like(x[:, 0])
    weights = torch.stack([self.linear.weight * i for i in range(4)])
    index = rows.argmax(-1)
    for expert in torch.unique(index):
        chosen = index == expert
        out[chosen] = rows[chosen] @ weights[expert]
    return out


@model("Loop")
def pieces_one_after_the_other(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    """The first piece starts at a number, and the others at sums."""
    packed, start, sums = torch.cat(list(x)), 0, []
    for length in lengths.tolist():
        sums.append(packed[start : start + length].sum(0))
        start += length
    return torch.stack(sums)


@model("Loop")
def windows_one_after_the_other(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
    packed, start, sums = torch.cat([x, x], 1).flatten(0, 1), 0, []
    for h, w in torch.stack([lengths, torch.full_like(lengths, 2)], 1).tolist():
        sums.append(self.linear(packed[start : start + h * w].view(h, w, 4)).mean(0))
        start += h * w
    return torch.stack(sums)


# ---- the tests ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_data(name: str, out: Path) -> None:
    forward, operator = MODELS[name]
    torch.manual_seed(0)
    module = model_of(forward)
    axes = {"x": {0: "batch", 1: "steps"}, "lengths": {0: "batch"}}
    lithify.export(module, (torch.randn(*SAMPLE, 4), torch.tensor([5, 2, 4])), out, dynamic_axes=axes)
    assert operator in {n.op_type for n in onnx.load(out).graph.node}
    session, ran = Session(out), 0
    for batch, steps in SIZES:
        x, lengths = torch.randn(batch, steps, 4), torch.randint(1, steps + 1, (batch,))
        for scale in (1, 5, -1):
            compare(session.run(x * scale, lengths), flat(module(x * scale, lengths)), outputs=session.outputs)
            ran += 1
    assert ran == 3 * len(SIZES)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("forward", [means, without_padding, padded_to_the_longest], ids=lambda f: f.__name__)
def test_a_sample_of_one_or_two_rows_shows_no_loop_and_larger_ones_do(forward: Forward, batch: int, out: Path) -> None:
    module = model_of(forward)
    axes = {"x": {0: "batch", 1: "steps"}, "lengths": {0: "batch"}}
    lithify.export(module, (torch.randn(batch, 6, 4), torch.full((batch,), 4)), out, dynamic_axes=axes)
    session = Session(out)
    for rows in (1, 2, 5):
        x, lengths = torch.randn(rows, 7, 4), torch.randint(1, 8, (rows,))
        compare(session.run(x, lengths), flat(module(x, lengths)), outputs=session.outputs)


class Routed(nn.Module):
    """Experts that are taken out of a list, or by name, by numbers that tensors hold."""

    def __init__(self, named: bool, other: nn.Module | None = None) -> None:
        super().__init__()
        experts = [nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4)) for _ in range(3)]
        experts.append(nn.Sequential(nn.Linear(4, 8), other or nn.GELU(), nn.Linear(8, 4)))
        self.gate, self.named = nn.Linear(4, 4), named
        names = {f"expert_{i}": m for i, m in enumerate(experts)}
        self.experts = nn.ModuleDict(names) if named else nn.ModuleList(experts)

    def forward(self, x: Tensor) -> Tensor:
        rows, out = x.flatten(0, 1), torch.zeros_like(x.flatten(0, 1))
        mask = nn.functional.one_hot(self.gate(rows).topk(2, -1)[1], 4).permute(2, 1, 0)
        for hit in (mask.sum((-1, -2)) > 0).nonzero():
            _, chosen = torch.where(mask[hit[0]])
            expert = self.experts[f"expert_{hit[0]}"] if self.named else self.experts[hit[0]]
            out.index_add_(0, chosen, expert(rows[chosen]))
        return out.view_as(x)


@pytest.mark.parametrize("named", [False, True])
def test_modules_that_data_choose(named: bool, out: Path) -> None:
    torch.manual_seed(0)
    module = Routed(named).eval()
    lithify.export(module, (torch.randn(2, 6, 4),), out, input_names=["x"], dynamic_axes={"x": {0: "batch", 1: "steps"}})
    session = Session(out)
    for batch, steps in ((2, 6), (1, 1), (3, 2), (4, 17)):
        for scale in (1, 5, -3):
            x = torch.randn(batch, steps, 4) * scale
            compare(session.run(x), flat(module(x)), outputs=session.outputs)


def test_modules_that_differ_are_not_chosen_by_data(out: Path) -> None:
    with pytest.raises(lithify.ExportError):
        lithify.export(Routed(False, nn.ReLU()).eval(), (torch.randn(2, 6, 4),), out, dynamic_axes={"x": {0: "batch"}})
    assert not out.exists()


class ByExpert(nn.Module):
    def forward(self, x: Tensor, weights: Tensor) -> Tensor:
        index, out = x.argmax(-1), torch.zeros_like(x)
        for expert in torch.unique(index):
            chosen = index == expert
            out[chosen] = x[chosen] * weights[expert]
        return out


def test_another_sample_shows_what_depends_on_contents(out: Path) -> None:
    x, weights = torch.eye(4)[[0, 0, 2, 0]], torch.randn(4)
    with pytest.raises(lithify.ExportError, match="number of results"):
        lithify.export(ByExpert(), (x, weights), out)
    lithify.export(ByExpert(), (x, weights), out, samples=[(torch.eye(4), weights)], verify=True)
    session = Session(out)
    for rows in ([0, 0, 0, 0], [3, 1, 1, 3], [2, 1, 0, 3]):
        x = torch.eye(4)[rows] + torch.rand(4, 4) / 2
        compare(session.run(x, weights), flat(ByExpert()(x, weights)), outputs=session.outputs)


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ((torch.randn(3, 4),), r"missing a required argument: 'weights'"),
        (
            (torch.randn(5, 4), torch.randn(5)),
            r"'weights' is \[5\] in samples\[0\], and \[4\] in args: only axes in dynamic_axes",
        ),
        ((torch.randn(5, 4), torch.randn(4).int()), r"'weights' is torch.int32 in samples\[0\], and torch.float32 in args"),
        ((torch.randn(5, 4), (torch.randn(4),)), r"samples\[0\] has x, weights_0, and args x, weights"),
    ],
)
def test_a_sample_that_is_unlike_the_first_is_refused(sample: tuple[object, ...], message: str, out: Path) -> None:
    with pytest.raises(lithify.ExportError, match=message):
        lithify.export(ByExpert(), (torch.eye(4), torch.randn(4)), out, dynamic_axes={"x": [0]}, samples=[sample])


class Padded(nn.Module):
    """A condition on a size that is computed from real numbers: it is known where the model was run."""

    def __init__(self, enough: int) -> None:
        super().__init__()
        self.stride, self.enough = nn.Buffer(torch.tensor(2.5)), enough

    def forward(self, x: Tensor) -> Tensor:
        more = torch.ceil(x.shape[1] / self.stride).to(torch.int64)
        x = nn.functional.pad(x, (0, 0, 0, more))
        return x * 2 if x.shape[1] > self.enough else x


def test_a_condition_that_is_no_formula_is_claimed_where_it_was_run(out: Path) -> None:
    axes = {"x": {0: "batch", 1: "steps"}}
    result = lithify.export(Padded(2), (torch.randn(2, 20, 4),), out, input_names=["x"], dynamic_axes=axes)
    assert result.claims.holds(batch=2, steps=20) is True
    assert result.claims.holds(batch=2, steps=31) is None


def test_a_condition_that_is_no_formula_and_differs_is_refused(out: Path) -> None:
    with pytest.raises(lithify.ExportError):
        lithify.export(Padded(20), (torch.randn(2, 14, 4),), out, input_names=["x"], dynamic_axes={"x": {1: "steps"}})
    assert not out.exists()


def test_an_index_that_fails_leaves_no_position_behind(out: Path) -> None:
    """The tracer keeps the position for the next index, which may be one of another program."""

    class Chosen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = nn.Parameter(torch.randn(3, 4))

        def forward(self, x: Tensor) -> Tensor:
            with contextlib.suppress(IndexError):
                x = x * self.weights[x.shape[0] + 3]
            return x[0] + self.weights[1]

    module = Chosen()
    lithify.export(module, (torch.randn(2, 4),), out, input_names=["x"], dynamic_axes={"x": {0: "batch"}})
    session = Session(out)
    for batch in (1, 2, 5):
        x = torch.randn(batch, 4)
        compare(session.run(x), flat(module(x)), outputs=session.outputs)


def test_a_branch_that_cannot_be_taken_is_refused(out: Path) -> None:
    """The other side of the condition fails, and not by a raise that would only guard."""

    def forward(self: nn.Module, x: Tensor, lengths: Tensor) -> object:
        return self.linear(x) if x.sum() < 1000 else self.linear(x[..., :3])

    with pytest.raises(lithify.ExportError, match=r"one outcome of the condition on data at .*test_data.py"):
        lithify.export(model_of(forward), (torch.randn(*SAMPLE, 4), torch.tensor([5, 2, 4])), out)
    assert not out.exists()
