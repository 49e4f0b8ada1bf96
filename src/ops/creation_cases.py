"""Cases of src/ops/creation.cpp."""

import torch
import torch.nn.functional as F

from tests.cases import B, N, S, boolean, case, f16, f32, f64, i32, i64, inf, x


@torch.jit.script
def sizes(a: torch.Tensor) -> torch.Tensor:
    return torch.tensor([[a.size(0), a.size(1)], [3, a.dim()]]) * 2


@torch.jit.script
def count(a: torch.Tensor) -> torch.Tensor:
    return torch.tensor(a.size(0)) + torch.tensor([float(a.size(1)), 1.5])


# Each takes its sizes from an input, so that they are dynamic.
case(lambda a: torch.zeros(a.size(0), 3) + a.sum(), x[B, 4])
case(lambda a: torch.ones(a.size(0), a.size(1)), x[B, S])
case(lambda a: torch.ones(a.size(0), 2, dtype=torch.int64), x[B, S])
case(lambda a: torch.empty(a.size(0), 2).fill_(3), x[B, S])
case(lambda a: torch.full((a.size(0), 2), 5) + a.size(1), x[B, S])
case(lambda a: torch.full((a.size(0), 2), 5.5), x[B, S])
case(lambda a: torch.full((a.size(0), 2), 1, dtype=torch.bool), x[B, S])
case(lambda a: torch.full((2, 3), -inf, dtype=torch.float64) + a, f64[B, 2, 3])
case(lambda a: torch.full((a.size(0),), a.size(1)), x[B, S])
case(lambda a: a.new_zeros(a.size(0), 2), (f32 | f64 | f16 | i64 | i32 | boolean)[B, S])
case(lambda a: a.new_ones(a.size(0), 2, dtype=torch.float32), i64[B, S])
case(lambda a: a.new_full((a.size(0), 2), 7), (f32 | i32)[B, S])
case(lambda a: a.new_empty((a.size(0), 2)).zero_(), x[B, S])
case(torch.zeros_like, (f32 | i64 | boolean)[B, 4])
case(torch.ones_like, x[B, 4], dtype=torch.int32)
case(torch.ones_like, x[()])
case(torch.full_like, (f32 | i64)[B, 4], 3)
case(torch.full_like, i64[B, 4], 2.5, dtype=torch.float32)
case(lambda a: torch.empty_like(a).copy_(a), x[B, 4])
case(lambda a: torch.zeros(0, 3) + a, x[0, 3])
case(lambda a: torch.scalar_tensor(2) + a, i64[B])
case(lambda a: torch.tensor(2.5) * a, (f32 | f64 | i64)[B])
case(lambda a: torch.tensor([[1, 2], [3, 4]]) + a, i64[B, 2, 2])
case(lambda a: torch.tensor([1.5, 2.5]) + a, x[B, 2])
case(lambda a: torch.tensor([True, False]) & a, boolean[B, 2])
case(lambda a: torch.tensor([1, 2], dtype=torch.float64) + a, f64[B, 2])
case(sizes, x[B, S])
case(count, x[B, S])
case(lambda a: torch.as_tensor(a, dtype=torch.int64), x(-9, 9)[B, 2], script=False)

case(lambda a: torch.arange(a.size(1)) + a, i64[B, S])
case(lambda a: torch.arange(a.size(1)) + a, x[B, S])
case(lambda a: torch.arange(0, a.size(1), dtype=torch.float32) + a, x[B, S])
case(lambda a: torch.arange(a.size(1), dtype=torch.int32) + a, i32[B, S])
case(lambda a: torch.arange(1, a.size(1) + 1) * a, x[B, S])
case(lambda a: torch.arange(0, a.size(1), 2) + a[:, ::2], x[B, S])
case(lambda a: torch.arange(a.size(1) - 1, -1, -1) + a, x[B, S])
case(lambda a: torch.arange(2, 10, 3) + a, i64[B, 3])
case(lambda a: torch.arange(5) + a, i64[B, 5])
case(lambda a: torch.arange(5.0) + a, x[B, 5])
case(lambda a: torch.arange(0.5, 2.5, 0.3) + a, x[B, 7])
case(lambda a: torch.arange(0, 1, 0.1, dtype=torch.float64) + a, f64[B, 10])
case(lambda a: torch.arange(10, 0, -3) + a, i64[B, 4])
case(lambda a: torch.arange(0) + a, i64[0])
case(lambda a: torch.arange(4, dtype=torch.float16) + a, f16[B, 4])
# The number of elements is computed in double.
case(lambda a: torch.arange(0, a.size(0) + a.size(1), 0.7), x[B, S])
case(lambda a: torch.arange(0, a.size(1), 0.1, dtype=torch.float64), x[B, S])
case(lambda a: torch.arange(a.size(0) + 1.5, 0, -0.3), x[B, S])
case(lambda a: torch.arange(0.5, a.size(0) / 3 + a.size(1)), x[B, S])
case(lambda a: torch.arange(0.5, a.size(1) + 0.7, dtype=torch.int32), x[B, S])
case(lambda a: torch.arange(0.5, a.size(1) + 0.7, dtype=torch.int64), x[B, S])
case(lambda a: torch.arange(float(a.sum())), x(0.1, 3.0)[4], trace=False, export=False)
case(lambda a: torch.arange(float(a.sum()), 20.0), x(0.1, 3.0)[4], trace=False, export=False)
case(lambda a: torch.linspace(0, 1, 5) + a, x[B, 5])
case(lambda a: torch.linspace(-3, 7.5, 10, dtype=torch.float64) + a, f64[B, 10])
case(lambda a: torch.linspace(2, 3, 1) + a, x[B, 1])
case(lambda a: torch.linspace(0, 10, 4, dtype=torch.int64) + a, i64[B, 4])
case(lambda a: torch.linspace(-1, 1, a.size(1)) + a, x[B, S])
case(lambda a: torch.logspace(0, 2, 5) + a, x[B, 5])
case(lambda a: torch.logspace(0, 2, 5, base=2.0) + a, x[B, 5])
case(lambda a: torch.eye(3) @ a, x[B, 3, 2])
case(lambda a: torch.eye(2, 3, dtype=torch.int64) + a, i64[B, 2, 3])
case(lambda a: torch.eye(a.size(1)) + a, x[B, N, N])
case(lambda a: torch.eye(a.size(1), 4, dtype=torch.bool) & a, boolean[B, N, 4])
case(lambda a: torch.hann_window(9) + a, x[B, 9])
case(lambda a: torch.hann_window(1) + a, x[B, 1])
for window in ("hann", "hamming", "blackman", "bartlett", "kaiser"):
    case(lambda a: getattr(torch, f"{window}_window")(a.size(1)) + a, x[B, S], script=False)
    case(lambda a: getattr(torch, f"{window}_window")(a.size(1), periodic=False) + a, x[B, S], script=False)


def counted_into(a: torch.Tensor) -> torch.Tensor:
    out = torch.empty(0, dtype=torch.int64)
    torch.arange(a.size(0), out=out)
    return a + out


case(counted_into, x[S], export=False)
case(lambda a: torch.hamming_window(8, False, dtype=torch.float64) + a, f64[B, 8])
case(lambda a: torch.hamming_window(8, True, 0.5, 0.4) + a, x[B, 8])
case(lambda a: torch.blackman_window(7, periodic=False) + a, x[B, 7])
case(lambda a: torch.bartlett_window(6) + a, x[B, 6])
case(lambda a: torch.kaiser_window(6) + a, x[B, 6])
case(lambda a: torch.kaiser_window(7, False, 5.0, dtype=torch.float64) + a, f64[B, 7])
case(lambda a: torch.kaiser_window(a.size(1), True, 0.5) + a, x[B, S], script=False)
for fn in (torch.tril, torch.triu):
    case(fn, (f32 | f64 | i64 | i32 | boolean)[B, 4, 5])
    case(fn, x[B, 4, 5], diagonal=1)
    case(fn, x[B, S, N], diagonal=-1)
    case(fn, x(values=(inf, 1.0, -inf))[S, S])
case(lambda a: torch.triu(torch.full((a.size(1), a.size(1)), -inf), diagonal=1) + a, x[B, S, S])
case(lambda a: torch.tril(torch.ones(a.size(0), a.size(0), dtype=torch.bool)), x[S, 2])
case(lambda a: torch.tril_indices(3, 4) + a, i64[B, 2, 6])
case(lambda a: torch.tril_indices(3, 4, -1) + a, i64[B, 2, 3])
case(lambda a: torch.triu_indices(3, 3, 1) + a, i64[B, 2, 3])
case(lambda a: torch.triu_indices(a.size(0), a.size(0), 1) * 2, x[B])
case(lambda a: a[torch.tril_indices(a.size(0), a.size(0), 1)[0]], x[B])
case(lambda a: a[torch.tril_indices(a.size(0), a.size(0), -2)[0]], x[B])
case(lambda a: torch.tril_indices(a.size(0), a.size(1), -1), x[B, 3])
case(F.one_hot, i64(0, 5)[B, 4], 5)
case(F.one_hot, i64(0, 5)[()], 5)
case(F.one_hot, i64(values=(0, 3, 1))[B, 3])

# Random: only sizes, types and bounds can be compared. ONNX Runtime has no kernels for RandomUniformLike of opset 22.
OLDER = range(9, 22)
case(lambda a: torch.rand_like(a).ge(0), (f32 | f64)[B, S], opsets=OLDER)
case(lambda a: (torch.randn_like(a) * 0).abs(), x[B, S], opsets=OLDER)
case(lambda a: (torch.rand(a.size(0), 2) < 1).all(), x[B, S], opsets=OLDER)
case(lambda a: torch.randn(2, 3).isfinite(), x[B], opsets=OLDER)
case(lambda a: torch.randint(2, 3, (a.size(0), 2)), x[B], opsets=OLDER)
case(lambda a: torch.bernoulli(torch.ones_like(a)), x[B, 2], opsets=OLDER)
case(lambda a: a.bernoulli(0.0), x[B, 2], opsets=OLDER)
case(lambda a: torch.zeros_like(a).uniform_(1, 1.0001).round(), x[B, 2], opsets=OLDER)
case(lambda a: torch.normal(a, torch.zeros_like(a)), x[B, 2], opsets=OLDER)
case(lambda a: torch.zeros_like(a).normal_(2.0, 0.0), x[B, 2], opsets=OLDER)
