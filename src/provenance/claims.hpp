// What may be claimed of the dimensions that were declared dynamic.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sym/expr.hpp"

namespace lithify::provenance {

/// A dimension, and the constraints under which the graph is right, as formulas that a person can read; it is right for
/// every size when there are none.
struct Claim {
  std::string dimension;
  std::vector<std::string> constraints;  ///< "height % 32 == 0"
};

/// What the facts of a symbol require of it: "seq >= 4", "seq <= 512".
std::vector<std::string> bounds_of(const sym::Context& sym, sym::Expr symbol);

/// One for each dimension, from its bounds and from what the evaluation assumed.
std::vector<Claim> claims(sym::Context& sym, const std::map<std::string, sym::Expr>& dimensions,
                          const std::vector<sym::Assumption>& assumptions);

}  // namespace lithify::provenance
