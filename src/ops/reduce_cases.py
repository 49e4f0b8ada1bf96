"""Cases of src/ops/reduce.cpp."""

import torch
import torch.nn.functional as F

from tests.cases import B, H, N, S, W, boolean, case, f16, f32, f64, floats, i8, i16, i32, i64, inf, nan, numbers, u8, x

for fn in (torch.sum, torch.prod):
    case(fn, (f32 | f64 | f16 | i64 | i32 | i16 | u8 | boolean)[B, 4])
    case(fn, (f32 | i32 | boolean)[B, 4, S], dim=1)
    case(fn, x[B, 4, S], dim=-1, keepdim=True)
    case(fn, i32[B, 4], dtype=torch.float32)
    case(fn, x[B, 4], dim=0, dtype=torch.float64)
    case(fn, x[()])
    case(fn, i32[()], dim=0)
case(torch.sum, x[B, 4, S], dim=(0, -1))
case(torch.sum, x[B, 4, S], dim=(0, 2), keepdim=True)
case(torch.sum, x[B, 4, S], dim=[])
case(torch.sum, x[B, 4, S], dim=None, keepdim=True)
case(torch.sum, x[0, 4], dim=0)
case(torch.sum, x[B, H, W], dim=(1, 2))
case(torch.mean, floats[B, 4])
case(torch.mean, x[B, 4, S], dim=1)
case(torch.mean, x[B, 4, S], dim=(-2, -1), keepdim=True)
case(torch.mean, i64[B, 4], dim=1, dtype=torch.float32)
case(torch.mean, x[()])
case(torch.mean, x[B, S], dim=(0, 1))
case(torch.nansum, x(values=(1.0, nan, 2.0))[B, 3], dim=1)
case(torch.nansum, x(values=(1.0, nan, 2.0))[B, 3])
case(torch.nanmean, x(values=(1.0, nan, 2.0))[B, 3], dim=1, keepdim=True)
case(torch.nanmean, x(values=(1.0, nan, 2.0))[B, 3])
case(torch.count_nonzero, (f32 | i64(0, 2) | boolean)[B, 4])
case(torch.count_nonzero, i64(0, 2)[B, 4], dim=1)
case(torch.count_nonzero, i64(0, 2)[B, 4, S], dim=(0, 2))

for fn in (torch.max, torch.min):
    case(fn, (f32 | f64 | i64 | i32 | i16 | i8 | u8 | boolean)[B, 4])
    case(fn, (f32 | f64 | i64 | i32 | u8)[B, 9], dim=1)
    case(fn, x[B, 4, S], dim=-2, keepdim=True)
    case(fn, x[()])
    case(fn, x[()], dim=0)
    case(fn, boolean[B, 1], dim=1)
case(lambda a: torch.max(a, 1)[0], boolean[B, 4])
case(lambda a: torch.min(a, 1)[0], boolean[B, 4])
for fn in (torch.amax, torch.amin):
    case(fn, numbers[B, 4], dim=1)
    case(fn, x[B, 4, S], dim=(0, -1))
    case(fn, x[B, 4, S], keepdim=True)
    case(fn, x[B, 4, S])
    case(fn, boolean[B, 4], dim=1)
    case(fn, x[()])
case(torch.aminmax, x[B, 4])
case(torch.aminmax, x[B, 4], dim=1, keepdim=True)
for fn in (torch.argmax, torch.argmin):
    case(fn, (f32 | f64 | i64 | i32 | u8)[B, 9], dim=1)
    case(fn, x[B, 4, S], dim=-2, keepdim=True)
    case(fn, x[B, 4])
    case(fn, x[B, 4], keepdim=True)
    case(fn, x[()])
    case(fn, x[()], dim=0)
    case(fn, i64(0, 3)[B, 9], dim=1)
for fn in (torch.all, torch.any):
    case(fn, (boolean | f32 | i64(0, 2) | u8(0, 2))[B, 4], empty=True)
    case(fn, (boolean | i64(0, 2) | u8(0, 2))[B, 4], dim=1, empty=True)
    case(fn, boolean[B, 4, S], dim=-1, keepdim=True)
    case(fn, (boolean | u8(0, 2))[B, 4], dim=0, empty=True)
    case(fn, boolean[B, 4, S], dim=(0, 2), empty=True)
    case(fn, boolean[()])
    case(fn, boolean[0, 3], dim=0)

case(torch._is_all_true, boolean[B, 4], empty=True)
case(torch._is_any_true, boolean[B, 4], empty=True)

for fn in (torch.std, torch.var, torch.std_mean, torch.var_mean):
    case(fn, x[0], correction=0)
    case(fn, x[0, 5], dim=0)
    case(fn, (f32 | f64)[B >= 2, 4])
    case(fn, x[B, 4], unbiased=False)
    case(fn, x[B, 4, S], dim=1)
    case(fn, x[B, 4, S], dim=(0, 1), keepdim=True)
    case(fn, x[B, 4, S >= 2], dim=2, unbiased=True)
    case(fn, x[B, 4, S], dim=-1, correction=0)
    case(fn, x[B, 4, S >= 3], dim=-1, correction=2, keepdim=True)
    case(fn, x[B, 4, S], dim=1, unbiased=False, keepdim=True)
case(torch.var, x[()])
case(torch.std, x[B, 1], dim=1)

for p in (2, 1, 3, inf, -inf):
    case(torch.linalg.vector_norm, x(values=(nan, 1.0, -3.0, inf, 2.0, 0.5))[B, 2], p, dim=1)
for p in (2, 1, 0, 3, 0.5, inf, -inf):
    case(torch.norm, x[B, 4], p)
    case(torch.norm, x[B, 4], p, 1)
    case(torch.linalg.vector_norm, x[B, 4, S], p, (0, 1), keepdim=True)
case(lambda a: a.norm(), (f32 | f64)[B, 4])
case(lambda a: a.norm(dim=-1, keepdim=True), x[B, 4])
case(lambda a: torch.norm(a, 2, 1, False, dtype=torch.float64), x[B, 4])
case(torch.linalg.norm, x[B, 4])
case(torch.linalg.norm, x[B, 4], dim=1)
case(torch.linalg.norm, x[B, 4], ord=1, dim=1)
case(torch.linalg.norm, x[B, 4, S], ord=1, dim=(1, 2))
case(torch.linalg.norm, x[B, 4, S], ord=-inf, dim=(2, 0))
case(torch.linalg.norm, x[B, 4], ord="fro")
case(torch.linalg.norm, x[S], ord=3)
case(torch.linalg.vector_norm, x[()])
case(torch.linalg.matrix_norm, x[B, 4, S])
case(torch.linalg.matrix_norm, x[B, 4, S], ord=1, keepdim=True)
case(torch.frobenius_norm, x[B, 4, S], dim=(1, 2))
case(F.normalize, x[B, 4])
case(torch.dist, x[B, 4], x[4])
case(torch.dist, x[B, 4], x[4], p=1)
case(F.cosine_similarity, x[B, 4, S], x[B, 4, S])
case(F.cosine_similarity, x[B, 4], x[4], dim=-1)
case(F.cosine_similarity, x[B, 1, 4], x[S, 4], dim=-1)
case(F.cosine_similarity, x[B, 4], x[B, 1], dim=1, eps=0.1)
case(F.pairwise_distance, x[B, 4], x[B, 4])
case(F.pairwise_distance, x[B, 4], x[4], p=1.0, eps=0.0, keepdim=True)
case(torch.diff, (f32 | i64 | boolean)[B, 5])
case(torch.diff, x[B, N >= 3], n=2)
case(torch.diff, x[N, 4], n=0, dim=0, prepend=x[1, 4])
case(torch.diff, x[N, 4], dim=0, prepend=x[1, 4], append=x[2, 4])
case(torch.logsumexp, x[B, 4, S], dim=1)
case(torch.logsumexp, x[B, 4, S], dim=(0, 2), keepdim=True)
case(torch.logsumexp, x(values=(-inf, 1.0, 100.0, -inf))[B, 2], dim=1)
case(torch.logsumexp, i64[B, 4], dim=1)
case(torch.logsumexp, x[()], dim=0)

case(torch.topk, (f32 | f64)[B, 9], k=3)
case(lambda a: torch.topk(a, 3)[0], (i64 | i32)[B, 9])
case(lambda a: torch.topk(a, 3, largest=False)[0], x[B, 9])
case(torch.topk, x[B, 9, S], k=3, dim=1)
case(torch.topk, x[()], k=1)
case(lambda a: torch.topk(a, a.size(1) // 2 + 1, dim=1), x[B, N])
case(lambda a: torch.topk(a, 3, sorted=False)[0].sum(1), x[B, 9])
for descending in (False, True):
    case(torch.sort, (f32 | i64)[B, N], descending=descending)
    case(torch.sort, x[B, 9, S], dim=1, descending=descending)
    case(torch.sort, i64(0, 3)[B, 9], stable=True, dim=-1, descending=descending)
    case(torch.argsort, x[B, N], descending=descending)
    case(torch.argsort, i32(0, 3)[B, 9], stable=True, descending=descending)
case(lambda a: torch.sort(a, 1)[0], (u8 | i8 | i16 | boolean)[B, 9])
case(torch.sort, x[()])
case(torch.msort, x[N, 4])
case(torch.kthvalue, x[B, 9], k=3)
case(torch.kthvalue, x[B, 9], k=3, dim=1, keepdim=True)
case(torch.kthvalue, x[N >= 2, 4], k=2, dim=0)
case(torch.median, (f32 | i64)[B, 4])
case(torch.median, x[B, 9], dim=1)
case(torch.median, x[N, 4], dim=0, keepdim=True)
case(torch.median, x[()])
case(torch.nanmedian, x(values=(3.0, nan, 1.0, 2.0, nan))[5])
case(torch.nanmedian, x(values=(3.0, nan, 1.0, 2.0, 5.0, nan))[B, 6])
case(lambda a: torch.nanmedian(a, 1)[0], x(values=(3.0, nan, 1.0, 2.0, 5.0, nan))[B, 6])

case(torch.cumsum, (f32 | f64 | i64 | i32 | boolean)[B, 4], dim=1)
case(torch.cumsum, x[B, 4, S], dim=-1)
case(torch.cumsum, i32[B, 4], dim=0, dtype=torch.float32)
case(torch.cumsum, x[()], dim=0)
case(torch.cumprod, (f32 | i64)[B, 4], dim=1)
case(torch.cumprod, x[B, 4, S], dim=-1)
case(torch.cumprod, x[B, 4, S], dim=0)
case(torch.logcumsumexp, x[B, 4, S], dim=1)
case(torch.cummax, f64(values=(-inf, -inf, nan, 1, -inf, 2))[B, 6], -1)
case(torch.cummin, x(values=(inf, 1, inf, inf, nan))[B, 5], 1)
case(torch.cummin, u8(values=(255, 255, 3))[N, 3], 0)
for fn in (torch.cummax, torch.cummin):
    case(fn, (f32 | i64)[B, 9], dim=1)
    case(fn, x[B, S, 2], dim=-2)
case(torch.Tensor.sum_to_size, x[B, 4, S], (4, 1))
case(torch.Tensor.sum_to_size, x[B, 4], (1, 4))
case(torch.Tensor.sum_to_size, (i32 | boolean)[B, 4, S], (4, 1))
case(torch.Tensor.sum_to_size, (i32 | boolean)[3, 4], (1, 4))
case(torch.Tensor.sum_to_size, (i32 | boolean)[2, 4], (2, 4))
case(torch.Tensor.sum_to_size, (i32 | boolean)[()], ())
for p in (1, 2, 3.0):
    case(torch.renorm, x[B, 4, 2], p, 0, 0.5)
    case(torch.renorm, x[3, B], p, -1, 1.5)

# NaN is larger than infinity, and the extremum of every set that it is in.
for dtype in (f32, f64, f16):
    gaps = dtype(values=(1, nan, 3, -2, nan, 0, 5, -7, 4))
    for fn in (torch.max, torch.min, torch.median, torch.nanmedian, torch.aminmax, torch.argmax, torch.argmin, torch.msort):
        case(fn, gaps[9])
    for fn in (torch.amax, torch.amin, torch.argmax, torch.argmin, torch.median, torch.cummax, torch.cummin, torch.argsort):
        case(fn, gaps[3, 3], 1)
    for fn in (torch.max, torch.min):
        case(fn, gaps[3, 3], 0)
    case(torch.sort, gaps[9])
    case(torch.sort, gaps[9], descending=True, stable=True)
    case(lambda x: torch.topk(x, 4).values, gaps[9])
    case(lambda x: torch.topk(x, 5, largest=False).values, gaps[9])
    case(lambda x: x.kthvalue(3).values, gaps[9])
mixed = x(values=(inf, nan, 3, -2, nan, -inf, inf, -7, 4))
case(lambda x: torch.sort(x, stable=True), mixed[9])
case(lambda x: torch.sort(x, descending=True, stable=True), mixed[9])
for fn in (torch.max, torch.min, torch.argmax, torch.argmin):
    case(fn, mixed[9])

# The mean of no element is NaN.
for fn in (torch.mean, torch.sum, torch.prod, torch.var, torch.std):
    case(lambda x: fn(x[x > 10]), x[B, 3])
    case(fn, x[0, 3])
case(lambda x: torch.var(x[x > 10], correction=0), x[B, 3])


def into(x: torch.Tensor) -> list[torch.Tensor]:
    """Results that are put into tensors that are given."""
    v, i = torch.empty(0), torch.empty(0, dtype=torch.int64)
    w, j = torch.empty(0), torch.empty(0, dtype=torch.int64)
    t, k = torch.empty(0), torch.empty(0, dtype=torch.int64)
    torch.max(x, 1, out=(v, i))
    torch.sort(x, out=(w, j))
    torch.topk(x, 2, out=(t, k))
    return [v, i, w, j, t, k]


case(into, x[B, 5])

# ---- NaN is beyond infinity, in float64 too
for order in (
    lambda x: x.sort(1)[0],
    lambda x: x.sort(1, descending=True)[0],
    lambda x: x.topk(3, 1)[0],
    lambda x: x.argmax(1),
    lambda x: x.cummax(1)[0],
):
    case(order, f64(values=(inf, nan, 1.0, -inf, inf, nan, 2.0))[B, 6])
