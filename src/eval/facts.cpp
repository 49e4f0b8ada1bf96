#include "eval/facts.hpp"

#include <algorithm>
#include <map>
#include <string_view>

namespace lithify::eval {
namespace {

using sym::Fact;

std::optional<sym::Expr> size_of(const onnx::Value* v) {
  if (!v || !v->contents || v->contents->size() != 1 || !v->contents->front()) return std::nullopt;
  return v->contents->front();
}

/// a <= b, or where that is false a > b.
Fact at_most(sym::Expr a, sym::Expr b, bool outcome) {
  return outcome ? Fact{Fact::Kind::AtMost, a, b} : Fact{Fact::Kind::Less, b, a};
}

void collect(const onnx::Value& condition, bool outcome, int depth, sym::Facts& out) {
  constexpr int most_nested = 32;
  const onnx::Node* node = condition.producer;
  if (!node || !node->domain.empty() || depth > most_nested) return;
  const std::string_view op = node->op_type;
  if (op == "Not" || op == "Cast" || op == "Identity" || op == "Reshape" || op == "Squeeze" || op == "Unsqueeze")
    return collect(*node->inputs[0], (op == "Not") != outcome, depth + 1, out);
  if (op == (outcome ? "And" : "Or"))
    for (const onnx::Value* in : node->inputs) collect(*in, outcome, depth + 1, out);
  if (node->inputs.size() != 2) return;
  const std::optional<sym::Expr> a = size_of(node->inputs[0]), b = size_of(node->inputs[1]);
  if (!a || !b) return;
  if (op == "Equal") out.push_back({outcome ? Fact::Kind::Equal : Fact::Kind::NotEqual, *a, *b});
  if (op == "LessOrEqual") out.push_back(at_most(*a, *b, outcome));
  if (op == "GreaterOrEqual") out.push_back(at_most(*b, *a, outcome));
  if (op == "Less") out.push_back(at_most(*b, *a, !outcome));
  if (op == "Greater") out.push_back(at_most(*a, *b, !outcome));
}

}  // namespace

sym::Facts facts_of(const onnx::Value& condition, bool outcome) {
  sym::Facts out;
  collect(condition, outcome, 0, out);
  return out;
}

}  // namespace lithify::eval
