"""Cases of src/ops/vision.cpp."""

import torch.nn.functional as F

from tests.cases import B, H, W, case, f64, x

for mode in ("bilinear", "nearest", "bicubic"):
    for padding in ("zeros", "border", "reflection"):
        for corners in (False, True):
            case(
                lambda a, g: F.grid_sample(a, g, mode, padding, corners),
                x[B, 3, H >= 2, W >= 2],
                x(-1.3, 1.3)[B, 5, 4, 2],
            )
for mode in ("bilinear", "nearest"):
    case(
        lambda a, g: F.grid_sample(a, g, mode, "zeros", False),
        x[B, 2, 4, H >= 2, W >= 2],
        x(-1.3, 1.3)[B, 3, 5, 4, 3],
    )
for corners in (False, True):
    case(lambda t: F.affine_grid(t, [2, 3, 4, 5], corners), x[2, 2, 3])
    case(lambda t, a: F.affine_grid(t, a.size(), corners), x[B, 2, 3], x[B, 3, H, W])
    case(lambda t, a: F.affine_grid(t, a.size(), corners), x[B, 3, 4], x[B, 3, 4, H, W])
case(F.unfold, x[B, 3, H >= 3, W >= 3], 3)
case(F.unfold, x[B, 3, H >= 5, W >= 5], (3, 2), dilation=2, padding=(1, 0), stride=(2, 1))
case(F.unfold, x[3, 6, 5], 2, padding=1)
from_16 = range(16, 24)
case(F.fold, x[B, 12, 6], (3, 4), 2, opsets=from_16)
case(F.fold, x[B, 18, 10], (7, 6), (3, 2), dilation=2, padding=(1, 0), stride=(1, 2), opsets=from_16)
case(F.fold, x[8, 12], (5, 4), 2, stride=1, opsets=from_16)
case(lambda a: F.fold(F.unfold(a, 2), a.shape[2:], 2), x[B, 3, H >= 2, W >= 2], opsets=from_16)
case(
    lambda a, g: F.grid_sample(a, g, align_corners=False),
    f64[B, 3, H >= 2, W >= 2],
    f64(-1.3, 1.3)[B, 5, 4, 2],
    rtol=1e-3,
    atol=1e-5,
    why="ONNX Runtime has it only in float32 below opset 20",
)
