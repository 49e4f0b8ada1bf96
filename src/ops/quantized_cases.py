"""Cases of src/ops/quantized.cpp and src/eval/quantized.cpp: models that PyTorch has quantized.

A sum that lies halfway between two steps may be rounded to either: PyTorch adds up integers, and multiplies by the inverse of a
scale where ONNX divides. So results of products and averages may be one step apart, and no more; `why` is the reason there.
"""

from functools import partial

import torch
import torch.ao.quantization as quantization
import torch.nn.functional as F
from torch import Tensor, nn

from tests.cases import B, H, S, Spec, W, normal, x
from tests.cases import case as any_case

STEP = "between two steps, PyTorch's sums of integers and a runtime's sums of floats may be rounded to either"
scales, zeros = torch.tensor([0.25, 0.5, 0.75, 1.5]), torch.tensor([0, 3, 10, 100])
apart = x(values=(-40.3, -1.26, -0.71, -0.13, 0.0, 0.12, 0.38, 0.66, 1.87, 30.1))
wide = x(-2.0, 4.0)
ops = torch.ops.quantized
case = partial(any_case, export=False, dequantized=True)  # torch.export decomposes what is quantized, or refuses it


def q(x: Tensor) -> Tensor:
    return torch.quantize_per_tensor(x, 0.0625, 40, torch.quint8)


def q8(x: Tensor) -> Tensor:
    return torch.quantize_per_tensor(x, 0.0625, -40, torch.qint8)


# ---- schemes

for dtype in (torch.quint8, torch.qint8):
    case(lambda x: torch.quantize_per_tensor(x, 0.25, 10, dtype).dequantize(), apart[B, 7])
    case(lambda x: torch.quantize_per_tensor(x, 0.25, 10, dtype).int_repr(), apart[B, 7])
    case(lambda x: torch.quantize_per_channel(x, scales, zeros, 1, dtype).dequantize(), apart[B, 4, S])
case(lambda x: torch.quantize_per_tensor(x, scales[0], zeros[2], torch.quint8).dequantize(), apart[B, 7])
case(lambda x, s: torch.quantize_per_tensor(x, s, zeros[2], torch.quint8).dequantize(), apart[B, 7], x(values=(0.25,))[()])
case(lambda x: torch.dequantize([q(x), q8(x)]), wide[B, 7], script=False)
case(lambda x: x * q(x).q_scale() + q(x).q_zero_point(), wide[B, 7])
case(lambda x: torch.quantize_per_channel(x, scales, zeros, 1, torch.quint8).q_per_channel_scales(), wide[B, 4])

# ---- operators that keep the scheme

case(lambda x: q(x).view(x.size(0), -1).dequantize(), wide[B, 4, S])
case(lambda x: q(x).flatten(1).unsqueeze(1).transpose(1, 2).dequantize(), wide[B, 4, S])
case(lambda x: q(x).permute(0, 2, 1).contiguous()[:, 1:].dequantize(), wide[B, 4, S >= 2])
case(lambda x: torch.cat([part.dequantize() for part in q(x).chunk(2, 1)], 0), wide[B, 4], script=False)
case(lambda x: q(x).reshape(-1).clone().int_repr(), wide[B, 4])
case(lambda x: F.channel_shuffle(q(x), 2).dequantize(), wide[B, 4, H, W], script=False)
case(lambda x: F.pixel_shuffle(q(x), 2).dequantize(), wide[B, 4, H, W])
case(lambda x: F.pixel_unshuffle(q(x), 2).dequantize(), wide[B, 2, 4, 6])
case(lambda x: q(x).flip(1).squeeze(2).dequantize(), wide[B, 4, 1])
case(lambda x: q(x)[:, [0, 2]].index_select(1, torch.tensor([1, 0])).dequantize(), wide[B, 4], script=False)
case(lambda x: q(x).unfold(1, 2, 1).narrow(1, 1, 2).dequantize(), wide[B, 4])
case(lambda x: q(x).diagonal(0, 1, 2).movedim(0, 1).dequantize(), wide[B, 4, 5])
case(lambda x: q(x)[:, None].expand(-1, 3, -1).repeat(1, 2, 1).dequantize(), wide[B, 4])
case(lambda x: q(x).unflatten(1, (2, 2)).detach().dequantize(), wide[B, 4])
case(
    lambda x: torch.stack([part.dequantize() for part in q(x).unbind(1)] + [q(x).select(1, 0).dequantize()]),
    wide[B, 4],
    script=False,
)
case(lambda x: torch.cat([part.dequantize() for part in q(x).split([1, 3], 1)], 1), wide[B, 4], script=False)
case(lambda x: q(x).to("cpu").cpu()[0].t().dequantize(), wide[2, B, 4], script=False)
case(lambda x: x * q(x).numel() + q(x).dim() + int(q(x).is_quantized) + 2 * int(q(x).dtype == torch.quint8), wide[B, 4])
case(lambda x: F.relu(q(x)).dequantize(), wide[B, 7])
case(lambda x: F.relu(q8(x)).dequantize(), wide[B, 7])
case(lambda x: F.relu(q(x), inplace=True).dequantize(), wide[B, 7])
case(lambda x: F.relu6(q(x)).dequantize(), wide[B, 7])
case(lambda x: torch.clamp(q(x), -0.3, 0.7).dequantize(), wide[B, 7])
case(lambda x: torch.max(q(x)).dequantize() - torch.min(q(x), 1)[0].dequantize(), wide[B, 7])
case(lambda x: torch.sort(q(x), 1)[0].dequantize() + q(x).topk(7, 1)[0].dequantize(), wide[B, 7])
case(lambda x: F.threshold(q(x), 0.25, 0.5).tile(1, 2).dequantize(), wide[B, 7])
case(lambda x: F.hardtanh(q(x), -0.5, 0.5).dequantize(), wide[B, 7])
case(lambda x: F.leaky_relu(q(x), 0.1).dequantize(), wide[B, 7], atol=0.063, why=STEP)
case(lambda x: F.max_pool2d(q(x), 3, 2, 1).dequantize(), wide[B, 4, H >= 3, W >= 3])
case(lambda x: F.avg_pool2d(q(x), 3, 2, 1).dequantize(), wide[B, 4, H >= 3, W >= 3], atol=0.063, why=STEP)
case(lambda x: F.adaptive_avg_pool2d(q(x), 1).dequantize(), wide[B, 4, H, W], atol=0.063, why=STEP)
case(lambda x: q(x).mean((2, 3)).dequantize(), wide[B, 4, H, W], atol=0.063, why=STEP)
# PyTorch itself mixes up the channels of an image of one pixel.
case(lambda x: F.interpolate(q(x), scale_factor=2.0).dequantize(), wide[B, 4, H >= 2, W >= 2])
case(
    lambda x: F.interpolate(q(x), scale_factor=2.0, mode="bilinear").dequantize(),
    wide[B, 4, H >= 2, W >= 2],
    atol=0.063,
    why=STEP,
)
case(lambda x: F.pad(q(x), (1, 2), value=0.5).dequantize(), wide[B, 4, S])
case(lambda x: torch.cat([q(x), q(x)[:, :2]], 1).dequantize(), wide[B, 4])
case(lambda x: F.pad(q(x), (1, 1), mode="reflect").dequantize(), wide[B, 4, S >= 2])
case(lambda x: torch.stack([q(x), q(x)], 1).dequantize(), wide[B, 4])
case(lambda x: q(x).masked_fill(torch.tensor([True, False, True, False]), 0.5).dequantize(), wide[B, 4])
case(lambda x: F.gelu(q(x)).dequantize(), wide[B, 7], atol=0.063, why=STEP)
case(lambda x: F.max_pool1d(q(x), 2).dequantize(), wide[B, 4, 6])
case(lambda x: ops.max_pool2d(q(x), [2, 2], [2, 2], [0, 0], [1, 1], False).dequantize(), wide[B, 4, H >= 2, W >= 2])
case(lambda x: ops.clamp(q(x), -0.25, 0.75).dequantize(), wide[B, 7])
case(lambda x: F.avg_pool1d(q(x), 2).dequantize(), wide[B, 4, 6], atol=0.063, why=STEP)
case(lambda x: F.adaptive_avg_pool2d(q(x), (2, 3)).dequantize(), wide[B, 4, 6, 6], atol=0.063, why=STEP)
case(lambda x: q(x) < 0.5, wide[B, 7])
case(lambda x, y: (q(x) == q(y), q(x) >= q(y), q(x) != 0.5), wide[B, 7], wide[B, 7])
case(lambda x: F.dropout(q(x), 0.5, False).dequantize(), wide[B, 7])


class OneRow(nn.Module):
    """A write to a part of a quantized tensor."""

    def forward(self, x: Tensor) -> Tensor:
        y = q(x).clone()
        y[:, 0].copy_(y[:, 1])
        return y.dequantize()


case(OneRow(), wide[B, 4])

# ---- elementwise operators with a scheme of their own

case(lambda x, y: ops.add(q(x), q(y), 0.125, 30).dequantize(), wide[B, 7], wide[7], atol=0.126, why=STEP)
case(lambda x, y: ops.add_relu(q(x), q(y), 0.125, 0).dequantize(), wide[B, 7], wide[B, 7], atol=0.126, why=STEP)
case(lambda x, y: ops.mul(q(x), q(y), 0.125, 70).dequantize(), wide[B, 7], wide[B, 7], atol=0.126, why=STEP)
case(lambda x, y: ops.mul_relu(q(x), q(y), 0.125, 0).dequantize(), wide[B, 7], wide[B, 7], atol=0.126, why=STEP)
case(lambda x, y: ops.cat([q(x), q(y)], 1, 0.1, 30).dequantize(), wide[B, 3], wide[B, 4], atol=0.101, why=STEP)
case(lambda x, y: ops.cat_relu([q(x), q(y)], 1, 0.1, 30).dequantize(), wide[B, 3], wide[B, 4], atol=0.101, why=STEP)
for number in (0.5, -1.0, 20.0, -20.0):
    case(lambda x: ops.add_scalar(q(x), number).dequantize(), wide[B, 7], atol=0.1, why=STEP)
    case(lambda x: ops.add_scalar_relu(q(x), number).dequantize(), wide[B, 7], atol=0.1, why=STEP)
for number in (0.5, -1.5, 0.0):
    case(lambda x: ops.mul_scalar(q(x), number).dequantize(), wide[B, 7])
    case(lambda x: ops.mul_scalar_relu(q(x), number).dequantize(), wide[B, 7])
case(lambda x: ops.mul(q(x), 0.5).dequantize() + ops.add(q(x), 0.5).dequantize(), wide[B, 7])
case(lambda x, y: ops.matmul(q(x), q(y), 0.25, 70).dequantize(), wide[B, 5, 4], wide[B, 4, 3], atol=0.26, why=STEP)
case(lambda x: torch.sigmoid(q(x)).dequantize(), wide[B, 7], atol=0.0041, why=STEP)
case(lambda x: torch.tanh(q8(x)).dequantize(), wide[B, 7], atol=0.0082, why=STEP)
case(lambda x: F.hardsigmoid(q(x)).dequantize(), wide[B, 7], atol=0.0041, why=STEP)
case(lambda x: ops.hardswish(q(x), 0.0625, 10).dequantize(), wide[B, 7], atol=0.063, why=STEP)
case(lambda x: ops.elu(q(x), 0.0625, 20, 0.7).dequantize(), wide[B, 7], atol=0.063, why=STEP)
case(lambda x: ops.celu(q(x), 0.0625, 20, 0.7).dequantize(), wide[B, 7], atol=0.063, why=STEP)
case(lambda x: ops.leaky_relu(q(x), 0.2, False, 0.0625, 20).dequantize(), wide[B, 7], atol=0.063, why=STEP)
case(lambda x: ops.sigmoid(q(x), 0.005, 3).dequantize(), wide[B, 7], atol=0.0051, why=STEP)
case(lambda x: ops.softmax(q(x), 1, 0.00390625, 0).dequantize(), wide[B, 7], atol=0.0041, why=STEP)
case(lambda x: ops.prelu(q(x), q(scales), 0.0625, 30).dequantize(), wide[B, 4, S], atol=0.063, why=STEP)
case(lambda x: ops.relu6(q(x), False).dequantize(), wide[B, 7])


# ---- layers and models as PyTorch's own tools quantize them


def drawn(model: nn.Module) -> nn.Module:
    """The model with weights that do not depend on what was drawn before; for use with a generator of its own."""
    torch.manual_seed(0)
    for part in model.modules():
        if hasattr(part, "reset_parameters"):
            part.reset_parameters()
    return model.eval()


by_channel = quantization.get_default_qconfig("fbgemm")
by_tensor = quantization.QConfig(by_channel.activation, quantization.default_weight_observer)


def quantized(model: nn.Module, sizes: tuple[int, ...], *fuse: list[str], by: object = by_channel) -> tuple[nn.Module, float]:
    """The model after calibration, and the step of its results."""
    with torch.random.fork_rng():
        model, sample = drawn(model), normal(sizes, torch.Generator().manual_seed(0)).float()
    if fuse:
        quantization.fuse_modules(model, list(fuse), inplace=True)
    whole = nn.Sequential(quantization.QuantStub(), model, quantization.DeQuantStub()).eval()
    whole.qconfig = by
    prepared = quantization.prepare(whole)
    prepared(sample)
    whole = quantization.convert(prepared)
    return whole, whole[:2](sample).q_scale()


def quantized_case(model: nn.Module, sizes: tuple[int, ...], spec: Spec, *fuse: list[str], by: object = by_channel) -> None:
    made, step = quantized(model, sizes, *fuse, by=by)
    case(made, spec, atol=1.01 * step, why=STEP)


class Residual(nn.Module):
    """A small network with a sum, a pool and groups."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.relu = nn.Conv2d(3, 8, 3, padding=1), nn.ReLU()
        self.grouped = nn.Conv2d(8, 8, 3, padding=1, groups=2, bias=False)
        self.sum = torch.ao.nn.quantized.FloatFunctional()
        self.linear = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.conv(x))
        x = self.sum.add(x, self.grouped(x))
        return self.linear(F.adaptive_avg_pool2d(x, 1).flatten(1))


images = (4, 3, 9, 9)
# Of an even number of pixels, a mean can lie just between two steps; the layer behind it would make more than one step of one.
quantized_case(Residual(), images, x[B, 3, 2 * H + 1, 2 * W + 1], ["conv", "relu"])
quantized_case(nn.Conv2d(3, 6, 3, stride=2, padding=(1, 2), dilation=(2, 1)), images, x[B, 3, H >= 5, W])
quantized_case(nn.Conv2d(3, 3, 3, groups=3), images, x[B, 3, H >= 3, W >= 3])
quantized_case(nn.Conv1d(4, 6, 3, stride=2, padding=1), (4, 4, 12), x[B, 4, S])
quantized_case(nn.Conv3d(2, 3, 2), (2, 2, 4, 4, 4), x[B, 2, 4, H >= 2, W >= 2])
quantized_case(nn.ConvTranspose2d(3, 4, 3, 2, padding=1, output_padding=1), images, x[B, 3, H, W], by=by_tensor)
quantized_case(nn.ConvTranspose1d(4, 6, 3, 2), (4, 4, 12), x[B, 4, S], by=by_tensor)
quantized_case(nn.Linear(6, 4), (16, 6), x[B, 6])
quantized_case(nn.Linear(6, 4), (16, 6), x[B, 6], by=by_tensor)
quantized_case(nn.Linear(6, 4), (16, 3, 6), x[B, S, 6])
quantized_case(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4)), (16, 6), x[B, 6], ["0", "1"])
normed = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
quantized_case(normed, images, x[B, 3, H >= 3, W >= 3], ["0", "1", "2"])
quantized_case(nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(inplace=True), nn.MaxPool2d(2)), images, x[B, 3, H >= 2, W >= 2])
quantized_case(nn.Sequential(nn.Hardswish(), nn.Upsample(scale_factor=2)), images, x[B, 3, H >= 2, W >= 2])
quantized_case(nn.LayerNorm(6), (16, 6), x[B, 6])
quantized_case(nn.ELU(), (16, 6), x[B, 6])
quantized_case(nn.GroupNorm(2, 4), (8, 4, 5), x[B, 4, S >= 2])
quantized_case(nn.InstanceNorm2d(3, affine=True), images, x[B, 3, H >= 2, W >= 2])
quantized_case(nn.BatchNorm3d(2), (2, 2, 4, 4, 4), x[B, 2, 4, H, W])
quantized_case(nn.LeakyReLU(0.2), (16, 6), x[B, 6])
quantized_case(nn.Sigmoid(), (16, 6), x[B, 6])


made = torch.ao.nn.quantized.dynamic
layers = {nn.Linear: made.Linear, nn.Conv1d: made.Conv1d, nn.LSTM: made.LSTM, nn.GRU: made.GRU}


def dynamic(model: nn.Module, dtype: torch.dtype = torch.qint8) -> nn.Module:
    with torch.random.fork_rng():
        kind = quantization.float16_dynamic_qconfig if dtype == torch.float16 else quantization.default_dynamic_qconfig
        return quantization.quantize_dynamic(nn.Sequential(drawn(model)), dict.fromkeys(layers, kind), mapping=layers)


# Inputs whose range is 127 steps of 1 / 32, so that no number lies between two.
exact = x(values=(-1.0, 2.96875, 0.5, -0.25, 1.75, 0.03125, -0.71875, 2.0))
NEAR = "a number that lies between two steps may be rounded to either"
case(dynamic(nn.Linear(4, 8)), exact[B, 4])
case(dynamic(nn.Linear(6, 4)), exact[B, S >= 2, 6])
case(dynamic(nn.Linear(6, 4, bias=False)), exact[B, S >= 2, 6])
case(dynamic(nn.Linear(6, 4, bias=False)), x(values=(0.001, 0.002, 0.004, -0.003))[B, 6], atol=1e-4, why=NEAR)
case(dynamic(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))), x[B, 4], atol=0.02, why=NEAR)
case(dynamic(nn.Linear(6, 4), torch.float16), x[B, 6])
case(dynamic(nn.Conv1d(4, 3, 3, padding=1)), x[B, 4, S], atol=0.06, why=STEP)
case(dynamic(nn.LSTM(6, 4, 2, batch_first=True, bidirectional=True)), exact[B, S >= 2, 6], atol=0.005, why=NEAR)
case(dynamic(nn.LSTM(6, 4)), exact[S >= 2, B, 6], atol=0.005, why=NEAR)
case(dynamic(nn.LSTM(6, 4), torch.float16), x[S, B, 6])
case(dynamic(nn.GRU(6, 4)), exact[S >= 2, B, 6], atol=0.005, why=NEAR)
case(dynamic(nn.GRU(6, 4, bidirectional=True)), exact[S >= 2, B, 6], atol=0.005, why=NEAR)
