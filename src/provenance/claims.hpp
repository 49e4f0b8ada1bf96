// What a graph needs of the dynamic dimensions to be right, as formulas that a person can read.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "program/program.hpp"
#include "sym/expr.hpp"

namespace lithify::provenance {

/// A relation of sizes that must hold, and the operator of the program that needs it.
struct Requirement {
  enum class Kind : uint8_t { Equal, Multiple, AtMost, Unequal };  ///< a == b, a % b == 0, a <= b, a != b

  Requirement(Kind kind_, sym::Expr a_, sym::Expr b_, program::Pos pos_ = {}) : kind(kind_), a(a_), b(b_), pos(pos_) {}
  Requirement(const sym::Assumption& assumed, program::Pos pos_);

  Kind kind;
  sym::Expr a, b;
  program::Pos pos;
};

/// A formula of dimensions that must hold.
struct Constraint {
  std::string formula;             ///< "height % 32 == 0"
  std::vector<std::string> names;  ///< of the symbols in it
  program::Pos pos;                ///< of the operator that needs it; unknown for facts of the dimension itself
  bool implied = false;  ///< whether it excludes no size, of those tried, that is 1 or more and that others allow
};

/// How a name is written in a formula.
using Spelling = std::function<std::string(const std::string& name)>;

/// The weakest constraints under which all requirements hold, in as few and as simple formulas as can be had without
/// changing where they hold: bounds and divisors of single symbols, and what is left of the requirements beside these.
/// Each dimension has a lower bound among them.
std::vector<Constraint> constraints(const std::map<std::string, sym::Expr>& dimensions,
                                    const std::vector<Requirement>& requirements, const Spelling& spelling);

/// A size as a formula, with its names as they are written there.
std::string formula_of(sym::Expr size, const Spelling& spelling);

/// What the facts of a symbol require of it: "seq >= 4", "seq <= 512".
std::vector<std::string> bounds_of(const sym::Context& sym, sym::Expr symbol);

}  // namespace lithify::provenance
