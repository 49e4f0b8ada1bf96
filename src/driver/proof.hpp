// What an export proves of the dimensions that were declared dynamic.
#pragma once

#include <vector>

#include "driver/evaluate.hpp"

namespace lithify::driver {

/// For each declared dimension: the constraints under which the graph is right, from what was assumed, as formulas that
/// a person can read.
std::vector<DimensionClaim> prove(Evaluated& evaluated);

}  // namespace lithify::driver
