// Dicts of a program: computed at export, without nodes.
#include <fmt/format.h>

#include "ops/register.hpp"

namespace lithify::ops {
namespace {

using eval::Dict;
using eval::None;

Dict& dict_of(Call& c, std::string_view name) {
  auto* d = c.arg(name).get_if<std::shared_ptr<Dict>>();
  if (!d) throw Error(Code::UnsupportedOverload, fmt::format("{} of a {}", c.schema.name, c.arg(name).kind_name()));
  (*d)->check();
  return **d;
}

/// The number of the item of the argument "key", where it is known whether the dict has one.
std::optional<size_t> known_item(Call& c, const Dict& d, std::string_view key = "key") {
  const Dict::Found found = d.find(c.sym, c.arg(key));
  if (!found.sure && !found.numbers.empty())
    c.unsupported("the key is known only at run time, and may be one that the dict has");
  return found.sure ? std::optional(found.numbers[0]) : std::nullopt;
}

void set(Call& c, Dict& d, std::string_view key, const Value& value) {
  if (const std::optional<size_t> number = known_item(c, d, key))
    d.value(*number) = value;
  else
    d.add(c.arg(key), value);
}

Value contains(Call& c, const Dict& d, const Value& key) {
  const Dict::Found found = d.find(c.sym, key);
  if (found.sure) return true;
  Value some = false;
  for (size_t n : found.numbers) some = c.call("aten::__or__", {some, c.call("aten::eq", {d.items().at(n).key, key})});
  return some;
}

/// The value of a key, which the run may choose; `otherwise` where there is none. Without that, the program raises.
Value value_at(Call& c, const Dict& d, const Value& key, const Value* otherwise) {
  const Dict::Found found = d.find(c.sym, key);
  if (found.sure) return d.items().at(found.numbers[0]).value;
  Vector<Value> values;
  if (otherwise) values.push_back(*otherwise);
  Value place = c.number_value(0);
  for (size_t n : found.numbers) {
    const Dict::Item& item = d.items().at(n);
    const Value here = c.number_value(static_cast<int64_t>(values.size()));
    values.push_back(item.value);
    if (values.size() > 1) place = c.call("prim::ite", {c.call("aten::eq", {item.key, key}), here, place});
  }
  if (values.empty()) throw Error(Code::ProgramRaises, "the program reads a key that its dict does not have");
  return values.size() == 1 ? values[0] : c.call("aten::__getitem__", {Value::list(std::move(values)), place});
}

/// The value of a key, or None.
Value maybe_value_at(Call& c, const Dict& d, const Value& key) {
  Value present = contains(c, d, key);
  if (auto* known = present.get_if<bool>()) return *known ? value_at(c, d, key, nullptr) : Value(None{});
  return eval::Maybe{std::make_shared<Value>(std::move(present)),
                     std::make_shared<Value>(value_at(c, d, key, nullptr))};
}

}  // namespace

void register_dicts(eval::Registry& ops) {
  ops.add("aten::len.Dict(Any a) -> int",
          [](Call& c) -> Value { return c.sym.constant(static_cast<int64_t>(dict_of(c, "a").size())); });
  ops.add("aten::keys(Any self) -> t[]", [](Call& c) -> Value {
    Vector<Value> out;
    for (const auto& [number, item] : dict_of(c, "self").items()) out.push_back(item.key);
    return Value::list(std::move(out));
  });
  ops.add("aten::values(Any self) -> t[]", [](Call& c) -> Value {
    Vector<Value> out;
    for (const auto& [number, item] : dict_of(c, "self").items()) out.push_back(item.value);
    return Value::list(std::move(out));
  });
  ops.add("aten::items(Any self) -> t[]", [](Call& c) -> Value {
    Vector<Value> out;
    for (const auto& [number, item] : dict_of(c, "self").items()) out.push_back(Value::tuple({item.key, item.value}));
    return Value::list(std::move(out));
  });
  ops.add("aten::__getitem__.Dict(Any self, Any key) -> Any",
          [](Call& c) { return value_at(c, dict_of(c, "self"), c.arg("key"), nullptr); });
  ops.add("aten::get(Any self, Any key, Any? default_value=None) -> Any", [](Call& c) -> Value {
    const Dict& d = dict_of(c, "self");
    if (c.none("default_value")) return maybe_value_at(c, d, c.arg("key"));
    return value_at(c, d, c.arg("key"), &c.arg("default_value"));
  });
  ops.add("aten::setdefault(Any self, Any key, Any? default_value=None) -> Any", [](Call& c) -> Value {
    Dict& d = dict_of(c, "self");
    if (const std::optional<size_t> number = known_item(c, d)) return d.value(*number);
    d.add(c.arg("key"), c.arg("default_value"));
    return c.arg("default_value");
  });
  ops.add("aten::_set_item.Dict(Any l, Any idx, Any v) -> ()", [](Call& c) -> Value {
    set(c, dict_of(c, "l"), "idx", c.arg("v"));
    return None{};
  });
  ops.add("aten::__contains__.Dict(Any dict, Any key) -> bool",
          [](Call& c) { return contains(c, dict_of(c, "dict"), c.arg("key")); });
  for (const char* schema : {"aten::Delete.Dict(Any self, Any key) -> ()",
                             "aten::pop.Dict(Any self, Any key, Any? default_value=None) -> Any"})
    ops.add(schema, [](Call& c) -> Value {
      Dict& d = dict_of(c, "self");
      const std::optional<size_t> number = known_item(c, d);
      const bool pops = c.schema.name == "aten::pop";
      Value out = number ? d.value(*number) : pops ? c.arg("default_value") : Value(None{});
      if (number) d.erase(*number);
      return pops ? out : Value(None{});
    });
  ops.add("aten::update(Any self, Any other) -> ()", [](Call& c) -> Value {
    const Dict other = dict_of(c, "other");  // may be the same
    for (const auto& [number, item] : other.items()) dict_of(c, "self").set(item.key, item.value);
    return None{};
  });
  ops.add("aten::clear.Dict(Any self) -> ()", [](Call& c) -> Value {
    dict_of(c, "self").clear();
    return None{};
  });
  ops.add("aten::copy.Dict(Any self) -> Any",
          [](Call& c) -> Value { return std::make_shared<Dict>(dict_of(c, "self")); });
  ops.add("aten::dict(Any? inputs=None) -> Any", [](Call& c) -> Value {
    auto d = std::make_shared<Dict>();
    const Value& in = c.arg("inputs");
    if (in.is<std::shared_ptr<Dict>>()) return std::make_shared<Dict>(dict_of(c, "inputs"));
    if (!in.is_none())
      for (const Value& pair : in.items()) d->set(pair.items().at(0), pair.items().at(1));
    return d;
  });
}

}  // namespace lithify::ops
