// Operators on quantized tensors by the rules that they have for plain ones.
#include <fmt/format.h>

#include <algorithm>

#include "eval/evaluator.hpp"

namespace lithify::eval {
namespace {

// The value, or the elements of a list or tuple, with those of a type replaced.
template <class T, class Replace>
Value mapped(const Value& v, const Replace& replace) {
  if (auto* found = v.get_if<T>()) return replace(*found);
  if (v.is_open_list() || (!v.is_list() && !v.is<Tuple>())) return v;
  Vector<Value> items;
  for (const Value& item : v.items()) items.push_back(mapped<T>(item, replace));
  return v.is_list() ? Value::list(std::move(items)) : Value::tuple(std::move(items), v.get_if<Tuple>()->named);
}

// A tensor of the dequantized values, in the place of a quantized one.
struct Stand {
  Quantized quantized;
  TensorPtr numbers;
  onnx::Value* before;
};

}  // namespace

Value Evaluator::run_on_quantized(const Rule& rule, Vector<Value> arguments) {
  const bool moved = rule.quantized == Rule::Quantized::Moved;
  std::optional<Quantized> first;
  Vector<Stand> stands;
  auto as_plain = [&](const Quantized& q) -> Value {
    if (!first) first = q;
    if (moved) return q.integers;
    Value numbers = apply("aten::dequantize", {q});
    stands.push_back({q, numbers.tensor(), numbers.tensor()->read(builder_)});
    return numbers;
  };
  const Value& operand = arguments[0];
  if (!operand.is_quantized() && !(operand.is_list() && std::ranges::all_of(operand.items(), &Value::is_quantized)))
    throw Error(Code::UnsupportedArgument,
                fmt::format("{} of quantized tensors and others together", rule.schema.full_name()));
  for (Value& v : arguments) v = mapped<Quantized>(v, as_plain);

  Call call(*this, builder_, rule.schema, std::move(arguments));
  const Value result = rule.run(call);

  auto rounded = [&](onnx::Value* numbers, const Quantized& to) {
    if (to.axis)
      throw Error(Code::UnsupportedArgument,
                  fmt::format("{} of a tensor that is quantized by channels", rule.schema.full_name()));
    return apply("aten::quantize_per_tensor",
                 {numbers, to.scale, to.zero_point, builder_.dim(torch_number(to.dtype()))});
  };
  for (const Stand& s : stands)
    if (onnx::Value* now = s.numbers->read(builder_); now != s.before)
      s.quantized.integers->write(builder_, rounded(now, s.quantized).get_if<Quantized>()->integers->read(builder_));
  return mapped<TensorPtr>(result, [&](const TensorPtr& t) -> Value {
    for (const Stand& s : stands)
      if (s.numbers == t) return s.quantized;
    if (!moved) return is_float(t->dtype()) ? rounded(t->read(builder_), *first) : Value(t);
    if (t == first->integers) return *first;
    if (first->axis)
      throw Error(Code::UnsupportedArgument,
                  fmt::format("{} of a tensor that is quantized by channels", rule.schema.full_name()));
    return Quantized{t, first->scale, first->zero_point, std::nullopt};
  });
}

}  // namespace lithify::eval
