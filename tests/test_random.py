"""Random operators: what they give has the right type, shape and distribution, and differs from run to run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.driver import Session, export

MANY = 20000


class Apply(nn.Module):
    def __init__(self, fn: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fn(x)


CASES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "rand": lambda x: torch.rand(x.size(0), 2),
    "randn": lambda x: torch.randn(x.size(0), dtype=torch.float64),
    "rand_like": torch.rand_like,
    "randn_like": torch.randn_like,
    "randint": lambda x: torch.randint(-3, 7, (x.size(0),)),
    "randint_like": lambda x: torch.randint_like(x, 5),
    "normal": lambda x: torch.normal(x, 3.0),
    "normal_": lambda x: torch.empty_like(x).normal_(1.0, 2.0),
    "uniform_": lambda x: torch.empty_like(x).uniform_(-1.0, 4.0),
    "half_of_one_size": lambda x: torch.rand(20000, dtype=torch.float16) + x[0].half() * 0,
    "half_uniform": lambda x: torch.empty_like(x).half().uniform_(-1.0, 4.0),
    "half_exponential": lambda x: torch.empty_like(x).half().exponential_(2.0),
    "exponential_": lambda x: torch.empty_like(x).exponential_(2.0),
    "bernoulli": lambda x: torch.bernoulli(torch.full_like(x, 0.3)),
    "bernoulli_": lambda x: torch.empty_like(x).bernoulli_(0.7),
    "multinomial": lambda x: torch.multinomial(torch.tensor([0.1, 0.0, 0.5, 0.4]).expand(x.size(0), 4), 1),
    "multinomial_replacement": lambda x: torch.multinomial(torch.tensor([1.0, 0.0, 5.0, 4.0]), x.size(0), replacement=True),
    "multinomial_many": lambda x: torch.multinomial(torch.tensor([0.1, 0.3, 0.6]).expand(x.size(0), 3), 2),
    "dropout": lambda x: F.dropout(torch.ones_like(x), 0.25, True),
    "dropout2d": lambda x: F.dropout2d(torch.ones_like(x).reshape(-1, 4, 2, 2), 0.25, True),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.25, True),
    "rrelu": lambda x: F.rrelu(-torch.ones_like(x), 0.1, 0.5, True),
    "attention_dropout": lambda x: F.scaled_dot_product_attention(*[x.reshape(-1, 4, 4)] * 3, dropout_p=0.3),
    "dropout_all": lambda x: F.dropout(x, 1.0, True),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("opset", [11, 18])
def test_random_operator(name: str, opset: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    x, model = torch.randn(MANY), Apply(CASES[name])
    torch.jit.trace(model, (x,), check_trace=False).save(str(tmp_path / "model.pt"))
    export(tmp_path / "model.pt", tmp_path / "model.onnx", opset=opset, dynamic={"x": {0: "n"}})
    session, expected = Session(tmp_path / "model.onnx"), model(x)
    (got,) = session.run(x)
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    spread = expected.double().std().item()
    assert got.double().mean().item() == pytest.approx(expected.double().mean().item(), abs=0.05 * spread + 1e-9)
    assert got.double().std().item() == pytest.approx(spread, rel=0.05)
    assert got.double().min().item() == pytest.approx(expected.double().min().item(), abs=2 * spread)
    assert name == "dropout_all" or not torch.equal(got, session.run(x)[0])


def test_random_permutation_has_every_number_once(tmp_path: Path) -> None:
    model = Apply(lambda x: torch.randperm(x.size(0)))
    torch.jit.trace(model, (torch.zeros(9),), check_trace=False).save(str(tmp_path / "model.pt"))
    export(tmp_path / "model.pt", tmp_path / "model.onnx", dynamic={"x": {0: "n"}})
    session = Session(tmp_path / "model.onnx")
    (order,) = session.run(torch.zeros(100))
    assert order.dtype == torch.int64
    assert order.sort().values.tolist() == list(range(100))
    assert order.tolist() != list(range(100))
