#include "onnx/facts.hpp"

#include <iterator>

namespace lithify::onnx {
namespace {

using Kind = sym::Fact::Kind;

std::optional<sym::Expr> size_of(const Value* v) {
  const bool known = v->contents && v->contents->size() == 1 && v->contents->front();
  return known ? std::optional(v->contents->front()) : std::nullopt;
}

/// A comparison of sizes: a == b, a < b or a <= b.
struct Comparison {
  enum class Operator { Equal, Less, LessEqual } op;
  sym::Expr a, b;
};

std::optional<Comparison> comparison(const Node& node) {
  using Operator = Comparison::Operator;
  struct Row {
    std::string_view type;
    Operator op;
    bool swapped;
  };
  static constexpr Row rows[] = {{"Equal", Operator::Equal, false},
                                 {"Less", Operator::Less, false},
                                 {"LessOrEqual", Operator::LessEqual, false},
                                 {"Greater", Operator::Less, true},
                                 {"GreaterOrEqual", Operator::LessEqual, true}};
  for (const Row& row : rows)
    if (node.is(row.type)) {
      const auto a = size_of(node.inputs[row.swapped ? 1 : 0]), b = size_of(node.inputs[row.swapped ? 0 : 1]);
      return a && b ? std::optional(Comparison{row.op, *a, *b}) : std::nullopt;
    }
  return std::nullopt;
}

/// Where only the shape or the type differs.
bool passes_on(const Node& node) {
  return node.is("Cast") || node.is("Reshape") || node.is("Squeeze") || node.is("Unsqueeze") || node.is("Identity");
}

}  // namespace

sym::Facts facts_of(const Value* condition, bool outcome) {
  const Node* node = condition->producer;
  if (!node) return {};
  if (passes_on(*node)) return facts_of(node->inputs[0], outcome);
  if (node->is("Not")) return facts_of(node->inputs[0], !outcome);
  if (node->is(outcome ? "And" : "Or")) {
    sym::Facts out = facts_of(node->inputs[0], outcome);
    std::ranges::copy(facts_of(node->inputs[1], outcome), std::back_inserter(out));
    return out;
  }
  const std::optional<Comparison> c = comparison(*node);
  if (!c) return {};
  switch (c->op) {
    case Comparison::Operator::Equal:
      return {{outcome ? Kind::Equal : Kind::NotEqual, c->a, c->b}};
    case Comparison::Operator::Less:
      if (!outcome) return {{Kind::AtMost, c->b, c->a}};
      return {{Kind::Less, c->a, c->b}};
    case Comparison::Operator::LessEqual:
      if (!outcome) return {{Kind::Less, c->b, c->a}};
      return {{Kind::AtMost, c->a, c->b}};
  }
  return {};
}

std::optional<bool> at_sample(const sym::Context& sym, const Value* condition) {
  const Node* node = condition->producer;
  if (!node) return std::nullopt;
  if (passes_on(*node)) return at_sample(sym, node->inputs[0]);
  if (node->is("Not") || node->is("And") || node->is("Or")) {
    const std::optional<bool> a = at_sample(sym, node->inputs[0]);
    if (!a || node->is("Not")) return a ? std::optional(!*a) : std::nullopt;
    const bool deciding = node->is("Or");
    return *a == deciding ? a : at_sample(sym, node->inputs[1]);
  }
  const std::optional<Comparison> c = comparison(*node);
  const auto a = c ? sym.sample(c->a) : std::nullopt, b = c ? sym.sample(c->b) : std::nullopt;
  if (!a || !b) return std::nullopt;
  return c->op == Comparison::Operator::Equal ? *a == *b : c->op == Comparison::Operator::Less ? *a < *b : *a <= *b;
}

}  // namespace lithify::onnx
