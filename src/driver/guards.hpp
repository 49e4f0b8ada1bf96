// The guards of a program of torch.export, in terms of the dynamic dimensions.
#pragma once

#include <string>
#include <vector>

#include "driver/evaluate.hpp"
#include "provenance/claims.hpp"

namespace lithify::driver {

struct Guards {
  std::vector<provenance::Requirement> requirements;  ///< relations of sizes
  std::vector<std::string> texts;                     ///< formulas that are no such relation
};

/// The guards that do not hold at every size.
Guards guards_of(const program::Program& program, const Evaluated& evaluated);

}  // namespace lithify::driver
