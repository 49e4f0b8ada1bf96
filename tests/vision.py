"""torchvision, whose binary may not fit this torch: then its operators are declared, with kernels in plain PyTorch."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import cache
from types import ModuleType

import numpy as np
import torch
from torch import Tensor


@cache
def torchvision() -> ModuleType:
    """torchvision's Python side, with operators that run."""
    try:
        import torchvision.extension as found
    except RuntimeError:
        found = None
    complete = found is not None and found._has_ops()
    if not complete:
        _declare()
    import torchvision as package
    import torchvision.models

    if not complete:
        for module in [m for name, m in sys.modules.items() if name.startswith("torchvision.") and hasattr(m, "_has_ops")]:
            module._has_ops = _has_ops  # type: ignore[attr-defined]

    return package


def _has_ops() -> bool:
    return True


ROI = "Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
CONV = "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w"
SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    f"roi_align({ROI}, int sampling_ratio, bool aligned) -> Tensor",
    f"roi_pool({ROI}) -> (Tensor, Tensor)",
    f"ps_roi_align({ROI}, int sampling_ratio) -> (Tensor, Tensor)",
    f"ps_roi_pool({ROI}) -> (Tensor, Tensor)",
    f"deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, {CONV}, SymInt groups, "
    "SymInt offset_groups, bool use_mask) -> Tensor",
    "box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor",
    "nms_rotated(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


def _declare() -> None:
    """Declares what torchvision's Python code names when it is imported or scripted."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in SCHEMAS:
        library.define(schema)
    for name in ("qnms", *(f"_{n}_backward" for n in ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d"))):
        library.define(f"{name}(Tensor x) -> Tensor")
    kernels: tuple[Callable[..., object], ...] = (nms, roi_align, roi_pool, ps_roi_align, deform_conv2d)
    for kernel in kernels:
        library.impl(kernel.__name__, kernel, "CPU")
    _declare.library = library  # type: ignore[attr-defined]  # it ends with the object


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    from torchvision.ops.boxes import box_iou

    overlaps = (box_iou(dets, dets) > iou_threshold).numpy()
    alive = np.ones(len(dets), dtype=bool)
    kept: list[int] = []
    for i in scores.argsort(descending=True, stable=True).tolist():
        if alive[i]:
            kept.append(i)
            alive &= ~overlaps[i]
    return torch.tensor(kept, dtype=torch.int64)


def roi_align(x: Tensor, rois: Tensor, scale: float, height: int, width: int, sampling_ratio: int, aligned: bool) -> Tensor:
    """The mean of samples in each cell; of each box by itself, as a person would say it."""
    shift, least = (0.5, 0.0) if aligned else (0.0, 1.0)
    out = x.new_zeros(len(rois), x.size(1), height, width)
    for r, (image, *corners) in enumerate(rois.tolist()):
        x1, y1, x2, y2 = (c * scale - shift for c in corners)
        h, w = max(y2 - y1, least) / height, max(x2 - x1, least) / width
        ny = sampling_ratio if sampling_ratio > 0 else int(-(-h // 1))
        nx = sampling_ratio if sampling_ratio > 0 else int(-(-w // 1))
        if nx < 1 or ny < 1:
            continue
        ys = y1 + h / ny * (torch.arange(height * ny) + 0.5)
        xs = x1 + w / nx * (torch.arange(width * nx) + 0.5)
        sampled = _rows(_rows(x[int(image)], ys, 1), xs, 2)
        out[r] = sampled.reshape(-1, height, ny, width, nx).mean((2, 4))
    return out


def _rows(x: Tensor, at: Tensor, dim: int) -> Tensor:
    """Interpolates linearly along a dimension. A point up to 1 beyond the image is at its edge, beyond that there is 0."""
    n = x.size(dim)
    inside = (at >= -1) & (at <= n)
    at = at.clamp(0, n - 1)
    low = at.floor().long()
    shape = [1] * x.dim()
    shape[dim] = -1
    part, inside = (at - low).to(x.dtype).reshape(shape), inside.reshape(shape)
    high = (low + 1).clamp(max=n - 1)
    return torch.where(inside, x.index_select(dim, low) * (1 - part) + x.index_select(dim, high) * part, 0)


def ps_roi_align(x: Tensor, rois: Tensor, scale: float, height: int, width: int, ratio: int) -> tuple[Tensor, Tensor]:
    every = roi_align(x, rois, scale, height, width, ratio, True)
    every = every.reshape(len(rois), -1, height, width, height, width)
    out = torch.einsum("rchwhw->rchw", every).contiguous()
    return out, torch.zeros_like(out, dtype=torch.int32)


def roi_pool(x: Tensor, rois: Tensor, scale: float, height: int, width: int) -> tuple[Tensor, Tensor]:
    out = x.new_zeros(len(rois), x.size(1), height, width)
    for r, (image, *corners) in enumerate(rois.tolist()):
        x1, y1, x2, y2 = (int(math.copysign(abs(c * scale) + 0.5, c)) for c in corners)  # half away from 0
        h, w = max(y2 - y1 + 1, 1) / height, max(x2 - x1 + 1, 1) / width
        for i in range(height):
            for j in range(width):
                top, bottom = (min(max(int(v) + y1, 0), x.size(2)) for v in (i * h // 1, -(-(i + 1) * h // 1)))
                left, right = (min(max(int(v) + x1, 0), x.size(3)) for v in (j * w // 1, -(-(j + 1) * w // 1)))
                if bottom > top and right > left:
                    out[r, :, i, j] = x[int(image), :, top:bottom, left:right].amax((1, 2))
    return out, torch.zeros_like(out, dtype=torch.int32)


def deform_conv2d(x: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, *sizes: int | bool) -> Tensor:
    """Each tap of the kernel reads the image where its own offset says, and the products are summed."""
    sh, sw, ph, pw, dh, dw, groups, offset_groups, use_mask = sizes
    n, channels, height, width = x.shape
    out_height, out_width = offset.shape[2:]
    taps = weight.size(2) * weight.size(3)
    offset = offset.reshape(n, offset_groups, taps, 2, out_height, out_width)
    factor = mask.reshape(n, offset_groups, taps, out_height, out_width) if use_mask else torch.ones(())
    read = x.new_zeros(n, channels, taps, out_height, out_width)
    for tap in range(taps):
        i, j = divmod(tap, weight.size(3))
        y = offset[:, :, tap, 0] + (torch.arange(out_height) * sh - ph + i * dh)[:, None]
        z = offset[:, :, tap, 1] + torch.arange(out_width) * sw - pw + j * dw
        value = x.new_zeros(n, offset_groups, channels // offset_groups, out_height, out_width)
        for dy in (0, 1):
            for dz in (0, 1):
                row, column = y.floor().long() + dy, z.floor().long() + dz
                share = (1 - (y - row).abs()) * (1 - (z - column).abs())
                inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
                at = (row.clamp(0, height - 1) * width + column.clamp(0, width - 1)).reshape(n, offset_groups, 1, -1)
                image = x.reshape(n, offset_groups, channels // offset_groups, -1)
                pixels = image.gather(3, at.expand(-1, -1, image.size(2), -1)).reshape(value.shape)
                value += pixels * torch.where(inside, share, 0).unsqueeze(2)
        scaled = value * factor[:, :, tap].unsqueeze(2) if use_mask else value
        read[:, :, tap] = scaled.reshape(n, channels, out_height, out_width)
    read = read.reshape(n, groups, channels // groups * taps, -1)
    out = weight.reshape(groups, weight.size(0) // groups, -1) @ read
    return out.reshape(n, weight.size(0), out_height, out_width) + bias[:, None, None]
