"""lithify.claims: what a file claims, from the file alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import lithify


class Rows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1, 12)


AXES = {"x": {0: "rows"}}


def same(a: lithify.Claims, b: lithify.Claims) -> bool:
    return str(a) == str(b) and [str(c) for c in a.constraints] == [str(c) for c in b.constraints]


def test_of_a_live_model(tmp_path: Path) -> None:
    path = tmp_path / "rows.onnx"
    result = lithify.export(Rows(), torch.randn(4, 9), path, dynamic_axes=AXES)
    claims = lithify.claims(path)
    assert (
        same(claims, result.claims)
        and same(claims, lithify.claims(path.read_bytes()))
        and same(claims, lithify.claims(str(path)))
    )
    assert claims.holds(rows=8) is True
    assert claims.holds(rows=7) is False
    assert claims.why(rows=7).startswith("rows % 4 == 0 does not hold at rows=7 (test_claims.py:")
    (dimension,) = claims.dimensions
    assert dimension.constraints == ["rows % 4 == 0"] and dimension.name == "rows"
    assert [c.formula for c in claims.constraints] == ["rows % 4 == 0", "rows >= 1"]
    assert claims.constraints[0].where.startswith("test_claims.py:")
    assert "rows: any size where rows % 4 == 0" in str(claims) and repr(claims).startswith("<Claims: rows: any size")


def test_of_a_file(tmp_path: Path) -> None:
    torch.jit.script(Rows()).save(str(tmp_path / "rows.pt"))
    out = tmp_path / "rows.onnx"
    result = lithify.convert(tmp_path / "rows.pt", out, inputs=["x:float32[rows,9]"])
    assert same(result.claims, lithify.claims(out))
    assert result.dimensions[0].kind == "any size" and result.claims.conditions == result.claims.paths == []
    assert result.claims.checked == [] and result.dimensions[0].unfollowed == []


def test_wrong_questions(tmp_path: Path) -> None:
    claims = lithify.export(Rows(), torch.randn(4, 9), dynamic_axes=AXES).claims
    for sizes in ({}, {"row": 4}, {"rows": 4, "batch": 2}):
        with pytest.raises(lithify.ExportError, match="the dynamic dimensions are rows"):
            claims.holds(**sizes)
    with pytest.raises(TypeError):
        claims.holds(rows=4.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        claims.holds(4)  # type: ignore[call-arg]
    with pytest.raises(lithify.ExportError, match="is not an ONNX model"):
        lithify.claims(b"some bytes")
    with pytest.raises(lithify.ExportError, match="LTH001"):
        lithify.claims(tmp_path / "missing.onnx")


class Joined(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, y], 1).softmax(0)


@pytest.mark.parametrize("scripted", [False, True])
def test_dimensions_that_have_to_be_equal(scripted: bool) -> None:
    axes = {"x": {0: "batch", 1: "a"}, "y": {0: "n", 1: "b"}}
    model = torch.jit.script(Joined()) if scripted else Joined()
    result = lithify.export(model, (torch.randn(2, 3), torch.randn(2, 4)), dynamic_axes=axes)
    assert "batch == n" in [c.formula for c in result.claims.constraints]
    assert result.claims.holds(batch=5, n=5, a=1, b=2) is True
    assert result.claims.holds(batch=5, n=4, a=1, b=2) is False
    assert lithify.verify(Joined(), result, (torch.randn(2, 3), torch.randn(2, 4)))


def test_a_fixed_axis_that_has_to_equal_a_dynamic_one_is_named() -> None:
    axes = {"x": {1: "seq"}}
    with pytest.raises(lithify.ExportError, match="axis 1 of 'y' is 16 in the sample and has to equal seq"):
        lithify.export(lambda x, y: torch.cat([x, y], 0), (torch.randn(2, 16), torch.randn(3, 16)), dynamic_axes=axes)


@torch.jit.script
def squeezed(x: torch.Tensor) -> torch.Tensor:
    return x.squeeze(1) * 2


def test_a_squeezed_size_of_the_sample_is_a_constraint() -> None:
    at_one = lithify.export(squeezed, torch.randn(2, 1), dynamic_axes={"x": {0: "n", 1: "s"}})
    assert [len(v.shape) for v in at_one.outputs] == [1]
    assert [at_one.claims.holds(n=5, s=s) for s in (1, 3)] == [True, False]
    above = lithify.export(squeezed, torch.randn(2, 3), dynamic_axes={"x": {0: "n", 1: "s"}})
    assert [above.claims.holds(n=5, s=s) for s in (1, 3)] == [False, True]


def test_a_squeezed_size_of_data_is_a_constraint() -> None:
    sample, axes = torch.tensor([1.0, 0, 2]), {"x": {0: "n"}}
    claims = lithify.export(lambda x: x.nonzero().squeeze(), sample, dynamic_axes=axes).claims
    assert claims.holds(n=7) is None and "nonzero >= 2" in claims.why(n=7)
    with pytest.raises(lithify.ExportError, match="has 0 dimensions on one path and 1 on the other"):
        lithify.export(lambda x: x[x == x.max()].squeeze(), sample, dynamic_axes=axes)


@pytest.mark.parametrize(
    ("least", "function"),
    [
        (5, lambda x: F.conv1d(x, torch.ones(1, 1, 5))),
        (3, lambda x: F.conv1d(x, torch.ones(1, 1, 5), padding=1)),
        (9, lambda x: F.conv1d(x, torch.ones(1, 1, 5), dilation=2)),
        (3, lambda x: F.max_pool1d(x, 3)),
        (3, lambda x: F.avg_pool1d(x, 3)),
        (4, lambda x: F.pad(x, (3, 2), mode="reflect")),
        (5, lambda x: F.pad(x, (4, 5), mode="circular")),
        (6, lambda x: F.pad(x, (-3, -3))),
        (5, lambda x: x.narrow(2, 2, 3)),
        (5, lambda x: x.unfold(2, 5, 2)),
        (4, lambda x: F.interpolate(x, scale_factor=0.25)),
    ],
)
def test_sizes_that_are_too_small_are_excluded(least: int, function: Callable[..., torch.Tensor]) -> None:
    """PyTorch raises there, and ONNX Runtime may not."""
    claims = lithify.export(function, torch.rand(1, 1, 12), dynamic_axes={"x": {2: "n"}}).claims
    assert [claims.holds(n=n) for n in (least - 1, least)] == [False, True]


def test_a_size_of_0_that_the_code_asks_for_is_a_constraint() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(1) if x.shape[0] == 0 else x.sum().view(1)

    claims = lithify.export(forward, torch.randn(0), dynamic_axes={"x": {0: "n"}}).claims
    assert claims.holds(n=0) is True and claims.holds(n=3) is False
