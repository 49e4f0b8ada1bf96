#include "eval/registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "eval/overlap.hpp"
#include "onnx/opdef.hpp"

namespace lithify::eval {
namespace {

// The result goes into an existing tensor, in the type of that tensor.
Value store(Call& c, const TensorPtr& into, Value result) {
  if (!result.is_tensor()) return result;
  if (result.tensor()->shares_memory_with(*into)) {
    if (result.tensor() == into) return into;
    // transpose_, squeeze_, ...: the tensor becomes its own view. Writes are not followed to what else shares its
    // memory.
    Tensor view(result.tensor()->read(c.onnx));
    view.may_share_memory_with(*into);
    into->rebind(view);
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
  Vector<Value> items;
  for (const Value& item : result.items()) items.push_back(copied(c, item));
  return Value::list(std::move(items));
}

bool takes_self(const Schema& s) {
  return !s.arguments.empty() && s.arguments[0].name == "self" && s.arguments[0].kind == SchemaArgument::Kind::Tensor &&
         !s.arguments[0].list && s.returns.size() == 1 && s.returns[0].starts_with("Tensor");
}

bool mutates(const Schema& s) {
  return s.name.ends_with("_") || std::ranges::any_of(s.arguments, [](const SchemaArgument& a) { return a.mutated; });
}

bool is_view(const Schema& s) { return takes_self(s) && s.returns[0].starts_with("Tensor(a)"); }
bool gives_tensor(const Schema& s) { return takes_self(s) && !s.returns[0].ends_with("[]"); }

// Whether there is a form that puts the result into a tensor that is given.
bool can_be_stored(const Schema& s) {
  return s.returns.size() == 1 && s.returns[0].starts_with("Tensor") && !s.returns[0].ends_with("[]");
}

// Whether there is a form that puts several results into tensors that are given.
bool can_be_stored_apart(const Schema& s) {
  return s.returns.size() > 1 &&
         std::ranges::all_of(s.returns, [](const std::string& r) { return r.starts_with("Tensor ") || r == "Tensor"; });
}

// The arguments that take the results; mostly they have the names of these.
Vector<std::string> targets(const Schema& s) {
  static const std::map<std::string_view, Vector<std::string>> others = {{"aten::max", {"max", "max_values"}},
                                                                         {"aten::min", {"min", "min_indices"}},
                                                                         {"aten::linalg_eigh", {"eigvals", "eigvecs"}}};
  if (const auto found = others.find(s.name); found != others.end()) return found->second;
  Vector<std::string> out;
  for (const std::string& result : s.returns)
    out.push_back(result.find(' ') != std::string::npos ? result.substr(result.find(' ') + 1)
                                                        : fmt::format("out{}", out.size()));
  return out;
}

SchemaArgument target(std::string name) {
  SchemaArgument out;
  out.name = std::move(name);
  out.kind = SchemaArgument::Kind::Tensor;
  out.keyword_only = out.mutated = true;
  return out;
}

// Explicit rules come before derived ones; of one schema, the rule for the newer opset comes first.
void insert(Vector<Rule>& named, Rule rule) {
  auto same = [&](const Rule& r) {
    auto names = [](const SchemaArgument& a, const SchemaArgument& b) { return a.name == b.name; };
    return r.derived == rule.derived && r.complex == rule.complex && r.quantized == rule.quantized &&
           r.since == rule.since && r.schema.overload == rule.schema.overload &&
           std::ranges::equal(r.schema.arguments, rule.schema.arguments, names);
  };
  if (!rule.derived && std::ranges::any_of(named, same))
    throw Error(Code::Internal, fmt::format("two rules for {}", rule.schema.text));
  auto at = std::ranges::find_if(named, [&](const Rule& r) {
    if (r.derived != rule.derived) return r.derived;
    return r.schema.text == rule.schema.text && r.since < rule.since;
  });
  named.insert(at, std::move(rule));
}

// The name without an ending that it has; empty when it has not.
std::string without(const std::string& name, std::string_view ending) {
  return name.ends_with(ending) ? name.substr(0, name.size() - ending.size()) : "";
}

}  // namespace

Vector<Rule> Registry::parse(const std::string& name) const {
  Vector<Rule> out;
  for (const Declared& d : declared(name)) insert(out, rule_of(d));
  auto derive = [&](const std::string& from, bool (*applies)(const Schema&), auto&& change) {
    for (const Declared& d : declared(from)) {
      Rule rule = rule_of(d);
      if (mutates(rule.schema) || !applies(rule.schema)) continue;
      rule.schema.name = name;
      rule.run = change(rule.schema, d.run);
      rule.derived = true;
      insert(out, std::move(rule));
    }
  };
  derive(without(name, "_copy"), is_view, [](Schema&, const RuleFunction& plain) -> RuleFunction {
    return [plain](Call& c) { return copied(c, plain(c)); };
  });
  derive(without(name, "_"), gives_tensor, [](Schema&, const RuleFunction& plain) -> RuleFunction {
    return [plain](Call& c) {
      check_overlap(c, "self");
      return store(c, c.tensor_ref("self"), plain(c));
    };
  });
  derive(name, can_be_stored, [](Schema& schema, const RuleFunction& plain) -> RuleFunction {
    schema.overload += schema.overload.empty() ? "out" : "_out";
    schema.arguments.push_back(target("out"));
    return [plain](Call& c) {
      check_overlap(c, "out");
      return store(c, c.tensor_ref("out"), plain(c));
    };
  });
  derive(name, can_be_stored_apart, [](Schema& schema, const RuleFunction& plain) -> RuleFunction {
    schema.overload += schema.overload.empty() ? "out" : "_out";
    const Vector<std::string> names = targets(schema);
    for (const std::string& n : names) schema.arguments.push_back(target(n));
    return [plain, names](Call& c) {
      const Value results = plain(c);
      Vector<Value> stored;
      for (size_t i = 0; i < names.size(); ++i)
        stored.push_back(store(c, c.tensor_ref(names[i]), results.items().at(i)));
      return Value::tuple(std::move(stored));
    };
  });
  return out;
}

Rule Registry::rule_of(const Declared& d) {
  return {Schema::parse(d.schema), d.since, d.run, false, d.complex, d.quantized, d.numbers, d.varies};
}

Registry::Declared& Registry::declare(std::string_view schema, Declared d) {
  std::string name(schema.substr(0, schema.find_first_of(".(")));
  d.schema = schema;
  parsed_.clear();
  return declared_[std::move(name)].emplace_back(std::move(d));
}

Registry::Added& Registry::Added::numbers(NumberArguments arguments) {
  rule_.numbers = std::move(arguments);
  return *this;
}

Registry::Added& Registry::Added::varies() {
  rule_.varies = true;
  return *this;
}

Registry::Added Registry::add(std::string_view schema, RuleFunction rule, int since) {
  return Added(declare(schema, {.since = since, .run = std::move(rule)}));
}

void Registry::add_complex(std::string_view schema, RuleFunction rule) {
  declare(schema, {.run = std::move(rule), .complex = Rule::Complex::Only});
}

void Registry::add_quantized(std::string_view schema, RuleFunction rule) {
  declare(schema, {.run = std::move(rule), .quantized = Rule::Quantized::Only});
}

Vector<Registry::Declared*> Registry::forms(std::initializer_list<std::string_view> names) {
  Vector<Declared*> out;
  for (std::string_view name : names) {
    if (!declared_.contains(std::string(name)))
      throw Error(Code::Internal, fmt::format("there is no rule for {}", name));
    for (std::string_view form : {"", "_", "_copy"})
      if (auto found = declared_.find(fmt::format("{}{}", name, form)); found != declared_.end())
        for (Declared& d : found->second) out.push_back(&d);
  }
  return out;
}

void Registry::allow_complex(std::initializer_list<std::string_view> names) {
  for (Declared* d : forms(names))
    if (d->complex == Rule::Complex::No) d->complex = Rule::Complex::Also;
}

void Registry::allow_quantized(Rule::Quantized how, std::initializer_list<std::string_view> names) {
  for (Declared* d : forms(names))
    if (d->quantized == Rule::Quantized::No && d->complex != Rule::Complex::Only) d->quantized = how;
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

const Vector<Registry::Declared>& Registry::declared(const std::string& name) const {
  static const Vector<Declared> none;
  auto found = declared_.find(name);
  return found == declared_.end() ? none : found->second;
}

const Vector<Rule>& Registry::overloads(std::string_view name) const {
  std::string key(name);
  std::scoped_lock lock(mutex_);
  auto found = parsed_.find(key);
  if (found == parsed_.end()) found = parsed_.emplace(key, parse(key)).first;
  return found->second;
}

Vector<std::string> Registry::names() const {
  std::set<std::string> out;
  for (const auto& [name, rules] : declared_)
    for (std::string_view form : {"", "_", "_copy"})
      if (std::string derived = fmt::format("{}{}", name, form); !overloads(derived).empty())
        out.insert(std::move(derived));
  return {out.begin(), out.end()};
}

}  // namespace lithify::eval
