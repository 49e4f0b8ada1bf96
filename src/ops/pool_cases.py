"""Cases of src/ops/pool.cpp: pooling over windows, and to a given size."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.cases import B, H, S, W, case, f16, f32, f64, i8, i32, i64, u8, x

reals = f32 | f64 | f16

# ---- maxima
case(nn.MaxPool1d(2), x[B, 3, S >= 2])
case(nn.MaxPool1d(3, stride=2, padding=1), x[3, S])
case(nn.MaxPool2d(2), reals[B, 3, H >= 2, W >= 2])
case(nn.MaxPool2d(3, stride=2, padding=1), x[B, 3, H, W])
case(nn.MaxPool2d(2), x[3, H >= 2, W >= 2])
case(nn.MaxPool2d((3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2)), x[B, 3, H, W >= 3])
case(nn.MaxPool2d(3, 1, 1, 1), (i64 | i32 | i8 | u8)[B, 3, H, W])
case(nn.MaxPool3d(2), x[B, 3, S >= 2, H >= 2, W >= 2])
case(nn.MaxPool3d((1, 2, 3), stride=(1, 2, 1), padding=(0, 1, 1)), x[3, S, H, W])
case(lambda x: F.max_pool2d(x, [2, 2], stride=[]), x[B, 3, 4, 4])
case(nn.MaxPool1d(2, return_indices=True), x[B, 3, S >= 2])
case(nn.MaxPool2d(2, return_indices=True), x[B, 3, H >= 2, W >= 2])
case(nn.MaxPool2d(3, stride=2, padding=1, return_indices=True), x[B, 3, H, W])
case(nn.MaxPool2d(2, return_indices=True), x[3, H >= 2, W >= 2])
case(nn.MaxPool2d(2, dilation=2, return_indices=True), x[B, 3, H >= 3, W >= 3])
case(nn.MaxPool3d(2, return_indices=True), x[B, 3, S >= 2, H >= 2, W >= 2])

# ---- means
case(nn.AvgPool1d(2), x[B, 3, S >= 2])
case(nn.AvgPool1d(3, stride=1, padding=1), x[3, S])
case(nn.AvgPool2d(2), (f32 | f16)[B, 3, H >= 2, W >= 2])
case(nn.AvgPool2d(2), f64[B, 3, H >= 2, W >= 2], rtol=1e-5, atol=1e-6, why="computed in float32")
case(nn.AvgPool2d(3, stride=2, padding=1), x[B, 3, H, W])
case(nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False), x[B, 3, H, W])
case(nn.AvgPool2d((3, 2), stride=(1, 2), padding=(1, 0)), x[3, H, W >= 2])
case(nn.AvgPool2d(2, divisor_override=3), x[B, 3, H >= 2, W >= 2])
case(nn.AvgPool2d(3, 2, 1, divisor_override=5), x[B, 3, H, W])
case(nn.AvgPool3d(2), x[B, 3, S >= 2, H >= 2, W >= 2])
case(nn.AvgPool3d(3, 2, 1, count_include_pad=False), x[B, 3, S >= 3, H >= 3, W >= 3])
case(nn.AvgPool3d(2, divisor_override=7), x[B, 3, S >= 2, H >= 2, W >= 2])

# ---- a last window that reaches past the end
for size in (4, 5, 6, 7):
    for kernel, stride, padding in ((2, 2, 0), (3, 2, 1), (3, 3, 1), (2, 3, 1), (4, 3, 2)):
        case(nn.MaxPool1d(kernel, stride, padding, ceil_mode=True), x[B, 2, size], script=False, records=False)
        case(nn.AvgPool1d(kernel, stride, padding, ceil_mode=True), x[B, 2, size], script=False, records=False)
for kernel, stride, padding in ((2, 2, 0), (3, 2, 0), (3, 2, 1), (2, 3, 1)):
    case(nn.MaxPool2d(kernel, stride, padding, ceil_mode=True), x[B, 2, kernel <= H, kernel <= W], records=False)
    case(nn.AvgPool2d(kernel, stride, padding, ceil_mode=True), x[B, 2, kernel <= H, kernel <= W], records=False)
    case(
        nn.AvgPool2d(kernel, stride, padding, ceil_mode=True, count_include_pad=False),
        x[B, 2, kernel <= H, kernel <= W],
        records=False,
    )
case(nn.MaxPool2d(3, 2, 1, dilation=2, ceil_mode=True), x[B, 2, H >= 4, W >= 4], records=False)
case(nn.MaxPool3d(2, ceil_mode=True), x[B, 2, S >= 2, H >= 2, W >= 2], records=False)
case(nn.AvgPool3d(3, 2, 1, ceil_mode=True), x[B, 2, S >= 3, H >= 3, W >= 3], records=False)
case(nn.AvgPool2d(2, 2, 0, ceil_mode=True, divisor_override=3), x[B, 2, H >= 2, W >= 2], records=False)
case(nn.MaxPool2d(2, ceil_mode=True, return_indices=True), x[B, 2, 6, 8], records=False)
case(nn.MaxPool2d(2, ceil_mode=True, return_indices=True), x[B, 2, 5, 7], records=False)
case(nn.MaxPool2d(3, 2, ceil_mode=True, return_indices=True), x[B, 2, H >= 3, W >= 3], records=False)

# ---- to a given size
for size in (1, 2, 3, 4, 5, 8):
    case(nn.AdaptiveAvgPool1d(size), x[B, 3, 8])
    case(nn.AdaptiveMaxPool1d(size), x[B, 3, 8])
    case(nn.AdaptiveAvgPool1d(size), x[B, 3, S])
    case(nn.AdaptiveMaxPool1d(size), x[B, 3, S])
case(nn.AdaptiveAvgPool2d(1), reals[B, 3, H, W])
case(nn.AdaptiveAvgPool2d((1, 1)), x[3, H, W])
case(nn.AdaptiveAvgPool2d((2, 3)), x[B, 3, 4, 6])
case(nn.AdaptiveAvgPool2d((2, 3)), x[B, 3, 5, 7])
case(nn.AdaptiveAvgPool2d((7, 7)), x[B, 3, 7, 7])
case(nn.AdaptiveAvgPool2d((7, 7)), x[B, 3, 3, 3])
case(nn.AdaptiveAvgPool2d((2, 3)), x[B, 3, H, W])
case(nn.AdaptiveAvgPool2d((None, 2)), x[B, 3, H, W])
case(nn.AdaptiveAvgPool2d((1, None)), x[B, 3, H, W])
case(nn.AdaptiveAvgPool2d((1, 4)), x[B, 3, H, 8])
case(nn.AdaptiveAvgPool2d((None, None)), x[B, 3, H, W])
case(nn.AdaptiveAvgPool3d(1), x[B, 3, S, H, W])
case(nn.AdaptiveAvgPool3d((2, 1, 3)), x[B, 3, 5, H, 6])
case(nn.AdaptiveAvgPool3d((2, 3, 3)), x[0, 3, 8, 8, 8])
# In a sample of 1, the 1 may as well be the width.
case(lambda x: F.adaptive_avg_pool2d(x, (x.size(2) // 2, 1)), x[B, 3, 2 * H, W], ones=False)
case(nn.AdaptiveMaxPool2d(1), x[B, 3, H, W])
case(nn.AdaptiveMaxPool2d(1, return_indices=True), x[B, 3, H, W])
case(nn.AdaptiveMaxPool2d((2, 3), return_indices=True), x[B, 3, 4, 6])
case(nn.AdaptiveMaxPool2d((2, 3)), x[B, 3, 5, 7])
case(nn.AdaptiveMaxPool2d((None, 2)), x[B, 3, 4, 6])
case(nn.AdaptiveMaxPool2d((2, 3)), x[3, H, W])
case(nn.AdaptiveMaxPool2d((2, 3), return_indices=True), x[B, 3, 5, 7])
case(nn.AdaptiveMaxPool3d(1), x[B, 3, S, H, W])

# ---- powers
case(nn.LPPool1d(2.0, 3, stride=2), x[B, 3, S >= 3])
case(nn.LPPool2d(2.0, 2), x[B, 3, H >= 2, W >= 2])
case(nn.LPPool2d(3.0, (2, 1), stride=1, ceil_mode=True), x(0.1, 1)[B, 3, H >= 2, W], records=False)

# ---- back to where the maxima came from
aten = torch.ops.aten
# Every place of a plane once: of two writes to one, the threads of PyTorch decide.
places = i64(values=(30, 3, 17, 8, 0, 34))
places_3d = i64(values=(30, 3, 17, 8, 0, 34, 59, 41, 22, 12, 50, 1))
case(aten.max_unpool2d, reals[B, 3, 2, 3], places[B, 3, 2, 3], [5, 7])
case(aten.max_unpool2d, x[3, 2, 3], places[3, 2, 3], [5, 7])
case(aten.max_unpool3d, x[B, 3, 2, 3, 2], places_3d[B, 3, 2, 3, 2], [3, 4, 5], [1, 1, 1], [0, 0, 0])
case(lambda a: F.max_unpool2d(*F.max_pool2d(a, 2, return_indices=True), 2), x[B, 3, 6, 8], trace=False)
case(
    lambda g, a, at: aten.max_pool2d_with_indices_backward(g, a, [3, 3], [1, 1], [0, 0], [1, 1], False, at),
    x[B, 2, 2, 3],
    x[B, 2, 4, 5],
    i64(0, 20)[B, 2, 2, 3],
    opsets=range(16, 24),
)

# ---- windows at random places
for size in ((2, 3), (4, 1)):
    case(lambda a, r: F.fractional_max_pool2d(a, (2, 3), size, None, True, r), x[B, 3, 9, 8], x(0.0, 1.0)[B, 3, 2])
case(lambda a, r: F.fractional_max_pool2d(a, 2, (2, 3), None, False, r), x[B, 3, H >= 4, W >= 4], x(0.0, 1.0)[B, 3, 2])
case(lambda a, r: F.fractional_max_pool3d(a, 2, (2, 3, 3), None, True, r), x[2, 3, 6, 8, 5], x(0.0, 1.0)[2, 3, 3])
case(lambda a, r: F.fractional_max_pool3d(a, 2, (2, 3, 3), None, True, r), x[3, 6, 8, 5], x(0.0, 1.0)[1, 3, 3])

# ---- averages of whole numbers
case(nn.AvgPool1d(3, stride=2, padding=1), i64[B, 3, S >= 2])
case(nn.AvgPool2d(2, ceil_mode=True, padding=1, count_include_pad=False), i64[B, 3, 5, 4])
case(nn.AvgPool2d((3, 2), stride=1, divisor_override=4), i64[B, 3, H >= 3, W >= 2])
case(nn.AvgPool3d(2), i64[3, 4, 4, 4])

# Explicit padding is not that of the pooling.
case(lambda a: F.max_pool2d(F.pad(a, (1, 1, 1, 1)), 3, 2), x(-2, -1)[B, 3, H >= 3, W >= 3])
