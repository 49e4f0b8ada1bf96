#include "driver/tied_sizes.hpp"

#include <algorithm>

#include "eval/formula.hpp"
#include "read/exported/symbols.hpp"

namespace lithify::driver {
namespace {

using program::Expr;

std::optional<Expr> parsed(const std::string& name) {
  try {
    return read::parse_symbolic(name);
  } catch (const Error&) {
    return std::nullopt;
  }
}

void add_names(const Expr& formula, std::set<std::string>& names) {
  if (formula.kind == Expr::Kind::Name) names.insert(formula.name);
  for (const Expr& item : formula.items) add_names(item, names);
}

}  // namespace

std::optional<Expr> formula_of(const std::string& name, const std::set<std::string>& dimensions) {
  if (dimensions.contains(name)) return std::nullopt;
  std::optional<Expr> formula = parsed(name);
  std::set<std::string> names;
  if (formula) add_names(*formula, names);
  if (names.empty() || !std::ranges::includes(dimensions, names)) return std::nullopt;
  sym::Context context;
  eval::SymbolTable symbols;
  for (const std::string& n : names) symbols.emplace(n, context.symbol({.name = n}));
  return eval::evaluate_formula(context, *formula, symbols) ? formula : std::nullopt;
}

std::optional<int64_t> value_of(const Expr& formula, const Sizes& sizes) {
  sym::Context context;
  eval::SymbolTable symbols;
  for (const auto& [name, size] : sizes) symbols.emplace(name, context.constant(size));
  try {
    const std::optional<sym::Expr> value = eval::evaluate_formula(context, formula, symbols);
    return value ? value->constant() : std::nullopt;
  } catch (const Error&) {  // a division by 0, or a number that is too large
    return std::nullopt;
  }
}

void tie_sizes(std::vector<TensorInput>& inputs) {
  std::set<std::string> names;
  for (const TensorInput& in : inputs)
    if (in.sizes)
      for (const InputSpec::Size& size : *in.sizes)
        if (const std::optional<Expr> name = parsed(size.name); name && name->kind == Expr::Kind::Name)
          names.insert(name->name);
  for (TensorInput& in : inputs)
    if (in.sizes)
      for (InputSpec::Size& size : *in.sizes) size.tied = formula_of(size.name, names);
}

}  // namespace lithify::driver
