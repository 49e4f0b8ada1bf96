"""Cases of src/ops/pointwise.cpp."""

import operator

import torch

from tests.cases import B, N, S, boolean, case, f16, f32, f64, floats, i8, i16, i32, i64, inf, nan, numbers, u8, x

EVERY = f32 | f64 | f16 | i64 | i32 | i16 | i8 | u8

# One operand, computed in floating point.
for fn in (torch.exp, torch.sin, torch.cos, torch.tanh):
    case(fn, (f32 | f64 | i64)[B, 5])
for fn in (torch.tan, torch.atan, torch.sinh, torch.cosh, torch.asinh):
    case(fn, (f32 | i64)[B, 5])
    case(fn, f64[B, 5])
case(torch.atan, f64(values=(inf, -inf, nan, 1e200, 1e-9, 0))[6])
for fn in (torch.asin, torch.acos, torch.atanh):
    case(fn, f64(-0.9, 0.9)[B, 5])
case(torch.asin, f64(values=(-1, 1, 0, 2, nan))[5])
case(torch.acosh, f64(1.1, 9.0)[B, 5])
case(torch.erf, f64[B, 5], rtol=1e-5, atol=1e-6, why="computed in float32")
for fn in (torch.erf, torch.erfc, torch.sigmoid, torch.expm1, torch.exp2, torch.deg2rad, torch.rad2deg, torch.sinc):
    case(fn, (f32 | i64)[B, 5])
for fn in (torch.log, torch.sqrt, torch.rsqrt, torch.reciprocal, torch.log2, torch.log10, torch.log1p):
    case(fn, (f32(0.1, 9.0) | i32(1, 9))[B, 5])
for fn in (torch.asin, torch.acos, torch.atanh):
    case(fn, x(-0.9, 0.9)[B, 5])
case(torch.acosh, x(1.1, 9.0)[B, 5])
case(torch.exp, f16[B, 5])
case(torch.exp, boolean[B, 5])
case(torch.log, x[B, 5])
case(torch.sqrt, x[()])
case(torch.logit, x(0.05, 0.95)[B, 5])
case(torch.logit, x(-0.5, 1.5)[B, 5], eps=1e-3)
case(torch.special.logit, x(-0.5, 1.5)[B, 5], eps=0.1)
for fn in (torch.special.expit, torch.special.erf, torch.special.erfc, torch.special.expm1, torch.special.exp2):
    case(fn, x[B, 5])
for fn in (torch.special.log1p, torch.special.sinc):
    case(fn, x(0.1, 3.0)[B, 5])
case(torch.arcsin, x(-0.9, 0.9)[B])
case(torch.arccos, x(-0.9, 0.9)[B])
case(torch.arctan, x[B])
case(torch.arcsinh, x[B])
case(torch.arccosh, x(1.1, 9.0)[B])
case(torch.arctanh, x(-0.9, 0.9)[B])

# One operand, in its own type.
for fn in (torch.abs, torch.neg, torch.sign, torch.square, torch.sgn):
    case(fn, EVERY[B, 5])
case(torch.sign, boolean[B, 5])
case(torch.absolute, x[B])
case(torch.negative, i32[B])
for fn in (torch.floor, torch.ceil, torch.round, torch.trunc):
    case(fn, f32(-4.0, 4.0)[B, 9])
    case(fn, f64(-4.0, 4.0)[B, 9])
    case(fn, i64[B, 9])
    case(fn, x(values=(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, inf, -inf, nan, -0.0))[10])
case(torch.fix, x(-4.0, 4.0)[B])
case(torch.frac, x(-4.0, 4.0)[B, 9])
case(torch.frac, x(values=(-2.5, 2.5, 0.0))[3])
case(lambda a: torch.round(a, decimals=2), x(-4.0, 4.0)[B, 9])
case(lambda a: torch.round(a, decimals=-1), x(-40.0, 40.0)[B, 9])
case(lambda a: torch.round(a, decimals=0), x(-40.0, 40.0)[B, 9])
case(torch.special.round, x(-4.0, 4.0)[B, 9], decimals=1)
case(torch.positive, x[B])
SPECIAL = (nan, inf, -inf, 0.0, -0.0, 1.0, -1.0)
for fn in (torch.sign, torch.sgn):
    for floating in (f32, f16, f64):
        case(fn, floating(values=SPECIAL)[B, 7])
for fn in (torch.isnan, torch.isinf, torch.isfinite, torch.isposinf, torch.isneginf):
    case(fn, f32(values=SPECIAL)[B, 7])
    case(fn, f64(values=SPECIAL)[B, 7])
    case(fn, i64[B, 7])
case(torch.signbit, x(values=(inf, -inf, 0.0, -0.0, 1.0, -1.0))[B, 6])
case(torch.signbit, (i64 | u8)[B, 6])
case(torch.nan_to_num, x(values=SPECIAL)[B, 7])
case(torch.nan_to_num, f64(values=SPECIAL)[B, 7])
case(torch.nan_to_num, x(values=SPECIAL)[B, 7], nan=2.0)
case(torch.nan_to_num, x(values=SPECIAL)[B, 7], nan=2.0, posinf=3.0)
case(torch.nan_to_num, x(values=SPECIAL)[B, 7], posinf=3.0, neginf=-4.0)
case(torch.nan_to_num, i64[B, 7])
case(torch.logical_not, (f32 | i64 | boolean | u8)[B, 5])
case(torch.bitwise_not, (boolean | i64 | i32 | u8 | i8)[B, 5])
case(lambda a: ~a, boolean[B, 5])

# Arithmetic and promotion.
for fn in (torch.add, torch.sub, torch.mul):
    case(fn, EVERY[B, 4], EVERY[4])
    case(fn, x[B, 4], i64[B, 1])
    case(fn, i32[B, 4], i64[4])
    case(fn, i32[B, 4], i64[()])
    case(fn, u8[B, 4], i8[B, 4])
    case(fn, f16[B, 4], x[()])
    case(fn, f16[B, 4], x[4])
    case(fn, i64[B, 4], x[()])
    case(fn, i64[B, 4], f64[()])
    case(fn, i64[()], x[()])
    case(fn, i8[B, 4], i32[B, 4])
    case(fn, (f32 | f64 | i64 | i32 | u8)[B, 4], 3)
    case(fn, (f32 | f64 | i64 | i32)[B, 4], 2.5)
    case(fn, x[B, S, 1], x[S, 4])
    case(fn, x[()], x[B])
case(torch.add, boolean[B, 4], i32[B, 4])
case(torch.mul, boolean[B, 4], 2.5)
case(torch.add, boolean[B, 4], boolean[B, 4])
case(torch.mul, boolean[B, 4], boolean[B, 4])
case(torch.add, x[0, 3], x[3])
case(torch.add, x[B, 4], x[4], alpha=2)
case(torch.add, x[B, 4], 3, alpha=2)
case(torch.add, i64[B, 4], i64[4], alpha=-3)
case(torch.sub, x[B, 4], x[4], alpha=0.5)
case(torch.sub, i32[B, 4], i32[4], alpha=2)
case(torch.rsub, x[B, 4], x[4])
case(torch.rsub, x[B, 4], 1)
case(torch.rsub, x[B, 4], x[4], alpha=2)
case(torch.subtract, x[B, 4], x[4])
case(torch.multiply, x[B, 4], x[4])
case(lambda a: 1 - a, (f32 | i64)[B, 4])
case(lambda a: 2 / a, (f32(0.5, 2.0) | i64(1, 5))[B, 4])
case(lambda a: -a + 1e10, (f32 | f64)[B, 4])
case(lambda a, b: a * 0.1 + b, f64[B, 4], f64[4])
case(torch.mul, u8(0, 256)[B, 9], u8(0, 256)[B, 9])
case(torch.add, i8(-128, 128)[B, 9], i8(-128, 128)[B, 9])

for fn in (torch.add, torch.sub, torch.mul, torch.div):  # numbers that float16 has not
    case(fn, f16(values=(1, -2, -60000, 60000))[B, 4], 70000.0)
    case(fn, f16(values=(1, -2, 0.01, 60000))[B, 4], 1e-8)

# Division and remainders.
case(torch.div, (f32 | f64 | f16 | i64 | i32 | u8 | boolean)[B, 4], (f32(0.5, 2.0) | i64(1, 5))[4])
case(torch.div, x[B, 4], 4)
case(torch.div, i64[B, 4], 4)
case(torch.true_divide, i64[B, 4], i64(1, 5)[4])
case(torch.divide, i64[B, 4], i64(1, 5)[4])
NONZERO = (1, -1, 2, -2, 3, -3, 5, -7)
for mode in ("floor", "trunc", None):
    case(torch.div, i64(-20, 20)[B, 8], i64(values=NONZERO)[8], rounding_mode=mode)
    case(torch.div, i32(-20, 20)[B, 8], 3, rounding_mode=mode)
    case(torch.div, i32(-20, 20)[B, 8], -3, rounding_mode=mode)
    case(torch.div, u8[B, 8], 3, rounding_mode=mode)
    case(torch.div, x(-20, 20)[B, 8], x(values=NONZERO)[8], rounding_mode=mode)
    case(torch.div, x(-20, 20)[B, 8], 3, rounding_mode=mode)
    case(torch.div, x(-20, 20)[B, 8], 0.3, rounding_mode=mode)
    case(torch.div, i64(-20, 20)[B, 8], 2.5, rounding_mode=mode)
    case(torch.divide, i64(-20, 20)[B, 8], 3, rounding_mode=mode)
for fn in (torch.floor_divide, torch.remainder, torch.fmod):
    case(fn, (i64 | i32 | i16 | i8)[B, 8], i64(values=NONZERO)[8])
    case(fn, i32(-20, 20)[B, 8], 3)
    case(fn, i64(-20, 20)[B, 8], -3)
    case(fn, i8(-128, 128)[B, 8], 3)
    case(fn, u8(0, 256)[B, 8], 3)
    case(fn, x(-20, 20)[B, 8], 3)
    case(fn, x(-20, 20)[B, 8], -3)
    case(fn, x(-20, 20)[B, 8], 2.5)
    case(fn, x(-20, 20)[B, 8], x(values=NONZERO)[8])
    case(fn, f64(-20, 20)[B, 8], 3.5)
    case(fn, i64(-20, 20)[B, 8], 2.5)
case(torch.floor_divide, x(values=(1.0, 0.5, -1.0, 0.3, 0.7))[5], 0.1)
case(torch.remainder, x(values=(1.0, 0.5, -1.0, 0.3, -0.0))[5], 0.1)
case(lambda a: a // 2, (f32 | i64)[B, 4])
case(lambda a: a % 3, (f32 | i64)[B, 4])
case(torch.remainder, 7, i64(1, 5)[B, 4])

# Powers.
for exponent in (0, 1, 2, 3, 5, 10):
    case(torch.pow, (f32 | i64 | i32)[B, 4], exponent)
for exponent in (0.5, -1, -2, 1.5, -0.5):
    case(torch.pow, f32(0.5, 3.0)[B, 4], exponent)
case(torch.pow, f64(0.5, 3.0)[B, 4], -0.5)
case(torch.pow, i64(0, 5)[B, 4], 0.5)
case(torch.pow, i64(0, 5)[B, 4], 2.0)
case(torch.pow, u8(0, 256)[B, 9], 2)
case(torch.pow, boolean[B, 4], 2)
case(torch.pow, x(0.1, 3.0)[B, 4], x[4])
case(torch.pow, x(0.1, 3.0)[B, 4], i64[4])
case(torch.pow, i64(0, 5)[B, 4], i64(0, 5)[4])
case(torch.pow, i32(0, 5)[B, 4], i64(0, 5)[4])
case(torch.pow, (i64(-2, 3) | i32(-2, 3))[B, 4], i64(-3, 4)[B, 4])
case(torch.pow, 2, (f32 | i64(0, 9))[B, 4])
case(torch.pow, 2.5, (f32 | i64(0, 9))[B, 4])
case(torch.pow, 1, x[B, 4])
case(lambda a: a**2 + 2**a, x[B, 4])
case(torch.float_power, i64(1, 3)[B, 4], 2)
case(torch.float_power, x(0.5, 2.0)[B, 4], x[4])
case(torch.float_power, 2.0, x[B, 4])

# Other functions of two operands.
for fn in (torch.maximum, torch.minimum, torch.fmax, torch.fmin):
    case(fn, numbers[B, 4], numbers[4])
    case(fn, (u8 | i8 | i16)[B, 4], (u8 | i8 | i16)[4])
    case(fn, x[B, 4], i64[4])
    case(fn, boolean[B, 4], boolean[4])
    case(fn, x(values=(nan, 1.0, nan, inf))[B, 4], x(values=(nan, nan, 2.0, -inf))[4])
case(torch.max, x[B, 4], x[4])
case(torch.min, i64[B, 4], i64[4])
case(torch.atan2, x[B, 9], x[B, 9])
case(torch.atan2, x(values=(1, -1, 0, 0, 0, 1, -1))[7], x(values=(0, 0, 1, -1, 0, -0.0, -1))[7])
case(torch.atan2, i64[B, 9], i64[B, 9])
case(torch.arctan2, x[B, 9], x[9])
case(torch.atan2, f64[B, 9], f64[B, 9])
case(torch.hypot, floats[B, 4], floats[4])
case(torch.copysign, x[B, 4], x(values=(-1.0, 1.0, 0.0, -0.0))[4])
for fn in (torch.atan2, torch.hypot, torch.copysign, torch.floor_divide):
    case(fn, f32(values=SPECIAL)[7, 1], f32(values=SPECIAL)[7])
    case(fn, f64(values=SPECIAL)[7, 1], f64(values=SPECIAL)[7])
for fn in (torch.atan2, torch.copysign):  # the sign of 0
    case(lambda a, b: 1 / fn(a, b), x(values=SPECIAL)[7, 1], x(values=SPECIAL)[7])
case(torch.hypot, x(values=(1e30, -1e30, 1e-30))[3, 1], x(values=(1e30, 1, 0, 1e-30))[4])
case(torch.floor_divide, x(values=(*SPECIAL, 3.0))[8, 1], x(values=(0.1, -0.1, 3.0, inf))[4])
for divisor in (3, -3, 0, 0.1):
    case(torch.floor_divide, x(values=SPECIAL)[B, 7], divisor)
case(torch.copysign, (f32 | i64)[B, 4], -2)
case(torch.copysign, x[B, 4], i64[4])
case(torch.xlogy, x(values=(0.0, 0.0, 2.0, 0.0, 1.0))[B, 5], x(values=(0.0, nan, 3.0, inf, 0.0))[5])
case(torch.xlogy, i64(0, 4)[B, 5], 2.0)
case(torch.xlogy, 2, x(0.1, 2.0)[B, 5])
case(torch.special.xlogy, x(0.0, 2.0)[B, 5], x(0.1, 2.0)[5])
case(torch.logaddexp, x[B, 5], x[5])
case(torch.logaddexp, x(values=(-inf, -inf, inf, 1.0))[4], x(values=(-inf, 2.0, inf, -inf))[4])
case(torch.logaddexp2, x[B, 5], x[5])
case(torch.ldexp, x[B, 5], i64[5])
case(torch.heaviside, x(values=(-1.0, 0.0, 2.0))[B, 3], x[3])
case(torch.heaviside, x(values=SPECIAL)[B, 7], x[7])
case(torch.lerp, x[B, 4], x[B, 4], 0.3)
case(torch.lerp, x[B, 4], x[4], x[B, 1])
case(torch.addcmul, x[B, 4], x[B, 1], x[4])
case(torch.addcmul, (f32 | i64)[B, 4], (f32 | i64)[B, 4], (f32 | i64)[4], value=2)
case(torch.addcdiv, x[B, 4], x[B, 1], x(0.5, 2.0)[4])
case(torch.addcdiv, x[B, 4], x[B, 1], x(0.5, 2.0)[4], value=0.5)

# Bits.
for fn in (operator.and_, operator.or_, operator.xor):
    case(fn, boolean[B, 4], boolean[4])
    case(fn, (i64 | i32 | u8)[B, 4], (i64 | i32 | u8)[4])
    case(fn, i64[B, 4], 5)
for fn in (torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor):
    case(fn, boolean[B, 4], boolean[4])
    case(fn, i64[B, 4], i32[4])
for fn in (torch.logical_and, torch.logical_or, torch.logical_xor):
    case(fn, (boolean | f32 | i64)[B, 4], (boolean | u8)[4])
for fn in (operator.lshift, operator.rshift):
    case(fn, (i64 | i32)[B, 4], 3)
    case(fn, i64(-100, 100)[B, 4], i64(0, 5)[4])
    case(fn, u8[B, 4], 1)
for t in (u8, i8, i16, i32):
    case(torch.bitwise_left_shift, t(0, 9)[B, 4], t(0, 9)[4])
    case(torch.bitwise_right_shift, t(0, 99)[B, 4], t(0, 9)[4])
for t in (u8, i8, i16):
    case(torch.pow, t(0, 20)[B, 4], t(0, 20)[4])
case(torch.bitwise_right_shift, i8(-99, 99)[B, 9], i8(0, 9)[9])
case(torch.bitwise_left_shift, i64[B, 4], 2)
case(torch.bitwise_right_shift, i64(-100, 100)[B, 4], 2)

# Comparison and choice.
for fn in (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge):
    case(
        fn,
        (EVERY | boolean)[B, 4],
        (EVERY | boolean)[4],
    )
    case(fn, x(values=(nan, 1.0, inf, nan))[B, 4], x(values=(nan, nan, inf, 2.0))[4])
    case(fn, i64[B, 4], x[4])
    case(fn, (f32 | i64 | i32 | boolean)[B, 4], 1)
    case(fn, (f32 | i64)[B, 4], 0.5)
    case(fn, i32[()], 1)
    case(fn, i64[B, 4], i32[()])
case(torch.ne, boolean[B, 4], 0)
case(torch.not_equal, x[B, 4], x[4])
case(torch.less, x[B, 4], x[4])
case(torch.less_equal, x[B, 4], x[4])
case(torch.greater, x[B, 4], 0)
case(torch.greater_equal, i64[B, 4], 0)
case(lambda a: (a > 2) | (0.5 - a <= 0), x[B, 4])
case(torch.isclose, x(values=(1.0, 1.00001, inf, inf, nan))[5], x(values=(1.0, 1.0, inf, -inf, nan))[5])
case(lambda a, b: torch.isclose(a, b, 0.05, 0.01, True), x(values=(1.0, 1.1, nan))[3], x(values=(1.05, 1.0, nan))[3])
case(lambda a, b: torch.isclose(a, b, rtol=0.5), i64[B, 4], i64[4])
case(lambda a, b: torch.isclose(a, b, 0.0, 0.0), x[B, 4], x[B, 4])
case(torch.where, boolean[B, 4], x[B, 4], x[4])
case(
    torch.where,
    boolean[B, 4],
    (EVERY | boolean)[B, 4],
    (EVERY | boolean)[()],
)
case(torch.where, boolean[B, 4], x[B, 4], i64[4])
case(torch.where, boolean[B, 4], i64[B, 4], 1.5)
case(torch.where, boolean[B, 4], 0, x[B, 4])
case(torch.where, boolean[B, 4], 1.0, 0.0)
case(torch.where, boolean[B, 4], 1, 0)
case(torch.where, boolean[B, 1, 4], x[S, 1], -inf)
case(lambda a: torch.where(a > 0, a, a * 0.1), x[B, 4])
case(lambda a: torch.where(a)[0], boolean[B, 4])
case(lambda a: torch.where(a)[1], i64(0, 2)[B, 4])
case(torch.clamp, numbers[B, 9], -1, 2)
case(torch.clamp, (f32 | i64)[B, 9], min=0)
case(torch.clamp, (f32 | i64)[B, 9], max=1)
case(torch.clamp, (u8 | i8 | i16)[B, 9], 1, 4)
case(torch.clamp, i64[B, 9], 0.5, 2.5)
case(torch.clamp, x[B, 9], 2, 1)
case(torch.clamp, x(values=(nan, 1.0, -inf, inf))[4], -1, 1)
case(torch.clamp, x[B, 4], x[4], x[B, 1])
case(torch.clamp, x[B, 4], min=x[()])
case(torch.clamp, i64[B, 4], max=x[4])
case(torch.clip, x[B, 9], -1, 1)
case(torch.clamp_min, (f32 | i64)[B, 9], 0)
for fn in (torch.clamp_min, torch.clamp_max):
    for dtype in (f32, f64, f16):
        case(fn, dtype(values=(1, nan, inf, -inf))[4], 0)
case(torch.clamp_max, (f32 | i64)[B, 9], 0.5)
case(torch.clamp_min, x[B, 4], x[4])
case(torch.clamp_max, x[B, 4], x[()])

case(torch.isin, i64[B, 4], i64[3])
case(torch.isin, i64[B, 4], i64[2, 2], invert=True)
case(torch.isin, i64[B, 4], 3)
case(torch.isreal, x[B])
case(torch.angle, x(values=(1.0, -1.0, 0.0, nan))[4])

# In place, and to an existing tensor.
case(torch.Tensor.add_, x[B, 4], x[4], alpha=2)
case(torch.Tensor.add_, x[B, 4], i64[4])
case(torch.Tensor.mul_, i32[B, 4], 3)
case(torch.Tensor.clamp_, x[B, 4], -0.5, 0.5)
case(torch.Tensor.div_, f16[B, 4], x(0.5, 2.0)[4])
case(lambda a: a.add(1).exp_().sub_(2).neg_(), x[B, 4])
case(lambda a, b: operator.iand(a.logical_not(), b), boolean[B, 4], boolean[B, 4])
case(lambda a: torch.add(a, 1, out=torch.empty_like(a)), x[B, 4])

# Sizes in tensor arithmetic: no nodes for it.
case(lambda a: a[: a.size(0) // 2 * 2], x[B, 4])
case(lambda a: a.reshape(a.shape[0] * a.shape[1] // 2, 4), x[2 * B, S, 2])
case(lambda a: torch.zeros(a.size(0) % 3 + 1, a.size(1) - 1) + a[:, 1:].sum(), x[B, S + 1])
case(lambda a: a[:, : (a.size(1) + 1) // 2], x[B, N])
case(lambda a: a / a.size(1), x[B, N])
case(lambda a: a * (a.size(1) ** 0.5), x[B, N])


@torch.jit.script
def closeness(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a &= b
    return torch.tensor([float(torch.allclose(a.float(), b.float())), float(torch.equal(a, b))])


case(closeness, boolean[B, 4], boolean[B, 4])


def same_padding(x: torch.Tensor, kernel: int, stride: int) -> torch.Tensor:
    """Padding as TensorFlow has it, computed in floating point, as some vision models do."""
    size = torch.as_tensor(x.size(-1))
    pad = torch.clamp(((size / stride).ceil() - 1) * stride + kernel - size, min=0)
    return x[:, : pad.long()]


@torch.jit.script
def half_of(a: torch.Tensor) -> torch.Tensor:
    return a[:, : int(a.size(1) / 2)]


# Sizes in floating point.
case(lambda a: same_padding(a, 3, 2), x[B, N], script=False, ones=False)
case(half_of, x[B, N])
case(lambda a: a[:, : torch.floor(torch.as_tensor(a.size(1)) * 0.5 + 1).long()], x[B, N], script=False, ones=False)
case(torch.frexp, (f32 | f64)[B, 9])
case(torch.frexp, x(values=(0, 1, -2, 0.5, 3e38, 1e-40, inf, -inf, 4096, 0.0009765625))[20])
case(torch.square, boolean[B, 4])
