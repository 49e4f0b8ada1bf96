"""Live models that the table of sizes (live_corpus.py) has no place for, beside eager PyTorch at several sizes."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch import distributions as d
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.utils.rnn import (
    PackedSequence,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
    unpack_sequence,
    unpad_sequence,
)

import lithify
from tests.driver import Session, compare, flat

Axes = dict[str, dict[int, str]]


class Function(nn.Module):
    """A function of the modules that it uses and of tensors."""

    def __init__(self, function: Callable[..., Any], *layers: nn.Module) -> None:
        super().__init__()
        self.function, self.layers = function, nn.ModuleList(layers)

    def forward(self, *x: Any) -> Any:
        return self.function(*self.layers, *x)


def right(
    model: nn.Module, make: Callable[..., tuple[Any, ...]], sizes: Sequence[dict[str, int]], axes: Axes, out: Path, **options: Any
) -> Any:
    """Exports the model on arguments of the first sizes. The file is right at all of them, and claims so."""
    result = lithify.export(model.eval(), make(**sizes[0]), out, dynamic_axes=axes, **options)
    session, claims = Session(out), lithify.claims(out)
    for at in sizes:
        arguments = make(**at)
        with torch.no_grad():
            expected = flat(model(*copy.deepcopy(arguments)))
        compare(session.run(*flat(arguments)), expected, outputs=session.outputs)
        assert claims.holds(**at) is True, f"{at}: {claims.why(**at)}"
    return result


# ---- packed sequences ----------------------------------------------------------------------------------------------------------

SEQUENCES = [
    {"batch": 3, "seq": 5},
    {"batch": 1, "seq": 5},
    {"batch": 4, "seq": 1},
    {"batch": 5, "seq": 9},
    {"batch": 1, "seq": 1},
]


def sequences(batch: int, seq: int) -> tuple[Tensor, Tensor]:
    """A batch and the lengths in it, the longest first; the longest one is shorter than the padded ones where it can be."""
    rng = torch.Generator().manual_seed(10 * batch + seq)
    lengths = torch.randint(1, max(seq, 2), (batch,), generator=rng).sort(descending=True)[0]
    return torch.randn(batch, seq, 3, generator=rng), lengths


class Recurrent(nn.Module):
    def __init__(self, rnn: Any, enforce_sorted: bool) -> None:
        super().__init__()
        self.rnn, self.enforce_sorted = rnn, enforce_sorted

    def forward(self, x: Tensor, lengths: Tensor, h: Tensor | None = None, c: Tensor | None = None) -> Any:
        state = h if c is None else (h, c)
        packed = pack_padded_sequence(x, lengths, self.rnn.batch_first, self.enforce_sorted)
        y, last = self.rnn(packed, state)
        return pad_packed_sequence(y, self.rnn.batch_first), last


@pytest.mark.parametrize("enforce_sorted", [True, False], ids=["sorted", "unsorted"])
@pytest.mark.parametrize("with_state", [False, True], ids=["zeros", "state"])
@pytest.mark.parametrize("layers, both, first", [(1, False, True), (2, True, False)], ids=["1", "2-both"])
@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU], ids=lambda k: k.__name__)
def test_packed(
    kind: type[nn.RNNBase], layers: int, both: bool, first: bool, with_state: bool, enforce_sorted: bool, out: Path
) -> None:
    rnn = kind(3, 4, num_layers=layers, bidirectional=both, batch_first=first)
    states = (2 if kind is nn.LSTM else 1) if with_state else 0

    def make(batch: int, seq: int) -> tuple[Tensor, ...]:
        x, lengths = sequences(batch, seq)
        if not enforce_sorted:
            lengths = lengths.roll(1)
        given = [torch.randn(layers * (1 + both), batch, 4) for _ in range(states)]
        return x if first else x.transpose(0, 1).contiguous(), lengths, *given

    axes = {"x": {0 if first else 1: "batch", 1 if first else 0: "seq"}, "lengths": {0: "batch"}}
    axes |= {name: {1: "batch"} for name in ("h", "c")[:states]}
    right(Recurrent(rnn, enforce_sorted), make, SEQUENCES, axes, out)


def total_length(gru: nn.Module, x: Tensor, lengths: Tensor) -> Any:
    y, _ = gru(pack_padded_sequence(x, lengths, True))
    return pad_packed_sequence(y, True, -1.0, total_length=x.size(1))


def of_mask(gru: nn.Module, x: Tensor, lengths: Tensor) -> Any:
    mask = torch.arange(x.shape[1]) < lengths[:, None]
    y, h = gru(pack_padded_sequence(x, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False))
    y, _ = pad_packed_sequence(y, batch_first=True, total_length=mask.shape[1])
    return (y * mask[..., None]).sum(1) / lengths[:, None], h[-1]


def last_step(gru: nn.Module, x: Tensor, lengths: Tensor) -> Any:
    y, _ = gru(pack_padded_sequence(x, lengths, True, False))
    y, ends = pad_packed_sequence(y, True)
    return y[torch.arange(y.size(0)), ends - 1]


def replaced(gru: nn.Module, x: Tensor, lengths: Tensor) -> Any:
    packed = pack_padded_sequence(x, lengths, True, False)
    y, _ = gru(PackedSequence(torch.relu(packed.data), *packed[1:]))
    return y._replace(data=y.data * 2)


@pytest.mark.parametrize("function", [total_length, of_mask, last_step, replaced], ids=lambda f: f.__name__)
def test_packed_in_a_model(function: Callable[..., Any], out: Path) -> None:
    axes = {"x_0": {0: "batch", 1: "seq"}, "x_1": {0: "batch"}}
    right(Function(function, nn.GRU(3, 4, batch_first=True)), sequences, SEQUENCES, axes, out)


def test_sequences_of_three_tensors(out: Path) -> None:
    def three(rnn: nn.Module, *given: Tensor) -> Any:
        y, _ = rnn(pack_sequence(list(given), enforce_sorted=False))
        return pad_packed_sequence(y), pad_sequence(list(given), True, -1.0)

    sizes = [{"a": 4, "b": 2, "c": 3}, {"a": 1, "b": 1, "c": 1}, {"a": 2, "b": 7, "c": 3}, {"a": 2, "b": 1, "c": 9}]
    axes = {f"x_{i}": {0: name} for i, name in enumerate("abc")}
    right(Function(three, nn.RNN(3, 4)), lambda **n: tuple(torch.randn(n[d], 3) for d in "abc"), sizes, axes, out)


def test_sequences_without_padding(out: Path) -> None:
    def unpadded(x: Tensor, lengths: Tensor) -> Any:
        packed = pack_padded_sequence(x, lengths, True, False)
        return unpad_sequence(x.transpose(0, 1).clone(), lengths), unpack_sequence(packed)

    right(Function(unpadded), lambda seq: sequences(3, seq), [{"seq": 5}, {"seq": 9}, {"seq": 1}], {"x_0": {1: "seq"}}, out)


# ---- higher-order operators: torch.export captures them ------------------------------------------------------------------------


def nested_cond(a: nn.Module, b: nn.Module, x: Tensor) -> Any:
    def inner(x: Tensor) -> Tensor:
        return torch.cond(x.mean() > 0.5, lambda x: a(x), lambda x: b(x), (x,))  # type: ignore[no-any-return]

    return torch.cond(x.sum() > 5, inner, lambda x: x * 2, (x,))


def vmapped(x: Tensor) -> Any:
    return torch.func.vmap(lambda row: row.sum() * row)(x)


def counted_while(x: Tensor) -> Any:
    return while_loop(lambda i, y: (i < 5) & (y.sum() < 1000), lambda i, y: (i + 1, y * 3), (torch.tensor(0), x))


def scanned(x: Tensor) -> Any:
    return scan(lambda c, row: (c + row, c * row), torch.zeros(4), x), scan(
        lambda c, r: (c + r, c.sin()), x[0] * 0, x, reverse=True
    )


def mapped(x: Tensor) -> Any:
    return map_rows(lambda row, scale: (row + 1, row.sum() * scale), x, torch.ones(4))


def associated(x: Tensor) -> Any:
    def affine(a: Any, b: Any) -> Any:
        return a[0] * b[0], a[1] * b[0] + b[1]

    return associative_scan(affine, (x, x * 2), 0, reverse=True, combine_mode="generic")


@pytest.mark.parametrize("function", [nested_cond, counted_while, scanned, mapped, vmapped, associated], ids=lambda f: f.__name__)
def test_higher_order(function: Callable[..., Any], out: Path) -> None:
    layers = (nn.Linear(4, 4), nn.Linear(4, 4)) if function is nested_cond else ()
    sizes = [{"n": n} for n in (4, 2, 7, 13)]
    result = right(Function(function, *layers), lambda n: (torch.rand(n, 4),), sizes, {"x_0": {0: "n"}}, out)
    assert result.capture == "export"


def test_modules_imported_by_the_model_get_plain_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: Path) -> None:
    (tmp_path / "imported_late.py").write_text("from math import sqrt\nimport builtins\nlength = builtins.len\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def late(x: Tensor) -> Tensor:
        import imported_late

        return x * imported_late.sqrt(4.0) * imported_late.length([1])

    right(Function(late), lambda n: (torch.rand(n, 4),), [{"n": 2}, {"n": 3}], {"x_0": {0: "n"}}, out)
    module = sys.modules.pop("imported_late")
    assert module.sqrt is math.sqrt and module.length is len and module.__loader__ is module.__spec__.loader


# ---- sizes of data -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[x.nonzero().squeeze()].sum(),
        lambda x: x.index_fill(0, x.nonzero().squeeze(), 3.0),
        lambda x: torch.cat([x, torch.where(x > 0)[0].squeeze().reshape(-1).float()]),
        lambda x: pad_sequence([x[:k] for k in x.int() + 1], batch_first=True, padding_value=-1.0),
    ],
)
def test_sizes_of_data(function: Callable[..., Any], out: Path) -> None:
    """Both where a size is 1, so that its dimension goes, and where it is not."""
    model = Function(function)
    lithify.export(model.eval(), torch.tensor([1.0, 0, 2, 0, 1]), out, dynamic_axes={"x_0": {0: "n"}})
    for values in ([1.0, 0, 2, 0, 1], [0.0, 2, 0], [0.0, 0, 0], [2.0, 1]):
        x = torch.tensor(values)
        compare(Session(out).run(x), flat(model(x)))


# ---- distributions: what they compute, not what they draw ----------------------------------------------------------------------


def densities(x: Tensor) -> Any:
    ones = torch.ones_like(x)
    yield d.Normal(x, x + 0.1).log_prob(x * 2)
    yield d.Normal(0.0, 1.0).icdf(x)
    yield d.Bernoulli(x).log_prob((x > 0.5).float())
    yield d.Categorical(logits=x).entropy()
    yield d.Categorical(x).log_prob(torch.zeros(x.shape[0], dtype=torch.long))
    yield d.Beta(x + 1, x + 2).log_prob(x)
    yield d.Gamma(x, x).log_prob(x)
    yield d.Dirichlet(x + 1).log_prob(x / x.sum(-1, keepdim=True))
    yield d.Geometric(x).log_prob(ones)
    yield d.Gumbel(x, x).log_prob(x)
    yield d.Multinomial(4, x).log_prob(ones)
    yield d.NegativeBinomial(3, x).log_prob(ones)
    yield d.Weibull(x, x).log_prob(x)
    yield d.VonMises(x, x).log_prob(x)
    yield d.Independent(d.LogNormal(x, x), 1).log_prob(x)
    yield d.MixtureSameFamily(d.Categorical(x), d.Normal(x, x)).log_prob(x[:, 0])
    yield d.TransformedDistribution(d.Normal(x, x), [d.transforms.TanhTransform()]).log_prob(x)
    yield d.kl_divergence(d.Categorical(x), d.Categorical(x + 1))


def test_distributions(out: Path) -> None:
    def make(n: int) -> tuple[Tensor]:
        return (torch.rand(n, 4, generator=torch.Generator().manual_seed(n)) * 0.8 + 0.1,)

    right(Function(lambda x: tuple(densities(x))), make, [{"n": 4}, {"n": 1}, {"n": 7}], {"x_0": {0: "n"}}, out)


@pytest.mark.parametrize(
    "name, operator", [("Gamma", "_standard_gamma"), ("Dirichlet", "_sample_dirichlet"), ("Poisson", "poisson")]
)
def test_samples_that_no_operator_draws_are_refused_by_name(name: str, operator: str) -> None:
    def draw(x: Tensor) -> Any:
        return getattr(d, name)(*[x] * (2 if name == "Gamma" else 1)).sample()

    with pytest.raises(lithify.ExportError, match=f"the operator aten::{operator} is not supported"):
        lithify.export(Function(draw).eval(), torch.rand(3, 4))
