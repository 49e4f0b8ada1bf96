"""Models that PyTorch has quantized: whole ones, what their files hold, and what is refused.

The operators have their cases in src/ops/quantized_cases.py.
"""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
import torch.ao.quantization as quantization
import torch.nn.functional as F
from torch import Tensor, nn
from torch.ao.quantization import quantize_fx

from tests.dequantized import COMPUTED, ENGINE, Dequantized, WrongReference, check
from tests.driver import Session, compare, export
from tests.test_cli import lithify, refused
from tests.vision import torchvision

BYTES = {onnx.TensorProto.INT8, onnx.TensorProto.UINT8}


def trace(module: nn.Module, sample: Tensor, path: Path) -> Path:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(module.eval(), sample, check_trace=False).save(str(path))
    return path


def weights_are_bytes(model: onnx.ModelProto) -> None:
    """The weight of every product is an initializer of bytes, dequantized."""
    stored = {i.name: i.data_type for i in model.graph.initializer}
    made = {n.output[0]: n for n in model.graph.node}
    products = [n for n in model.graph.node if n.op_type in ("Conv", "ConvTranspose", "Gemm", "MatMul")]
    assert products
    for node in products:
        source = made[node.input[1]]
        while source.op_type == "Transpose":
            source = made[source.input[0]]
        assert source.op_type == "DequantizeLinear" and stored[source.input[0]] in BYTES, node


def resnet() -> nn.Module:
    """ResNet-18, fused and calibrated in eager mode. Its sums are those of torchvision's own model for quantization."""

    class Sum(nn.Module):
        def __init__(self, block: nn.Module) -> None:
            super().__init__()
            self.conv1, self.bn1, self.relu = block.conv1, block.bn1, nn.ReLU()
            self.conv2, self.bn2, self.downsample = block.conv2, block.bn2, block.downsample
            self.sum = torch.ao.nn.quantized.FloatFunctional()

        def forward(self, x: Tensor) -> Tensor:
            y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            return self.sum.add_relu(y, x if self.downsample is None else self.downsample(x))

    net = torchvision().models.get_model("resnet18", weights=None).eval()
    for name in ("layer1", "layer2", "layer3", "layer4"):
        setattr(net, name, nn.Sequential(*(Sum(block) for block in getattr(net, name))).eval())
    quantization.fuse_modules(net, [["conv1", "bn1", "relu"]], inplace=True)
    for block in (b for b in net.modules() if isinstance(b, Sum)):
        quantization.fuse_modules(block, [["conv1", "bn1", "relu"], ["conv2", "bn2"]], inplace=True)
        if block.downsample is not None:
            quantization.fuse_modules(block.downsample, [["0", "1"]], inplace=True)
    model = nn.Sequential(quantization.QuantStub(), net, quantization.DeQuantStub()).eval()
    model.qconfig = quantization.get_default_qconfig("fbgemm")
    prepared = quantization.prepare(model)
    prepared(torch.randn(4, 3, 64, 64))
    return quantization.convert(prepared)


class Mixed(nn.Module):
    """Layers that FX finds for itself, one with a weight outside of its modules."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.weight, self.bias = nn.Parameter(torch.randn(8, 8, 1, 1)), nn.Parameter(torch.randn(8))
        self.reflected = nn.Conv2d(8, 8, 3, padding=1, padding_mode="reflect")
        self.linear = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.conv(x)))
        y = self.reflected(x)
        x = F.conv2d(F.relu(x + y), self.weight, self.bias, (1, 1), (0, 0), (1, 1), 1)
        x = F.max_pool2d(torch.cat([x, y], 1)[:, 4:12], 2) * 0.5
        return self.linear(F.hardswish(x).mean((2, 3)))


def mixed() -> nn.Module:
    sample = torch.randn(4, 3, 16, 16)
    prepared = quantize_fx.prepare_fx(Mixed().eval(), quantization.get_default_qconfig_mapping("fbgemm"), (sample,))
    prepared(sample)
    return quantize_fx.convert_fx(prepared)


@pytest.mark.parametrize("build", [resnet, mixed])
def test_model(build: Callable[[], nn.Module], tmp_path: Path) -> None:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = build()
    path = trace(model, torch.randn(2, 3, 64, 64), tmp_path / "model.pt")
    name = list(torch.jit.load(str(path)).graph.inputs())[1].debugName().split(".")[0]
    out = tmp_path / "model.onnx"
    axes = {name: {0: "batch", 2: "height", 3: "width"}}
    weights_are_bytes(export(path, out, dynamic=axes, names=axes))
    session = Session(out)
    for sizes in ((2, 3, 64, 64), (1, 3, 48, 80), (3, 3, 33, 65)):
        x = torch.randn(sizes)
        with Dequantized():
            model(x)
        (got,), expected = session.run(x), model(x)
        steps = expected.unique()
        step = (steps[1:] - steps[:-1]).min()
        # Sums that lie between two steps may be rounded to either, in every layer: a few steps at the end, of more than 60.
        assert (got - expected).abs().max() <= 3.5 * step, sizes
        assert ((got - expected).abs() > 0.5 * step).float().mean() < 0.5


# ---- the reference --------------------------------------------------------------------------------


def test_engine() -> None:
    """Tests do not depend on the engine that PyTorch picks for this processor."""
    assert torch.backends.quantized.engine == ENGINE or ENGINE not in torch.backends.quantized.supported_engines


def test_results_one_step_off_are_accepted() -> None:
    exact = torch.tensor([-1.0, 0.0, 0.124, 0.126, 3.0], dtype=torch.float64)
    result = torch.quantize_per_tensor(exact.float(), 0.25, 10, torch.quint8)
    check("op", result, exact)
    check("op", torch.quantize_per_tensor(exact.float() + 0.25, 0.25, 10, torch.quint8), exact)
    with pytest.raises(WrongReference, match="its op is 2 steps off"):
        check("op", torch.quantize_per_tensor(exact.float() + 0.5, 0.25, 10, torch.quint8), exact)
    with pytest.raises(WrongReference, match=r"its op is 0\.01 in value off"):
        check("op", exact.float() + 0.01, exact)


def test_wrong_kernel_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMPUTED, "quantized.sigmoid", lambda given: given["qx"].tanh())
    x = torch.quantize_per_tensor(torch.linspace(-2, 2, 9), 0.25, 10, torch.quint8)
    with Dequantized():
        torch.ops.quantized.clamp(x, -1.0, 1.0)
        with pytest.raises(WrongReference, match=r"quantized\.sigmoid"):
            torch.ops.quantized.sigmoid(x, 0.01, 0)


def test_operator_without_dequantized_computation_is_reported() -> None:
    x = torch.quantize_per_tensor(torch.ones(3), 0.25, 10, torch.quint8)
    with Dequantized(), pytest.raises(WrongReference, match=r"does not have the dequantized computation of quantized\.threshold"):
        torch.ops.quantized.threshold(x, 0.5, 0.0)


# ---- what is refused ------------------------------------------------------------------------------


class Packed(nn.Module):
    """Parameters that are packed by no module."""

    def __init__(self) -> None:
        super().__init__()
        scales, zeros = torch.rand(8).double() * 0.1 + 0.01, torch.zeros(8, dtype=torch.long)
        weight = torch.quantize_per_channel(torch.randn(8, 1, 3, 3), scales, zeros, 0, torch.qint8)
        self.packed = torch.ops.quantized.conv2d_prepack(weight, torch.randn(8), [2, 1], [1, 2], [1, 1], 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.quantize_per_tensor(x, 0.05, 60, torch.quint8)
        return torch.ops.quantized.conv2d(x, self.packed, 0.1, 60).dequantize()


def record_of_numbers(data: bytes) -> str:
    """The record with the stride, padding and other numbers of a convolution: 11 of 2 bytes."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return next(i.filename for i in archive.infolist() if "/data/" in i.filename and i.file_size == 22)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    sample = torch.randn(2, 4, 8, 8)
    path = trace(Packed(), sample, tmp_path_factory.mktemp("packed") / "model.pt")
    out = path.with_suffix(".onnx")
    weights_are_bytes(export(path, out))
    torch.testing.assert_close(Session(out).run(sample)[0], Packed.forward(torch.jit.load(str(path)), sample), atol=0.101, rtol=0)
    return path.read_bytes()


@pytest.mark.parametrize(
    "numbers",
    [
        (9, 2, 1, 1, 2, 1, 1, 0, 0, 4, 0),  # dimensions
        (-1, 2, 1, 1, 2, 1, 1, 0, 0, 4, 0),
        (3, 2, 1, 1, 2, 1, 1, 0, 0, 4, 0),
        (2, 0, 1, 1, 2, 1, 1, 0, 0, 4, 0),  # stride
        (2, 2, 1, -1, 2, 1, 1, 0, 0, 4, 0),  # padding
        (2, 2, 1, 1, 2, -1, 1, 0, 0, 4, 0),  # dilation
        (2, 2, 1, 1, 2, 1, 1, 0, 0, 0, 0),  # groups
        (2, 2, 1, 1, 2, 1, 1, 0, 0, -4, 0),
        (2, 2, 1, 1, 2, 1, 1, 0, 0, 3, 0),
    ],
)
def test_damaged_parameters(numbers: tuple[int, ...], packed: bytes, tmp_path: Path) -> None:
    changed = record_of_numbers(packed)
    model = tmp_path / "model.pt"
    with zipfile.ZipFile(io.BytesIO(packed)) as before, zipfile.ZipFile(model, "w") as after:
        for info in before.infolist():
            data = torch.tensor(numbers, dtype=torch.int16).numpy().tobytes() if info.filename == changed else before.read(info)
            after.writestr(zipfile.ZipInfo(info.filename), data)
    folder = tmp_path / "out"
    folder.mkdir()
    refused(lithify("export", model, "-o", folder / "model.onnx"), folder)


class Returned(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.quantize_per_tensor(x, 0.05, 60, torch.quint8)


class NoRule(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.quantize_per_tensor(x, 0.05, 60, torch.quint8).std(1).dequantize()


class Chosen(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.quantize_per_tensor(x, 0.05, 60, torch.quint8)
        if bool(x.sum() > 0):
            y = torch.quantize_per_tensor(x, 0.1, 60, torch.quint8)
        return y.dequantize()


class Grown(nn.Module):
    def forward(self, x: Tensor) -> list[Tensor]:
        parts = [torch.quantize_per_tensor(x, 0.05, 60, torch.quint8)]
        for _ in range(int(x.sum())):
            parts.append(parts[0])
        return [part.dequantize() for part in parts]


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (NoRule(), "aten::std of quantized tensors is not supported"),
        (Chosen(), "is a quantized tensor on one path"),
        (Grown(), ""),
    ],
)
def test_what_is_refused(module: nn.Module, words: str, tmp_path: Path) -> None:
    model = tmp_path / "model.pt"
    torch.jit.script(module).save(str(model))
    folder = tmp_path / "out"
    folder.mkdir()
    refused(lithify("export", model, "-o", folder / "model.onnx", "--input", "x:float32[2,3]"), folder, words)


def test_a_quantized_result_has_its_dequantized_values(tmp_path: Path) -> None:
    model, out = tmp_path / "model.pt", tmp_path / "model.onnx"
    torch.jit.script(Returned()).save(str(model))
    done = lithify("export", model, "-o", out, "--input", "x:float32[2,3]")
    assert done.returncode == 0 and "note LTH047: the output 'output' is quint8" in done.stderr, done.stderr
    x = torch.randn(2, 3)
    compare(Session(out).run(x), [Returned()(x).dequantize()])
