#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "onnx/scope.hpp"
#include "onnx/text.hpp"

namespace lithify::onnx {
namespace {

// Constants and contents with more elements are not printed.
constexpr int64_t most_elements = 8;

template <class Items, class Text>
std::string joined(const Items& items, Text text) {
  std::string out;
  for (const auto& item : items) {
    if (!out.empty()) out += ", ";
    out += text(item);
  }
  return out;
}

/// A real number differs from an integer by its point or its exponent.
std::string real(float v) {
  std::string text = fmt::format("{}", v);
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out + "\"";
}

std::string name_text(const std::string& name) {
  const bool plain = !name.empty() && name != "_" && name.find_first_of(" \t\n,(){}[]<>=\"#") == std::string::npos;
  return plain ? name : quoted(name);
}

/// Whether a constant is printed with its elements.
bool is_short(const Tensor& t) {
  const bool is_number = t.dtype == DType::Bool || is_integer(t.dtype) || (is_float(t.dtype) && byte_size(t.dtype) > 1);
  return is_number && t.numel() <= most_elements;
}

/// "float32{2}", "int64[2]{0, -1}"; "..." stands for many elements.
std::string constant_text(const Tensor& t) {
  std::string elements = "...";
  if (is_short(t) && is_float(t.dtype)) {
    const bool wide = t.dtype == DType::Double;
    elements = joined(t.reals(),
                      [&](double v) { return wide ? fmt::format("{}", v) : fmt::format("{}", static_cast<float>(v)); });
  } else if (is_short(t)) {
    elements = joined(t.integers(), [](int64_t v) { return fmt::format("{}", v); });
  }
  const std::string sizes = joined(t.sizes, [](int64_t v) { return fmt::format("{}", v); });
  return fmt::format("{}{}{{{}}}", name_of(t.dtype), t.sizes.empty() ? "" : "[" + sizes + "]", elements);
}

bool has_contents(const Value& v) {
  return v.contents && !v.constant && v.contents->size() <= static_cast<size_t>(most_elements);
}

std::string type_text(const Value& v) {
  if (!has_contents(v)) return print_type(v);
  return fmt::format("{}{{{}}}", print_type(v), joined(*v.contents, [](Dim e) { return e.str(); }));
}

/// The facts of a symbol; empty when all that is known is that it is at least 1.
std::string size_line(Dim symbol) {
  const sym::SymbolInfo& info = sym::info(symbol);
  if (info.lower == 1 && !info.upper && info.divisor == 1 && !info.below) return "";
  Vector<std::string> facts;
  if (info.lower) facts.push_back(fmt::format(">= {}", *info.lower));
  if (info.upper) facts.push_back(fmt::format("<= {}", *info.upper));
  if (info.divisor != 1) facts.push_back(fmt::format("% {}", info.divisor));
  if (info.below) facts.push_back("< " + info.below.str());
  const std::string text = joined(facts, [](const std::string& fact) { return fact; });
  return fmt::format("size {}{}{}\n", info.name, text.empty() ? "" : " ", text);
}

class Printer {
 public:
  explicit Printer(const std::function<std::string(const Node&)>& note) : note_(note) {}

  std::string whole(const Graph& graph) {
    std::string out = sizes(graph);
    out += inputs(graph);
    for (const Value* v : graph.initializers())
      if (!is_short(*v->constant)) out += fmt::format("weight {} : {}\n", name(v), print_type(*v));
    return out + nodes(graph);
  }

 private:
  std::string sizes(const Graph& graph) {
    std::unordered_set<Dim> seen;
    std::string out;
    auto visit = [&](const auto& self, const Value& v) -> void {
      for_each_symbol(v, [&](Dim symbol) {
        if (!seen.insert(symbol).second) return;
        if (const Dim below = sym::info(symbol).below) {
          Value bound;
          bound.shape = {below};
          self(self, bound);
        }
        out += size_line(symbol);
      });
    };
    auto each = [&](const auto& self, const Graph& g) -> void {
      for (const Value* v : g.inputs) visit(visit, *v);
      for (const Node* n : g.nodes) {
        for (const Graph* body : n->bodies()) self(self, *body);
        for (const Value* v : n->outputs)
          if (v) visit(visit, *v);
      }
    };
    each(each, graph);
    return out;
  }

  std::string inputs(const Graph& graph) {
    std::string out;
    for (const Value* v : graph.inputs) out += fmt::format("input {} : {}\n", name(v), type_text(*v));
    return out;
  }

  std::string nodes(const Graph& graph) {
    std::string out;
    for (const Node* n : graph.nodes) out += node(*n);
    for (const Value* v : graph.outputs) out += fmt::format("output {} : {}\n", name(v), print_type(*v));
    return out;
  }

  std::string node(const Node& n) {
    std::string attributes = joined(n.attributes, [&](const Attribute& a) {
      return a.name + "=" + std::visit([&](const auto& data) { return text(data); }, a.data);
    });
    if (!attributes.empty()) attributes = "<" + attributes + ">";
    const std::string inputs = joined(n.inputs, [&](const Value* v) { return operand(v); });
    const std::string outputs = joined(n.outputs, [&](const Value* v) {
      return v ? fmt::format("{} : {}", name(v), type_text(*v)) : std::string("_");
    });
    const std::string domain = n.domain.empty() ? "" : n.domain + "::";
    const std::string noted = note_ ? note_(n) : "";
    return fmt::format("{} = {}{}{}({}){}{}\n", outputs, domain, n.op_type, attributes, inputs,
                       noted.empty() ? "" : "  # ", noted);
  }

  std::string operand(const Value* v) {
    if (!v) return "_";
    return v->constant && is_short(*v->constant) ? constant_text(*v->constant) : name(v);
  }

  std::string name(const Value* v) {
    if (!v->name.empty()) return name_text(v->name);
    return fmt::format("%{}", numbers_.try_emplace(v, numbers_.size()).first->second);
  }

  static std::string text(int64_t v) { return fmt::format("{}", v); }
  static std::string text(float v) { return real(v); }
  static std::string text(const std::string& v) { return quoted(v); }
  static std::string text(const Vector<int64_t>& v) {
    return "[" + joined(v, [](int64_t e) { return fmt::format("{}", e); }) + "]";
  }
  static std::string text(const Vector<float>& v) { return v.empty() ? "floats[]" : "[" + joined(v, real) + "]"; }
  static std::string text(const Vector<std::string>& v) {
    return v.empty() ? "strings[]" : "[" + joined(v, quoted) + "]";
  }
  static std::string text(const std::shared_ptr<const Tensor>& v) { return constant_text(*v); }
  std::string text(const std::shared_ptr<Graph>& v) { return "{\n" + inputs(*v) + nodes(*v) + "}"; }
  static std::string text(const std::shared_ptr<const Value>& v) { return print_type(*v); }

  const std::function<std::string(const Node&)>& note_;
  std::unordered_map<const Value*, size_t> numbers_;
};

}  // namespace

std::string print(const Graph& graph, const std::function<std::string(const Node&)>& note) {
  return Printer(note).whole(graph);
}

}  // namespace lithify::onnx
