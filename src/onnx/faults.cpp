#include "onnx/faults.hpp"

#include <algorithm>
#include <limits>

namespace lithify::onnx {
namespace {

using Operands = std::span<Value* const>;

Value* input(Operands inputs, size_t i) { return i < inputs.size() ? inputs[i] : nullptr; }

bool never_negative(const Value* v) {
  return v->contents && v->contents->size() == 1 && v->contents->front().lower().value_or(-1) >= 0;
}

Value* gather(Builder& b, Operands inputs, const Attributes& attributes) {
  Value* index = inputs[1];
  if (!index->producer || index->producer->op_type != "Range" || index->dtype != DType::Int64) return nullptr;
  const auto& range = index->producer->inputs;
  if (never_negative(range[0]) && never_negative(range[1])) return nullptr;
  return b.op("Gather", {inputs[0], b.cast(index, DType::Int32)}, attributes);
}

Value* clip(Builder& b, Operands inputs, const Attributes&) {
  Value *x = inputs[0], *low = input(inputs, 1), *high = input(inputs, 2);
  // With both, or with attributes instead.
  if (!is_float(x->dtype) || !low == !high) return nullptr;
  return low ? b.op("Max", {x, low}) : b.op("Min", {x, high});
}

Value* scatter(Builder& b, std::string_view op, Operands inputs, const Attributes& attributes) {
  const DType type = inputs[0]->dtype;
  if (type != DType::Half || std::ranges::find(attributes, "reduction", &Attribute::name) == attributes.end())
    return nullptr;
  Value* out = b.op(op, {b.cast(inputs[0], DType::Float), inputs[1], b.cast(inputs[2], DType::Float)}, attributes);
  return b.cast(out, type);
}

Value* scatter_elements(Builder& b, Operands inputs, const Attributes& attributes) {
  return scatter(b, "ScatterElements", inputs, attributes);
}

Value* scatter_nd(Builder& b, Operands inputs, const Attributes& attributes) {
  return scatter(b, "ScatterND", inputs, attributes);
}

struct Fault {
  std::string_view op;
  std::string_view release;
  std::string_view what;
  Value* (*instead)(Builder&, Operands, const Attributes&);
};

constexpr Fault faults[] = {
    {"Gather", "1.31", "positions of a Range become a Slice, in which a limit below 0 counts from the end", gather},
    {"ScatterElements", "1.31", "the kernel has float16, but not with a reduction", scatter_elements},
    {"ScatterND", "1.31", "the kernel has float16, but not with a reduction", scatter_nd},
    {"Clip", "1.31", "infinite elements become the largest finite number where a bound is left out", clip},
};

}  // namespace

Value* around_fault(Builder& builder, std::string_view op, Operands inputs, const Attributes& attributes) {
  const auto* fault = std::ranges::find(faults, op, &Fault::op);
  return fault == std::end(faults) ? nullptr : fault->instead(builder, inputs, attributes);
}

}  // namespace lithify::onnx
