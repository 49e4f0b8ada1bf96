"""Cases of src/ops/statistics.cpp."""

import torch

from tests.cases import B, N, S, boolean, case, f16, f32, f64, i32, i64, inf, nan, u8, x

few = (f32(values=(3, 1, 2, 3, 1)) | i64(0, 4) | i32(0, 4) | u8(0, 4) | boolean)[B, 7]

# ---- different elements
case(torch.unique, few)
case(torch.unique, few, return_inverse=True, return_counts=True)
case(torch.unique, i64(0, 3)[B, 2, S], dim=0, return_inverse=True, return_counts=True)
case(torch.unique, i64(0, 2)[B, 6], dim=-1)
case(lambda a: torch._unique(a, True, True), i64(0, 4)[N])
case(lambda a: torch.ops.aten._unique2(a, False, False, True), i64(0, 4)[N])
# Where NaNs are that are equal to the sorting is open.
GAPS = (nan, 1, inf, nan, 1, -inf, 0, nan, inf)
for floating in (f32, f64, f16):
    case(torch.unique, floating(values=GAPS)[B, 9])
    case(lambda a: torch.unique(a, return_counts=True), floating(values=GAPS)[B, 9])
    case(lambda a: torch.unique(a, dim=0, return_inverse=True), floating(values=(3, 1, 3, 2))[B, 4])
case(torch.unique, x(values=GAPS[:6])[6], return_inverse=True)
case(lambda a: torch.unique(a, return_counts=True), x(values=(nan, 1, nan, 2))[N])  # infinity is not there


def unique_rows(a: torch.Tensor, dim: int) -> tuple[torch.Tensor, ...]:
    """Without the order of those that have NaN, which is open."""
    rows, inverse, counts = torch.unique(a, dim=dim, return_inverse=True, return_counts=True)
    return torch.nan_to_num(rows, 7.0).sum(dim), torch.nan_to_num(rows.index_select(dim, inverse), 7.0), counts.sum()


case(unique_rows, x(values=(3, nan, 2, nan, 3, inf, 2, nan))[4, 2], 0)
case(unique_rows, f64(values=(1, 0, nan, 0, 1))[2, B, 3], 1)
case(torch.unique_consecutive, x(values=(1, nan, nan, 2, 2))[N], return_counts=True)
case(torch.unique_consecutive, i64(0, 2)[N])
case(torch.unique_consecutive, i64(0, 2)[B, 7], return_inverse=True, return_counts=True)
case(torch.unique_consecutive, boolean[B, 7], return_inverse=True, return_counts=True)
case(torch.unique_consecutive, i64(0, 2)[B, 9, 2], dim=1, return_inverse=True, return_counts=True)

# ---- how often
case(torch.bincount, i64(0, 6)[N])
case(torch.bincount, u8(0, 6)[N], minlength=8)
case(torch.bincount, i64(0, 6)[N], x[N])
case(torch.bincount, i32(0, 6)[N], i64[N], minlength=3)
case(torch.bincount, i64(0, 6)[N], f64[N])
case(torch.histc, x[B, 9], bins=5, min=-1, max=1)
case(torch.histc, f64[B, 9], bins=4)
case(torch.histc, x(values=(-1, 1, 0, 0.5, 2))[N], bins=4, min=-1, max=1)
case(torch.histc, x(values=(2, 2))[N], bins=4)
case(torch.histogram, x[B, 9], 5)
case(torch.histogram, f64[N], 4, range=(-1.0, 1.0))
case(torch.histogram, x[N], 4, range=(-3.0, 3.0), weight=x[N], density=True)
case(torch.histogram, x[N], torch.tensor([-2.0, -0.5, 0.0, 1.0, 4.0]))
case(torch.mode, i64(0, 3)[B, 9])
case(torch.mode, x(values=(1, 2, 1, 3, 3))[9, B], dim=0, keepdim=True)
case(torch.mode, x[()])

# ---- quantiles
for how in ("linear", "lower", "higher", "nearest", "midpoint"):
    case(torch.quantile, x[B, 9], 0.3, dim=1, interpolation=how)
    case(torch.nanquantile, x(values=(1, nan, 5, 2, 3, 9, nan))[B, 9], 0.6, dim=1, interpolation=how)
case(torch.quantile, (f32 | f64)[B, S], 0.25)
case(torch.quantile, x[B, S, 3], 0.5, dim=1, keepdim=True)
case(torch.quantile, x[B, S], 0.75, keepdim=True)
case(torch.quantile, x[B, S, 3], torch.tensor([0.1, 0.5, 0.9]), dim=-1)
case(torch.quantile, x[B, S], x(0, 1)[3], dim=0, keepdim=True)
case(torch.quantile, x(values=(1, nan, 5, 2))[B, 5], torch.tensor([0.1, 0.5]), dim=1)
case(torch.nanquantile, x(values=(1, nan, 5, 2, nan, nan, nan))[B, 3], torch.tensor([0.1, 0.5]), dim=1)
case(torch.nanquantile, x(values=(1, nan, 5, 2))[B, S], 0.4)

# ---- covariance
case(torch.cov, x[3, S >= 2])
case(torch.cov, x[3, S], correction=0)
case(torch.cov, f64[S >= 2])
case(torch.cov, x[3, 6], aweights=f64(0.1, 1)[6], export=False)
case(torch.cov, x[B >= 2, 6], fweights=i64(1, 5)[6], aweights=x(0.1, 1)[6])
case(torch.cov, x[3, S >= 2], aweights=x(0.1, 1)[S >= 2], correction=0)
case(torch.corrcoef, x[3, S >= 4])
case(torch.corrcoef, x[S >= 4])

# ---- segments
for how in ("sum", "mean", "prod", "max", "min"):
    case(lambda a: torch.segment_reduce(a, how, lengths=torch.tensor([2, 3, 4])), x[9, B])
    case(lambda a: torch.segment_reduce(a, how, lengths=torch.tensor([2, 0, 7]), initial=0.5, unsafe=True), x[9, B])
case(lambda a, n: torch.segment_reduce(a, "sum", lengths=n, unsafe=True), x[9], i64(values=(4, 5))[2])
case(lambda a: torch.segment_reduce(a, "max", offsets=torch.tensor([0, 4, 5, 9])), x[9, 2])
case(lambda a: torch.segment_reduce(a, "mean", lengths=torch.tensor([[2, 2], [1, 3]]), axis=1), x[2, 4, 3])

# ---- integrals and derivatives
for fn in (torch.trapezoid, torch.trapz, torch.cumulative_trapezoid):
    case(fn, x[B, S >= 2])
    case(fn, f64[B, S >= 2, 3], dx=0.5, dim=1)
    case(fn, x[B, S >= 2, 3], x[S >= 2], dim=1)
    case(fn, x[B, S >= 2], x[B, S >= 2])
case(torch.trapezoid, i64[B, S >= 2])
for order in (1, 2):
    case(torch.gradient, x[B >= 4, S >= 4], edge_order=order)
    case(torch.gradient, x[B, S >= 4], dim=1, spacing=0.5, edge_order=order)
    case(torch.gradient, x[B, S >= 4, 5], dim=(1, 2), spacing=2.0, edge_order=order)
    case(torch.gradient, x[B, 6], dim=1, spacing=(torch.tensor([0.0, 1.0, 1.5, 3.0, 4.0, 7.0]),), edge_order=order)
case(torch.gradient, f64[S >= 4])
for bins in (3, [2, 3, 1]):
    case(lambda a: torch.histogramdd(a, bins), x[N, 3], opsets=range(16, 24))
case(
    lambda a, w: torch.histogramdd(a, [3, 2], range=[-1.0, 1.0, -2.0, 0.5], weight=w, density=True),
    x[N, 2],
    x(0.1, 1.0)[N],
    opsets=range(16, 24),
)
case(lambda a: torch.histogram(a, 1), x[()], opsets=range(16, 24))
