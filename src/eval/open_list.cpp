// Operators on lists whose length is known only at run time: their elements are the rows of one tensor.
#include <fmt/format.h>

#include "eval/call.hpp"
#include "eval/carry.hpp"
#include "eval/evaluator.hpp"

namespace lithify::eval {
namespace {

List& contents(const Value& v) { return **v.get_if<std::shared_ptr<List>>(); }

/// All elements as the rows of one tensor.
onnx::Value* rows(onnx::Builder& b, const Value& v) {
  const List& list = contents(v);
  if (!list.unreadable.empty()) throw Error(Code::UnsupportedControlFlow, list.unreadable);
  if (list.growing) throw Error(Code::UnsupportedControlFlow, "a loop reads a list that it appends to");
  return carried(b, v);
}

Value element(onnx::Builder& b, const List& list, onnx::Value* v) {
  if (!list.numbers) return v;
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
  const Value& self = positional[0];
  if (name == "aten::append" && self.is_open_list() && contents(self).unreadable.empty()) {
    contents(self).items.push_back(positional[1]);
    return self;
  }
  if (!self.is_open_list()) {
    if (name == "aten::append") {
      self.list_items().push_back(positional[1]);
      return self;
    }
  } else if (name == "aten::len") {
    return rows(b, self)->shape[0];
  } else if (name == "aten::__getitem__") {
    onnx::Value* all = rows(b, self);
    Dim at = positional[1].integer();
    return element(b, contents(self), b.select(all, 0, at));
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
  }
  throw Error(Code::UnsupportedControlFlow, fmt::format("{} of a list whose length is known only at run time", name));
}

}  // namespace lithify::eval
