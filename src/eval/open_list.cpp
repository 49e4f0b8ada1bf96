// Operators on lists whose length is known only at run time: their elements are the rows of one tensor.
#include <fmt/format.h>

#include "eval/call.hpp"
#include "eval/carry.hpp"
#include "eval/evaluator.hpp"

namespace lithify::eval {
namespace {

List& contents(const Value& v) { return **v.get_if<std::shared_ptr<List>>(); }

/// All elements as the rows of one tensor; of a list whose length is known, too.
onnx::Value* rows(onnx::Builder& b, const Value& v) {
  const List& list = contents(v);
  if (!list.unreadable.empty()) throw Error(Code::UnsupportedControlFlow, list.unreadable);
  if (list.growing) throw Error(Code::UnsupportedControlFlow, "a loop reads a list that it appends to");
  onnx::Value* all = carried(b, v);
  if (!all) throw Error(Code::UnsupportedControlFlow, "an element of an empty list is chosen at run time");
  return all;
}

bool has_numbers(const List& list) {
  return list.head ? list.numbers : !list.items.empty() && list.items[0].is_number();
}

/// Gives a list these rows.
void set_rows(List& list, onnx::Value* all, bool numbers) {
  list = {};
  list.head = all;
  list.numbers = numbers;
}

/// A place in a list as ONNX takes it: only what is not known to be counted from the end has to be from the start.
Dim place(onnx::Builder& b, const onnx::Value* all, const Value& index) {
  const Dim at = index.integer();
  return at.is_constant() || at.lower().value_or(-1) >= 0 ? at : b.sym.mod(at, all->shape[0]);
}

Dim next_place(onnx::Builder& b, const onnx::Value* all, Dim at) {
  return at.is(-1) ? all->shape[0] : b.sym.add(at, b.dim(1));
}

/// The rows in front of one place, one more, and those from another place on.
onnx::Value* spliced(onnx::Builder& b, onnx::Value* all, Dim end, onnx::Value* between, Dim start) {
  onnx::Inputs parts;
  if (!end.is(0)) parts.push_back(b.slice(all, 0, b.dim(0), end));
  if (between) parts.push_back(b.unsqueeze(b.cast(between, all->dtype), {0}));
  if (start != all->shape[0]) parts.push_back(b.slice(all, 0, start, all->shape[0]));
  return parts.empty() ? b.slice(all, 0, b.dim(0), b.dim(0)) : b.concat(parts, 0);
}

Value element(onnx::Builder& b, const List& list, onnx::Value* v) {
  if (!has_numbers(list)) return v;
  if (v->dtype == DType::Int64) return b.symbol_of(v, "n");
  auto number = std::make_shared<Tensor>(v);
  number->is_number = true;
  return number;
}

}  // namespace

Value Evaluator::apply_to_open(std::string_view name, const std::vector<Value>& positional,
                               const std::vector<std::pair<std::string, Value>>& keywords) {
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
    onnx::Value* all = rows(b, self);
    return element(b, contents(self), b.select(all, 0, place(b, all, positional[1])));
  } else if (name == "aten::_set_item" || name == "aten::insert") {
    onnx::Value* all = rows(b, self);
    const Dim at = place(b, all, positional[1]);
    const Dim next = name == "aten::insert" ? at : next_place(b, all, at);
    set_rows(contents(self), spliced(b, all, at, carried(b, positional[2]), next), has_numbers(contents(self)));
    return self;
  } else if (name == "aten::pop" || name == "aten::Delete") {
    onnx::Value* all = rows(b, self);
    const Value given = argument(1, "idx");
    const Dim at = place(b, all, given.is_none() ? Value(b.dim(-1)) : given);
    Value gone = element(b, contents(self), b.select(all, 0, at));
    set_rows(contents(self), spliced(b, all, at, nullptr, next_place(b, all, at)), has_numbers(contents(self)));
    return gone;
  } else if (!open) {
    throw refused();
  } else if (name == "aten::len") {
    return rows(b, self)->shape[0];
  } else if (name == "aten::clear") {
    contents(self) = {};
    return None{};
  } else if (name == "aten::reverse") {
    const Value all = apply("aten::flip", {rows(b, self), Value::list({b.dim(0)})});
    set_rows(contents(self), all.tensor()->read(b), has_numbers(contents(self)));
    return None{};
  } else if (name == "aten::slice") {
    const Value part = apply("aten::slice", {rows(b, self), b.dim(0), argument(1, "start"), argument(2, "end"),
                                             positional.size() > 3 ? positional[3] : Value(b.dim(1))});
    auto list = std::make_shared<List>();
    set_rows(*list, part.tensor()->read(b), has_numbers(contents(self)));
    return list;
  } else if (name == "aten::__contains__" && has_numbers(contents(self))) {
    Value found =
        apply("aten::gt", {apply("aten::sum", {apply("aten::eq", {rows(b, self), positional[1]})}), b.dim(0)});
    found.tensor()->is_number = true;
    return found;
  } else if (name == "aten::stack") {
    onnx::Value* all = rows(b, self);
    std::vector<int64_t> perm;
    for (int64_t i = 1; i < static_cast<int64_t>(all->rank()); ++i) perm.push_back(i);
    perm.insert(perm.begin() + dimension(all->rank()), 0);
    return b.transpose(all, perm);
  } else if (name == "aten::cat" || name == "aten::concat") {
    onnx::Value* all = rows(b, self);
    int64_t dim = dimension(all->rank() - 1);
    std::vector<int64_t> perm;
    onnx::Shape shape;
    for (int64_t i = 1; i < static_cast<int64_t>(all->rank()); ++i) {
      perm.push_back(i);
      shape.push_back(all->shape[static_cast<size_t>(i)]);
    }
    perm.insert(perm.begin() + dim, 0);
    Dim& joined = shape[static_cast<size_t>(dim)];
    joined = b.sym.mul(all->shape[0], joined);
    return b.reshape(b.transpose(all, perm), shape);
  } else if (name == "aten::tensor" || name == "aten::as_tensor") {
    if (contents(self).numbers) return rows(b, self);
  } else if (name == "aten::list" || name == "aten::copy") {
    return std::make_shared<List>(contents(self));
  } else if (name == "aten::__is__" || name == "aten::__isnot__") {
    return name == "aten::__isnot__";
  } else if (name == "aten::_unwrap_optional" || name == "prim::unchecked_unwrap_optional") {
    return self;
  } else if (name == "aten::add_" || name == "aten::add" || name == "aten::extend") {
    if (!positional[1].is_open_list()) {
      Value to = name == "aten::add" ? Value(std::make_shared<List>(contents(self))) : self;
      const std::vector<Value>& more = positional[1].items();
      contents(to).items.insert(contents(to).items.end(), more.begin(), more.end());
      return to;
    }
    Value to = name == "aten::add" ? Value(std::make_shared<List>()) : self;
    const bool numbers = has_numbers(contents(self));
    set_rows(contents(to), b.concat({rows(b, self), rows(b, positional[1])}, 0), numbers);
    return to;
  }
  throw refused();
}

}  // namespace lithify::eval
