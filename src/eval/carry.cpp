#include "eval/carry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "eval/call.hpp"
#include "eval/elements.hpp"

namespace lithify::eval {
namespace {

onnx::Value* all_of(onnx::Builder& b, const List& list) {
  onnx::Inputs items;
  for (const Value& item : list.items) {
    if (item.is_tensor() && is_complex(item.tensor()->dtype()))
      throw Error(Code::UnsupportedControlFlow, "a list of complex tensors has a length known only at run time");
    items.push_back(carried(b, item));
    if (!items.back())
      throw Error(Code::UnsupportedControlFlow,
                  fmt::format("a list with {} in it has a length known only at run time",
                              item.is_poison() ? "what could not be exported" : "a " + item.kind_name()));
  }
  return gathered(b, list.head ? list.head->read(b) : nullptr, items);
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
  if (auto* l = v.get_if<std::shared_ptr<List>>()) return all_of(b, **l);
  if (v.is_quantized())
    throw Error(Code::UnsupportedControlFlow,
                "a quantized tensor is an element of a list whose length is known only at run time");
  return nullptr;
}

onnx::Value* readable_elements(onnx::Builder& b, const Value& v) {
  const List& list = **v.get_if<std::shared_ptr<List>>();
  if (!list.unreadable.empty()) throw Error(Code::UnsupportedControlFlow, list.unreadable);
  if (list.growing) throw Error(Code::UnsupportedControlFlow, "a loop reads a list that it appends to");
  return carried(b, v);
}

onnx::Value* as_optional(onnx::Builder& b, const Maybe& maybe) {
  constexpr int since = 16;  // If gives optionals
  if (b.opset() < since) b.needs_opset("results that are None or a tensor", since);
  onnx::Value* value = maybe.value->is_list() ? nullptr : carried(b, *maybe.value);
  if (!value)
    throw Error(
        Code::UnsupportedControlFlow,
        fmt::format("a result is None or a {}, and which one is known only at run time", maybe.value->kind_name()));
  value = b.real(value);
  auto body = [&](onnx::Inputs inputs, onnx::Attributes attributes) {
    auto graph = b.new_body(onnx::Builder::Body::Branch);
    Inside inside(b, *graph);
    b.body_outputs(std::vector{b.op("Optional", std::move(inputs), std::move(attributes))});
    return graph;
  };
  auto type = std::make_shared<onnx::Value>();
  type->dtype = value->dtype;
  type->shape = value->shape;
  return b.control("If", {as_condition(b, *maybe.present)},
                   {{"then_branch", body({value}, {})},
                    {"else_branch", body({}, {{"type", std::shared_ptr<const onnx::Value>(type)}})}},
                   {{value->dtype, value->shape, onnx::Value::Form::Optional}})[0];
}

Value uncarried(onnx::Builder& b, onnx::Value* v, const Difference& kind) {
  const Value& some = kind.first.is<Uninitialized>() ? kind.second : kind.first;
  if (some.is_list()) {
    auto list = std::make_shared<List>();
    list->become(v, is_number(kind.first) || is_number(kind.second));
    for (const Value* side : {&kind.first, &kind.second})
      if (auto* l = side->get_if<std::shared_ptr<List>>()) {
        if (!list->numbers) (*l)->link(*list->head);
        list->growing = list->growing || (*l)->growing;
      }
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
  if (like->is_sequence()) return empty_sequence(b, like->dtype, common_element_shape(b, like->shape, like->shape));
  onnx::Shape shape = like->shape;
  if (!d.first.is<Uninitialized>() && !d.second.is<Uninitialized>()) shape[0] = b.dim(0);
  for (onnx::Dim& size : shape)
    if (!b.computable(size)) size = b.dim(0);
  return b.full(shape, b.scalar_int(like->dtype, 0));
}

std::optional<Dim> same_on_both(onnx::Builder& b, Dim first, Dim second, const Paths& paths) {
  if (first == second) return b.computable(first) ? std::optional(first) : std::nullopt;
  for (const size_t p : {0, 1}) {
    const Dim mine = p ? second : first, other = p ? first : second;
    if (!b.computable(other)) continue;
    Inside inside(b, *paths.bodies[p]);
    if (b.sym.equal(mine, other) == true) return other;
  }
  return std::nullopt;
}

namespace {

/// What is known of a number that is one of two.
sym::SymbolInfo common_facts(onnx::Builder& b, std::string name, Dim first, Dim second, const Paths& paths) {
  sym::SymbolInfo out{.name = std::move(name), .lower = std::nullopt};
  if (first.lower() && second.lower()) out.lower = std::min(*first.lower(), *second.lower());
  if (first.upper() && second.upper()) out.upper = std::max(*first.upper(), *second.upper());
  int64_t divisor = 0;
  for (const size_t p : {0, 1}) {
    Inside inside(b, *paths.bodies[p]);
    divisor = std::gcd(divisor, b.sym.divisor(p ? second : first));
  }
  if (divisor > 1) out.divisor = divisor;
  const auto sample = paths.sampled ? b.sym.sample(*paths.sampled ? second : first) : std::nullopt;
  if (sample && *sample % out.divisor == 0) out.sample = sample;
  return out;
}

Dim common_size(onnx::Builder& b, std::string name, Dim first, Dim second, const Paths& paths) {
  if (const std::optional<Dim> same = same_on_both(b, first, second, paths)) return *same;
  sym::SymbolInfo facts = common_facts(b, std::move(name), first, second, paths);
  facts.lower = std::max<int64_t>(0, facts.lower.value_or(0));
  return b.sym.symbol(facts);
}

}  // namespace

Dim common_number(onnx::Builder& b, const std::string& name, Dim first, Dim second, onnx::Value* chosen,
                  const Paths& paths) {
  return b.symbol_of(chosen, common_facts(b, symbol_name(name), first, second, paths));
}

onnx::Builder::Fact common_fact(onnx::Builder& b, const std::string& name, const onnx::Value* first,
                                const onnx::Value* second, const Paths& paths) {
  if (first->rank() != second->rank())
    throw Error(Code::UnsupportedControlFlow, fmt::format("'{}' has {} dimensions on one path and {} on the other",
                                                          name, first->rank(), second->rank()));
  if (first->is_sequence())
    return {first->dtype, common_element_shape(b, first->shape, second->shape), onnx::Value::Form::Sequence};
  onnx::Shape out = first->shape;
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = common_size(b, fmt::format("{}_dim{}", symbol_name(name), i), out[i], second->shape[i], paths);
  return {first->dtype, std::move(out)};
}

}  // namespace lithify::eval
