// Operators that compute each element from the elements at the same place.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "base/checked.hpp"
#include "eval/evaluator.hpp"
#include "ops/elementwise.hpp"
#include "ops/register.hpp"

namespace lithify::ops {
namespace {

using eval::Promote;

constexpr double ln2 = std::numbers::ln2;
constexpr double ln10 = std::numbers::ln10;
constexpr double degrees = 180 / std::numbers::pi;

// ---- one operand -------------------------------------------------------------------------------------------------

struct OneOp {
  std::string_view name;
  std::string_view op;
  Promote promote;
};

constexpr OneOp one_op[] = {
    {"exp", "Exp", Promote::IntToFloat},
    {"log", "Log", Promote::IntToFloat},
    {"sqrt", "Sqrt", Promote::IntToFloat},
    {"reciprocal", "Reciprocal", Promote::IntToFloat},
    {"sin", "Sin", Promote::IntToFloat},
    {"cos", "Cos", Promote::IntToFloat},
    {"tan", "Tan", Promote::IntToFloat},
    {"asin", "Asin", Promote::IntToFloat},
    {"arcsin", "Asin", Promote::IntToFloat},
    {"acos", "Acos", Promote::IntToFloat},
    {"arccos", "Acos", Promote::IntToFloat},
    {"atan", "Atan", Promote::IntToFloat},
    {"arctan", "Atan", Promote::IntToFloat},
    {"sinh", "Sinh", Promote::IntToFloat},
    {"cosh", "Cosh", Promote::IntToFloat},
    {"tanh", "Tanh", Promote::IntToFloat},
    {"asinh", "Asinh", Promote::IntToFloat},
    {"arcsinh", "Asinh", Promote::IntToFloat},
    {"acosh", "Acosh", Promote::IntToFloat},
    {"arccosh", "Acosh", Promote::IntToFloat},
    {"atanh", "Atanh", Promote::IntToFloat},
    {"arctanh", "Atanh", Promote::IntToFloat},
    {"erf", "Erf", Promote::IntToFloat},
    {"special_erf", "Erf", Promote::IntToFloat},
    {"sigmoid", "Sigmoid", Promote::IntToFloat},
    {"special_expit", "Sigmoid", Promote::IntToFloat},
    {"abs", "Abs", Promote::Keep},
    {"absolute", "Abs", Promote::Keep},
};

struct OneOperand {
  std::string_view name;
  Promote promote;
  Ref (*compute)(Builder& b, Ref x);
};

// Whole numbers and bools are already rounded.
Ref rounded(Builder& b, std::string_view op, Ref x) { return is_float(x->dtype) ? b.op(op, {x}) : x; }
Ref negated(Builder& b, Ref x) { return is_unsigned(x->dtype) ? b.sub(like(b, x, 0), x) : b.op("Neg", {x}); }
Ref none_of(Builder& b, Ref x) { return b.full(x->shape, b.scalar(DType::Bool, 0)); }
// That of NaN is 0.
Ref sign(Builder& b, Ref x) {
  if (x->dtype == DType::Bool) return x;
  Ref out = b.op("Sign", {x});
  return is_float(x->dtype) ? b.where(b.op("IsNaN", {x}), like(b, x, 0), out) : out;
}
Ref log_plus_one(Builder& b, Ref x) { return b.op("Log", {b.add(x, like(b, x, 1))}); }
Ref exp_minus_one(Builder& b, Ref x) { return b.sub(b.op("Exp", {x}), like(b, x, 1)); }
Ref two_to_the(Builder& b, Ref x) { return b.op("Pow", {like(b, x, 2), x}); }
Ref one_minus_erf(Builder& b, Ref x) { return b.sub(like(b, x, 1), b.op("Erf", {x})); }
Ref square(Builder& b, Ref x) { return x->dtype == DType::Bool ? b.cast(x, DType::Int64) : b.mul(x, x); }
Ref is_infinite(Builder& b, Ref x, bool negative, bool positive) {
  if (!is_float(x->dtype)) return none_of(b, x);
  onnx::Attributes which;
  if (!negative) which.push_back({"detect_negative", int64_t{0}});
  if (!positive) which.push_back({"detect_positive", int64_t{0}});
  return b.op("IsInf", {x}, which);
}
Ref logical_not(Builder& b, Ref x) {
  return x->dtype == DType::Bool ? b.op("Not", {x}) : b.op("Equal", {x, like(b, x, 0)});
}
Ref bitwise_not(Builder& b, Ref x) {
  if (x->dtype == DType::Bool) return b.op("Not", {x});
  if (b.opset() >= 18) return b.op("BitwiseNot", {x});
  return b.sub(b.scalar_int(x->dtype, -1), x);
}
Ref sinc(Builder& b, Ref x) {
  Ref t = b.mul(x, like(b, x, std::numbers::pi));
  return b.where(b.op("Equal", {x, like(b, x, 0)}), like(b, x, 1), b.div(b.op("Sin", {t}), t));
}

Ref angle(Builder& b, Ref x) {
  Ref negative = b.where(b.op("Less", {x, like(b, x, 0)}), like(b, x, std::numbers::pi), like(b, x, 0));
  return b.where(b.op("IsNaN", {x}), x, negative);
}

constexpr OneOperand one_operand[] = {
    {"neg", Promote::Keep, negated},
    {"negative", Promote::Keep, negated},
    {"sign", Promote::Keep, sign},
    {"sgn", Promote::Keep, sign},
    {"square", Promote::Keep, square},
    {"floor", Promote::Keep, [](Builder& b, Ref x) { return rounded(b, "Floor", x); }},
    {"ceil", Promote::Keep, [](Builder& b, Ref x) { return rounded(b, "Ceil", x); }},
    {"round", Promote::Keep, [](Builder& b, Ref x) { return rounded(b, "Round", x); }},
    {"trunc", Promote::Keep, trunc},
    {"fix", Promote::Keep, trunc},
    {"frac", Promote::Keep, [](Builder& b, Ref x) { return fmod(b, x, like(b, x, 1)); }},
    {"isnan", Promote::Keep, [](Builder& b, Ref x) { return is_float(x->dtype) ? b.op("IsNaN", {x}) : none_of(b, x); }},
    {"isinf", Promote::Keep, [](Builder& b, Ref x) { return is_infinite(b, x, true, true); }},
    {"isposinf", Promote::Keep, [](Builder& b, Ref x) { return is_infinite(b, x, false, true); }},
    {"isneginf", Promote::Keep, [](Builder& b, Ref x) { return is_infinite(b, x, true, false); }},
    {"isfinite", Promote::Keep, is_finite},
    {"signbit", Promote::Keep, sign_bit},
    {"isreal", Promote::Keep, [](Builder& b, Ref x) { return b.full(x->shape, b.scalar(DType::Bool, 1)); }},
    {"angle", Promote::IntToFloat, angle},
    {"logical_not", Promote::Keep, logical_not},
    {"bitwise_not", Promote::Keep, bitwise_not},
    {"expm1", Promote::IntToFloat, exp_minus_one},
    {"special_expm1", Promote::IntToFloat, exp_minus_one},
    {"exp2", Promote::IntToFloat, two_to_the},
    {"special_exp2", Promote::IntToFloat, two_to_the},
    {"log1p", Promote::IntToFloat, log_plus_one},
    {"special_log1p", Promote::IntToFloat, log_plus_one},
    {"log2", Promote::IntToFloat, [](Builder& b, Ref x) { return b.div(b.op("Log", {x}), like(b, x, ln2)); }},
    {"log10", Promote::IntToFloat, [](Builder& b, Ref x) { return b.div(b.op("Log", {x}), like(b, x, ln10)); }},
    {"rsqrt", Promote::IntToFloat, [](Builder& b, Ref x) { return b.op("Reciprocal", {b.op("Sqrt", {x})}); }},
    {"erfc", Promote::IntToFloat, one_minus_erf},
    {"special_erfc", Promote::IntToFloat, one_minus_erf},
    {"sinc", Promote::IntToFloat, sinc},
    {"special_sinc", Promote::IntToFloat, sinc},
    {"deg2rad", Promote::IntToFloat, [](Builder& b, Ref x) { return b.mul(x, like(b, x, 1 / degrees)); }},
    {"rad2deg", Promote::IntToFloat, [](Builder& b, Ref x) { return b.mul(x, like(b, x, degrees)); }},
};

Value round_decimals(Call& c) {
  Ref x = c.tensor("self");
  int64_t decimals = c.integer("decimals");
  if (!is_float(x->dtype)) return x;
  if (decimals == 0) return c.onnx.op("Round", {x});
  Ref scale = like(c.onnx, x, std::pow(10.0, static_cast<double>(std::abs(decimals))));
  Ref scaled = decimals > 0 ? c.onnx.mul(x, scale) : c.onnx.div(x, scale);
  Ref whole = c.onnx.op("Round", {scaled});
  return decimals > 0 ? c.onnx.div(whole, scale) : c.onnx.mul(whole, scale);
}

double largest(DType t) {
  switch (t) {
    case DType::Half:
      return 65504;
    case DType::BFloat16:
      return 0x1.FEp127;
    case DType::Float:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

Value nan_to_num(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  if (!is_float(x->dtype)) return x;
  std::optional<double> positive = c.maybe_real("posinf"), negative = c.maybe_real("neginf");
  Ref out = x;
  if (!positive && !negative) {
    out = clip(b, x, like(b, x, -largest(x->dtype)), like(b, x, largest(x->dtype)));
  } else {
    double high = positive.value_or(largest(x->dtype)), low = negative.value_or(-largest(x->dtype));
    out = b.where(is_infinite(b, x, false, true), like(b, x, high), out);
    out = b.where(is_infinite(b, x, true, false), like(b, x, low), out);
  }
  return b.where(b.op("IsNaN", {x}), like(b, x, c.maybe_real("nan").value_or(0)), out);
}

Value logit(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.float_tensor("self");
  if (std::optional<double> eps = c.maybe_real("eps")) x = clip(b, x, like(b, x, *eps), like(b, x, 1 - *eps));
  return b.op("Log", {b.div(x, b.sub(like(b, x, 1), x))});
}

// ---- arithmetic --------------------------------------------------------------------------------------------------

// PyTorch multiplies and divides by a number that float16 does not have in single precision, and rounds the result.
DType type_beside_number(Call& c, DType t) {
  constexpr double least = 0x1p-14;
  if (t != DType::Half) return t;
  for (std::string_view name : {"self", "other"})
    if (std::optional<double> number = known_number(c, name))
      if (std::abs(*number) > largest(t) || (*number != 0 && std::abs(*number) < least)) return DType::Float;
  return t;
}

// other, times alpha.
Ref scaled(Call& c, std::string_view name, DType t) {
  Ref x = c.tensor_as(name, t);
  return is_one(c, "alpha") ? x : c.onnx.mul(x, c.tensor_as("alpha", t));
}

Value add(Call& c) {
  DType t = c.result_type({"self", "other"});
  if (t == DType::Bool) return c.onnx.op("Or", {c.tensor_as("self", t), c.tensor_as("other", t)});
  return c.onnx.add(c.tensor_as("self", t), scaled(c, "other", t));
}

Value subtract(Call& c) {
  DType t = c.result_type({"self", "other"});
  return c.onnx.sub(c.tensor_as("self", t), scaled(c, "other", t));
}

Value subtract_from(Call& c) {
  DType t = c.result_type({"self", "other"});
  return c.onnx.sub(c.tensor_as("other", t), scaled(c, "self", t));
}

Value multiply(Call& c) {
  DType t = c.result_type({"self", "other"});
  const DType in = type_beside_number(c, t);
  return c.onnx.cast(c.onnx.op(t == DType::Bool ? "And" : "Mul", {c.tensor_as("self", in), c.tensor_as("other", in)}),
                     t);
}

Value true_divide(Call& c) {
  DType t = float_type(c.result_type({"self", "other"}));
  const DType in = type_beside_number(c, t);
  return c.onnx.cast(c.onnx.div(c.tensor_as("self", in), c.tensor_as("other", in)), t);
}

template <Ref (*compute)(Builder&, Ref, Ref)>
Value binary(Call& c) {
  DType t = c.result_type({"self", "other"});
  return compute(c.onnx, c.tensor_as("self", t), c.tensor_as("other", t));
}

template <Ref (*compute)(Builder&, Ref, Ref)>
Value float_binary(Call& c) {
  DType t = float_type(c.result_type({"self", "other"}));
  return compute(c.onnx, c.tensor_as("self", t), c.tensor_as("other", t));
}

// Files up to version 3 mean the quotient of integers rounded toward zero.
Value divide_by_version(Call& c) {
  if (c.evaluator.file_version() && c.evaluator.file_version() <= 3 && is_integer(c.result_type({"self", "other"})))
    return binary<trunc_divide>(c);
  return true_divide(c);
}

Value divide(Call& c) {
  std::optional<std::string> mode = c.maybe_text("rounding_mode");
  if (!mode) return true_divide(c);
  if (mode == "floor") return binary<floor_divide>(c);
  if (mode == "trunc") return binary<trunc_divide>(c);
  c.unsupported("rounding_mode '" + *mode + "'");
}

// By squaring, so that small integers wrap around as they do in PyTorch: one step for each bit of the exponent.
Ref small_power(Builder& b, Ref x, Ref y) {
  const DType type = x->dtype;
  const auto number = [&](int64_t v) { return b.scalar_int(DType::Int64, v); };
  const auto wrapped = [&](Ref v) { return b.cast(b.cast(v, type), DType::Int64); };
  Ref factor = b.cast(x, DType::Int64), left = b.cast(y, DType::Int64), out = number(1);
  for (size_t bit = 0; bit < 8 * byte_size(type); ++bit) {
    Ref odd = b.op("Equal", {b.op("Mod", {left, number(2)}), number(1)});
    out = b.where(odd, wrapped(b.mul(out, factor)), out);
    factor = wrapped(b.mul(factor, factor));
    left = b.div(left, number(2));
  }
  return b.cast(out, type);
}

// x to the power of y. Integers have a Pow from opset 12 on.
Ref raise(Builder& b, Ref x, Ref y) {
  if (is_integer(x->dtype) && byte_size(x->dtype) < 4) return small_power(b, x, y);
  if (is_float(x->dtype) || b.opset() >= 12) return b.op("Pow", {x, y});
  return b.cast(b.op("Pow", {b.cast(x, DType::Double), b.cast(y, DType::Double)}), x->dtype);
}

// By squaring, so that integers wrap around as they do in PyTorch.
Ref integer_power(Builder& b, Ref x, int64_t exponent) {
  Ref out = nullptr;
  for (Ref square = x;; square = b.mul(square, square)) {
    if (exponent & 1) out = out ? b.mul(out, square) : square;
    exponent >>= 1;
    if (exponent == 0) return out;
  }
}

Ref power(Call& c, DType t) {
  Builder& b = c.onnx;
  Ref x = c.tensor_as("self", t);
  if (std::optional<double> e = known_number(c, "exponent")) {
    if (*e == 0) return b.full(x->shape, like(b, x, 1));
    if (*e == 1) return x;
    if (*e == 2) return b.mul(x, x);
    if (!is_float(t)) {
      if (*e < 0) c.unsupported("an integer to a negative power");
      return integer_power(b, x, checked_integer(*e));
    }
    if (*e == 0.5) return b.op("Sqrt", {x});
    if (*e == -1) return b.op("Reciprocal", {x});
  }
  Ref exponent = c.tensor_as("exponent", t), out = raise(b, x, exponent), zero = like(b, x, 0);
  if (is_float(t) || t == DType::UInt8 || known_number(c, "self").value_or(0) != 0) return out;
  // Integers have no infinity: 0 to a negative power is 0.
  return b.where(b.op("And", {b.op("Equal", {x, zero}), b.op("Less", {exponent, zero})}), zero, out);
}

// ---- other functions of two operands -----------------------------------------------------------------------------

// The larger or smaller, where NaN counts as missing.
Ref present_extremum(Builder& b, bool max, Ref x, Ref y) {
  if (!is_float(x->dtype)) return max ? maximum(b, x, y) : minimum(b, x, y);
  Ref take_y = b.op("Or", {b.op(max ? "Greater" : "Less", {y, x}), b.op("IsNaN", {x})});
  return b.where(take_y, y, x);
}
Ref fmax(Builder& b, Ref x, Ref y) { return present_extremum(b, true, x, y); }
Ref fmin(Builder& b, Ref x, Ref y) { return present_extremum(b, false, x, y); }

// -1 where the sign of x is set, else 1. A factor: Where gives 0 for -0 in ONNX Runtime.
Ref sign_factor(Builder& b, Ref x, DType t) { return b.where(sign_bit(b, x), b.scalar(t, -1), b.scalar(t, 1)); }

// The angle of the sizes, in the quadrant of the signs. Sizes that are equal have no quotient where they are 0 or
// infinite.
Ref atan2(Builder& b, Ref y, Ref x) {
  Ref height = b.op("Abs", {y}), width = b.op("Abs", {x});
  Ref slope = b.where(b.op("Equal", {height, width}), b.op("Sign", {height}), b.div(height, width));
  Ref angle = b.op("Atan", {slope});
  angle = b.where(sign_bit(b, x), b.sub(like(b, x, std::numbers::pi), angle), angle);
  return b.mul(angle, sign_factor(b, y, y->dtype));
}

// Scaled by the larger side, whose square may be no number of the type. Infinite beside NaN, too.
Ref hypot(Builder& b, Ref x, Ref y) {
  x = b.op("Abs", {x});
  y = b.op("Abs", {y});
  Ref large = b.op("Max", {x, y}), small = b.op("Min", {x, y}), ratio = b.div(small, large);
  Ref out = b.mul(large, b.op("Sqrt", {b.add(b.mul(ratio, ratio), like(b, x, 1))}));
  out = b.where(b.op("Equal", {small, like(b, x, 0)}), large, out);
  Ref endless = like(b, x, infinity);
  return b.where(b.op("Or", {b.op("Equal", {x, endless}), b.op("Equal", {y, endless})}), endless, out);
}

Value copysign(Call& c) {
  Builder& b = c.onnx;
  DType t = float_type(c.result_type({"self", "other"}));
  Ref size = b.op("Abs", {c.tensor_as("self", t)});
  if (std::optional<double> other = known_number(c, "other")) return std::signbit(*other) ? b.op("Neg", {size}) : size;
  return b.mul(size, sign_factor(b, c.tensor("other"), t));
}

Ref xlogy(Builder& b, Ref x, Ref y) {
  Ref zero = like(b, x, 0);
  Ref at_zero = b.where(b.op("IsNaN", {y}), y, zero);
  return b.where(b.op("Equal", {x, zero}), at_zero, b.mul(x, b.op("Log", {y})));
}

Ref log_add_exp(Builder& b, Ref x, Ref y) {
  Ref apart = b.op("Neg", {b.op("Abs", {b.sub(x, y)})});
  Ref sum = b.add(b.op("Max", {x, y}), b.op("Softplus", {apart}));
  // Infinities of one sign have no difference.
  return b.where(b.op("Equal", {x, y}), b.add(x, like(b, x, ln2)), sum);
}

Ref log_add_exp2(Builder& b, Ref x, Ref y) {
  Ref scale = like(b, x, ln2);
  return b.div(log_add_exp(b, b.mul(x, scale), b.mul(y, scale)), scale);
}

Ref ldexp(Builder& b, Ref x, Ref y) { return b.mul(x, two_to_the(b, y)); }

Ref both(Builder& b, Ref x, Ref y) { return b.op("And", {x, y}); }
Ref either(Builder& b, Ref x, Ref y) { return b.op("Or", {x, y}); }
Ref one_of(Builder& b, Ref x, Ref y) { return b.op("Xor", {x, y}); }

template <Ref (*compute)(Builder&, Ref, Ref)>
Value logical(Call& c) {
  auto flag = [&](std::string_view name) { return truth(c.onnx, c.tensor(name)); };
  return compute(c.onnx, flag("self"), flag("other"));
}

template <Ref (*compute)(Builder&, Ref, Ref)>
Value bitwise(Call& c) {
  DType t = c.result_type({"self", "other"});
  Ref x = c.tensor_as("self", t), y = c.tensor_as("other", t);
  if (t == DType::Bool) return compute(c.onnx, x, y);
  if (c.opset() < 18) c.needs_opset(18);
  return c.onnx.op(compute == both ? "BitwiseAnd" : compute == either ? "BitwiseOr" : "BitwiseXor", {x, y});
}

// Two to the power of a shift.
Ref shift_factor(Call& c, Ref x) {
  if (std::optional<double> by = known_number(c, "other"); by && is_integer(x->dtype)) {
    if (*by < 0 || *by >= 8.0 * static_cast<double>(byte_size(x->dtype)))
      c.unsupported("a shift by more bits than there are");
    return c.onnx.scalar_int(x->dtype, int64_t{1} << static_cast<int>(*by));
  }
  return raise(c.onnx, like(c.onnx, x, 2), c.tensor_as("other", x->dtype));
}

// Small integers are shifted in int64: two to the power of all their bits is none of them.
Ref shifted(Call& c, Ref (*shift)(Builder&, Ref x, Ref factor)) {
  const DType t = c.result_type({"self", "other"});
  const bool small = is_integer(t) && byte_size(t) < 4 && !known_number(c, "other");
  Ref x = c.tensor_as("self", small ? DType::Int64 : t);
  return c.onnx.cast(shift(c.onnx, x, shift_factor(c, x)), t);
}

Value shift_left(Call& c) {
  return shifted(c, [](Builder& b, Ref x, Ref factor) { return b.mul(x, factor); });
}

Value shift_right(Call& c) {
  return shifted(c, [](Builder& b, Ref x, Ref factor) {
    return is_float(x->dtype) ? b.div(x, factor) : floor_divide(b, x, factor);
  });
}

struct TwoOperands {
  std::string_view name;
  eval::RuleFunction rule;
  bool numbers = false;  // has overloads for numbers
  NumberArguments roles = {};
};

// The overloads of an operator of two tensors, and of a tensor and a number.
void add_binary(eval::Registry& ops, std::string_view name, const eval::RuleFunction& rule, bool numbers,
                const NumberArguments& roles = {}) {
  std::string tensors = std::string(name) + (numbers ? ".Tensor" : "");
  ops.add(fmt::format("aten::{}(Tensor self, Tensor other) -> Tensor", tensors), rule).numbers(roles);
  if (!numbers) return;
  ops.add(fmt::format("aten::{}.Scalar(Tensor self, Scalar other) -> Tensor", name), rule).numbers(roles);
  ops.add(fmt::format("aten::{}.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", name), rule).numbers(roles);
}

// ---- comparison and choice ---------------------------------------------------------------------------------------

struct Relation {
  std::string_view name;
  std::string_view alias;
  std::string_view op;
};

constexpr Relation relations[] = {
    {"eq", "", "Equal"},          {"ne", "not_equal", "NotEqual"},
    {"lt", "less", "Less"},       {"le", "less_equal", "LessOrEqual"},
    {"gt", "greater", "Greater"}, {"ge", "greater_equal", "GreaterOrEqual"},
};

Value relate(Call& c, std::string_view relation) {
  // A bool compared with a number for equality is itself or its opposite.
  bool equal = relation == "Equal";
  if (equal || relation == "NotEqual") {
    Ref x = c.tensor("self");
    std::optional<double> y = known_number(c, "other");
    if (x->dtype == DType::Bool && y && (*y == 0 || *y == 1) && c.arg("self").is_tensor())
      return (*y == 1) == equal ? x : c.onnx.op("Not", {x});
  }
  DType t = c.result_type({"self", "other"});
  return compare(c.onnx, relation, c.tensor_as("self", t), c.tensor_as("other", t));
}

Value is_close(Call& c) {
  Builder& b = c.onnx;
  DType t = c.result_type({"self", "other"});
  Ref x = c.tensor_as("self", t), y = c.tensor_as("other", t);
  Ref close = b.op("Equal", {x, y});
  if (c.flag("equal_nan") && is_float(t))
    close = b.op("Or", {close, b.op("And", {b.op("IsNaN", {x}), b.op("IsNaN", {y})})});
  double relative = c.real("rtol"), absolute = c.real("atol");
  if (relative == 0 && absolute == 0) return close;
  Ref apart = b.cast(b.op("Abs", {b.sub(x, y)}), float_type(t));
  Ref size = b.op("Abs", {b.cast(y, float_type(t))});
  Ref allowed = b.add(b.mul(size, like(b, size, relative)), like(b, size, absolute));
  Ref near = compare(b, "LessOrEqual", apart, allowed);
  // An infinite difference is never close, even where infinity is allowed.
  if (is_float(t)) near = b.op("And", {near, is_finite(b, apart)});
  return b.op("Or", {close, near});
}

// A bool of the program that is known only at run time: whether all elements are true.
Value all_of(Call& c, const Value& flags) {
  Value all = c.call("aten::all", {flags});
  all.tensor()->is_number = true;
  return all;
}

Value is_in(Call& c, std::string_view elements, std::string_view among) {
  Builder& b = c.onnx;
  DType t = c.result_type({elements, among});
  Ref x = c.tensor_as(elements, t), others = c.tensor_as(among, t);
  Ref list = b.reshape(others, {b.numel(others->shape)});
  Ref each = b.op("Equal", {b.unsqueeze(x, {static_cast<int64_t>(x->rank())}), list});
  Value found = c.call("aten::any.dim", {each, c.number_value(-1)});
  return c.flag("invert") ? c.call("aten::logical_not", {found}) : found;
}

Value where(Call& c) {
  DType t = c.result_type({"self", "other"});
  return c.onnx.where(truth(c.onnx, c.tensor("condition")), c.tensor_as("self", t), c.tensor_as("other", t));
}

Value clamp(Call& c, bool low, bool high) {
  Vector<Value> values{c.arg("self")};
  low = low && !c.none("min");
  high = high && !c.none("max");
  if (low) values.push_back(c.arg("min"));
  if (high) values.push_back(c.arg("max"));
  DType t = c.result_type(values);
  return clip(c.onnx, c.tensor_as("self", t), low ? c.tensor_as("min", t) : nullptr,
              high ? c.tensor_as("max", t) : nullptr);
}

Value lerp(Call& c) {
  Builder& b = c.onnx;
  DType t = c.result_type({"self", "end", "weight"});
  Ref start = c.tensor_as("self", t);
  return b.add(start, b.mul(c.tensor_as("weight", t), b.sub(c.tensor_as("end", t), start)));
}

Value add_product(Call& c, bool divide) {
  Builder& b = c.onnx;
  DType t = c.result_type({"self", "tensor1", "tensor2"});
  Ref first = c.tensor_as("tensor1", t), second = c.tensor_as("tensor2", t);
  if (!is_one(c, "value")) first = b.mul(first, c.tensor_as("value", t));
  return b.add(c.tensor_as("self", t), divide ? b.div(first, second) : b.mul(first, second));
}

Value heaviside(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self"), zero = like(b, x, 0);
  Ref step = b.cast(b.op("Greater", {x, zero}), x->dtype);
  return b.where(b.op("Equal", {x, zero}), c.tensor("values"), step);
}

// x as m * 2^e with 1/2 <= |m| < 1. The logarithm may be off by one where x is near a power of two.
Value frexp(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.float_tensor("self");
  Ref zero = like(b, x, 0), one = like(b, x, 1), half = like(b, x, 0.5);
  Ref plain = b.op("And", {is_finite(b, x), compare(b, "NotEqual", x, zero)});
  Ref size = b.where(plain, b.op("Abs", {x}), one);
  Ref e = b.op("Floor", {b.div(b.op("Log", {size}), like(b, x, std::numbers::ln2))});
  // In two steps, as 2^e alone may not be a number of the type.
  Ref part = b.op("Floor", {b.mul(e, half)});
  auto power = [&](Ref v) { return b.op("Pow", {like(b, x, 2), v}); };
  Ref m = b.div(b.div(size, power(part)), power(b.sub(e, part)));
  Ref more = b.cast(compare(b, "GreaterOrEqual", m, like(b, x, 2)), x->dtype);
  Ref less = b.cast(b.op("Less", {m, one}), x->dtype);
  m = b.div(b.mul(m, b.add(less, one)), b.add(more, one));
  e = b.add(b.sub(b.add(e, more), less), one);
  m = b.mul(b.mul(m, half), b.op("Sign", {x}));
  return Value::tuple({b.where(plain, m, x), b.cast(b.where(plain, e, zero), DType::Int32)});
}

// ---- the rules ---------------------------------------------------------------------------------------------------

void register_unary(eval::Registry& ops) {
  for (const OneOp& f : one_op) ops.unary(fmt::format("aten::{}(Tensor self) -> Tensor", f.name), f.op, f.promote);
  for (const OneOperand& f : one_operand)
    ops.add(fmt::format("aten::{}(Tensor self) -> Tensor", f.name), [f](Call& c) -> Value {
      return f.compute(c.onnx, f.promote == Promote::Keep ? c.tensor("self") : c.float_tensor("self"));
    });
  ops.add("aten::positive(Tensor(a) self) -> Tensor(a)", [](Call& c) { return c.arg("self"); });
  ops.add("aten::round.decimals(Tensor self, *, int decimals) -> Tensor", round_decimals);
  ops.add("aten::special_round(Tensor self, *, int decimals=0) -> Tensor", round_decimals);
  ops.add("aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
          nan_to_num);
  ops.add("aten::logit(Tensor self, float? eps=None) -> Tensor", logit);
  ops.add("aten::special_logit(Tensor self, float? eps=None) -> Tensor", logit);
}

void register_binary(eval::Registry& ops) {
  const NumberArguments operand = {{"other", Role::Operand}}, divisor = {{"other", Role::Divisor}};
  for (const TwoOperands& f : std::initializer_list<TwoOperands>{
           {"add", add}, {"sub", subtract}, {"subtract", subtract}, {"rsub", subtract_from}}) {
    ops.add(fmt::format("aten::{}.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", f.name), f.rule)
        .numbers(operand);
    ops.add(fmt::format("aten::{}.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", f.name), f.rule)
        .numbers(operand);
  }
  for (std::string_view name : {"div", "divide"}) {
    add_binary(ops, name, divide_by_version, true, divisor);
    for (std::string_view kind : {"Tensor", "Scalar"})
      ops.add(fmt::format("aten::{}.{}_mode(Tensor self, {} other, *, str? rounding_mode) -> Tensor", name, kind, kind),
              divide)
          .numbers(divisor);
  }
  for (const TwoOperands& f : std::initializer_list<TwoOperands>{
           {"mul", multiply, true, operand},
           {"multiply", multiply, true, operand},
           {"true_divide", true_divide, true, divisor},
           {"floor_divide", binary<floor_divide>, false, divisor},
           {"remainder", binary<remainder>, true, divisor},
           {"fmod", binary<fmod>, true},
           {"maximum", binary<maximum>},
           {"minimum", binary<minimum>},
           {"max.other", binary<maximum>},
           {"min.other", binary<minimum>},
           {"fmax", binary<fmax>},
           {"fmin", binary<fmin>},
           {"atan2", float_binary<atan2>},
           {"arctan2", float_binary<atan2>},
           {"hypot", float_binary<hypot>},
           {"copysign", copysign, true},
           {"xlogy", float_binary<xlogy>, true},
           {"special_xlogy", float_binary<xlogy>},
           {"logaddexp", float_binary<log_add_exp>},
           {"logaddexp2", float_binary<log_add_exp2>},
           {"ldexp", float_binary<ldexp>, true},
           {"logical_and", logical<both>},
           {"logical_or", logical<either>},
           {"logical_xor", logical<one_of>},
           {"bitwise_and", bitwise<both>, true},
           {"bitwise_or", bitwise<either>, true},
           {"bitwise_xor", bitwise<one_of>, true},
           {"__and__", bitwise<both>, true},
           {"__or__", bitwise<either>, true},
           {"__xor__", bitwise<one_of>, true},
           {"bitwise_left_shift", shift_left, true},
           {"bitwise_right_shift", shift_right, true},
           {"__lshift__", shift_left, true},
           {"__rshift__", shift_right, true},
       })
    add_binary(ops, f.name, f.rule, f.numbers, f.roles);

  for (auto [name, plain] : std::initializer_list<std::pair<std::string_view, std::string_view>>{
           {"and", "aten::bitwise_and_"},
           {"or", "aten::bitwise_or_"},
           {"xor", "aten::bitwise_xor_"},
           {"lshift", "aten::bitwise_left_shift_"},
           {"rshift", "aten::bitwise_right_shift_"},
       })
    for (std::string_view kind : {"Tensor", "Scalar"})
      ops.add(fmt::format("aten::__i{}__.{}(Tensor(a!) self, {} other) -> Tensor(a!)", name, kind, kind),
              [plain = plain](Call& c) {
                return c.call(plain, {c.arg("self"), c.arg("other")});
              });
  ops.add("aten::floor_divide.Scalar(Tensor self, Scalar other) -> Tensor", binary<floor_divide>).numbers(divisor);
}

void register_powers(eval::Registry& ops) {
  for (std::string_view schema : {"aten::pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
                                  "aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
                                  "aten::pow.Scalar(Scalar self, Tensor exponent) -> Tensor"})
    ops.add(schema, [](Call& c) -> Value { return power(c, c.result_type({"self", "exponent"})); });
  for (std::string_view schema : {"aten::float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
                                  "aten::float_power.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
                                  "aten::float_power.Scalar(Scalar self, Tensor exponent) -> Tensor"})
    ops.add(schema, [](Call& c) -> Value { return power(c, DType::Double); });
}

void register_comparisons(eval::Registry& ops) {
  const NumberArguments operand = {{"other", Role::Operand}};
  for (const Relation& r : relations)
    for (std::string_view name : {r.name, r.alias})
      if (!name.empty())
        add_binary(
            ops, name, [op = r.op](Call& c) { return relate(c, op); }, true, operand);
  ops.add(
      "aten::isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
      is_close);

  ops.add("aten::allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool",
          [](Call& c) { return all_of(c, is_close(c)); });
  ops.add("aten::equal(Tensor self, Tensor other) -> bool", [](Call& c) -> Value {
    if (c.tensor("self")->shape != c.tensor("other")->shape) c.unsupported("of tensors that may differ in size");
    return all_of(c, relate(c, "Equal"));
  });
  ops.add(
      "aten::isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False) "
      "-> Tensor",
      [](Call& c) { return is_in(c, "elements", "test_elements"); });
  ops.add(
      "aten::isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False) "
      "-> "
      "Tensor",
      [](Call& c) { return is_in(c, "elements", "test_element"); });
}

void register_choices(eval::Registry& ops) {
  ops.add("aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor", where);
  for (std::string_view name : {"clamp", "clip"}) {
    auto rule = [](Call& c) { return clamp(c, true, true); };
    for (auto [overload, kind] : {std::pair{"", "Scalar"}, {".Tensor", "Tensor"}})
      ops.add(fmt::format("aten::{}{}(Tensor self, {}? min=None, {}? max=None) -> Tensor", name, overload, kind, kind),
              rule)
          .numbers({{"min", Role::Operand}, {"max", Role::Operand}});
  }
  for (std::string_view schema : {"aten::clamp_min(Tensor self, Scalar min) -> Tensor",
                                  "aten::clamp_min.Tensor(Tensor self, Tensor min) -> Tensor"})
    ops.add(schema, [](Call& c) { return clamp(c, true, false); });
  for (std::string_view schema : {"aten::clamp_max(Tensor self, Scalar max) -> Tensor",
                                  "aten::clamp_max.Tensor(Tensor self, Tensor max) -> Tensor"})
    ops.add(schema, [](Call& c) { return clamp(c, false, true); });

  ops.add("aten::lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor", lerp);
  ops.add("aten::addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
          [](Call& c) { return add_product(c, false); });
  ops.add("aten::addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
          [](Call& c) { return add_product(c, true); });
  ops.add("aten::heaviside(Tensor self, Tensor values) -> Tensor", heaviside);
  ops.add("aten::frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)", frexp);
}

}  // namespace

void register_pointwise(eval::Registry& ops) {
  register_unary(ops);
  register_binary(ops);
  register_powers(ops);
  register_comparisons(ops);
  register_choices(ops);
}

}  // namespace lithify::ops
