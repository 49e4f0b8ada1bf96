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

}  // namespace

void register_dicts(eval::Registry& ops) {
  ops.add("aten::len.Dict(Any a) -> int",
          [](Call& c) -> Value { return c.sym.constant(static_cast<int64_t>(dict_of(c, "a").items.size())); });
  ops.add("aten::keys(Any self) -> t[]", [](Call& c) -> Value {
    std::vector<Value> out;
    for (auto& [k, v] : dict_of(c, "self").items) out.push_back(k);
    return Value::list(std::move(out));
  });
  ops.add("aten::values(Any self) -> t[]", [](Call& c) -> Value {
    std::vector<Value> out;
    for (auto& [k, v] : dict_of(c, "self").items) out.push_back(v);
    return Value::list(std::move(out));
  });
  ops.add("aten::items(Any self) -> t[]", [](Call& c) -> Value {
    std::vector<Value> out;
    for (auto& [k, v] : dict_of(c, "self").items) out.push_back(Value::tuple({k, v}));
    return Value::list(std::move(out));
  });
  for (const char* schema : {"aten::get(Any self, Any key, Any? default_value=None) -> Any",
                             "aten::setdefault(Any self, Any key, Any? default_value=None) -> Any"})
    ops.add(schema, [](Call& c) -> Value {
      Dict& d = dict_of(c, "self");
      if (const Value* v = d.find(c.arg("key"))) return *v;
      if (c.schema.name == "aten::setdefault") d.set(c.arg("key"), c.arg("default_value"));
      return c.arg("default_value");
    });
  ops.add("aten::_set_item.Dict(Any l, Any idx, Any v) -> ()", [](Call& c) -> Value {
    dict_of(c, "l").set(c.arg("idx"), c.arg("v"));
    return None{};
  });
  ops.add("aten::__contains__.Dict(Any dict, Any key) -> bool",
          [](Call& c) -> Value { return dict_of(c, "dict").find(c.arg("key")) != nullptr; });
  ops.add("aten::Delete.Dict(Any self, Any key) -> ()", [](Call& c) -> Value {
    dict_of(c, "self").erase(c.arg("key"));
    return None{};
  });
  ops.add("aten::pop.Dict(Any self, Any key, Any? default_value=None) -> Any", [](Call& c) -> Value {
    Dict& d = dict_of(c, "self");
    const Value* found = d.find(c.arg("key"));
    Value out = found ? *found : c.arg("default_value");
    d.erase(c.arg("key"));
    return out;
  });
  ops.add("aten::update(Any self, Any other) -> ()", [](Call& c) -> Value {
    for (auto& [k, v] : dict_of(c, "other").items) dict_of(c, "self").set(k, v);
    return None{};
  });
  ops.add("aten::clear.Dict(Any self) -> ()", [](Call& c) -> Value {
    dict_of(c, "self").items.clear();
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
