"""Inputs and outputs of many signatures: names, order and count, beside those of torch.onnx.export."""

from __future__ import annotations

import io
import warnings
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import onnx
import pytest
import torch
from torch import nn

import lithify

X = torch.randn(2, 3)
Y = torch.randn(2, 3)


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


@dataclass
class Batch:
    ids: torch.Tensor
    mask: torch.Tensor


class Called(nn.Module):
    """A module whose forward is the function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = function  # type: ignore[method-assign]


@dataclass
class Row:
    function: Callable[..., Any]
    args: Any
    inputs: list[str]
    outputs: list[str]
    options: dict[str, Any]
    alone: bool  # torch.onnx.export fails


ROWS: list[Row] = []


def row(
    function: Callable[..., Any], args: Any, inputs: str, outputs: str = "output", *, alone: bool = False, **options: Any
) -> None:
    ROWS.append(Row(function, args, inputs.split(), outputs.split(), options, alone))


row(lambda x: x + 1, X, "x")
row(lambda x: x + 1, (X,), "x")
row(lambda x: x + 1, [X], "x", alone=True)
row(lambda x, y: x + y, (X, Y), "x y")
row(lambda x, y: x + 1, (X, Y), "x y")
row(lambda x, y=None: x + 1, (X,), "x")
row(lambda x, y=None: x + 1, (X, None), "x")
row(lambda x, y=None: x + (0 if y is None else y), (X, Y), "x y")
row(lambda x, y=None, z=None: x + (0 if z is None else z), (X, None, Y), "x z")
row(lambda x, y=None, z=None: x + (0 if z is None else z), (X, {"z": Y}), "x z")
row(lambda x, y=None, z=None: x + y + z, (X, {"z": Y, "y": Y}), "x y z")
row(lambda x, y=None, z=None: x + y + z, (X,), "x y z", kwargs={"z": Y, "y": Y})
row(lambda d: d["a"] + d["b"], ({"a": X, "b": Y}, {}), "d_a d_b")
row(lambda x, d: x + d["a"], (X, {"a": Y}, {}), "x d_a")
row(lambda *xs: xs[0] + xs[1], (X, Y), "xs_0 xs_1")
row(lambda x, *rest: x + rest[0], (X, Y), "x rest_0")
row(lambda pair: pair[0] + pair[1], ((X, Y),), "pair_0 pair_1")
row(lambda xs: xs[0] + xs[1], ([X, Y],), "xs_0 xs_1")
row(lambda xs: xs[0][0] + xs[1], (((X,), Y),), "xs_0_0 xs_1")
row(lambda p: p.left + p.right, (Pair(X, Y),), "p_left p_right", alone=True)
row(lambda x: (x + 1, x + 2), X, "x", "output_0 output_1")
row(lambda x: [x + 1, x + 2], X, "x", "output_0 output_1")
row(lambda x: {"sum": x + 1, "product": x * 2}, X, "x", "sum product")
row(lambda x: OrderedDict(b=x + 1, a=x * 2), X, "x", "b a")
row(lambda x: (x + 1, (x + 2, [x + 3])), X, "x", "output_0 output_1_0 output_1_1_0")
row(lambda x: (x + 1, None, x + 2), X, "x", "output_0 output_2")
row(lambda x: Pair(x + 1, x + 2), X, "x", "left right")
row(lambda x: (x + 1, x.shape[0]), X, "x", "output_0 output_1", alone=True)
row(lambda x: (x + 1, (7, 0.5, True), "text"), X, "x", "output_0 output_1_0 output_1_1 output_1_2", alone=True)
row(lambda x: (x + 1, [int(n) for n in x.shape]), X, "x", "output_0 output_1_0 output_1_1", alone=True)
row(lambda x, k: x * k, (X, 3), "x k")
row(lambda x, k: x * k, (X, 0.5), "x k")
row(lambda x, y: x + y, (X, Y), "a b", "c", input_names=["a", "b"], output_names=["c"])
row(lambda x, y: x + y, (X, Y), "a y", input_names=["a"])
row(lambda x: (x + 1, x + 2), X, "x", "first output_1", output_names=["first"])
row(lambda x, y: (y + 1, x + 2), (X, Y), "x y", "output_0 output_1")
row(lambda x, y: y + 1, (X, Y), "x y", input_names=["x", "y"], dynamic_axes={"y": {0: "n"}})

IDS = [f"{i}-{' '.join(r.inputs)}-{' '.join(r.outputs)}" for i, r in enumerate(ROWS)]


@pytest.mark.parametrize("case", ROWS, ids=IDS)
def test_names(case: Row) -> None:
    result = lithify.export(Called(case.function), case.args, **case.options)
    assert [v.name for v in result.inputs] == case.inputs
    assert [v.name for v in result.outputs] == case.outputs


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What torch.onnx.export can do as well; its newer mode takes seconds for each, so all rows are for --every."""
    if "both" in metafunc.fixturenames:
        rows = [pytest.param(row, id=name) for row, name in zip(ROWS, IDS, strict=True) if not row.alone]
        few = metafunc.function is test_as_dynamo and not metafunc.config.getoption("--every")
        metafunc.parametrize("both", rows[::5] if few else rows)


def test_as_torch(both: Row) -> None:
    """The same number of inputs and outputs of the same types and shapes in the same order, and the same given names."""
    ours, theirs = graphs(both, dynamo=False)
    # Its tracer forgets an input that is not used, though it says that it keeps them.
    kept = [i for i in ours.input if any(i.name in n.input for n in ours.node)]
    used = [i for i in theirs.input if any(i.name in n.input for n in theirs.node)]
    assert [_type(v) for v in kept] == [_type(v) for v in used]
    assert [_type(v) for v in ours.output] == [_type(v) for v in theirs.output]
    for given, values in ((both.options.get("input_names", []), ours.input), (both.options.get("output_names", []), ours.output)):
        assert [v.name for v in values][: len(given)] == given


def test_as_dynamo(both: Row) -> None:
    """Inputs that were given no names have those of the parameters, and so do they there."""
    ours, theirs = graphs(both, dynamo=True)
    tensors = [(v.name, *_type(v)) for v in ours.input if v.type.tensor_type.shape.dim]  # numbers are constants there
    if _keywords(both):  # they are in the order of the call there, and here and in its other mode in that of forward
        assert sorted(tensors) == sorted((v.name, *_type(v)) for v in theirs.input)
    else:
        assert tensors == [(v.name, *_type(v)) for v in theirs.input]
    assert [_type(v) for v in ours.output] == [_type(v) for v in theirs.output]
    given = both.options.get("output_names", [])
    assert [v.name for v in ours.output][: len(given)] == [v.name for v in theirs.output][: len(given)] == given


def graphs(case: Row, dynamo: bool) -> tuple[onnx.GraphProto, onnx.GraphProto]:
    """Of lithify, and of torch.onnx.export."""
    module = Called(case.function)
    options = {k: v for k, v in case.options.items() if not (dynamo and k == "dynamic_axes")}
    ours = lithify.export(module, case.args, **options).bytes or b""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        buffer = io.BytesIO()
        if dynamo:
            program = torch.onnx.export(module, case.args, dynamo=True, verbose=False, **options)
            theirs = program.model_proto.SerializeToString()  # type: ignore[union-attr]
        else:
            torch.onnx.export(module, case.args, buffer, dynamo=False, **options)
            theirs = buffer.getvalue()
    return onnx.load_from_string(ours).graph, onnx.load_from_string(theirs).graph


def _keywords(case: Row) -> bool:
    return "kwargs" in case.options or (isinstance(case.args, tuple) and isinstance(case.args[-1], dict) and bool(case.args[-1]))


def _type(value: onnx.ValueInfoProto) -> tuple[int, list[int]]:
    tensor = value.type.tensor_type
    return tensor.elem_type, [d.dim_value for d in tensor.shape.dim]


def test_dataclasses_in_and_out() -> None:
    result = lithify.export(Called(lambda b: Batch(b.ids + 1, b.mask)), (Batch(X, Y),))
    assert [v.name for v in result.inputs] == ["b_ids", "b_mask"]
    assert [v.name for v in result.outputs] == ["ids", "mask"]


class Named(torch.nn.Module):
    def forward(this, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


def test_self_of_a_script_may_have_another_name() -> None:
    result = lithify.export(torch.jit.script(Named()), (torch.randn(2), torch.randn(2)))
    assert [v.name for v in result.inputs] == ["x", "y"]
