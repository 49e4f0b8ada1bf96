// Strings of a program: computed at export, without nodes.
#include <fmt/format.h>

#include <cctype>

#include "eval/evaluator.hpp"
#include "ops/prim.hpp"

namespace lithify::ops {

std::string any_arguments() {
  std::string out;
  for (char x = 'a'; x <= 'p'; ++x) out += std::string(", Any? ") + x + "=None";
  return out;
}

namespace {

using eval::Device;
using eval::Tuple;
using eval::Undecided;

/// The text of a value; nothing where it is known only at run time.
std::optional<std::string> shown(const Value& v, int depth = 0);

std::optional<std::string> shown_items(const Value& v, int depth) {
  std::string out;
  for (const Value& i : v.items()) {
    const std::optional<std::string> item = shown(i, depth + 1);
    if (!item) return std::nullopt;
    out += (out.empty() ? "" : ", ") + *item;
    if (out.size() > eval::max_text) throw Error(Code::LimitExceeded, "a list is too long to be shown");
  }
  return v.is_list() ? "[" + out + "]" : "(" + out + ")";
}

std::string shown(double v) {
  const std::string digits = fmt::format("{}", v);
  return digits.find_first_not_of("-0123456789") == std::string::npos ? digits + ".0" : digits;
}

std::optional<std::string> shown(const Value& v, int depth) {
  constexpr int most_nested = 64;
  if (depth > most_nested) throw Error(Code::LimitExceeded, "lists nest too deep to be shown");
  if (auto* s = v.get_if<std::string>()) return *s;
  if (v.is_int()) return v.integer().is_constant() ? std::optional(v.integer().str()) : std::nullopt;
  if (auto* b = v.get_if<bool>()) return *b ? "True" : "False";
  if (auto* d = v.get_if<double>()) return shown(*d);
  if (v.is_none()) return "None";
  if (auto* d = v.get_if<Device>()) return d->name;
  if (v.is_open_list() || v.is_tensor() || v.is<Undecided>()) return std::nullopt;
  if (v.is_list() || v.is<Tuple>()) return shown_items(v, depth);
  return "<" + v.kind_name() + ">";
}

/// A text of the program. What it is used for, beyond messages, is an error where it is known only at run time.
Value as_text(std::optional<std::string> text) {
  if (text) return *std::move(text);
  return Undecided{"the program uses a text of numbers that are known only at run time, such as a size"};
}

/// A pattern with arguments in the place of each "{}", or of "%s" and "%d".
std::optional<std::string> formatted(const std::string& pattern, const Vector<Value>& arguments, bool percent) {
  std::string out;
  size_t next = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const size_t close = percent ? i + 1 : pattern.find('}', i);
    if (pattern[i] != (percent ? '%' : '{') || close >= pattern.size()) {
      out += pattern[i];
      continue;
    }
    i = close;
    if (percent && pattern[i] == '%') {
      out += '%';
      continue;
    }
    if (next == arguments.size() || (percent && pattern[i] != 's' && pattern[i] != 'd')) return std::nullopt;
    const std::optional<std::string> text = shown(arguments[next++]);
    if (!text) return std::nullopt;
    out += *text;
  }
  return out;
}

}  // namespace

void register_strings(eval::Registry& ops) {
  ops.add("aten::str(Any a) -> str", [](Call& c) -> Value { return as_text(shown(c.arg("a"))); });
  ops.add("aten::add.str(str a, str b) -> str", [](Call& c) -> Value { return c.text("a") + c.text("b"); });
  ops.add("aten::eq.str(str a, str b) -> bool", [](Call& c) -> Value { return c.text("a") == c.text("b"); });
  ops.add("aten::ne.str(str a, str b) -> bool", [](Call& c) -> Value { return c.text("a") != c.text("b"); });
  ops.add("aten::len.str(str a) -> int",
          [](Call& c) -> Value { return c.sym.constant(static_cast<int64_t>(c.text("a").size())); });
  ops.add("aten::__contains__.str(str a, str b) -> bool",
          [](Call& c) -> Value { return c.text("a").find(c.text("b")) != std::string::npos; });
  ops.add("aten::startswith(str self, str substr, int start=0, int end=-1) -> bool",
          [](Call& c) -> Value { return c.text("self").starts_with(c.text("substr")); });
  ops.add("aten::endswith(str self, str substr, int start=0, int end=-1) -> bool",
          [](Call& c) -> Value { return c.text("self").ends_with(c.text("substr")); });
  for (auto& [name, map] :
       {std::pair<const char*, int (*)(int)>{"aten::lower", std::tolower}, {"aten::upper", std::toupper}})
    ops.add(std::string(name) + "(str self) -> str", [map = map](Call& c) -> Value {
      std::string s = c.text("self");
      for (char& ch : s) ch = static_cast<char>(map(static_cast<unsigned char>(ch)));
      return s;
    });
  ops.add("aten::join(str self, str[] values) -> str", [](Call& c) -> Value {
    std::string out;
    for (const Value& v : c.arg("values").items()) {
      const std::optional<std::string> text = shown(v);
      if (!text) return as_text({});
      const std::string next = (&v == c.arg("values").items().data() ? "" : c.text("self")) + *text;
      c.sym.budget.spend(Limit::Text, next.size());
      out += next;
    }
    return out;
  });
  ops.add("aten::replace(str self, str old, str new, int max=-1) -> str", [](Call& c) -> Value {
    std::string s = c.text("self"), from = c.text("old"), to = c.text("new");
    for (size_t at = 0; !from.empty() && (at = s.find(from, at)) != std::string::npos; at += to.size()) {
      c.sym.budget.spend(Limit::Text, s.size() - at + to.size());
      s.replace(at, from.size(), to);
    }
    return s;
  });
  for (const char* name : {"aten::format", "aten::percentFormat"})
    ops.add(fmt::format("{}(str self{}) -> str", name, any_arguments()), [](Call& c) -> Value {
      Vector<Value> arguments;
      for (char x = 'a'; x <= 'p'; ++x) arguments.push_back(c.arg(std::string(1, x)));
      return as_text(formatted(c.text("self"), arguments, c.schema.name == "aten::percentFormat"));
    });
  ops.add("aten::list.str(str self) -> str[]", [](Call& c) -> Value {
    Vector<Value> out;
    for (char ch : c.text("self")) out.push_back(std::string(1, ch));
    return Value::list(std::move(out));
  });
  ops.add("aten::slice.str(str string, int? start=None, int? end=None, int step=1) -> str", [](Call& c) -> Value {
    Vector<Value> letters;
    for (char ch : c.text("string")) letters.push_back(std::string(1, ch));
    std::string out;
    for (const Value& v : sliced(c, letters)) out += *v.get_if<std::string>();
    return out;
  });
  ops.add("aten::__getitem__.str(str s, int index) -> str", [](Call& c) -> Value {
    std::string s = c.text("s");
    return std::string(1, s[list_index(c, s.size(), c.integer("index"))]);
  });
}

}  // namespace lithify::ops
