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

/// One for each dimension, from what the evaluation assumed. `preconditions` are what the file requires: "seq >= 4".
std::vector<Claim> claims(sym::Context& sym, const std::map<std::string, sym::Expr>& dimensions,
                          const std::vector<sym::Assumption>& assumptions,
                          const std::vector<std::string>& preconditions);

}  // namespace lithify::provenance
