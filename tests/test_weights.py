"""Quantized weights: what is stored, how close results are, and what is left as it is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer
from torch import nn

import lithify
from tests.driver import LITHIFY, Session, refusal, run

KINDS = ("int8", "uint8", "int4", "uint4")
STORED = {
    "int8": onnx.TensorProto.INT8,
    "uint8": onnx.TensorProto.UINT8,
    "int4": onnx.TensorProto.INT4,
    "uint4": onnx.TensorProto.UINT4,
}


class Rows(nn.Module):
    """A weight as [in, out], with an odd number of columns."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(256, 65))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


class Tied(nn.Module):
    """A table that is the output layer as well."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(4096, 64)
        self.lm_head = nn.Linear(64, 4096, bias=False)
        self.lm_head.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.lm_head(self.embedding(ids).tanh())


class Branch(nn.Module):
    """Products in both branches of a condition that depends on data."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(128, 64), nn.Linear(128, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            return self.one(x)
        return self.two(x) * 2


X = torch.randn(3, 5, 256)
MODELS = {
    "linear": (nn.Linear(256, 96), X),
    "linear of a matrix": (nn.Linear(256, 96), X[0]),  # a Gemm
    "layers": (nn.Sequential(nn.Linear(256, 128), nn.GELU(), nn.Linear(128, 257)), X),
    "rows": (Rows(), X),
    "tied": (Tied(), torch.randint(0, 4096, (2, 7))),
    "branch": (Branch(), torch.randn(4, 128)),
    "half": (nn.Linear(256, 96).half(), X.half()),
}


def dequantized(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with plain weights: DequantizeLinear of constants, computed by its definition."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graphs = [made.graph]
    for graph in graphs:
        graphs += [a.g for n in graph.node for a in n.attribute if a.HasField("g")]
    constants = {i.name: numpy_helper.to_array(i) for g in graphs for i in g.initializer}
    for graph in graphs:
        for node in [n for n in graph.node if n.op_type == "DequantizeLinear" and n.input[0] in constants]:
            block = next(a.i for a in node.attribute if a.name == "block_size")
            integers, *rest = (constants[name].astype(np.float64) for name in node.input)
            scale, *zero_point = (np.repeat(part, block, 0) for part in rest)
            value = (integers - (zero_point[0] if zero_point else 0)) * scale
            graph.initializer.append(numpy_helper.from_array(value.astype(constants[node.input[1]].dtype), node.output[0]))
            graph.node.remove(node)
    return made


def unpacked(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with plain products: MatMulNBits of constants, by its definition."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graphs = [made.graph]
    for graph in graphs:
        graphs += [a.g for n in graph.node for a in n.attribute if a.HasField("g")]
    constants = {i.name: numpy_helper.to_array(i) for g in graphs for i in g.initializer}
    for graph in graphs:
        for node in [n for n in graph.node if n.op_type == "MatMulNBits"]:
            how = {a.name: a.i for a in node.attribute}
            _, stored, scale, *zero_point = node.input

            def integers(name: str, rows: int, how: dict[str, int] = how) -> np.ndarray:
                flat = constants[name].reshape(rows, -1)
                return flat if how["bits"] == 8 else np.stack([flat & 15, flat >> 4], -1).reshape(rows, -1)

            blocks = how["K"] // how["block_size"]
            middle = integers(zero_point[0], how["N"])[:, :blocks] if zero_point else np.full((1, blocks), 1 << how["bits"] - 1)
            parts = (
                integers(stored, how["N"]),
                np.repeat(middle, how["block_size"], 1),
                constants[scale].reshape(how["N"], blocks),
            )
            value = (parts[0].astype(np.float64) - parts[1]) * np.repeat(parts[2], how["block_size"], 1)
            weight = numpy_helper.from_array(np.ascontiguousarray(value.T.astype(constants[scale].dtype)), f"{node.name}_weight")
            graph.initializer.append(weight)
            node.CopyFrom(onnx.helper.make_node("MatMul", [node.input[0], weight.name], node.output, node.name))
    return made


def exported(name: str, out: Path, **options: object) -> tuple[lithify.Result, onnx.ModelProto]:
    model, x = MODELS[name]
    result = lithify.export(
        model.eval(), (x,), out, dynamic_axes={"input": {0: "batch"}} if name == "linear" else None, **options
    )  # type: ignore[arg-type]
    onnx.checker.check_model(str(out), full_check=True)
    return result, onnx.load(str(out))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_results_are_those_of_the_dequantized_weights(name: str, kind: str, out: Path) -> None:
    model, x = MODELS[name]
    result, written = exported(name, out, weights=kind)
    assert result.opset == 21
    stored = {i.data_type for i in written.graph.initializer}
    assert STORED[kind] in stored or name == "branch"
    assert any(m.code == "LTH082" for m in result.messages)
    plain = out.with_name("plain.onnx")
    onnx.save(dequantized(written), str(plain))
    (got,), (expected,) = Session(out).run(x), Session(plain).run(x)
    with torch.no_grad():
        (true,) = (model(x),)
    size = true.abs().max().item()
    # The runtime rounds what it multiplies with integers to 8 bits.
    torch.testing.assert_close(got, expected, rtol=0, atol=0.02 * size)
    assert (expected - true).abs().max().item() < (0.02 if "8" in kind else 0.2) * size


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_products_of_onnx_runtime_are_those_of_dequantized_weights(name: str, kind: str, out: Path) -> None:
    _, x = MODELS[name]
    exported(name, out, weights=kind)
    dequantizing = dequantized(onnx.load(str(out)))
    result, packed = exported(name, out, weights=kind, target="ort")
    products = result.nodes.get("MatMulNBits", 0)
    assert products == sum(
        n for op, n in exported(name, out.with_name("plain.onnx"))[0].nodes.items() if op in ("Gemm", "MatMul")
    )
    plain = unpacked(dequantized(packed))
    (got,) = Session(out).run(x)
    for made, path in ((plain, "plain.onnx"), (dequantizing, "other.onnx")):
        onnx.save(made, str(out.with_name(path)))
    (expected,), (same,) = Session(out.with_name("plain.onnx")).run(x), Session(out.with_name("other.onnx")).run(x)
    size = expected.abs().max().item()
    torch.testing.assert_close(expected, same, rtol=0, atol=(2e-3 if expected.dtype == torch.float16 else 1e-5) * size)
    torch.testing.assert_close(got, expected, rtol=0, atol=0.02 * size)


@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_packed_weights_are_those_of_the_quantizer_of_onnx_runtime(kind: str, out: Path) -> None:
    """The same bytes, but for elements that are half way between two integers, and signs of scales."""
    model, x = MODELS["linear"]
    _, ours = exported("linear", out, weights=kind, target="ort")
    lithify.export(model, (x,), out.with_name("float.onnx"), opset_version=21)
    config = DefaultWeightOnlyQuantConfig(block_size=32, is_symmetric=True, bits=int(kind[-1]))
    theirs = MatMulNBitsQuantizer(onnx.load(str(out.with_name("float.onnx"))), algo_config=config)
    theirs.process()
    weights = []
    for made in (ours, theirs.model.model):
        plain = unpacked(made)
        weights += [numpy_helper.to_array(i) for i in plain.graph.initializer if i.name.endswith("_weight")]
    true = model.weight.detach().numpy().T
    assert weights[0].shape == weights[1].shape == true.shape
    errors = [np.sqrt(((w - true) ** 2).mean()) for w in weights]
    assert errors[0] <= 1.01 * errors[1]


@pytest.mark.parametrize("target", ["", "ort"])
@pytest.mark.parametrize("kind", KINDS)
def test_errors_of_weights_are_told(kind: str, target: str, out: Path) -> None:
    result, written = exported("layers", out, weights=kind, target=target)
    plain = unpacked(dequantized(written))
    made = {i.dims[1]: numpy_helper.to_array(i) for i in plain.graph.initializer if list(i.dims) in ([256, 128], [128, 257])}
    true = [MODELS["layers"][0][i].weight.detach().numpy().T for i in (0, 2)]
    assert [w.name for w in result.quantized] == ["0.weight", "2.weight"]
    for weight, model in zip(result.quantized, true, strict=True):
        assert weight.dtype == kind
        error = np.linalg.norm(made[model.shape[1]] - model) / np.linalg.norm(model)
        np.testing.assert_allclose(weight.error, error, rtol=1e-3)


@pytest.mark.parametrize("kind", ["int8", "int4", "uint4"])
def test_errors_are_no_larger_than_those_of_the_quantizer_of_onnx_runtime(kind: str, out: Path) -> None:
    model, x = MODELS["layers"]
    _, small = exported("layers", out, weights=kind)
    lithify.export(model, (x,), out.with_name("float.onnx"), opset_version=21)
    config = DefaultWeightOnlyQuantConfig(block_size=32, is_symmetric=not kind.startswith("u"), bits=int(kind[-1]))
    theirs = MatMulNBitsQuantizer(onnx.load(str(out.with_name("float.onnx"))), algo_config=config)
    theirs.process()
    onnx.save(theirs.model.model, str(out.with_name("theirs.onnx")))
    with torch.no_grad():
        true = model(x)
    onnx.save(dequantized(small), str(out.with_name("plain.onnx")))
    ours, other = ((Session(out.with_name(n)).run(x)[0] - true).abs().max().item() for n in ("plain.onnx", "theirs.onnx"))
    assert ours <= 1.1 * other


def test_a_tied_table_is_stored_once_for_each_form(out: Path) -> None:
    _, written = exported("tied", out, weights="int8")
    integers = [i.name for i in written.graph.initializer if i.data_type == onnx.TensorProto.INT8]
    assert len(integers) == 2
    assert not any(
        i.data_type == onnx.TensorProto.FLOAT and len(i.dims) == 2 and i.dims[1] == 64 for i in written.graph.initializer
    )
    assert [n.op_type for n in written.graph.node][:3] == ["Gather", "Gather", "DequantizeLinear"]


@pytest.mark.parametrize(
    ("keep", "left"), [((), 0), (("0",), 1), (("2.weight",), 1), (("*.weight",), 2), (("*",), 2), (("weight",), 0), (("1",), 0)]
)
def test_kept_weights(keep: tuple[str, ...], left: int, out: Path) -> None:
    _, written = exported("layers", out, weights="int8", keep_weights=keep)
    assert sum(i.data_type == onnx.TensorProto.FLOAT and i.name.endswith(".weight") for i in written.graph.initializer) == left


@pytest.mark.parametrize("block", [16, 64, 128, 256])
def test_blocks(block: int, out: Path) -> None:
    _, written = exported("linear", out, weights="uint4", weights_block=block)
    sizes = {tuple(i.dims) for i in written.graph.initializer if i.data_type == onnx.TensorProto.FLOAT}
    assert (256 // block, 96) in sizes


def test_what_has_no_blocks_stays_as_it_is(out: Path) -> None:
    model = nn.Sequential(nn.Linear(250, 64), nn.Linear(64, 64), nn.Linear(64, 64)).eval()
    with torch.no_grad():
        model[2].weight[0, 0] = float("inf")
    result = lithify.export(model, (torch.randn(2, 250),), out, weights="int4", verify=False)
    (note,) = [m for m in result.messages if m.code == "LTH082"]
    assert "1 weight is stored as int4" in note.text and "2 are not" in note.text and "0.weight" in note.text


def test_nothing_to_quantize_is_a_warning(out: Path) -> None:
    with pytest.warns(lithify.ExportWarning, match="LTH082"):
        lithify.export(nn.Linear(4, 4).eval(), (torch.randn(2, 4),), out, weights="int8")


def test_earlier_opsets_and_odd_blocks_are_refused(out: Path) -> None:
    traced = out.with_name("m.pt")
    torch.jit.trace(MODELS["linear"][0].eval(), X).save(str(traced))
    command = [LITHIFY, "export", traced, "-o", out, "--weights", "int4"]
    assert "--opset 21" in refusal(run([*command, "--opset", "20"]), "LTH043", out=out)
    assert run([*command, "--weights-block", "33"]).returncode == 2
    with pytest.raises(lithify.ExportError, match="weights_block"):
        lithify.export(*MODELS["linear"], out, weights="int4", weights_block=33)
    with pytest.raises(lithify.ExportError, match="verify=True"):
        lithify.export(*MODELS["linear"], out, weights="int4", verify=True)


def test_weights_are_quantized_as_they_are_written(out: Path) -> None:
    """No more memory than some blocks, in a file of their own."""
    traced = out.with_name("m.pt")
    torch.jit.trace(nn.Linear(4096, 8192, bias=False).eval(), torch.randn(1, 4096)).save(str(traced))
    command = [LITHIFY, "export", traced, "-o", out, "--weights", "int4", "--external-data", "always", "--skip-sync", "-q"]
    limited = ["sh", "-c", 'ulimit -d 40000; exec "$@"', "sh", *map(str, command)]
    assert subprocess.run(limited, check=False).returncode == 0
    assert out.with_name("model.onnx.data").stat().st_size < 4096 * 8192 * 0.7
    x = torch.randn(2, 4096)
    (got,) = Session(out).run(x[:1])
    assert got.isfinite().all()
