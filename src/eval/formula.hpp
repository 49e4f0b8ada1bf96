// Formulas of sizes, as files record them, and whether values agree with what was recorded.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>

#include "eval/value.hpp"
#include "program/program.hpp"
#include "sym/expr.hpp"

namespace lithify::eval {

using SymbolTable = std::unordered_map<std::string, sym::Expr>;

/// The integer that a formula stands for; empty when it has a symbol or an operator that is not known.
std::optional<sym::Expr> evaluate_formula(sym::Context& sym, const program::Expr& formula, const SymbolTable& symbols);

/// What is recorded of a value, as a sentence, where the value is something else; empty when they agree, as far as can
/// be determined. A symbol that is met for the first time gets its value here.
std::optional<std::string> contradiction(sym::Context& sym, const program::Fact& fact, const Value& value,
                                         SymbolTable& symbols);

}  // namespace lithify::eval
