// The steps of all traces side by side.
#pragma once

#include <vector>

#include "merge/trace.hpp"

namespace lithify::merge {

inline constexpr uint32_t no_step = static_cast<uint32_t>(-1);

/// One step of the program: the steps of traces that are the same, apart from which values and literals they take.
struct Column {
  std::vector<uint32_t> steps;  ///< of each trace, or no_step
  Set present = 0;              ///< the traces that have it
};

/// The parameters, and then the steps in an order that each trace keeps. The step of a condition that two traces part
/// by is in one column for both, and so are those of the conditions before.
std::vector<Column> columns_of(const std::vector<Trace>& traces, const Definitions& definitions, Sharing sharing);

}  // namespace lithify::merge
