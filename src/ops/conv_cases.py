"""Cases of src/ops/conv.cpp: convolutions and transposed convolutions."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.cases import B, H, N, S, W, case, f16, f64, i8, i32, i64, x

# ---- of one to three dimensions, with and without a batch
case(nn.Conv1d(3, 4, 3), x[B, 3, S >= 3])
case(nn.Conv1d(3, 4, 3), x[3, S >= 3])
case(nn.Conv1d(3, 4, 1, bias=False), x[B, 3, S])
case(nn.Conv2d(3, 4, 3), x[B, 3, H >= 3, W >= 3])
case(nn.Conv2d(3, 4, 3), x[3, H >= 3, W >= 3])
case(nn.Conv2d(3, 4, 3, bias=False), x[B, 3, H >= 3, W >= 3])
case(nn.Conv3d(2, 4, 3, padding=1), x[B, 2, S, H, W])
case(nn.Conv3d(2, 4, 3, padding=1), x[2, S, H, W])
case(nn.Conv2d(3, 4, 3, padding=1).double(), f64[B, 3, H, W], rtol=1e-5, atol=1e-6, why="computed in float32")
case(nn.Conv2d(3, 4, 3, padding=1).half(), f16[B, 3, 5, 5])

# ---- steps, borders, groups
case(nn.Conv1d(3, 4, 4, stride=2, padding=1, dilation=2), x[B, 3, S >= 5])
case(nn.Conv2d(3, 4, 3, stride=2, padding=1), x[B, 3, H, W])
case(nn.Conv2d(3, 4, (3, 5), stride=(2, 1), padding=(1, 2), dilation=(2, 1)), x[B, 3, H >= 3, W])
case(nn.Conv2d(3, 4, 16, stride=16), x[B, 3, 32, 32])
case(nn.Conv2d(4, 6, 3, groups=2, padding=1), x[B, 4, H, W])
case(nn.Conv2d(4, 4, 3, groups=4, padding=1, bias=False), x[B, 4, H, W])
case(nn.Conv2d(4, 8, 3, groups=4, padding=1), x[B, 4, H, W])
case(nn.Conv1d(4, 4, 3, groups=4, padding=2, dilation=2), x[B, 4, S])
case(nn.Conv3d(4, 4, (1, 2, 3), stride=(1, 2, 1), padding=(0, 1, 1), groups=2), x[B, 4, S, H, W])
case(nn.Conv1d(3, 4, 4, padding="same"), x[B, 3, S])
case(nn.Conv1d(3, 4, 3, padding="valid"), x[B, 3, S >= 3])
case(nn.Conv2d(3, 4, 4, padding="same", dilation=3), x[B, 3, H, W])
case(nn.Conv2d(3, 4, (3, 2), padding="same"), x[3, H, W])
case(nn.Conv2d(3, 4, 3, padding="valid", stride=2), x[B, 3, H >= 3, W >= 3])
case(nn.Conv3d(2, 4, (2, 3, 4), padding="same"), x[B, 2, S, H, W])
for mode in ("reflect", "replicate", "circular"):
    case(nn.Conv1d(3, 4, 5, padding=2, padding_mode=mode), x[B, 3, S >= 3])
    case(nn.Conv2d(3, 4, 3, padding=1, padding_mode=mode), x[B, 3, H >= 2, W >= 2])
    case(nn.Conv2d(3, 4, (3, 4), padding="same", padding_mode=mode), x[B, 3, H >= 3, W >= 3])
case(nn.Conv3d(2, 3, 3, padding=1, padding_mode="replicate"), x[B, 2, S, H, W])

# ---- weights that are not constant
case(F.conv1d, x[B, 3, S >= 2], x[4, 3, 2], x[4], stride=2)
case(F.conv2d, x[B, 3, H, W], x[4, 3, 3, 3], padding=1)
case(F.conv2d, x[B, 3, H, W], x[N, 3, 3, 3], x[N], padding=1)
case(F.conv2d, x[B, 3, H, W], x[4, 3, 2, 3], padding="same")
case(lambda x, w: F.conv2d(x.view(1, -1, 4, 4), w.view(-1, 3, 3, 3), padding=1, groups=2), x[2, 3, 4, 4], x[2, 5, 3, 3, 3])
case(lambda x, w: F.conv1d(x, w * 2, bias=None, stride=[2], padding=[1], dilation=[1], groups=1), x[B, 3, S], x[4, 3, 3])

# ---- transposed
case(nn.ConvTranspose1d(3, 4, 3), x[B, 3, S])
case(nn.ConvTranspose1d(3, 4, 3), x[3, S])
case(nn.ConvTranspose2d(3, 4, 3), x[B, 3, H, W])
case(nn.ConvTranspose2d(3, 4, 2, stride=2), x[3, H, W])
case(nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1), x[B, 3, H, W])
case(nn.ConvTranspose2d(4, 6, (3, 4), stride=(2, 3), padding=(1, 0), output_padding=(0, 2), groups=2), x[B, 4, H, W])
case(nn.ConvTranspose2d(4, 4, 3, groups=4, bias=False, dilation=2), x[B, 4, H, W])
case(nn.ConvTranspose3d(2, 4, 3, stride=2, padding=1, output_padding=1), x[B, 2, S, H, W])
case(nn.ConvTranspose1d(4, 4, 3, stride=2, groups=2, dilation=2, output_padding=1), x[B, 4, S])
case(nn.ConvTranspose2d(3, 4, 3).double(), f64[B, 3, H, W], rtol=1e-5, atol=1e-6, why="computed in float32")
case(F.conv_transpose1d, x[B, 3, S], x[3, 4, 2], x[4], stride=2)
case(F.conv_transpose2d, x[B, 4, H, W], x[4, 2, 3, 3], padding=1, groups=2)
case(F.conv_transpose2d, x[B, 4, H, W], x[4, 2, 3, 3], stride=(3, 2), padding=(1, 2), output_padding=(2, 3), dilation=4)

# ---- the general operators
case(lambda x, w, b: torch.convolution(x, w, b, [2, 1], [1, 1], [1, 1], False, [0, 0], 1), x[B, 3, H, W], x[4, 3, 3, 3], x[4])
case(lambda x, w: torch.convolution(x, w, None, [2], [1], [1], True, [1], 1), x[B, 3, S], x[3, 4, 3])
case(
    lambda x, w, b: torch._convolution(x, w, b, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, False, False, True, True),
    x[B, 3, H, W],
    x[4, 3, 3, 3],
    x[4],
)
case(torch.conv_tbc, x[S >= 3, B, 4], x[3, 4, 5], x[5], 1)

# ---- whole numbers
whole = i64 | i32 | i8
for groups in (1, 2):
    case(
        lambda a, w, v: F.conv1d(a, w, v, stride=2, padding=1, groups=groups),
        whole[B, 4, S >= 2],
        whole[6, 4 // groups, 3],
        whole[6],
    )
    case(lambda a, w: F.conv2d(a, w, None, 1, (1, 0), (1, 2), groups), i64[B, 4, H >= 3, W >= 3], i64[2, 4 // groups, 3, 2])
    case(lambda a, w, v: F.conv_transpose1d(a, w, v, 3, 1, 1, groups, 2), i64[B, 4, S], i64[4, 3, 2], i64[3 * groups])
    case(lambda a, w: F.conv_transpose2d(a, w, None, (2, 1), (0, 2), (1, 0), groups), i64[B, 4, H, W >= 2], i64[4, 3, 3, 4])
case(lambda a, w: F.conv3d(a, w, padding="same"), i64[3, 4, 5, 3], i64[2, 3, 2, 3, 1])
