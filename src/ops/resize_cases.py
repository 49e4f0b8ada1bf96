"""Cases of src/ops/resize.cpp: resizing of images and sequences."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.cases import B, H, S, W, case, f16, f64, u8, x

inputs = {1: x[B, 2, S], 2: x[B, 2, H, W], 3: x[B, 2, S, H, W]}
modes = [(d, m) for d in (1, 2, 3) for m in ("nearest", "nearest-exact")]
modes += [(1, "linear"), (2, "bilinear"), (3, "trilinear"), (2, "bicubic")]

for dims, mode in modes:
    image = inputs[dims]
    case(F.interpolate, image, size=[5, 9, 4][:dims], mode=mode)
    case(F.interpolate, image, size=3, mode=mode)
    case(F.interpolate, image, scale_factor=2, mode=mode)
    case(F.interpolate, image, scale_factor=[3.0, 2.0, 1.0][:dims], mode=mode)
    case(F.interpolate, image, scale_factor=1.5, mode=mode)
    case(F.interpolate, image, scale_factor=2.0, mode=mode, recompute_scale_factor=True)
    case(F.interpolate, image, scale_factor=1.3, mode=mode, recompute_scale_factor=True)
    if "linear" in mode or mode == "bicubic":
        case(F.interpolate, image, size=[5, 9, 4][:dims], mode=mode, align_corners=True)
        case(F.interpolate, image, scale_factor=2, mode=mode, align_corners=True)
        case(F.interpolate, image, scale_factor=1.5, mode=mode, align_corners=True)
for mode in ("nearest", "nearest-exact", "bilinear", "bicubic"):
    case(F.interpolate, x[B, 2, H >= 2, W >= 2], scale_factor=0.5, mode=mode)
    case(F.interpolate, x[B, 2, H >= 2, W >= 2], scale_factor=0.7, mode=mode)
    case(F.interpolate, x[B, 2, 8, 6], scale_factor=(0.4, 2.7), mode=mode)
    # In single precision, 10 * 1.3 is less than 13.
    case(F.interpolate, x[B, 2, 7, 10], scale_factor=1.3, mode=mode)
    case(F.interpolate, x[B, 2, H >= 4, W >= 4], scale_factor=(1.7, 1.3), mode=mode, opsets=(9, 10, 11, 18, 23))
    case(F.interpolate, x[B, 2, 8, 6], size=(3, 11), mode=mode)
    case(lambda x, y: F.interpolate(x, size=y.shape[2:], mode=mode), x[B, 2, 3, 4], x[B, 1, H, W])
    case(lambda x: F.interpolate(x, size=(x.size(2) * 2, x.size(3) + 1), mode=mode), x[B, 2, H, W])
for size in ((21, 45), (31, 7), (97, 11)):  # where i * (in / out) and i / (out / in) are rounded to different integers
    case(F.interpolate, x[B, 2, H, W], size=size, mode="nearest")
    case(F.interpolate, x[B, 2, 9, 14], size=size, mode="nearest")
    case(F.interpolate, x[B, 2, H, 14], size=size, mode="nearest-exact")
case(lambda x, y: F.interpolate(x, size=y.shape[-2:], mode="bilinear", align_corners=True), x[B, 2, 3, 4], x[B, 1, H, W])
case(F.interpolate, f16[B, 2, H, W], scale_factor=2, mode="nearest")
case(
    F.interpolate,
    f64[B, 2, H, W],
    scale_factor=2,
    mode="nearest",
    rtol=1e-5,
    atol=1e-6,
    why="computed in float32",
)
case(F.interpolate, f64[B, 2, 8, 6], size=(5, 9), mode="bilinear", rtol=1e-5, atol=1e-6, why="computed in float32")
case(F.interpolate, f16[B, 2, 4, 6], size=(5, 9), mode="bilinear")
case(F.interpolate, u8[B, 2, H, W], scale_factor=2, mode="nearest")
BYTES = "PyTorch computes bytes with weights of 16 bits"
for mode in ("bilinear", "bicubic"):
    case(F.interpolate, u8[B, 3, H, W], size=(13, 5), mode=mode, atol=1, why=BYTES)
    case(F.interpolate, u8[2, 8, 7, W], scale_factor=2, mode=mode, atol=1, why=BYTES, script=False)
    case(F.interpolate, u8[B, 3, 7, 9], size=(5, 7), mode=mode, antialias=True, atol=1, why=BYTES)
case(F.interpolate, x[B, 2, S], size=5, mode="area")
case(F.interpolate, x[B, 2, H, W], size=(2, 3), mode="area")
case(F.interpolate, x[B, 2, 8, 6], scale_factor=0.5, mode="area")
case(F.interpolate, x[B, 2, 8, 6], size=(5, 4), mode="bilinear", antialias=True)
case(F.interpolate, x[B, 2, 8, 6], size=(5, 4), mode="bicubic", antialias=True)

case(nn.Upsample(scale_factor=2), x[B, 2, H, W])
case(nn.Upsample(size=(4, 5), mode="bilinear"), x[B, 2, H, W])
case(nn.Upsample(scale_factor=(2.0, 1.0), mode="bicubic", align_corners=True), x[B, 2, H, W])
case(nn.UpsamplingNearest2d(scale_factor=2), x[B, 2, H, W])
case(nn.UpsamplingBilinear2d(size=(4, 5)), x[B, 2, H, W])
case(lambda x: torch.ops.aten.upsample_nearest2d(x, [5, 7]), x[B, 2, H, W])
case(lambda x: torch.ops.aten.upsample_nearest2d(x, [6, 9], 1.5, 1.5), x[B, 2, 4, 6])
case(lambda x: torch.ops.aten.upsample_bilinear2d(x, [6, 9], False, 1.6, 1.5), x[B, 2, 4, 6])
case(lambda x: torch.ops.aten.upsample_nearest2d.vec(x, None, [2.0, 3.0]), x[B, 2, H, W], script=False)
case(lambda x: torch.ops.aten.upsample_nearest2d.vec(x, [4, 3], None), x[B, 2, H, W], script=False)

# ---- antialiasing where ONNX has none of its own
for mode in ("bilinear", "bicubic"):
    case(F.interpolate, x[B, 2, 8, 6], size=(5, 9), mode=mode, antialias=True, align_corners=True)
    case(F.interpolate, x[B, 2, 8, 6], scale_factor=(1.7, 0.9), mode=mode, antialias=True, recompute_scale_factor=False)
    case(F.interpolate, x[B, 2, H >= 2, W >= 2], size=(3, 4), mode=mode, antialias=True, align_corners=True)
    case(F.interpolate, x[B, 2, 8, 6], size=(3, 2), mode=mode, antialias=True, opsets=range(11, 18))

# ---- factors that leave a size as it is, or double it, by rounding
for factor in (1.2, 2.3):
    for mode in ("nearest", "nearest-exact"):
        case(F.interpolate, x[B, 2, S], scale_factor=factor, mode=mode)
        case(F.interpolate, x[B, 2, H, W], scale_factor=factor, mode=mode)
        case(F.interpolate, x[B, 2, 4, 3], scale_factor=factor, mode=mode)
    case(F.interpolate, x[B, 2, H, W], scale_factor=factor, mode="bilinear", opsets=range(11, 27))
    case(F.interpolate, x[B, 2, 4, 3], scale_factor=factor, mode="bilinear", opsets=range(11, 27))
    case(F.interpolate, x[B, 2, H, W], scale_factor=factor, mode="bicubic", opsets=range(11, 27))
for factor in (1.2, (1.7, 1.2), (1.01, 1.3)):
    case(F.interpolate, x[B, 2, 3, 3], scale_factor=factor, mode="bicubic", opsets=range(11, 27))
    case(F.interpolate, x[B, 2, H, W], scale_factor=factor, mode="bicubic", opsets=range(11, 27))
