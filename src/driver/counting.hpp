// Conditions on sizes that only say whether a loop goes on, such as `while t < x.shape[1]`.
#pragma once

#include <set>

#include "lithify/capture.hpp"

namespace lithify::driver {

/// The conditions, by index, that one line asks again and again, with numbers that count and the same outcome but for
/// the last: "s0 > 0", "s0 > 1", "s0 > 2". How many there are is what a loop took of the size.
std::set<size_t> counting_conditions(const Followed& followed);

/// Adds the sizes that these conditions compare to those that escape.
void escape_counted(Followed& followed, const std::set<size_t>& counting);

}  // namespace lithify::driver
