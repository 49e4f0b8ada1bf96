"""Cases of src/ops/quantize.cpp. Inputs lie between the steps, where a rounding error does not decide."""

import torch
import torch.ao.quantization.fx._decomposed  # defines the operators
from torch import nn

from tests.cases import B, S, case, f16, x

apart = x(values=(-40.3, -1.26, -0.71, -0.13, 0.0, 0.12, 0.38, 0.66, 1.87, 30.1))
scales, zeros = torch.tensor([0.25, 0.5, 0.75, 1.5]), torch.tensor([0, 3, 10, 100], dtype=torch.int32)
centered = torch.zeros(4, dtype=torch.int32)
scale, zero = torch.tensor([0.25]), torch.tensor([10], dtype=torch.int32)
q = torch.ops.quantized_decomposed

for low, high in ((0, 255), (-128, 127), (0, 127), (-127, 127), (-8, 7), (0, 15), (0, 65535)):
    case(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.25, 0, low, high), apart[B, 7])
    case(lambda x: torch.fake_quantize_per_channel_affine(x, scales, centered, 1, low, high), apart[B, 4, S])
case(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.25, 10, 0, 255), apart[B, 7])
case(lambda x: torch.fake_quantize_per_tensor_affine(x, scale, zero, 0, 255), apart[B, 7])
case(lambda x, s: torch.fake_quantize_per_tensor_affine(x, s, zero, 0, 255), apart[B, 7], x(values=(0.25,))[1])
case(lambda x: torch.fake_quantize_per_channel_affine(x, scales, zeros, 0, 0, 255), apart[4, B])
case(lambda x: torch.fake_quantize_per_channel_affine(x, scales, zeros, 1, 0, 255), apart[B, 4, 2, 2])
case(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.25, 0, 0, 255), f16(values=(0.6, 1.1, -2.0, 70.0))[B, 4])
case(lambda x: torch.ops.aten.fake_quantize_per_tensor_affine_cachemask(x, 0.25, 0, -8, 7), apart[B, 7], script=False)
case(lambda x: torch.ops.aten.fake_quantize_per_channel_affine_cachemask(x, scales, zeros, 1, 0, 127), apart[B, 4], script=False)


class Trained(nn.Module):
    """A layer of quantization-aware training, after training."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(10, 4)
        self.weight = torch.ao.quantization.default_per_channel_weight_fake_quant()
        self.activation = torch.ao.quantization.default_fake_quant()
        self.weight(self.linear.weight)
        self.activation(torch.randn(8, 10))
        for part in (self.weight, self.activation):
            part.disable_observer()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(self.activation(x), self.weight(self.linear.weight), self.linear.bias)


case(Trained(), x[B, 10], script=False)

for low, high, dtype in ((0, 255, torch.uint8), (-128, 127, torch.int8), (-127, 127, torch.int8), (-32768, 32767, torch.int16)):
    case(lambda x: q.quantize_per_tensor(x, 0.25, 1, low, high, dtype), apart[B, 7], script=False)
    case(
        lambda x: q.dequantize_per_tensor(q.quantize_per_tensor(x, 0.25, 1, low, high, dtype), 0.25, 1, low, high, dtype),
        apart[B, 7],
        script=False,
    )
case(
    lambda x: q.dequantize_per_channel(
        q.quantize_per_channel(x, scales, centered, 1, -128, 127, torch.int8), scales, centered, 1, -128, 127, torch.int8
    ),
    apart[B, 4, S],
    script=False,
)
case(lambda x: q.choose_qparams(x, 0, 255, 1e-5, torch.uint8), apart[B, 7], script=False)
