#include "driver/tied_sizes.hpp"

#include <fmt/format.h>

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

/// Nothing for what is not a formula of sizes, a division by 0, and a number that is too large.
std::optional<sym::Expr> evaluated(sym::Context& context, const Expr& formula, const eval::SymbolTable& symbols) {
  try {
    return eval::evaluate_formula(context, formula, symbols);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Of the names in a formula, the first that is not a dimension, if another one is.
std::string missing_name(const std::string& formula, const std::set<std::string>& dimensions) {
  std::set<std::string> names;
  if (const std::optional<Expr> e = parsed(formula)) add_names(*e, names);
  auto known = [&](const std::string& name) { return dimensions.contains(name); };
  const auto missing = std::ranges::find_if_not(names, known);
  return missing == names.end() || std::ranges::none_of(names, known) ? "" : *missing;
}

template <class F>
void each_size(std::vector<TensorInput>& inputs, F f) {
  for (TensorInput& in : inputs)
    for (size_t i = 0; in.sizes && i < in.sizes->size(); ++i) f(in, (*in.sizes)[i]);
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
  return evaluated(context, *formula, symbols) ? formula : std::nullopt;
}

std::optional<int64_t> value_of(const Expr& formula, const Sizes& sizes) {
  sym::Context context;
  eval::SymbolTable symbols;
  for (const auto& [name, size] : sizes) symbols.emplace(name, context.constant(size));
  const std::optional<sym::Expr> value = evaluated(context, formula, symbols);
  return value ? value->constant() : std::nullopt;
}

std::vector<Diagnostic> tie_sizes(std::vector<TensorInput>& inputs) {
  std::set<std::string> dimensions;
  each_size(inputs, [&](const TensorInput&, const InputSpec::Size& size) {
    if (const std::optional<Expr> name = parsed(size.name); name && name->kind == Expr::Kind::Name)
      dimensions.insert(name->name);
  });
  std::vector<Diagnostic> warnings;
  each_size(inputs, [&](const TensorInput& in, InputSpec::Size& size) {
    size.tied = formula_of(size.name, dimensions);
    if (const std::string missing = size.tied || !size.given ? "" : missing_name(size.name, dimensions);
        !missing.empty())
      warnings.push_back(
          {Code::BadOption,
           Severity::Warning,
           fmt::format("the size '{}' of the input '{}' is a name and not a formula, since no size of an "
                       "input is called '{}'",
                       size.name, in.name, missing),
           {},
           "",
           in.name});
  });
  return warnings;
}

}  // namespace lithify::driver
