#include "ops/elementwise.hpp"

#include <cmath>

namespace lithify::ops {
namespace {

bool one_element(Ref x) { return x->contents->size() == 1; }

// The operator on elements that are known expressions; nullptr when they are not.
Ref on_elements(Builder& b, Ref x, Ref y, Dim (sym::Context::*f)(Dim, Dim)) {
  if (!x->contents || !y->contents || !is_integer(x->dtype)) return nullptr;
  if (x->shape != y->shape && !one_element(x) && !one_element(y)) return nullptr;
  Vector<Dim> out;
  size_t n = std::max(x->contents->size(), y->contents->size());
  for (size_t i = 0; i < n; ++i) {
    Dim p = (*x->contents)[one_element(x) ? 0 : i], q = (*y->contents)[one_element(y) ? 0 : i];
    if (q.is(0)) return nullptr;
    out.push_back((b.sym.*f)(p, q));
  }
  return b.symbolic(x->dtype, b.broadcast(x->shape, y->shape), std::move(out));
}

std::optional<double> constant_number(Ref x) {
  if (!x->is_constant() || x->constant->numel() != 1) return std::nullopt;
  return x->constant->reals()[0];
}

}  // namespace

std::optional<double> known_number(Call& c, std::string_view name) {
  const Value& v = c.arg(name);
  if (const bool* flag = v.get_if<bool>()) return *flag;
  if (const double* real = v.get_if<double>()) return *real;
  if (v.is_int()) {
    std::optional<int64_t> n = v.integer().constant();
    return n ? std::optional<double>(static_cast<double>(*n)) : std::nullopt;
  }
  if (!v.is_tensor()) return std::nullopt;
  Ref x = c.tensor(name);
  return x->rank() == 0 ? constant_number(x) : std::nullopt;
}

DType float_type(DType t) { return is_float(t) || is_complex(t) ? t : DType::Float; }

Ref like(Builder& b, Ref x, double v) { return b.scalar(x->dtype, v); }

Ref compare(Builder& b, std::string_view relation, Ref x, Ref y) {
  bool flags = x->dtype == DType::Bool;
  if (relation == "Equal") return b.op("Equal", {x, y});
  if (relation == "NotEqual") return flags ? b.op("Xor", {x, y}) : b.op("Not", {b.op("Equal", {x, y})});
  if (flags) {
    x = b.cast(x, DType::Int32);
    y = b.cast(y, DType::Int32);
  }
  bool less = relation == "Less" || relation == "LessOrEqual";
  bool strict = relation == "Less" || relation == "Greater";
  if (strict || b.opset() >= 12) return b.op(relation, {x, y});
  // NaN is neither below, nor above, nor equal.
  if (is_float(x->dtype)) return b.op("Or", {b.op(less ? "Less" : "Greater", {x, y}), b.op("Equal", {x, y})});
  return b.op("Not", {b.op(less ? "Greater" : "Less", {x, y})});
}

Ref truth(Builder& b, Ref x) { return b.cast(x, DType::Bool); }

static Ref extremum(Builder& b, bool max, Ref x, Ref y) {
  if (x->dtype == DType::Bool) return b.op(max ? "Or" : "And", {x, y});
  if (is_float(x->dtype) || b.opset() >= 12) return b.op(max ? "Max" : "Min", {x, y});
  return b.where(b.op(max ? "Greater" : "Less", {x, y}), x, y);
}

Ref maximum(Builder& b, Ref x, Ref y) { return extremum(b, true, x, y); }
Ref minimum(Builder& b, Ref x, Ref y) { return extremum(b, false, x, y); }

Ref clip(Builder& b, Ref x, Ref low, Ref high) {
  bool scalars = (!low || low->rank() == 0) && (!high || high->rank() == 0);
  if (scalars && (x->dtype == DType::Float || b.opset() >= 12)) return b.op("Clip", {x, low, high});
  if (low) x = maximum(b, x, low);
  if (high) x = minimum(b, x, high);
  return x;
}

Ref sign_bit(Builder& b, Ref x) {
  if (is_unsigned(x->dtype) || x->dtype == DType::Bool) return b.full(x->shape, b.scalar(DType::Bool, 0));
  Ref zero = like(b, x, 0);
  Ref negative = b.op("Less", {x, zero});
  // Of a negative zero, the reciprocal is negative.
  return is_float(x->dtype) ? b.op("Or", {negative, b.op("Less", {b.op("Reciprocal", {x}), zero})}) : negative;
}

Ref with_nan_of(Builder& b, Ref x, Ref y) { return is_float(x->dtype) ? b.where(b.op("IsNaN", {x}), x, y) : y; }

Ref is_finite(Builder& b, Ref x) {
  if (!is_float(x->dtype)) return b.full(x->shape, b.scalar(DType::Bool, 1));
  return b.op("Less", {b.op("Abs", {x}), like(b, x, infinity)});
}

Ref trunc(Builder& b, Ref x) {
  if (!is_float(x->dtype)) return x;
  return b.mul(b.op("Sign", {x}), b.op("Floor", {b.op("Abs", {x})}));
}

namespace {

// As Python has it: the quotient without the remainder is whole, and one less where the remainder has the other sign.
// 1 // 0.1 is 9.
Ref floor_divide_floats(Builder& b, Ref x, Ref y) {
  const std::optional<double> divisor = constant_number(y);
  // The quotient of x and a whole number is never rounded up to the next whole number unless x is within one unit in
  // the last place of it. An infinite x has no remainder.
  if (divisor && *divisor != 0 && *divisor == std::floor(*divisor)) {
    const onnx::Node* cast = onnx::made_by(x, "Cast");
    Ref out = b.op("Floor", {b.div(x, y)});
    return cast && !is_float(cast->inputs[0]->dtype) ? out : b.add(out, b.sub(x, x));
  }
  Ref rest = fmod(b, x, y), zero = like(b, x, 0);
  Ref less = b.cast(b.op("Less", {b.mul(rest, y), zero}), x->dtype);
  Ref out = b.op("Round", {b.sub(b.div(b.sub(x, rest), y), less)});
  return divisor && *divisor != 0 ? out : b.where(b.op("Equal", {y, zero}), b.div(x, y), out);
}

}  // namespace

Ref floor_divide(Builder& b, Ref x, Ref y) {
  if (is_float(x->dtype)) return floor_divide_floats(b, x, y);
  if (Ref known = on_elements(b, x, y, &sym::Context::floor_div)) return known;
  // ONNX divides toward zero: the remainder is taken off first.
  return b.div(is_unsigned(x->dtype) ? x : b.sub(x, remainder(b, x, y)), y);
}

Ref trunc_divide(Builder& b, Ref x, Ref y) { return trunc(b, b.div(x, y)); }

Ref remainder(Builder& b, Ref x, Ref y) {
  if (!is_float(x->dtype)) {
    if (Ref known = on_elements(b, x, y, &sym::Context::mod)) return known;
    return b.op("Mod", {x, y});
  }
  Ref rest = fmod(b, x, y), zero = like(b, x, 0);
  std::optional<double> divisor = constant_number(y);
  Ref other_sign =
      divisor ? b.op(*divisor < 0 ? "Greater" : "Less", {rest, zero}) : b.op("Less", {b.mul(rest, y), zero});
  return b.where(other_sign, b.add(rest, y), rest);
}

Ref fmod(Builder& b, Ref x, Ref y) { return b.op("Mod", {x, y}, {{"fmod", int64_t{1}}}); }

Ref call(Call& c, std::string_view name, Vector<Value> arguments, Vector<std::pair<std::string, Value>> keywords) {
  return c.as_tensor(c.call(name, std::move(arguments), std::move(keywords)));
}

Ref arange(Builder& b, Dim n) {
  return b.op("Range", {b.scalar_int(DType::Int64, 0), b.symbolic(n), b.scalar_int(DType::Int64, 1)});
}

Ref triangle(Builder& b, Dim rows, Dim columns, Dim diagonal, bool lower) {
  Ref row = b.reshape(arange(b, rows), {rows, b.dim(1)});
  return compare(b, lower ? "LessOrEqual" : "GreaterOrEqual", arange(b, columns), b.add(row, b.symbolic(diagonal)));
}

}  // namespace lithify::ops
