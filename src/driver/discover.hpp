// Which axes of the inputs can be dynamic at all.
#pragma once

#include "driver/recover.hpp"

namespace lithify::driver {

/// The widest set of axes with which the program can be exported, detected automatically: each axis gets a dimension of
/// its own ("x_0"), or that of an earlier axis which must be equal to it, or stays as it is. What `options` declares is
/// kept.
std::map<std::string, std::map<int64_t, std::string>> discover(const Traces& traces, ExportOptions options);

}  // namespace lithify::driver
