// Special functions, by elementary ones. They are computed in float64 to about ten digits, whatever the type is.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <numbers>
#include <span>

#include "ops/elementwise.hpp"
#include "ops/register.hpp"
#include "ops/repeat.hpp"
#include "ops/sizes.hpp"

namespace lithify::ops {
namespace {

using std::numbers::pi;
using std::numbers::sqrt2;

Ref number(Builder& b, double v) { return b.scalar(DType::Double, v); }
Ref plus(Builder& b, Ref x, double v) { return b.add(x, number(b, v)); }
Ref times(Builder& b, Ref x, double v) { return b.mul(x, number(b, v)); }
Ref over(Builder& b, double v, Ref x) { return b.div(number(b, v), x); }
Ref from(Builder& b, double v, Ref x) { return b.sub(number(b, v), x); }
Ref below(Builder& b, Ref x, double v) { return b.op("Less", {x, number(b, v)}); }
Ref is(Builder& b, Ref x, double v) { return b.op("Equal", {x, number(b, v)}); }
Ref exp(Builder& b, Ref x) { return b.op("Exp", {x}); }
Ref log(Builder& b, Ref x) { return b.op("Log", {x}); }
Ref abs(Builder& b, Ref x) { return b.op("Abs", {x}); }

// The coefficients come from the constant term upward.
Ref polynomial(Builder& b, Ref x, std::span<const double> coefficients) {
  Ref out = number(b, coefficients.back());
  for (size_t i = coefficients.size() - 1; i-- > 0;) out = plus(b, b.mul(out, x), coefficients[i]);
  return out;
}

// x, x + 1, ..., x + n - 1 along a new last dimension.
Ref successors(Builder& b, Ref x, int64_t n) {
  Vector<double> steps;
  for (int64_t i = 0; i < n; ++i) steps.push_back(static_cast<double>(i));
  return b.add(b.unsqueeze(x, {static_cast<int64_t>(x->rank())}), b.reals(DType::Double, {n}, steps));
}

Ref last_sum(Builder& b, Ref x) { return b.reduce("ReduceSum", x, {static_cast<int64_t>(x->rank()) - 1}, false); }

// ---- the error function ------------------------------------------------------------------------------------------

// exp(x^2) erfc(x) = t exp(p(2 t - 1)) with t = 2 / (2 + x), for x >= 0.
Ref scaled_tail(Builder& b, Ref x) {
  static constexpr std::array p{-0.67179408406388941,   0.67264322395648524,     0.047343308019487551,
                                -0.046895609485463487,  -0.0098727211535491726,  0.0088249332819046698,
                                0.0017592649186868071,  -0.0023458258395746357,  -0.00014798466406649722,
                                0.0006739603523804636,  -8.8583145613403282e-05, -0.00017558776050020572,
                                6.2342789890247605e-05, 3.4692384071472013e-05,  -2.0765497203224717e-05,
                                -3.72515016365152e-06,  3.1610605083084479e-06};
  Ref t = over(b, 2, plus(b, x, 2));
  return b.mul(t, exp(b, polynomial(b, plus(b, times(b, t, 2), -1), p)));
}

Ref erfcx(Builder& b, Ref x) {
  Ref tail = scaled_tail(b, abs(b, x));
  return b.where(below(b, x, 0), b.sub(times(b, exp(b, b.mul(x, x)), 2), tail), tail);
}

Ref erfc(Builder& b, Ref x) {
  Ref tail = b.mul(scaled_tail(b, abs(b, x)), exp(b, b.op("Neg", {b.mul(x, x)})));
  return b.where(below(b, x, 0), from(b, 2, tail), tail);
}

Ref ndtr(Builder& b, Ref x) { return times(b, erfc(b, times(b, x, -1 / sqrt2)), 0.5); }

// The logarithm of the normal distribution's tail beyond z >= 0.
Ref log_tail(Builder& b, Ref z) {
  return b.sub(log(b, times(b, scaled_tail(b, times(b, z, 1 / sqrt2)), 0.5)), times(b, b.mul(z, z), 0.5));
}

Ref log_ndtr(Builder& b, Ref x) { return b.where(below(b, x, -1), log_tail(b, abs(b, x)), log(b, ndtr(b, x))); }

// Where the normal distribution's tail is y, in [0, 1/2]: a rational function, and two steps of Newton on logarithms.
Ref tail_quantile(Builder& b, Ref y) {
  static constexpr std::array numerator{2.515517, 0.802853, 0.010328};
  static constexpr std::array denominator{1.0, 1.432788, 0.189269, 0.001308};
  Ref size = log(b, y), w = b.op("Sqrt", {times(b, size, -2)});
  Ref z = b.sub(w, b.div(polynomial(b, w, numerator), polynomial(b, w, denominator)));
  for (int i = 0; i < 2; ++i) {
    Ref slope = times(b, scaled_tail(b, times(b, z, 1 / sqrt2)), std::sqrt(pi / 2));
    z = b.add(z, b.mul(b.sub(log_tail(b, z), size), slope));
  }
  return b.where(is(b, y, 0), number(b, infinity), z);
}

Ref ndtri(Builder& b, Ref p) {
  Ref z = tail_quantile(b, b.op("Min", {p, from(b, 1, p)}));
  return b.where(below(b, p, 0.5), b.op("Neg", {z}), z);
}

Ref erfinv(Builder& b, Ref x) {
  static constexpr double slope = 1 / std::numbers::inv_sqrtpi / 2;
  static constexpr std::array series{slope, slope * pi / 12};
  Ref size = abs(b, x), z = times(b, tail_quantile(b, times(b, from(b, 1, size), 0.5)), 1 / sqrt2);
  Ref near_zero = b.mul(x, polynomial(b, b.mul(x, x), series));
  return b.where(below(b, size, 1e-3), near_zero, b.mul(z, b.op("Sign", {x})));
}

// ---- the gamma function ------------------------------------------------------------------------------------------

// What the functions of x < 1/2 are reflected at: 1 - x, or x itself.
Ref reflected(Builder& b, Ref x) { return b.where(below(b, x, 0.5), from(b, 1, x), x); }
// The distance to the nearest whole number, with a sign.
Ref fraction(Builder& b, Ref x) { return b.sub(x, b.op("Round", {x})); }
Ref sine(Builder& b, Ref x) { return b.op("Sin", {times(b, x, pi)}); }
// The cotangent of pi x.
Ref cotangent(Builder& b, Ref x) {
  Ref r = fraction(b, x);
  return b.div(sine(b, from(b, 0.5, abs(b, r))), sine(b, r));
}
Ref is_pole(Builder& b, Ref x) {
  return b.op("And", {compare(b, "LessOrEqual", x, number(b, 0)), is(b, fraction(b, x), 0)});
}

// By the approximation of Lanczos.
Ref lgamma(Builder& b, Ref x) {
  static constexpr std::array weights{676.5203681218851,     -1259.1392167224028,  771.32342877765313,
                                      -176.61502916214059,   12.507343278686905,   -0.13857109526572012,
                                      9.9843695780195716e-6, 1.5056327351493116e-7};
  static constexpr double constant = 0.99999999999980993;
  Ref y = reflected(b, x), t = plus(b, y, 6.5);
  Ref sum = b.matmul(over(b, 1, successors(b, y, weights.size())), b.reals(DType::Double, {weights.size()}, weights));
  Ref out = b.sub(b.mul(plus(b, y, -0.5), log(b, t)), t);
  out = b.add(out, plus(b, log(b, plus(b, sum, constant)), std::log(2 * pi) / 2));
  Ref mirror = b.sub(log(b, over(b, pi, abs(b, sine(b, fraction(b, x))))), out);
  out = b.where(below(b, x, 0.5), mirror, out);
  return b.where(is(b, abs(b, x), infinity), number(b, infinity), out);
}

// The steps up to where the asymptotic series are exact enough.
constexpr int64_t shift_steps = 10;
constexpr std::array bernoulli_numbers{1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730};

Ref digamma(Builder& b, Ref x) {
  Vector<double> series;
  for (size_t j = 0; j < bernoulli_numbers.size(); ++j)
    series.push_back(-bernoulli_numbers[j] / (2.0 * static_cast<double>(j + 1)));
  Ref y = reflected(b, x), w = plus(b, y, shift_steps), inverse = over(b, 1, w), square = b.mul(inverse, inverse);
  Ref far = b.sub(log(b, w), times(b, inverse, 0.5));
  far = b.add(far, b.mul(square, polynomial(b, square, series)));
  Ref out = b.sub(far, last_sum(b, over(b, 1, successors(b, y, shift_steps))));
  out = b.where(below(b, x, 0.5), b.sub(out, times(b, cotangent(b, x), pi)), out);
  out = b.where(is_pole(b, x), number(b, NAN), out);
  return b.where(is(b, x, 0), over(b, -1, x), out);
}

// The n-th derivative of digamma: (-1)^(n+1) n! zeta(n + 1, x).
Ref polygamma(Builder& b, Ref x, int64_t n) {
  if (n == 0) return digamma(b, x);
  double s = static_cast<double>(n + 1), factorial = std::tgamma(s), sign = n % 2 ? 1 : -1;
  // B_2j / (2j)! s (s + 1) ... (s + 2j - 2)
  Vector<double> series;
  double factor = s / 2;
  for (size_t j = 0; j < bernoulli_numbers.size(); ++j) {
    series.push_back(bernoulli_numbers[j] * factor);
    double k = 2.0 * static_cast<double>(j) + 3;
    factor *= (s + k - 2) * (s + k - 1) / (k * (k + 1));
  }
  Ref y = reflected(b, x), w = plus(b, y, static_cast<double>(shift_steps)), inverse = over(b, 1, w);
  auto power = [&](Ref base, double e) { return b.op("Pow", {base, number(b, e)}); };
  Ref far = plus(b, b.mul(inverse, polynomial(b, b.mul(inverse, inverse), series)), 0.5);
  far = b.add(b.mul(power(w, -s), far), times(b, power(w, 1 - s), 1 / (s - 1)));
  Ref zeta = b.add(last_sum(b, power(successors(b, y, shift_steps), -s)), far);
  Ref out = times(b, zeta, sign * factorial);
  // Derivatives of pi cot(pi x) are polynomials of the cotangent, as its own is -pi (1 + cot^2).
  Vector<double> cot{0, pi};
  for (int64_t i = 0; i < n; ++i) {
    Vector<double> next(cot.size() + 1);
    for (size_t k = 1; k < cot.size(); ++k) {
      next[k - 1] -= pi * static_cast<double>(k) * cot[k];
      next[k + 1] -= pi * static_cast<double>(k) * cot[k];
    }
    cot = next;
  }
  Ref mirror = b.sub(times(b, out, -sign), polynomial(b, cotangent(b, x), cot));
  out = b.where(below(b, x, 0.5), mirror, out);
  return b.where(is_pole(b, x), number(b, sign * infinity), out);
}

// The sum of lgamma(x - i / 2) for i below p, along an axis of its own.
Value mvlgamma(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.float_tensor("self");
  const int64_t p = c.integer("p"), axis = static_cast<int64_t>(x->rank());
  if (p < 1) c.mismatch("p must be positive");
  Vector<double> shifts = known_elements<double>(c.sym, p);
  for (size_t i = 0; i < shifts.size(); ++i) shifts[i] = -static_cast<double>(i) / 2;
  Ref y = b.add(b.unsqueeze(b.cast(x, DType::Double), {axis}), b.reals(DType::Double, {p}, shifts));
  Ref sum = b.reduce("ReduceSum", lgamma(b, y), {axis}, false);
  const double scale = static_cast<double>(p) * static_cast<double>(p - 1) / 4;
  return b.cast(plus(b, sum, scale * std::log(pi)), x->dtype);
}

// ---- Bessel functions --------------------------------------------------------------------------------------------

// exp(-x) I(x) for x >= 0: a polynomial of x / 4 - 1 up to 8, and behind it one of 16 / x - 1 over the root of x.
Ref scaled_bessel(Builder& b, Ref x, std::span<const double> near, std::span<const double> far) {
  Ref close = polynomial(b, plus(b, times(b, x, 0.25), -1), near);
  Ref away = b.div(polynomial(b, plus(b, over(b, 16, x), -1), far), b.op("Sqrt", {x}));
  return b.where(below(b, x, 8), close, away);
}

Ref i0e(Builder& b, Ref x) {
  static constexpr std::array near{0.20700192122686667,    -0.11300432653445609,    0.094515627846368952,
                                   -0.089043467000542983,  0.087343443758266401,    -0.084962831153397367,
                                   0.079274798648666822,   -0.069546591249412301,   0.056780420104456712,
                                   -0.042956915743848974,  0.030162278410181226,    -0.019776206071507256,
                                   0.012004880892660118,   -0.0066046194971554738,  0.0035351598371842702,
                                   -0.0020473450797671221, 0.00095164820820035933,  -0.00020575934590192718,
                                   9.4982886864681607e-05, -0.00013604737781950743, 5.0729105675377637e-05};
  static constexpr std::array far{0.40217650943110134,    0.0033605522417210431,  0.00013621678379051652,
                                  1.113981565861345e-05,  1.4780179978785039e-06, 3.0733229173158885e-07,
                                  1.0563580316305967e-07, 3.1619855284639808e-08, 1.5218108298043442e-09};
  return scaled_bessel(b, abs(b, x), near, far);
}

Ref i1e(Builder& b, Ref x) {
  // Near 0 this is I(x) / x.
  static constexpr std::array near{
      0.044687709864187575,   -0.061124339255198501,   0.068057602180870633,   -0.068482533198116188,
      0.06376732927373735,    -0.055281312761999025,   0.044675517297251575,   -0.033661282866740416,
      0.02367994377156157,    -0.015614300990375514,   0.0096063064521672136,  -0.0054274213248927229,
      0.0029560039669504078,  -0.0016985943146705425,  0.00081240347420454711, -0.00020262658881413419,
      9.3568200858073862e-05, -0.00012368279972890735, 4.7521336938359911e-05};
  static constexpr std::array far{0.38939845904068432,     -0.009749577457556757,   -0.00021923651818323868,
                                  -1.5035268029521159e-05, -1.8287267250696446e-06, -3.584298887257214e-07,
                                  -1.178745830712382e-07,  -3.5774358158058136e-08, -2.4287946398086928e-09};
  Ref size = abs(b, x), out = scaled_bessel(b, size, near, far);
  return b.where(below(b, size, 8), b.mul(out, x), b.mul(out, b.op("Sign", {x})));
}

// ---- logarithms --------------------------------------------------------------------------------------------------

Ref entr(Builder& b, Ref x) {
  Ref entropy = b.op("Neg", {b.mul(x, log(b, x))});
  return b.where(is(b, x, 0), number(b, 0), b.where(below(b, x, 0), number(b, -infinity), entropy));
}

Value xlog1py(Call& c) {
  Builder& b = c.onnx;
  DType t = float_type(c.result_type({"self", "other"}));
  Ref x = c.tensor_as("self", DType::Double), y = c.tensor_as("other", DType::Double);
  Ref at_zero = b.where(b.op("IsNaN", {y}), y, number(b, 0));
  return b.cast(b.where(is(b, x, 0), at_zero, b.mul(x, log(b, plus(b, y, 1)))), t);
}

// ---- divisors ----------------------------------------------------------------------------------------------------

// Euclid's algorithm, until every remainder is 0.
Ref greatest_divisor(Builder& b, Ref x, Ref y) {
  Shape shape = b.broadcast(x->shape, y->shape);
  x = b.expand(abs(b, x), shape);
  y = b.expand(abs(b, y), shape);
  return repeat(b, nullptr, {x, y}, [&](const Vector<Ref>& pair) -> Step {
    Ref zero = like(b, x, 0), none = b.op("Equal", {pair[1], zero});
    Ref rest = b.op("Mod", {pair[0], b.where(none, like(b, x, 1), pair[1])});
    Ref left = b.where(none, pair[0], pair[1]);
    rest = b.where(none, zero, rest);
    Ref unfinished = b.reduce("ReduceSum", b.cast(truth(b, rest), DType::Int64), {}, false);
    return {{left, rest}, truth(b, unfinished)};
  })[0];
}

Ref least_multiple(Builder& b, Ref x, Ref y) {
  Ref divisor = greatest_divisor(b, x, y), none = b.op("Equal", {divisor, like(b, x, 0)});
  return abs(b, b.mul(b.div(x, b.where(none, like(b, x, 1), divisor)), y));
}

// ------------------------------------------------------------------------------------------------------------------

struct Function {
  std::string_view name;
  Ref (*compute)(Builder& b, Ref x);
};

constexpr Function functions[] = {
    {"lgamma", lgamma},
    {"special_gammaln", lgamma},
    {"digamma", digamma},
    {"special_digamma", digamma},
    {"special_psi", digamma},
    {"erfinv", erfinv},
    {"special_erfinv", erfinv},
    {"special_erfcx", erfcx},
    {"special_ndtr", ndtr},
    {"special_log_ndtr", log_ndtr},
    {"special_ndtri", ndtri},
    {"special_entr", entr},
    {"i0", [](Builder& b, Ref x) { return b.mul(i0e(b, x), exp(b, abs(b, x))); }},
    {"special_i0", [](Builder& b, Ref x) { return b.mul(i0e(b, x), exp(b, abs(b, x))); }},
    {"special_i0e", i0e},
    {"special_i1", [](Builder& b, Ref x) { return b.mul(i1e(b, x), exp(b, abs(b, x))); }},
    {"special_i1e", i1e},
};

}  // namespace

void register_special(eval::Registry& ops) {
  for (const Function& f : functions)
    ops.add(fmt::format("aten::{}(Tensor self) -> Tensor", f.name), [f](Call& c) -> Value {
      Ref x = c.float_tensor("self");
      return c.onnx.cast(f.compute(c.onnx, c.onnx.cast(x, DType::Double)), x->dtype);
    });
  for (std::string_view name : {"polygamma", "special_polygamma"})
    ops.add(fmt::format("aten::{}(int n, Tensor self) -> Tensor", name), [](Call& c) -> Value {
      Ref x = c.float_tensor("self");
      constexpr int64_t most = 170;  // whose factorial is a double
      if (c.integer("n") < 0) c.mismatch("n must not be negative");
      if (c.integer("n") > most) c.unsupported(fmt::format("a derivative of order {}", c.integer("n")));
      return c.onnx.cast(polygamma(c.onnx, c.onnx.cast(x, DType::Double), c.integer("n")), x->dtype);
    });
  for (std::string_view name : {"mvlgamma", "special_multigammaln"})
    ops.add(fmt::format("aten::{}(Tensor self, int p) -> Tensor", name), mvlgamma);
  ops.add("aten::special_xlog1py(Tensor self, Tensor other) -> Tensor", xlog1py);
  ops.add("aten::special_xlog1py.self_scalar(Scalar self, Tensor other) -> Tensor", xlog1py);
  ops.add("aten::special_xlog1py.other_scalar(Tensor self, Scalar other) -> Tensor", xlog1py);
  for (auto [name, compute] : {std::pair{"gcd", &greatest_divisor}, {"lcm", &least_multiple}})
    ops.add(fmt::format("aten::{}(Tensor self, Tensor other) -> Tensor", name), [compute = compute](Call& c) -> Value {
      DType t = c.result_type({"self", "other"});
      return compute(c.onnx, c.tensor_as("self", t), c.tensor_as("other", t));
    });
}

}  // namespace lithify::ops
