"""Loops of a model's Python code, which traces unroll, come back as loops: right at every number of steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
from torch import Tensor, nn

import lithify
from tests.driver import Session, compare, flat

SAMPLE = (2, 6)
SIZES = [SAMPLE, (1, 1), (2, 2), (3, 3), (1, 6), (2, 17)]  # batch, steps

Forward = Callable[[nn.Module, Tensor], object]
MODELS: dict[str, tuple[Forward, dict[str, nn.Module], int]] = {}


def loop(loops: int = 1, **modules: nn.Module) -> Callable[[Forward], Forward]:
    """Adds a model by its forward and its submodules, with the number of loops that its graph has."""

    def add(forward: Forward) -> Forward:
        MODELS[forward.__name__] = forward, modules, loops
        return forward

    return add


def model_of(name: str) -> nn.Module:
    forward, modules, _ = MODELS[name]
    module = type("Model", (nn.Module,), {"forward": forward})()
    for key, value in modules.items():
        module.add_module(key, value)
    return module.eval()


def zeros(x: Tensor, width: int = 8) -> Tensor:
    return torch.zeros(x.shape[0], width)


# ---- cells ----------------------------------------------------------------------------------------


@loop(linear=nn.Linear(12, 8))
def tanh_cell(self: nn.Module, x: Tensor) -> object:
    h = zeros(x)
    for t in range(x.shape[1]):
        h = torch.tanh(self.linear(torch.cat([x[:, t], h], 1)))
    return h


@loop(linear=nn.Linear(12, 8))
def checked_cell(self: nn.Module, x: Tensor) -> object:
    """Each iteration checks its sizes, and drops one that is always 1."""
    h, outputs = zeros(x), []
    for t in range(x.shape[1]):
        if h.shape != (x.shape[0], 8):
            raise ValueError(f"got {h.shape}")
        h = torch.tanh(self.linear(torch.cat([x[:, t], h], 1)))
        outputs.append((h[:, None, :] @ h[:, :, None]).squeeze(1))
    out = torch.stack(outputs, 1)
    if out.shape[1] != x.shape[1]:
        raise ValueError(f"got {out.shape}")
    return out


@loop(cell=nn.LSTMCell(4, 8))
def lstm_cell(self: nn.Module, x: Tensor) -> object:
    h, c = zeros(x), zeros(x)
    outputs = []
    for t in range(x.shape[1]):
        h, c = self.cell(x[:, t], (h, c))
        outputs.append(h)
    return torch.stack(outputs, 1), c


@loop(cell=nn.LSTMCell(4, 8))
def state_that_begins_as_none(self: nn.Module, x: Tensor) -> object:
    state, outputs = None, []
    for t in range(x.shape[1]):
        state = self.cell(x[:, t], state)
        outputs.append(state[0])
    return torch.stack(outputs, 1)


@loop(cell=nn.GRUCell(4, 8))
def gru_over_unbind(self: nn.Module, x: Tensor) -> object:
    h, outputs = zeros(x), []
    for step in x.unbind(1):
        h = self.cell(step, h)
        outputs.append(h)
    return torch.stack(outputs, 1)


@loop(2, forth=nn.GRUCell(4, 8), back=nn.GRUCell(4, 8))
def bidirectional(self: nn.Module, x: Tensor) -> object:
    h, forth = zeros(x), []
    for t in range(x.shape[1]):
        h = self.forth(x[:, t], h)
        forth.append(h)
    h, back = zeros(x), []
    for t in reversed(range(x.shape[1])):
        h = self.back(x[:, t], h)
        back.insert(0, h)
    return torch.cat([torch.stack(forth, 1), torch.stack(back, 1)], -1)


@loop(2, first=nn.Linear(12, 8), second=nn.Linear(16, 8))
def second_loop_over_the_first(self: nn.Module, x: Tensor) -> object:
    h, outputs = zeros(x), []
    for t in range(x.shape[1]):
        h = torch.tanh(self.first(torch.cat([x[:, t], h], 1)))
        outputs.append(h)
    h = zeros(x)
    for y in outputs:
        h = torch.tanh(self.second(torch.cat([y, h], 1)))
    return h


@loop(query=nn.Linear(8, 4), cell=nn.GRUCell(4, 8), out=nn.Linear(8, 5))
def attention_decoder(self: nn.Module, x: Tensor) -> object:
    h, outputs = zeros(x), []
    for _ in range(x.shape[1]):
        weights = torch.softmax((self.query(h)[:, None] * x).sum(-1), -1)
        h = self.cell((weights[..., None] * x).sum(1), h)
        outputs.append(self.out(h))
    return torch.stack(outputs, 1)


@loop(embedding=nn.Embedding(7, 4), cell=nn.GRUCell(4, 8), out=nn.Linear(8, 7))
def greedy_tokens(self: nn.Module, x: Tensor) -> object:
    token, h, tokens = torch.zeros(x.shape[0], dtype=torch.long), x.sum(1).repeat(1, 2), []
    for _ in range(x.shape[1]):
        h = self.cell(self.embedding(token), h)
        token = self.out(h).argmax(-1)
        tokens.append(token)
    return torch.stack(tokens, 1)


@loop(out=nn.Linear(4, 7), embedding=nn.Embedding(7, 4))
def beam_step(self: nn.Module, x: Tensor) -> object:
    scores, state, tokens = zeros(x, 3), x[:, :1].expand(-1, 3, -1), []
    for t in range(x.shape[1]):
        all_scores = scores[..., None] + torch.log_softmax(self.out(state + x[:, t : t + 1]), -1)
        scores, best = all_scores.flatten(1).topk(3, -1)
        beam, token = best // 7, best % 7
        state = torch.gather(state, 1, beam[..., None].expand(-1, -1, 4)) + self.embedding(token)
        tokens.append(token)
    return torch.stack(tokens, -1), scores


# ---- scans ----------------------------------------------------------------------------------------


@loop()
def moving_average(self: nn.Module, x: Tensor) -> object:
    y = x[:, 0]
    outputs = [y]
    for t in range(1, x.shape[1]):
        y = 0.9 * y + 0.1 * x[:, t]
        outputs.append(y)
    return torch.stack(outputs, 1)


@loop(decay=nn.Linear(4, 4), gain=nn.Linear(4, 4))
def selective_scan(self: nn.Module, x: Tensor) -> object:
    decay, gain = torch.sigmoid(self.decay(x)), self.gain(x)
    h, outputs = zeros(x, 4), []
    for i in range(x.shape[1]):
        h = decay[:, i] * h + gain[:, i]
        outputs.append((h * x[:, i]).sum(-1, keepdim=True))
    return torch.cat(outputs, 1)


@loop()
def product_written_in_place(self: nn.Module, x: Tensor) -> object:
    out, product = torch.empty_like(x), torch.ones_like(x[:, 0])
    for t in range(x.shape[1]):
        product = product * x[:, t]
        out[:, t] = product
    return out


@loop()
def differences(self: nn.Module, x: Tensor) -> object:
    before, outputs = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        outputs.append(x[:, t] - before)
        before = x[:, t]
    return torch.stack(outputs, 1)


@loop()
def counting_down(self: nn.Module, x: Tensor) -> object:
    h, outputs = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1] - 1, -1, -1):
        h = h * 0.5 + x[:, t]
        outputs.append(h)
    return torch.stack(outputs, 1)


@loop()
def growing(self: nn.Module, x: Tensor) -> object:
    y = x[:, :1]
    for t in range(1, x.shape[1]):
        y = torch.cat([y, y[:, -1:] + x[:, t : t + 1]], 1)
    return y


@loop()
def sums_of_the_last_two(self: nn.Module, x: Tensor) -> object:
    outputs = [x[:, 0], x[:, 0]]
    for t in range(x.shape[1]):
        outputs.append(torch.tanh(outputs[-1] + outputs[-2] + x[:, t]))
    return torch.stack(outputs, 1)


@loop()
def attention_over_what_was(self: nn.Module, x: Tensor) -> object:
    keys, outputs = x[:, :0], []
    for t in range(x.shape[1]):
        keys = torch.cat([keys, x[:, t : t + 1]], 1)
        weights = torch.softmax((keys * x[:, t : t + 1]).sum(-1), 1)
        outputs.append((weights[..., None] * keys).sum(1))
    return torch.stack(outputs, 1)


# ---- conditions that count --------------------------------------------------------------------------


@loop(cell=nn.GRUCell(4, 8))
def while_steps_are_left(self: nn.Module, x: Tensor) -> object:
    h, t = zeros(x), 0
    while t < x.shape[1]:
        h, t = self.cell(x[:, t], h), t + 1
    return h


@loop(cell=nn.GRUCell(4, 8))
def counting_what_is_left(self: nn.Module, x: Tensor) -> object:
    h, left = zeros(x), x.shape[1]
    while left > 0:
        h = self.cell(x[:, left - 1], h)
        left -= 1
    return h


@loop(cell=nn.GRUCell(4, 8))
def while_something_is_left(self: nn.Module, x: Tensor) -> object:
    h = zeros(x)
    while x.shape[1] > 0:
        h, x = self.cell(x[:, 0], h), x[:, 1:]
    return h


@loop(cell=nn.GRUCell(4, 8))
def until_as_long_as_the_input(self: nn.Module, x: Tensor) -> object:
    h, out = zeros(x), x.new_zeros(x.shape[0], 0, 8)
    while out.shape[1] < x.shape[1]:
        h = self.cell(x[:, out.shape[1]], h)
        out = torch.cat([out, h[:, None]], 1)
    return out


@loop(cell=nn.GRUCell(4, 8))
def all_steps_but_the_last(self: nn.Module, x: Tensor) -> object:
    h = zeros(x)
    for t in range(x.shape[1]):
        h = self.cell(x[:, t], h)
        if t < x.shape[1] - 1:
            h = h * 0.5
    return h


@loop()
def neighbors(self: nn.Module, x: Tensor) -> object:
    outputs, none = [], torch.zeros_like(x[:, 0])
    for t in range(x.shape[1]):
        before = x[:, t - 1] if t > 0 else none
        outputs.append(before - (x[:, t + 1] if t + 1 < x.shape[1] else none))
    return torch.stack(outputs, 1)


# ---- pieces ---------------------------------------------------------------------------------------


@loop()
def windows(self: nn.Module, x: Tensor) -> object:
    return torch.stack([x[:, i : i + 3].sum(1) for i in range(x.shape[1] - 2)], 1)


@loop()
def every_second(self: nn.Module, x: Tensor) -> object:
    return torch.stack([x[:, k] * 2 for k in range(0, x.shape[1], 2)], 1)


@loop()
def numbers_that_count(self: nn.Module, x: Tensor) -> object:
    return torch.cat([x[:, t : t + 1] * (t + 1) for t in range(x.shape[1])], 1)


@loop()
def pieces_of_two(self: nn.Module, x: Tensor) -> object:
    h = x.new_zeros(x.shape[0], 4)
    for piece in x.split(2, 1):
        h = torch.tanh(h + piece.sum(1))
    return h


@loop()
def each_of_the_batch(self: nn.Module, x: Tensor) -> object:
    return torch.stack([row * row.norm() for row in x])


@loop()
def rows_and_columns(self: nn.Module, x: Tensor) -> object:
    outputs = []
    for i in range(x.shape[0]):
        h = torch.zeros(4)
        for j in range(x.shape[1]):
            h = torch.tanh(h + x[i, j])
            outputs.append(h)
    return torch.stack(outputs)


# ---- the tests ------------------------------------------------------------------------------------


def exported(name: str, sample: tuple[int, int], out: Path) -> tuple[nn.Module, onnx.ModelProto]:
    torch.manual_seed(0)
    module = model_of(name)
    lithify.export(module, (torch.randn(*sample, 4),), out, input_names=["x"], dynamic_axes={"x": {0: "batch", 1: "steps"}})
    return module, onnx.load(out)


@pytest.mark.parametrize("name", MODELS)
def test_loop(name: str, out: Path) -> None:
    module, model = exported(name, SAMPLE, out)
    assert sum(n.op_type == "Loop" for n in model.graph.node) == MODELS[name][2]
    session, ran = Session(out), 0
    for size in SIZES:
        x = torch.randn(*size, 4)
        try:
            expected = flat(module(x))
        except RuntimeError:
            continue  # windows that are longer than what they slide over
        compare(session.run(x), expected, outputs=session.outputs)
        ran += 1
    assert ran >= len(SIZES) - 2


def test_layers_that_ask_the_same_are_no_loop(out: Path) -> None:
    """Each of them asks another tensor for the same size."""

    class Layers(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            for scale in (1.0, 0.5, 0.25, 2.0):
                x = torch.tanh(x * scale)
                if x.shape[1] > 1:
                    x = x - x.mean(1, keepdim=True)
            return x

    result = lithify.export(Layers(), (torch.randn(2, 5, 4),), out, dynamic_axes={"x": {0: "batch", 1: "steps"}})
    assert [str(d) for d in result.dimensions] == ["batch: any size", "steps: any size"]
    session = Session(out)
    for steps in (1, 2, 9):
        x = torch.randn(2, steps, 4)
        compare(session.run(x), flat(Layers()(x)), outputs=session.outputs)


def test_limits_that_count_are_no_loop(out: Path) -> None:
    """The same line compares a size with numbers that count, and always with the same ones."""

    class Limits(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            for limit in (4, 6, 8):
                if x.shape[1] > limit:
                    x = torch.tanh(x * limit)
            return x

    axes = {"x": {0: "batch", 1: "steps"}}
    result = lithify.export(Limits(), (torch.randn(2, 5, 4),), out, input_names=["x"], dynamic_axes=axes)
    session = Session(out)
    for steps in (1, 4, 5, 7, 9, 30):
        assert result.claims.holds(batch=2, steps=steps) is True
        x = torch.randn(2, steps, 4)
        compare(session.run(x), flat(Limits()(x)), outputs=session.outputs)


def test_nodes_do_not_depend_on_the_sample(out: Path) -> None:
    sizes = [len(exported("lstm_cell", (2, steps), out)[1].SerializeToString()) for steps in (5, 9)]
    assert abs(sizes[0] - sizes[1]) < 100


def test_loops_of_known_length_stay_unrolled(out: Path) -> None:
    class Refined(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            for _ in range(3):
                x = torch.tanh(x * 2)
            return x

    lithify.export(Refined(), (torch.randn(2, 6, 4),), out, input_names=["x"], dynamic_axes={"x": {0: "batch", 1: "steps"}})
    assert [n.op_type for n in onnx.load(out).graph.node] == ["Mul", "Tanh"] * 3
