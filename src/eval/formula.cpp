#include "eval/formula.hpp"

#include <fmt/format.h>

#include "base/diagnostic.hpp"
#include "program/print.hpp"

namespace lithify::eval {
namespace {

using program::Expr;
using Operation = sym::Expr (sym::Context::*)(sym::Expr, sym::Expr);

constexpr std::pair<std::string_view, Operation> operations[] = {
    {"aten::add", &sym::Context::add},       {"aten::sub", &sym::Context::sub},
    {"aten::mul", &sym::Context::mul},       {"aten::floordiv", &sym::Context::floor_div},
    {"aten::remainder", &sym::Context::mod}, {"prim::max", &sym::Context::max},
    {"prim::min", &sym::Context::min},
};

std::optional<sym::Expr> power(sym::Context& sym, sym::Expr base, sym::Expr exponent) {
  constexpr int64_t most = 16;
  const std::optional<int64_t> n = exponent.constant();
  if (!n || *n < 0 || *n > most) return std::nullopt;
  sym::Expr out = sym.constant(1);
  for (int64_t i = 0; i < *n; ++i) out = sym.mul(out, base);
  return out;
}

/// Whether two expressions differ at some sizes. Captures assume that sizes are not 1, so 1 is not tried.
bool differ(sym::Context& sym, sym::Expr a, sym::Expr b) {
  if (a == b) return false;
  for (int64_t turn = 0; turn < 8; ++turn) {
    const auto size = [&](sym::Expr symbol) -> std::optional<int64_t> {
      const sym::SymbolInfo& info = sym.info(symbol);
      int64_t value = std::max<int64_t>(info.lower.value_or(2), 2);
      value += (turn * 7 + static_cast<int64_t>(std::hash<std::string>()(info.name) % 97) * (turn + 1)) % 31;
      value = (value + info.divisor - 1) / info.divisor * info.divisor;
      return info.upper ? std::min(value, *info.upper) : value;
    };
    const std::optional<int64_t> x = sym.evaluate(a, size), y = sym.evaluate(b, size);
    if (x && y && *x != *y) return true;
  }
  return false;
}

}  // namespace

std::optional<sym::Expr> evaluate_formula(sym::Context& sym, const Expr& formula, const SymbolTable& symbols) {
  if (formula.kind == Expr::Kind::Int) return sym.constant(formula.integer);
  if (formula.kind == Expr::Kind::Name) {
    const auto found = symbols.find(formula.name);
    return found == symbols.end() ? std::nullopt : std::optional(found->second);
  }
  if (formula.kind != Expr::Kind::Operator || formula.items.empty() || formula.items.size() > 2) return std::nullopt;
  const std::optional<sym::Expr> a = evaluate_formula(sym, formula.items[0], symbols);
  if (!a) return std::nullopt;
  if (formula.items.size() == 1) return formula.name == "aten::neg" ? std::optional(sym.neg(*a)) : std::nullopt;
  const std::optional<sym::Expr> b = evaluate_formula(sym, formula.items[1], symbols);
  if (!b) return std::nullopt;
  if (formula.name == "prim::pow") return power(sym, *a, *b);
  for (const auto& [name, operation] : operations)
    if (formula.name == name) return (sym.*operation)(*a, *b);
  return std::nullopt;
}

std::optional<std::string> contradiction(sym::Context& sym, const program::Fact& fact, const Value& value,
                                         SymbolTable& symbols) {
  const auto agrees = [&](const Expr& formula, sym::Expr actual) {
    if (formula.kind == Expr::Kind::Name) symbols.try_emplace(formula.name, actual);
    const std::optional<sym::Expr> expected = evaluate_formula(sym, formula, symbols);
    return !expected || !differ(sym, *expected, actual);
  };
  if (fact.dtype == DType::Undefined) {
    if (!value.is_int() || fact.sizes.size() != 1 || agrees(fact.sizes[0], value.integer())) return std::nullopt;
    return fmt::format("{} is recorded as {}", value.integer().str(), program::print(fact.sizes[0]));
  }
  if (!value.is_tensor()) return std::nullopt;
  const Tensor& tensor = *value.tensor();
  bool same = tensor.dtype() == fact.dtype && tensor.rank() == fact.sizes.size();
  for (size_t i = 0; same && i < tensor.rank(); ++i) same = agrees(fact.sizes[i], tensor.shape()[i]);
  if (same) return std::nullopt;
  std::string sizes;
  for (const Expr& size : fact.sizes) sizes += (sizes.empty() ? "" : ", ") + program::print(size);
  return fmt::format("{}{} is recorded as {}[{}]", name_of(tensor.dtype()), onnx::print_shape(tensor.shape()),
                     name_of(fact.dtype), sizes);
}

}  // namespace lithify::eval
