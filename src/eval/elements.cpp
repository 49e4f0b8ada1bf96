#include "eval/elements.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostic.hpp"
#include "eval/carry.hpp"

namespace lithify::eval {
namespace {

using onnx::Dim;

/// An element as a row. One that was chosen from the first axis of a tensor by a number is a row there.
onnx::Value* as_row(onnx::Builder& b, onnx::Value* v) {
  const onnx::Node* node = v->producer;
  if (node && node->op_type == "Gather" && node->int_attribute("axis", 0) == 0 && node->inputs[1]->rank() == 0)
    if (const auto& at = node->inputs[1]->contents; at && at->front().is_constant())
      return b.op("Gather", {node->inputs[0], b.ints({*at->front().constant()})}, {{"axis", int64_t{0}}});
  return b.unsqueeze(v, {0});
}

/// Whether an element has the shape of the rows.
bool is_row(const onnx::Value* rows, const onnx::Value* element) {
  return !rows->is_sequence() && element_shape(rows) == element->shape;
}

/// Bodies give back a sequence from around them by an Identity, which takes sequences from opset 14 on.
void check_opset(onnx::Builder& b) {
  constexpr int since = 14;
  if (b.opset() < since) b.needs_opset("lists of tensors of different sizes in branches and loops", since);
}

/// Elements of lists differ in nothing but their sizes.
void check_kind(DType dtype, const onnx::Shape& shape, DType other_dtype, const onnx::Shape& other_shape) {
  if (dtype == other_dtype && shape.size() == other_shape.size()) return;
  throw Error(
      Code::UnsupportedControlFlow,
      fmt::format("the elements of a list whose length is known only at run time differ in type or in the "
                  "number of dimensions: {}{} and {}{}",
                  name_of(dtype), onnx::print_shape(shape), name_of(other_dtype), onnx::print_shape(other_shape)));
}

/// A sequence and further elements behind it: `element` makes the i-th of `count`, all of this shape.
onnx::Value* extended(onnx::Builder& b, onnx::Value* sequence, const onnx::Shape& shape, Dim count,
                      const std::function<onnx::Value*(Dim)>& element) {
  using Form = onnx::Value::Form;
  const onnx::Shape common = common_element_shape(b, sequence->shape, shape);
  auto body = b.new_body(onnx::Builder::Body::Loop);
  {
    Inside inside(b, *body);
    const Dim iteration = b.sym.symbol({.name = "iteration", .lower = 0, .below = count});
    b.bind(iteration, b.input("iteration", DType::Int64, {}));
    onnx::Value* condition = b.input("condition", DType::Bool, {});
    onnx::Value* before = b.input("elements", sequence->dtype, common, Form::Sequence);
    b.body_outputs(std::vector{condition, b.op("SequenceInsert", {before, element(iteration)})});
  }
  return b.control("Loop", {b.symbolic(count), nullptr, sequence}, {{"body", body}},
                   {{sequence->dtype, common, Form::Sequence}})[0];
}

/// A place as ONNX takes it in rows: only what is not known to be counted from the end has to be from the start.
Dim from_start(onnx::Builder& b, onnx::Value* elements, Dim place) {
  return place.is_constant() || place.lower().value_or(-1) >= 0 ? place : b.sym.mod(place, length_of(b, elements));
}

/// The rows in front of one place, one more, and those from another place on.
onnx::Value* spliced(onnx::Builder& b, onnx::Value* rows, Dim end, onnx::Value* between, Dim start) {
  onnx::Inputs parts;
  if (!end.is(0)) parts.push_back(b.slice(rows, 0, b.dim(0), end));
  if (between) parts.push_back(b.unsqueeze(between, {0}));
  if (start != rows->shape[0]) parts.push_back(b.slice(rows, 0, start, rows->shape[0]));
  return parts.empty() ? b.slice(rows, 0, b.dim(0), b.dim(0)) : b.concat(parts, 0);
}

Dim next_row(onnx::Builder& b, const onnx::Value* rows, Dim place) {
  return place.is(-1) ? rows->shape[0] : b.sym.add(place, b.dim(1));
}

}  // namespace

onnx::Value* gathered(onnx::Builder& b, onnx::Value* head, const onnx::Inputs& items) {
  if (items.empty()) return head;
  bool rows = !head || !head->is_sequence();
  const onnx::Shape first = head ? element_shape(head) : items[0]->shape;
  for (const onnx::Value* item : items) {
    check_kind(head ? head->dtype : items[0]->dtype, first, item->dtype, item->shape);
    rows = rows && item->shape == first;
  }
  if (!rows) check_opset(b);
  if (!rows && !head) return b.op("SequenceConstruct", items);
  if (!rows) {
    head = as_sequence(b, head);
    for (onnx::Value* item : items) head = b.op("SequenceInsert", {head, item});
    return head;
  }
  onnx::Inputs parts;
  if (head) parts.push_back(head);
  for (onnx::Value* item : items) parts.push_back(as_row(b, item));
  return b.concat(parts, 0);
}

onnx::Value* chained(onnx::Builder& b, onnx::Value* first, onnx::Value* second) {
  if (!first) return second;
  const onnx::Shape shape = element_shape(second);
  check_kind(first->dtype, element_shape(first), second->dtype, shape);
  if (!first->is_sequence() && !second->is_sequence() && element_shape(first) == shape)
    return b.concat({first, second}, 0);
  return extended(b, as_sequence(b, first), shape, length_of(b, second),
                  [&](Dim i) { return element_at(b, second, i); });
}

onnx::Value* as_sequence(onnx::Builder& b, onnx::Value* elements) {
  if (elements->is_sequence()) return elements;
  check_opset(b);
  onnx::Value* sequence = b.op("SplitToSequence", {elements}, {{"axis", int64_t{0}}, {"keepdims", int64_t{0}}});
  if (sequence->dtype != elements->dtype)
    throw Error(
        Code::UnsupportedControlFlow,
        fmt::format("a list of {} tensors of different sizes is changed at run time", name_of(elements->dtype)));
  return sequence;
}

onnx::Value* empty_sequence(onnx::Builder& b, DType dtype, onnx::Shape element) {
  check_opset(b);
  onnx::Value* none = b.op("SequenceEmpty", {}, {{"dtype", static_cast<int64_t>(dtype)}});
  none->shape = std::move(element);
  return none;
}

onnx::Shape element_shape(const onnx::Value* elements) {
  return elements->is_sequence() ? elements->shape : onnx::Shape(elements->shape.begin() + 1, elements->shape.end());
}

onnx::Shape common_element_shape(onnx::Builder& b, const onnx::Shape& first, const onnx::Shape& second) {
  onnx::Shape out = first;
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i] != second[i] || !out[i] || !b.computable(out[i])) out[i] = Dim();
  return out;
}

Dim length_of(onnx::Builder& b, onnx::Value* elements) {
  if (!elements->is_sequence()) return elements->shape[0];
  return b.symbol_of(b.op("SequenceLength", {elements}), "length", 0);
}

onnx::Value* element_at(onnx::Builder& b, onnx::Value* elements, Dim place) {
  if (elements->is_sequence()) return b.op("SequenceAt", {elements, b.symbolic(place)});
  return b.select(elements, 0, from_start(b, elements, place));
}

onnx::Value* with_element(onnx::Builder& b, onnx::Value* elements, Dim place, onnx::Value* inserted) {
  check_kind(elements->dtype, element_shape(elements), inserted->dtype, inserted->shape);
  const Dim at = from_start(b, elements, place);
  if (is_row(elements, inserted)) return spliced(b, elements, at, inserted, at);
  return b.op("SequenceInsert", {as_sequence(b, elements), inserted, b.symbolic(place)});
}

onnx::Value* with_replaced(onnx::Builder& b, onnx::Value* elements, Dim place, onnx::Value* by) {
  check_kind(elements->dtype, element_shape(elements), by->dtype, by->shape);
  const Dim at = from_start(b, elements, place);
  if (is_row(elements, by)) return spliced(b, elements, at, by, next_row(b, elements, at));
  onnx::Value* others = without_element(b, as_sequence(b, elements), at);
  if (at.is(-1)) return b.op("SequenceInsert", {others, by});
  // Counted from the end, the place among the others is one less.
  const Dim among = at.is_constant() && *at.constant() < 0 ? b.sym.add(at, b.dim(1)) : at;
  return b.op("SequenceInsert", {others, by, b.symbolic(among)});
}

onnx::Value* without_element(onnx::Builder& b, onnx::Value* elements, Dim place) {
  if (elements->is_sequence()) return b.op("SequenceErase", {elements, b.symbolic(place)});
  const Dim at = from_start(b, elements, place);
  return spliced(b, elements, at, nullptr, next_row(b, elements, at));
}

onnx::Value* chosen_elements(onnx::Builder& b, onnx::Value* elements, Dim start, Dim count, int64_t step) {
  return extended(b, empty_sequence(b, elements->dtype, element_shape(elements)), element_shape(elements), count,
                  [&](Dim i) { return element_at(b, elements, b.sym.add(start, b.sym.mul(i, b.dim(step)))); });
}

onnx::Value* made_of_each(onnx::Builder& b, onnx::Value* elements, const onnx::Shape& shape,
                          const std::function<onnx::Value*(onnx::Value*)>& make) {
  const Dim count = length_of(b, elements);
  auto body = b.new_body(onnx::Builder::Body::Loop);
  onnx::Value* made = nullptr;
  {
    Inside inside(b, *body);
    const Dim iteration = b.sym.symbol({.name = "iteration", .lower = 0, .below = count});
    b.bind(iteration, b.input("iteration", DType::Int64, {}));
    onnx::Value* condition = b.input("condition", DType::Bool, {});
    made = make(element_at(b, elements, iteration));
    b.body_outputs(std::vector{condition, made});
  }
  onnx::Shape all = shape;
  all.insert(all.begin(), count);
  return b.control("Loop", {b.symbolic(count), nullptr}, {{"body", body}}, {{made->dtype, all}})[0];
}

}  // namespace lithify::eval
