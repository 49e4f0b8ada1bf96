#include "eval/schema.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "base/text.hpp"

namespace lithify::eval {
namespace {

// Splits at commas that are not inside brackets or quotes.
Vector<std::string_view> split_list(std::string_view s) {
  Vector<std::string_view> out;
  int depth = 0;
  char quote = 0;
  size_t begin = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    char c = s[i];
    if (quote) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '(' || c == '[') {
      ++depth;
    } else if (c == ')' || c == ']') {
      --depth;
    } else if (c == ',' && depth == 0) {
      out.push_back(trimmed(s.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  if (!trimmed(s.substr(begin)).empty()) out.push_back(trimmed(s.substr(begin)));
  return out;
}

SchemaArgument parse_argument(std::string_view text) {
  SchemaArgument a;
  // The default follows the first '=' outside brackets; alias annotations have none.
  if (size_t eq = text.find('='); eq != std::string_view::npos) {
    a.default_text = std::string(trimmed(text.substr(eq + 1)));
    text = trimmed(text.substr(0, eq));
  }
  size_t space = text.rfind(' ');
  a.name = std::string(text.substr(space + 1));
  std::string type(trimmed(text.substr(0, space)));
  if (size_t open = type.find('('); open != std::string::npos && type.starts_with("Tensor")) {
    size_t close = type.find(')', open);
    a.mutated = type.find('!', open) < close;
    type.erase(open, close - open + 1);
  }
  if (!type.empty() && type.back() == '?') {
    a.optional = true;
    type.pop_back();
  }
  if (!type.empty() && type.back() == ']') {
    a.list = true;
    size_t open = type.rfind('[');
    std::from_chars(type.data() + open + 1, type.data() + type.size() - 1, a.fixed);
    type.erase(open);
    if (!type.empty() && type.back() == '?') {
      a.item_optional = true;
      type.pop_back();
    }
  }
  using K = SchemaArgument::Kind;
  static const std::pair<std::string_view, K> kinds[] = {
      {"Tensor", K::Tensor}, {"int", K::Int},        {"SymInt", K::Int},    {"float", K::Float},
      {"bool", K::Bool},     {"Scalar", K::Scalar},  {"number", K::Scalar}, {"str", K::Str},
      {"Device", K::Device}, {"ScalarType", K::Int}, {"Layout", K::Int},    {"MemoryFormat", K::Int}};
  for (auto& [name, kind] : kinds)
    if (type == name) a.kind = kind;
  return a;
}

}  // namespace

Schema Schema::parse(std::string_view text) {
  Schema s;
  s.text = text;
  size_t open = text.find('('), arrow = text.rfind("->");
  if (open == std::string_view::npos || arrow == std::string_view::npos)
    throw Error(Code::Internal, fmt::format("not a schema: {}", text));
  std::string_view name = text.substr(0, open);
  if (size_t dot = name.find('.'); dot != std::string_view::npos) {
    s.overload = name.substr(dot + 1);
    name = name.substr(0, dot);
  }
  s.name = name;
  std::string_view inside = text.substr(open + 1, text.rfind(')', arrow) - open - 1);
  bool keyword_only = false;
  for (std::string_view part : split_list(inside)) {
    if (part == "*") {
      keyword_only = true;
      continue;
    }
    s.arguments.push_back(parse_argument(part));
    s.arguments.back().keyword_only = keyword_only;
  }
  std::string_view results = trimmed(text.substr(arrow + 2));
  if (!results.empty() && results.front() == '(') results = results.substr(1, results.size() - 2);
  for (std::string_view part : split_list(results)) s.returns.emplace_back(part);
  return s;
}

const SchemaArgument* Schema::argument(std::string_view wanted) const {
  for (const SchemaArgument& a : arguments)
    if (a.name == wanted) return &a;
  return nullptr;
}

namespace {

Value default_value(sym::Context& sym, const SchemaArgument& a) {
  const std::string& t = *a.default_text;
  if (t == "None") return None{};
  if (t == "True" || t == "False") return t == "True";
  // The enumerators that occur as defaults.
  if (t == "contiguous_format") return Value(sym.constant(0));
  if (t == "Mean") return Value(sym.constant(1));
  if (t == "long") return Value(sym.constant(4));
  if (t.front() == '\'' || t.front() == '"') return t.substr(1, t.size() - 2);
  if (t.front() == '[') {
    Vector<Value> items;
    for (std::string_view part : split_list(std::string_view(t).substr(1, t.size() - 2))) {
      SchemaArgument item = a;
      item.list = false;
      item.default_text = std::string(part);
      items.push_back(default_value(sym, item));
    }
    return Value::list(std::move(items));
  }
  bool real = a.kind == SchemaArgument::Kind::Float || t.find_first_of(".e") != std::string::npos;
  if (t == "inf") return std::numeric_limits<double>::infinity();
  if (real) return std::stod(t);
  return Value(sym.constant(std::stoll(t)));
}

bool fits_item(const Value& v, SchemaArgument::Kind kind, bool convert) {
  using K = SchemaArgument::Kind;
  bool zero_d = v.is_tensor() && v.tensor()->rank() == 0;
  bool runtime_number = v.is_tensor() && v.tensor()->is_number;
  switch (kind) {
    case K::Any:
      return true;
    case K::Tensor:
      return v.is_tensor() || v.is_quantized() || (convert && v.is_number());
    case K::Int:
      return v.is_int() || (convert && (v.is<bool>() || zero_d));
    case K::Float:
      return v.is<double>() || (runtime_number && is_float(v.tensor()->dtype())) ||
             (convert && (v.is_int() || v.is<bool>() || zero_d));
    case K::Bool:
      return v.is<bool>() || (runtime_number && v.tensor()->dtype() == DType::Bool) || (convert && zero_d);
    case K::Scalar:
      return v.is_int() || v.is<double>() || v.is<bool>() || v.is<std::complex<double>>() || runtime_number ||
             (convert && zero_d);
    case K::Str:
      return v.is<std::string>();
    case K::Device:
      return v.is<Device>() || (convert && v.is<std::string>());
  }
  return false;
}

bool fits(const Value& v, const SchemaArgument& a, bool convert) {
  if (v.is<Uninitialized>()) return false;
  if (a.optional && v.is_none()) return true;
  if (!a.list) {
    if (a.kind == SchemaArgument::Kind::Any) return true;
    return fits_item(v, a.kind, convert);
  }
  if (!v.is_list() && !v.is<Tuple>()) return a.fixed > 0 && fits_item(v, a.kind, convert);
  for (const Value& item : v.items())
    if (!fits_item(item, a.kind, convert) && !(a.item_optional && item.is_none())) return false;
  return true;
}

}  // namespace

std::optional<Vector<Value>> bind_arguments(sym::Context& sym, const Schema& schema, const Vector<Value>& positional,
                                            const Vector<std::pair<std::string, Value>>& keywords, bool convert) {
  Vector<Value> out;
  out.reserve(schema.arguments.size());
  size_t used = 0;
  for (size_t i = 0; i < schema.arguments.size(); ++i) {
    const SchemaArgument& a = schema.arguments[i];
    const Value* given = nullptr;
    if (i < positional.size() && !a.keyword_only) {
      given = &positional[i];
    } else {
      for (auto& [name, value] : keywords)
        if (name == a.name) given = &value;
    }
    if (given) {
      if (!fits(*given, a, convert)) return std::nullopt;
      out.push_back(*given);
      ++used;
    } else if (a.default_text) {
      out.push_back(default_value(sym, a));
    } else if (a.optional) {
      out.push_back(None{});
    } else {
      return std::nullopt;
    }
  }
  if (used != positional.size() + keywords.size()) return std::nullopt;
  return out;
}

}  // namespace lithify::eval
