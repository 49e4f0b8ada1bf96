// What two sequences have in common, in order.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace lithify::merge {

/// Positions (in a, in b) of equal keys, ascending in both: a longest common subsequence. Of sequences that repeat a
/// few keys very often, one that may be shorter.
std::vector<std::pair<uint32_t, uint32_t>> aligned(std::span<const uint32_t> a, std::span<const uint32_t> b);

}  // namespace lithify::merge
