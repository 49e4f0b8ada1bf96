#include "eval/registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "onnx/opdef.hpp"

namespace lithify::eval {
namespace {

// The result goes into an existing tensor, in the type of that tensor.
Value store(Call& c, const TensorPtr& into, Value result) {
  if (!result.is_tensor()) return result;
  if (result.tensor()->shares_memory_with(*into)) {
    // transpose_, squeeze_, ...: the tensor becomes its own view.
    if (result.tensor() != into) into->rebind(Tensor(result.tensor()->read(c.onnx)));
    return into;
  }
  onnx::Value* v = c.onnx.cast(result.tensor()->read(c.onnx), into->dtype());
  bool fits = v->rank() == into->rank();
  for (size_t i = 0; i < v->rank() && fits; ++i) fits = onnx::sizes_agree(c.sym, v->shape[i], into->shape()[i]);
  if (fits) {
    into->write(c.onnx, v);
  } else {
    into->rebind(Tensor(v));
  }
  return into;
}

// A tensor, or the tensors of a list, without the memory that they share.
Value copied(Call& c, const Value& result) {
  if (result.is_tensor()) return c.as_tensor(result);
  std::vector<Value> items;
  for (const Value& item : result.items()) items.push_back(copied(c, item));
  return Value::list(std::move(items));
}

bool takes_self(const Schema& s) {
  return !s.arguments.empty() && s.arguments[0].name == "self" && s.arguments[0].kind == SchemaArgument::Kind::Tensor &&
         !s.arguments[0].list && s.returns.size() == 1 && s.returns[0].starts_with("Tensor");
}

bool is_view(const Schema& s) { return takes_self(s) && s.returns[0].starts_with("Tensor(a)"); }
bool gives_tensor(const Schema& s) { return takes_self(s) && !s.returns[0].ends_with("[]"); }

}  // namespace

void Registry::insert(Rule rule) {
  std::vector<const Rule*>& named = by_name_[rule.schema.name];
  auto same = [&](const Rule* r) {
    auto names = [](const SchemaArgument& a, const SchemaArgument& b) { return a.name == b.name; };
    return r->derived == rule.derived && r->complex == rule.complex && r->since == rule.since &&
           r->schema.overload == rule.schema.overload &&
           std::ranges::equal(r->schema.arguments, rule.schema.arguments, names);
  };
  if (!rule.derived && std::ranges::any_of(named, same))
    throw Error(Code::Internal, fmt::format("two rules for {}", rule.schema.text));
  // Explicit rules come before derived ones; of one schema, the rule for the newer opset comes first.
  auto at = std::find_if(named.begin(), named.end(), [&](const Rule* r) {
    if (r->derived != rule.derived) return r->derived;
    return r->schema.text == rule.schema.text && r->since < rule.since;
  });
  named.insert(at, &rules_.emplace_back(std::move(rule)));
}

void Registry::add(std::string_view schema, RuleFunction rule, int since) {
  add(schema, std::move(rule), since, Rule::Complex::No);
}

void Registry::add_complex(std::string_view schema, RuleFunction rule) {
  add(schema, std::move(rule), 0, Rule::Complex::Only);
}

void Registry::allow_complex(std::initializer_list<std::string_view> names) {
  std::unordered_set<std::string> all;
  for (std::string_view name : names) {
    if (overloads(name).empty()) throw Error(Code::Internal, fmt::format("there is no rule for {}", name));
    for (std::string_view form : {"", "_", "_copy"}) all.insert(fmt::format("{}{}", name, form));
  }
  for (Rule& r : rules_)
    if (r.complex == Rule::Complex::No && all.contains(r.schema.name)) r.complex = Rule::Complex::Also;
}

void Registry::add(std::string_view schema, RuleFunction rule, int since, Rule::Complex complex) {
  Schema s = Schema::parse(schema);
  insert({s, since, rule, false, complex});
  if (s.name.ends_with("_") || !takes_self(s) || s.arguments[0].mutated) return;
  if (is_view(s)) {
    Schema copy = s;
    copy.name += "_copy";
    insert({copy, since, [rule](Call& c) { return copied(c, rule(c)); }, true, complex});
  }
  if (!gives_tensor(s)) return;
  Schema in_place = s;
  in_place.name += "_";
  insert({in_place, since, [rule](Call& c) { return store(c, c.tensor_ref("self"), rule(c)); }, true, complex});
  Schema out = s;
  out.overload = out.overload.empty() ? "out" : out.overload + "_out";
  SchemaArgument& target = out.arguments.emplace_back();
  target.name = "out";
  target.kind = SchemaArgument::Kind::Tensor;
  target.keyword_only = target.mutated = true;
  insert({out, since, [rule](Call& c) { return store(c, c.tensor_ref("out"), rule(c)); }, true, complex});
}

void Registry::unary(std::string_view schema, std::string_view onnx_op, Promote promote, int since) {
  add(
      schema,
      [op = std::string(onnx_op), promote](Call& c) -> Value {
        return c.onnx.op(op, {promote == Promote::IntToFloat ? c.float_tensor("self") : c.tensor("self")});
      },
      since);
}

void Registry::binary(std::string_view schema, std::string_view onnx_op, Promote promote, int since) {
  add(
      schema,
      [op = std::string(onnx_op), promote](Call& c) -> Value {
        DType t = c.result_type({"self", "other"});
        if (promote == Promote::IntToFloat && !is_float(t)) t = DType::Float;
        return c.onnx.op(op, {c.tensor_as("self", t), c.tensor_as("other", t)});
      },
      since);
}

const std::vector<const Rule*>& Registry::overloads(std::string_view name) const {
  static const std::vector<const Rule*> none;
  auto found = by_name_.find(std::string(name));
  return found == by_name_.end() ? none : found->second;
}

}  // namespace lithify::eval
