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
  const std::vector<Value>& items = more.items();
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

}  // namespace

Value Evaluator::apply_to_open(std::string_view name, const Arguments& arguments) {
  const auto& [positional, keywords] = arguments;
  onnx::Builder& b = builder_;
  auto argument = [&](size_t i, std::string_view keyword) -> Value {
    if (i < positional.size()) return positional[i];
    for (auto& [k, v] : keywords)
      if (k == keyword) return v;
    return None{};
  };
  auto dimension = [&](size_t rank) {
    Value d = argument(1, "dim");
    int64_t dim = d.is_int() ? d.integer().constant().value_or(0) : 0;
    return dim < 0 ? dim + static_cast<int64_t>(rank) : dim;
  };
  auto refused = [&] {
    return Error(Code::UnsupportedControlFlow,
                 fmt::format("{} of a list whose length is known only at run time", name));
  };
  const Value& self = positional[0];
  if (name == "aten::append" && self.is_open_list() && contents(self).unreadable.empty()) {
    contents(self).items.push_back(positional[1]);
    return self;
  }
  const bool open = self.is_open_list();
  if (!open && name == "aten::append") {
    self.list_items().push_back(positional[1]);
    return self;
  } else if (name == "aten::__getitem__") {
    return element(b, shared_list(self), elements(b, self), positional[1].integer());
  } else if (name == "aten::_set_item" || name == "aten::insert") {
    onnx::Value* all = elements(b, self);
    const Dim at = positional[1].integer();
    // `x[i] += y` has written to the element.
    if (name == "aten::_set_item" && positional[2].is_tensor() && !positional[2].tensor()->is_number)
      if (positional[2].tensor()->same_place(*element(b, shared_list(self), all, at).tensor())) return self;
    onnx::Value* value = as_element(b, contents(self), all, positional[2]);
    auto change = name == "aten::insert" ? with_element : with_replaced;
    contents(self).become(change(b, all, at, value), has_numbers(contents(self)));
    if (positional[2].is_tensor() && !positional[2].tensor()->is_number)
      contents(self).head->may_share_memory_with(*positional[2].tensor());
    return self;
  } else if (name == "aten::pop" || name == "aten::Delete") {
    onnx::Value* all = elements(b, self);
    const Value given = argument(1, "idx");
    const Dim at = given.is_int() ? given.integer() : b.dim(-1);
    Value gone = element(b, shared_list(self), all, at);
    contents(self).become(without_element(b, all, at), has_numbers(contents(self)));
    return gone;
  } else if (name == "aten::add" && positional[1].is_list()) {
    Value to = std::make_shared<List>(contents(self));
    if (positional[1].is_open_list()) {
      const bool numbers = has_numbers(contents(positional[1]));
      contents(to).become(chained(b, open ? elements(b, self) : carried(b, self), elements(b, positional[1])), numbers);
      contents(positional[1]).link(*contents(to).head);
    } else {
      append_all(contents(to), positional[1]);
    }
    return to;
  } else if (!open) {
    throw refused();
  } else if (name == "aten::len") {
    return length_of(b, elements(b, self));
  } else if (name == "aten::clear") {
    contents(self) = {};
    return None{};
  } else if (name == "aten::reverse") {
    onnx::Value* all = elements(b, self);
    const Dim length = length_of(b, all);
    const bool numbers = has_numbers(contents(self));
    contents(self).become(
        all->is_sequence() ? chosen_elements(b, all, b.sym.sub(length, b.dim(1)), length, -1) : b.flip(all, 0),
        numbers);
    return None{};
  } else if (name == "aten::slice") {
    onnx::Value* all = elements(b, self);
    const Value start = argument(1, "start"), end = argument(2, "end"), step = argument(3, "step");
    auto list = std::make_shared<List>();
    if (all->is_sequence()) {
      all = part_of(b, all, start, end, step);
    } else {
      all = apply("aten::slice", {all, b.dim(0), start, end, step.is_int() ? step : Value(b.dim(1))}).tensor()->read(b);
    }
    list->become(all, has_numbers(contents(self)));
    contents(self).link(*list->head);
    return list;
  } else if (name == "aten::__contains__" && has_numbers(contents(self))) {
    Value found =
        apply("aten::gt", {apply("aten::sum", {apply("aten::eq", {elements(b, self), positional[1]})}), b.dim(0)});
    found.tensor()->is_number = true;
    return found;
  } else if (name == "aten::stack" || name == "aten::cat" || name == "aten::concat") {
    onnx::Value* all = elements(b, self);
    const bool stacks = name == "aten::stack";
    const int64_t dim = dimension(element_shape(all).size() + (stacks ? 1 : 0));
    if (all->is_sequence()) return b.op("ConcatFromSequence", {all}, {{"axis", dim}, {"new_axis", int64_t{stacks}}});
    std::vector<int64_t> perm;
    for (int64_t i = 1; i < static_cast<int64_t>(all->rank()); ++i) perm.push_back(i);
    perm.insert(perm.begin() + dim, 0);
    onnx::Value* moved = b.transpose(all, perm);
    if (stacks) return moved;
    onnx::Shape shape = element_shape(all);
    Dim& joined = shape[static_cast<size_t>(dim)];
    joined = b.sym.mul(all->shape[0], joined);
    return b.reshape(moved, shape);
  } else if (name == "aten::tensor" || name == "aten::as_tensor") {
    if (contents(self).numbers) return elements(b, self);
  } else if (name == "aten::list" || name == "aten::copy") {
    return std::make_shared<List>(contents(self));
  } else if (name == "aten::__is__" || name == "aten::__isnot__") {
    return name == "aten::__isnot__";
  } else if (name == "aten::_unwrap_optional" || name == "prim::unchecked_unwrap_optional") {
    return self;
  } else if ((name == "aten::add_" || name == "aten::extend") && !positional[1].is_open_list()) {
    append_all(contents(self), positional[1]);
    return self;
  } else if (name == "aten::add_" || name == "aten::extend") {
    const bool numbers = has_numbers(contents(self));
    contents(self).become(chained(b, elements(b, self), elements(b, positional[1])), numbers);
    contents(positional[1]).link(*contents(self).head);
    return self;
  }
  throw refused();
}

}  // namespace lithify::eval
