"""Cases of src/ops/special.cpp: over the whole domain of each function, and at its ends and poles."""

import torch

from tests.cases import B, S, boolean, case, f16, f32, f64, i8, i32, i64, inf, nan, u8, x

special = torch.special
ENDS = (0.0, inf, -inf, nan, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 1e-4, -1e-4, 1e-30, 300.0)

for fn in (torch.lgamma, torch.digamma):
    case(fn, (f32(0.01, 40.0) | f64(0.01, 40.0) | f16(0.1, 9.0) | i64(1, 20))[B, 9])
    case(fn, (f32(-6.0, 1.0) | f64(-6.0, 1.0))[B, 40])
    case(fn, x(values=(*ENDS, 1e30))[15])
for n in (0, 1, 2, 3, 4):
    case(lambda a: torch.polygamma(n, a), (f32(0.05, 30.0) | f64(0.05, 30.0) | i32(1, 9))[B, 9])
    case(lambda a: torch.polygamma(n, a), x(-4.0, 0.5)[B, 9])
case(lambda a: torch.polygamma(1, a), x(values=(0.0, inf, nan, 1.0, 0.5))[5])
case(lambda a: torch.polygamma(2, a), x(values=(0.0, -1.0, -2.0, nan, 1.0, 0.5))[6])
for p in (1, 3, 5):
    case(lambda a: torch.mvlgamma(a, p), (f32(2.1, 30.0) | f64(2.1, 30.0) | i64(3, 9))[B, 9])

for fn in (torch.erfinv, special.erfinv):
    case(fn, (f32(-1.0, 1.0) | f64(-1.0, 1.0) | f16(-0.9, 0.9))[B, 40])
case(torch.erfinv, x(values=(0.0, 1.0, -1.0, 1.5, nan, 1e-6, -1e-3, 0.999999, -0.9999999))[9])
case(torch.erfinv, boolean[B])
case(special.ndtri, (f32(0.0, 1.0) | f64(0.0, 1.0))[B, 40])
case(special.ndtri, x(values=(0.0, 1.0, 0.5, 1e-30, 1e-6, 0.999999, -0.1, 1.1, nan))[9])
for fn in (special.erfcx, special.ndtr, special.log_ndtr, special.i0, special.i0e, special.i1, special.i1e):
    case(fn, (f32(-9.0, 9.0) | f64(-9.0, 9.0) | i64)[B, 40])
    case(fn, x(-60.0, 60.0)[B, 40])
    case(fn, x(values=ENDS)[14])
for fn in (special.ndtr, special.i0):
    case(fn, f16(-2.0, 2.0)[B, 40])
case(special.entr, (f32(-0.1, 3.0) | f64 | i64(0, 4))[B, 9])
case(special.entr, x(values=ENDS)[14])
case(special.xlog1py, (f32(0.0, 3.0) | f64(0.0, 3.0) | i64(0, 4))[B, 9], x(-0.9, 3.0)[9])
case(special.xlog1py, x(values=(0.0, 0.0, 0.0, 1.0))[4], x(values=(nan, -1.0, inf, 0.5))[4])
case(special.xlog1py, 2.0, x(0.0, 3.0)[B])
case(special.xlog1py, x(0.0, 3.0)[B], 3)

for fn in (torch.gcd, torch.lcm):
    case(
        fn,
        (i64(-60, 60) | i32(-60, 60) | i8(-11, 11) | u8(0, 15))[B, 9],
        (i64(-60, 60) | i32(-60, 60) | i8(-11, 11) | u8(0, 15))[9],
    )
    case(fn, i64(-60, 60)[B, 1], i32(-60, 60)[S], empty=True)
case(torch.gcd, i64(values=(0, 0, 7, 701408733, 2**40))[5], i64(values=(0, 6, 0, 433494437, 3 * 2**20))[5])
