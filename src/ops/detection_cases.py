"""torchvision's operators for object detection."""

import torch

from tests.cases import B, H, N, W, case, f16, x
from tests.vision import torchvision

torchvision()
ops = torch.ops.torchvision

# ---- nms ------------------------------------------------------------------------------------------------------------------

near = torch.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30], [0, 0, 10, 9], [5, 5, 5, 5]])


def boxes(x: torch.Tensor) -> torch.Tensor:
    low, size = x.sigmoid()[:, :2], x.sigmoid()[:, 2:]
    return torch.cat([low, low + size], 1)


for threshold in (0.0, 0.5, 1.0):
    case(lambda x, s: ops.nms(boxes(x), s, threshold), x[N, 4], x[N], empty=True)
case(lambda s: ops.nms(near, s, 0.5), x(values=(0.9, 0.8, 0.7, 0.95, 0.1))[5])
case(lambda s: ops.nms(near, s, 0.5), x(values=(0.5,))[5])
case(lambda x, s: x[ops.nms(boxes(x), s, 0.3)][:2], x[N, 4], x[N], empty=True)
case(lambda x, s: ops.nms(boxes(x).float(), s.float(), 0.5), f16[N, 4], f16[N])

# ---- regions ----------------------------------------------------------------------------------------------------------------

found = torch.tensor([[0.0, 1, 2, 6, 7], [1, 0, 0, 3, 3], [0, -2, -2, 9, 12], [1, 4.5, 4.5, 4.6, 4.6]])
image = x[2, 8, H >= 8, W >= 8]

# ONNX Runtime has the RoiAlign and MaxRoiPool of opsets up to 21.
for ratio in (0, -1, 2):
    for aligned in (False, True):
        opsets = range(16 if aligned else 10, 22)
        case(lambda x: ops.roi_align(x, found, 1.0, 3, 2, ratio, aligned), image, opsets=opsets)
case(
    lambda r, x: ops.roi_align(x, torch.cat([r[:, :1] * 0, r], 1), 0.5, 2, 2, 2, False),
    x(0, 12)[N, 4],
    image,
    opsets=range(10, 22),
    empty=True,
)
case(lambda x: ops.ps_roi_align(x, found, 1.0, 2, 2, 2)[0], image, opsets=range(16, 22))
case(lambda x: ops.ps_roi_align(x, found, 0.5, 2, 1, -1)[0], image, opsets=range(16, 22))
case(lambda x: ops.roi_pool(x, found, 1.0, 2, 3)[0], image, opsets=range(9, 22))
case(lambda x: ops.roi_pool(x, found, 0.5, 2, 2)[0], image, opsets=range(9, 22))

# ---- deformable convolution -------------------------------------------------------------------------------------------------

weight, bias = torch.randn(6, 4, 3, 3) / 6, torch.randn(6)
for masked in (False, True):
    case(
        lambda x, o, m: ops.deform_conv2d(x, weight, o, m, bias, 1, 1, 1, 1, 1, 1, 1, 1, masked),
        x[B, 4, H, W],
        x[B, 18, H, W],
        x[B, 9, H, W],
        opsets=range(19, 27),
    )
case(
    lambda x, o, m: ops.deform_conv2d(x, weight[:, :2], o, m, bias, 2, 1, 0, 2, 1, 2, 2, 2, True),
    x[B, 4, 9, 7],
    x[B, 36, 4, 7],
    x[B, 18, 4, 7],
    opsets=range(19, 27),
)
