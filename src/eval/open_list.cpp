// Operators on lists whose length is known only at run time.
#include <fmt/format.h>

#include <algorithm>

#include "eval/call.hpp"
#include "eval/carry.hpp"
#include "eval/elements.hpp"
#include "eval/evaluator.hpp"

namespace lithify::eval {
namespace {

const std::shared_ptr<List>& shared_list(const Value& v) { return *v.get_if<std::shared_ptr<List>>(); }
List& contents(const Value& v) { return *shared_list(v); }

/// All elements, of a list whose length is known, too.
onnx::Value* elements(onnx::Builder& b, const Value& v) {
  onnx::Value* all = readable_elements(b, v);
  if (!all) throw Error(Code::UnsupportedControlFlow, "an element of an empty list is chosen at run time");
  return all;
}

bool has_numbers(const List& list) {
  return list.head ? list.numbers : !list.items.empty() && list.items[0].is_number();
}

/// A value as an element of a list. Numbers have the type of the others, whatever they were computed in.
onnx::Value* as_element(onnx::Builder& b, const List& list, const onnx::Value* all, const Value& v) {
  onnx::Value* element = carried(b, v);
  if (!element)
    throw Error(Code::UnsupportedControlFlow, fmt::format("a {} gets into a list at run time", v.kind_name()));
  return has_numbers(list) ? b.cast(element, all->dtype) : element;
}

/// A bound of a slice as a place between 0 and the length.
Dim bound(onnx::Builder& b, const Value& v, Dim length, Dim otherwise) {
  if (!v.is_int()) return otherwise;
  const Dim at = v.integer(), zero = b.dim(0);
  if (at.lower().value_or(-1) >= 0) return b.sym.min(at, length);
  if (at.upper().value_or(0) < 0) return b.sym.max(b.sym.add(at, length), zero);
  throw Error(Code::UnsupportedControlFlow, "a list is cut at a place that may be counted from either end");
}

/// Part of a sequence; a step that is not given is 1.
onnx::Value* part_of(onnx::Builder& b, onnx::Value* all, const Value& start, const Value& end, const Value& by) {
  const Dim length = length_of(b, all);
  const int64_t step = by.is_int() ? by.integer().constant().value_or(0) : 1;
  if (step < 1) throw Error(Code::UnsupportedControlFlow, "a list of unknown length is cut by steps backwards");
  const Dim first = bound(b, start, length, b.dim(0));
  const Dim count = b.sym.ceil_div(b.sym.sub(bound(b, end, length, length), first), b.dim(step));
  return chosen_elements(b, all, first, b.sym.max(count, b.dim(0)), step);
}

void append_all(List& list, const Value& more) {
  const Vector<Value>& items = more.items();
  list.items.insert(list.items.end(), items.begin(), items.end());
}

bool same_elements(const List& a, const List& b) {
  return a.head == b.head && std::ranges::equal(a.items, b.items, [](const Value& x, const Value& y) {
           return x.is_tensor() && y.is_tensor() && x.tensor() == y.tensor();
         });
}

/// An element is a view of the memory of its list: a write to it is one to the list. Where that memory was laid out for
/// this element alone, it becomes the list's with the first write.
Value element(onnx::Builder& b, const std::shared_ptr<List>& list, onnx::Value* all, Dim place) {
  onnx::Value* v = element_at(b, all, place);
  if (has_numbers(*list)) {
    if (v->dtype == DType::Int64) return b.symbol_of(v, "n");
    auto number = std::make_shared<Tensor>(v);
    number->is_number = true;
    return number;
  }
  const bool own = list->head && list->items.empty();
  TensorPtr memory = own ? list->head : std::make_shared<Tensor>(all);
  if (!own) list->link(*memory);
  View view;
  view.forward = [place](onnx::Builder& b, onnx::Value* base) { return element_at(b, base, place); };
  view.inverse = [=, weak = std::weak_ptr<List>(list), then = *list](onnx::Builder& b, onnx::Value* base,
                                                                     onnx::Value* changed) {
    const std::shared_ptr<List> list = weak.lock();
    if (!own && list && list->head != memory) {
      if (!same_elements(*list, then))
        throw Error(Code::UnsupportedMutation, "a write goes to an element of a list that was changed since",
                    "write to a clone()");
      list->items.clear();
      list->head = memory;
    }
    return with_replaced(b, base, place, changed);
  };
  view.name = "a list";
  view.key = fmt::format("element {}", static_cast<const void*>(place.node()));
  return std::make_shared<Tensor>(v, memory, std::move(view));
}

/// An operator that is applied to a list whose length is known only at run time, and what each operator does with it.
struct OpenListCall {
  Evaluator& evaluator;
  onnx::Builder& b;
  std::string_view name;
  const Arguments& arguments;

  const Value& self() const { return arguments.positional[0]; }
  const Value& second() const { return arguments.positional[1]; }
  List& list() const { return contents(self()); }
  onnx::Value* all() const { return elements(b, self()); }
  /// None where it is not given.
  Value argument(size_t i, std::string_view keyword) const;
  /// The argument "dim" of an operator whose result has a rank.
  int64_t dimension(size_t rank) const;
  Error refused() const;

  Value append() const;
  Value extend() const;
  Value get_item() const;
  Value set_item() const;
  Value insert() const { return change(with_element, all()); }
  Value pop() const;
  Value clear() const;
  Value reverse() const;

  Value length() const { return length_of(b, all()); }
  Value contains() const;
  /// With None: a list is not None.
  Value compare_identity() const { return name == "aten::__isnot__"; }
  Value itself() const { return self(); }

  Value copy() const { return std::make_shared<List>(list()); }
  Value add() const;
  Value slice() const;
  Value join() const;
  Value pad() const;
  Value to_tensor() const;

 private:
  using Change = onnx::Value* (*)(onnx::Builder&, onnx::Value* all, Dim place, onnx::Value* value);
  /// With the place and the value that are the second and third argument.
  Value change(Change change, onnx::Value* all) const;
};

Value OpenListCall::argument(size_t i, std::string_view keyword) const {
  if (i < arguments.positional.size()) return arguments.positional[i];
  for (auto& [k, v] : arguments.keywords)
    if (k == keyword) return v;
  return None{};
}

int64_t OpenListCall::dimension(size_t rank) const {
  Value d = argument(1, "dim");
  int64_t dim = d.is_int() ? d.integer().constant().value_or(0) : 0;
  return dim < 0 ? dim + static_cast<int64_t>(rank) : dim;
}

Error OpenListCall::refused() const {
  return Error(Code::UnsupportedControlFlow, fmt::format("{} of a list whose length is known only at run time", name));
}

Value OpenListCall::append() const {
  if (!self().is_open_list()) {
    self().list_items().push_back(second());
  } else {
    if (!list().unreadable.empty()) throw refused();
    list().items.push_back(second());
  }
  return self();
}

Value OpenListCall::extend() const {
  if (!second().is_open_list()) {
    append_all(list(), second());
    return self();
  }
  const bool numbers = has_numbers(list());
  list().become(chained(b, all(), elements(b, second())), numbers);
  contents(second()).link(*list().head);
  return self();
}

Value OpenListCall::get_item() const { return element(b, shared_list(self()), all(), second().integer()); }

Value OpenListCall::set_item() const {
  onnx::Value* elements = all();
  const Value& value = arguments.positional[2];
  // `x[i] += y` has written to the element.
  if (value.is_tensor() && !value.tensor()->is_number)
    if (value.tensor()->same_place(*element(b, shared_list(self()), elements, second().integer()).tensor()))
      return self();
  return change(with_replaced, elements);
}

Value OpenListCall::change(Change change, onnx::Value* all) const {
  const Value& value = arguments.positional[2];
  onnx::Value* changed = change(b, all, second().integer(), as_element(b, list(), all, value));
  list().become(changed, has_numbers(list()));
  if (value.is_tensor() && !value.tensor()->is_number) list().head->may_share_memory_with(*value.tensor());
  return self();
}

Value OpenListCall::pop() const {
  onnx::Value* elements = all();
  const Value given = argument(1, "idx");
  const Dim at = given.is_int() ? given.integer() : b.dim(-1);
  Value gone = element(b, shared_list(self()), elements, at);
  list().become(without_element(b, elements, at), has_numbers(list()));
  return gone;
}

Value OpenListCall::clear() const {
  list() = {};
  return None{};
}

Value OpenListCall::reverse() const {
  onnx::Value* elements = all();
  const Dim length = length_of(b, elements);
  const bool numbers = has_numbers(list());
  list().become(elements->is_sequence() ? chosen_elements(b, elements, b.sym.sub(length, b.dim(1)), length, -1)
                                        : b.flip(elements, 0),
                numbers);
  return None{};
}

Value OpenListCall::contains() const {
  if (!has_numbers(list())) throw refused();
  const Value same = evaluator.apply("aten::eq", {all(), second()});
  Value found = evaluator.apply("aten::gt", {evaluator.apply("aten::sum", {same}), b.dim(0)});
  found.tensor()->is_number = true;
  return found;
}

Value OpenListCall::add() const {
  if (!second().is_list()) throw refused();
  Value to = std::make_shared<List>(list());
  if (!second().is_open_list()) {
    append_all(contents(to), second());
    return to;
  }
  const bool numbers = has_numbers(contents(second()));
  contents(to).become(chained(b, self().is_open_list() ? all() : carried(b, self()), elements(b, second())), numbers);
  contents(second()).link(*contents(to).head);
  return to;
}

Value OpenListCall::slice() const {
  onnx::Value* elements = all();
  const Value start = argument(1, "start"), end = argument(2, "end"), step = argument(3, "step");
  if (elements->is_sequence()) {
    elements = part_of(b, elements, start, end, step);
  } else {
    const Value part =
        evaluator.apply("aten::slice", {elements, b.dim(0), start, end, step.is_int() ? step : Value(b.dim(1))});
    elements = part.tensor()->read(b);
  }
  auto part = std::make_shared<List>();
  part->become(elements, has_numbers(list()));
  list().link(*part->head);
  return part;
}

/// stack and cat.
Value OpenListCall::join() const {
  onnx::Value* elements = all();
  const bool stacks = name == "aten::stack";
  const int64_t dim = dimension(element_shape(elements).size() + (stacks ? 1 : 0));
  if (elements->is_sequence())
    return b.op("ConcatFromSequence", {elements}, {{"axis", dim}, {"new_axis", int64_t{stacks}}});
  Vector<int64_t> perm;
  for (int64_t i = 1; i < static_cast<int64_t>(elements->rank()); ++i) perm.push_back(i);
  perm.insert(perm.begin() + dim, 0);
  onnx::Value* moved = b.transpose(elements, perm);
  if (stacks) return moved;
  onnx::Shape shape = element_shape(elements);
  Dim& joined = shape[static_cast<size_t>(dim)];
  joined = b.sym.mul(elements->shape[0], joined);
  return b.reshape(moved, shape);
}

/// pad_sequence.
Value OpenListCall::pad() const {
  onnx::Value* elements = all();
  const Value first = argument(1, "batch_first"), fill = argument(2, "padding_value"),
              side = argument(3, "padding_side");
  onnx::Shape shape = element_shape(elements);
  if (shape.empty() || std::ranges::any_of(std::span(shape).subspan(1), [](Dim d) { return !d; })) throw refused();
  const auto* text = side.get_if<std::string>();
  const bool left = text && *text == "left";
  const auto* real = fill.get_if<double>();
  onnx::Value* filling = b.scalar(elements->dtype, real ? *real : 0.0);
  if (!real && !fill.is_none()) filling = b.cast(carried(b, fill), elements->dtype);
  if (!shape[0]) {
    onnx::Value* lengths = made_of_each(b, elements, {}, [&](onnx::Value* e) { return b.symbolic(e->shape[0]); });
    shape[0] = b.symbol_of(b.reduce("ReduceMax", lengths, {0}, false), "longest", 0);
  }
  if (elements->is_sequence())
    elements = made_of_each(b, elements, shape, [&](onnx::Value* e) {
      const Dim zero = b.dim(0), missing = b.sym.sub(shape[0], e->shape[0]);
      Vector<std::pair<Dim, Dim>> pads(shape.size(), {zero, zero});
      pads[0] = left ? std::pair{missing, zero} : std::pair{zero, missing};
      onnx::Value* padded = b.pad(e, pads, "constant", filling);
      padded->shape = shape;
      return padded;
    });
  const auto* is_first = first.get_if<bool>();
  return is_first && *is_first ? elements : b.swap_dims(elements, 0, 1);
}

Value OpenListCall::to_tensor() const {
  if (!list().numbers) throw refused();
  return all();
}

struct OpenListOperator {
  std::string_view name;
  Value (OpenListCall::*apply)() const;
  /// Also where the first argument is a list of known length: another argument is open, or a place is known only at run
  /// time.
  bool on_any_list = false;
};

constexpr OpenListOperator open_list_operators[] = {
    {"aten::append", &OpenListCall::append, true},
    {"aten::__getitem__", &OpenListCall::get_item, true},
    {"aten::_set_item", &OpenListCall::set_item, true},
    {"aten::insert", &OpenListCall::insert, true},
    {"aten::pop", &OpenListCall::pop, true},
    {"aten::Delete", &OpenListCall::pop, true},
    {"aten::add", &OpenListCall::add, true},
    {"aten::add_", &OpenListCall::extend},
    {"aten::extend", &OpenListCall::extend},
    {"aten::clear", &OpenListCall::clear},
    {"aten::reverse", &OpenListCall::reverse},
    {"aten::len", &OpenListCall::length},
    {"aten::__contains__", &OpenListCall::contains},
    {"aten::__is__", &OpenListCall::compare_identity},
    {"aten::__isnot__", &OpenListCall::compare_identity},
    {"aten::_unwrap_optional", &OpenListCall::itself},
    {"prim::unchecked_unwrap_optional", &OpenListCall::itself},
    {"aten::list", &OpenListCall::copy},
    {"aten::copy", &OpenListCall::copy},
    {"aten::slice", &OpenListCall::slice},
    {"aten::stack", &OpenListCall::join},
    {"aten::cat", &OpenListCall::join},
    {"aten::concat", &OpenListCall::join},
    {"aten::pad_sequence", &OpenListCall::pad},
    {"aten::tensor", &OpenListCall::to_tensor},
    {"aten::as_tensor", &OpenListCall::to_tensor},
};

}  // namespace

Value Evaluator::apply_to_open(std::string_view name, const Arguments& arguments) {
  const OpenListCall call{*this, builder_, name, arguments};
  const auto* found = std::ranges::find(open_list_operators, name, &OpenListOperator::name);
  const bool known = found != std::end(open_list_operators);
  if (!known || !(found->on_any_list || call.self().is_open_list())) throw call.refused();
  return (call.*found->apply)();
}

}  // namespace lithify::eval
