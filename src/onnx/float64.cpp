#include "onnx/float64.hpp"

#include <algorithm>
#include <numbers>

namespace lithify::onnx {
namespace {

/// An elementwise operator with its operands.
struct Elementwise {
  Builder& b;
  Value* x;
  Value* y;
  const Attributes& attributes;

  Value* number(double v) const { return b.scalar(DType::Double, v); }
  /// An attribute that is a number. Its float32 is the float64 of the program, rounded.
  Value* attribute(std::string_view name, float otherwise) const {
    for (const Attribute& a : attributes)
      if (a.name == name) return number(static_cast<double>(std::get<float>(a.data)));
    return number(static_cast<double>(otherwise));
  }
  Value* op(std::string_view name, Value* v) const { return b.op(name, {v}); }
  /// `positive` where the operand is, and else `other`.
  Value* by_sign(Value* positive, Value* other) const {
    return b.where(b.op("Greater", {x, number(0)}), positive, other);
  }
  Value* square(Value* v) const { return b.mul(v, v); }
};

Value* elu(const Elementwise& e, Value* alpha) {
  // Of large numbers, which are not taken from here, the exponential is infinite.
  Value* below = e.b.op("Min", {e.x, e.number(0)});
  return e.by_sign(e.x, e.b.mul(alpha, e.b.sub(e.op("Exp", below), e.number(1))));
}

Value* softplus(const Elementwise& e) {
  Value* rest = e.op("Log", e.b.add(e.op("Exp", e.op("Neg", e.op("Abs", e.x))), e.number(1)));
  return e.b.add(e.b.op("Max", {e.x, e.number(0)}), rest);
}

Value* hard_sigmoid(const Elementwise& e, Value* alpha, Value* beta) {
  Value* line = e.b.add(e.b.mul(e.x, alpha), beta);
  return e.b.op("Min", {e.b.op("Max", {line, e.number(0)}), e.number(1)});
}

// The result of float32, corrected by one step that makes it exact: atan(x) - y is atan((x - tan y) / (1 + x tan y)),
// which is its operand for so small a difference. An infinite operand is as good as a very large one.
Value* atan(const Elementwise& e, Value* of) {
  Builder& b = e.b;
  Value* x = b.op("Max", {b.op("Min", {of, e.number(1e300)}), e.number(-1e300)});
  Value* y = b.cast(b.op("Atan", {b.cast(x, DType::Float)}), DType::Double);
  Value *sin = e.op("Sin", y), *cos = e.op("Cos", y);
  return b.add(y, b.div(b.sub(b.mul(x, cos), sin), b.add(cos, b.mul(x, sin))));
}

Value* asin(const Elementwise& e) { return atan(e, e.b.div(e.x, e.op("Sqrt", e.b.sub(e.number(1), e.square(e.x))))); }

Value* half_of_exponentials(const Elementwise& e, bool sum) {
  Value *up = e.op("Exp", e.x), *down = e.op("Exp", e.op("Neg", e.x));
  return e.b.mul(sum ? e.b.add(up, down) : e.b.sub(up, down), e.number(0.5));
}

struct Form {
  std::string_view op;
  Value* (*express)(const Elementwise&);
};

constexpr Form forms[] = {
    {"Acos", [](const Elementwise& e) { return e.b.sub(e.number(std::numbers::pi / 2), asin(e)); }},
    {"Acosh",
     [](const Elementwise& e) { return e.op("Log", e.b.add(e.x, e.op("Sqrt", e.b.sub(e.square(e.x), e.number(1))))); }},
    {"Asin", asin},
    {"Asinh",
     [](const Elementwise& e) {
       Value* size = e.op("Abs", e.x);
       Value* log = e.op("Log", e.b.add(size, e.op("Sqrt", e.b.add(e.square(e.x), e.number(1)))));
       return e.b.mul(e.op("Sign", e.x), log);
     }},
    {"Atan", [](const Elementwise& e) { return atan(e, e.x); }},
    {"Atanh",
     [](const Elementwise& e) {
       Value* ratio = e.b.div(e.b.add(e.number(1), e.x), e.b.sub(e.number(1), e.x));
       return e.b.mul(e.op("Log", ratio), e.number(0.5));
     }},
    {"Cosh", [](const Elementwise& e) { return half_of_exponentials(e, true); }},
    {"Elu", [](const Elementwise& e) { return elu(e, e.attribute("alpha", 1)); }},
    {"HardSigmoid",
     [](const Elementwise& e) { return hard_sigmoid(e, e.attribute("alpha", 0.2f), e.attribute("beta", 0.5f)); }},
    {"HardSwish", [](const Elementwise& e) { return e.b.mul(e.x, hard_sigmoid(e, e.number(1.0 / 6), e.number(0.5))); }},
    {"LeakyRelu", [](const Elementwise& e) { return e.by_sign(e.x, e.b.mul(e.x, e.attribute("alpha", 0.01f))); }},
    {"Mish", [](const Elementwise& e) { return e.b.mul(e.x, e.op("Tanh", softplus(e))); }},
    {"PRelu", [](const Elementwise& e) { return e.by_sign(e.x, e.b.mul(e.x, e.y)); }},
    {"Selu",
     [](const Elementwise& e) {
       constexpr double alpha = 1.6732632423543772848170429916717, gamma = 1.0507009873554804934193349852946;
       return e.b.mul(e.number(gamma), elu(e, e.number(alpha)));
     }},
    {"Sinh", [](const Elementwise& e) { return half_of_exponentials(e, false); }},
    {"Softplus", softplus},
    {"Softsign", [](const Elementwise& e) { return e.b.div(e.x, e.b.add(e.op("Abs", e.x), e.number(1))); }},
    {"Tan", [](const Elementwise& e) { return e.b.div(e.op("Sin", e.x), e.op("Cos", e.x)); }},
    {"ThresholdedRelu",
     [](const Elementwise& e) {
       return e.b.where(e.b.op("Greater", {e.x, e.attribute("alpha", 1)}), e.x, e.number(0));
     }},
};

}  // namespace

Value* in_float64(Builder& builder, std::string_view op, std::span<Value* const> inputs, const Attributes& attributes) {
  if (inputs.empty() || !inputs[0] || inputs[0]->dtype != DType::Double) return nullptr;
  const auto* form = std::ranges::lower_bound(forms, op, {}, &Form::op);
  if (form == std::end(forms) || form->op != op) return nullptr;
  return form->express({builder, inputs[0], inputs.size() > 1 ? inputs[1] : nullptr, attributes});
}

}  // namespace lithify::onnx
