#include "eval/carry.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "eval/call.hpp"

namespace lithify::eval {
namespace {

/// An element as a row. One that was chosen from the first axis of a tensor by a number is a row there.
onnx::Value* as_row(onnx::Builder& b, onnx::Value* v) {
  const onnx::Node* node = v->producer;
  if (node && node->op_type == "Gather" && node->int_attribute("axis", 0) == 0 && node->inputs[1]->rank() == 0)
    if (const auto& at = node->inputs[1]->contents; at && at->front().is_constant())
      return b.op("Gather", {node->inputs[0], b.ints({*at->front().constant()})}, {{"axis", int64_t{0}}});
  return b.unsqueeze(v, {0});
}

onnx::Value* stacked(onnx::Builder& b, const List& list) {
  onnx::Inputs parts;
  if (list.head) parts.push_back(list.head);
  for (const Value& item : list.items)
    if (item.is_tensor() && is_complex(item.tensor()->dtype()))
      throw Error(Code::UnsupportedControlFlow, "a list of complex tensors has a length known only at run time");
  for (const Value& item : list.items) parts.push_back(as_row(b, carried(b, item)));
  if (parts.empty()) return nullptr;
  for (const onnx::Value* part : parts)
    if (part->dtype != parts[0]->dtype || part->rank() != parts[0]->rank() ||
        !std::equal(part->shape.begin() + 1, part->shape.end(), parts[0]->shape.begin() + 1))
      throw Error(
          Code::UnsupportedControlFlow,
          fmt::format("the elements of a list whose length is known only at run time differ in type or shape: {} "
                      "and {}",
                      onnx::print_type(*parts[0]), onnx::print_type(*part)));
  return b.concat(parts, 0);
}

bool is_number(const Value& v) {
  if (auto* l = v.get_if<std::shared_ptr<List>>())
    return (*l)->head ? (*l)->numbers : !(*l)->items.empty() && (*l)->items[0].is_number();
  return v.is_number();
}

}  // namespace

std::string symbol_name(const std::string& name) { return name.empty() || name[0] == '_' ? "n" : name; }

bool decided_at_run_time(onnx::Builder& b, const Value& condition) {
  if (condition.is_int()) return !condition.integer().is_constant();
  return condition.is_tensor() && !condition.tensor()->read(b)->is_constant();
}

onnx::Value* as_condition(onnx::Builder& b, const Value& condition) {
  return b.cast(carried(b, condition), DType::Bool);
}

onnx::Value* carried(onnx::Builder& b, const Value& v) {
  if (v.is_tensor()) return is_complex(v.tensor()->dtype()) ? b.pairs(v.tensor()->read(b)) : v.tensor()->read(b);
  if (v.is_int()) return b.symbolic(v.integer());
  if (auto* d = v.get_if<double>()) return b.scalar(DType::Double, *d);
  if (auto* flag = v.get_if<bool>()) return b.scalar_int(DType::Bool, *flag);
  if (auto* l = v.get_if<std::shared_ptr<List>>()) return stacked(b, **l);
  if (v.is_quantized())
    throw Error(Code::UnsupportedControlFlow,
                "a quantized tensor is an element of a list whose length is known only at run time");
  return nullptr;
}

Value uncarried(onnx::Builder& b, onnx::Value* v, const Difference& kind) {
  const Value& some = kind.first.is<Uninitialized>() ? kind.second : kind.first;
  if (some.is_list()) {
    auto list = std::make_shared<List>();
    list->head = v;
    list->numbers = is_number(kind.first) || is_number(kind.second);
    for (const Value* v : {&kind.first, &kind.second})
      if (auto* l = v->get_if<std::shared_ptr<List>>(); l && (*l)->growing) list->growing = true;
    return list;
  }
  bool number = is_number(kind.first) || is_number(kind.second);
  if (number && is_integer(v->dtype) && (kind.first.is_int() || kind.second.is_int()))
    return b.symbol_of(v, symbol_name(kind.name));
  bool complex = some.is_tensor() && is_complex(some.tensor()->dtype());
  auto tensor = std::make_shared<Tensor>(complex ? b.from_pairs(v) : v);
  tensor->is_number = number;
  return tensor;
}

DType common_type(const Difference& d, const onnx::Value* first, const onnx::Value* second) {
  if (!first || !second) return first ? first->dtype : second->dtype;
  if (first->dtype == second->dtype) return first->dtype;
  if (is_number(d.first) && is_number(d.second)) return promote(first->dtype, second->dtype);
  throw Error(Code::UnsupportedControlFlow, fmt::format("'{}' is {} on one path and {} on the other", d.name,
                                                        name_of(first->dtype), name_of(second->dtype)));
}

onnx::Value* placeholder(onnx::Builder& b, const Difference& d, const onnx::Value* like) {
  onnx::Shape shape = like->shape;
  if (!d.first.is<Uninitialized>() && !d.second.is<Uninitialized>()) shape[0] = b.dim(0);
  for (onnx::Dim& size : shape)
    if (!b.computable(size)) size = b.dim(0);
  return b.full(shape, b.scalar_int(like->dtype, 0));
}

onnx::Shape common_shape(onnx::Builder& b, const std::string& name, const onnx::Shape& first,
                         const onnx::Shape& second) {
  if (first.size() != second.size())
    throw Error(Code::UnsupportedControlFlow, fmt::format("'{}' has {} dimensions on one path and {} on the other",
                                                          name, first.size(), second.size()));
  onnx::Shape out = first;
  for (size_t i = 0; i < out.size(); ++i) {
    if (first[i] == second[i] && b.computable(first[i])) continue;
    int64_t lower = std::max<int64_t>(0, std::min(first[i].lower().value_or(0), second[i].lower().value_or(0)));
    out[i] = b.sym.symbol({.name = fmt::format("{}_dim{}", symbol_name(name), i), .lower = lower});
  }
  return out;
}

}  // namespace lithify::eval
