// Traces that diverge by branches as one program, where only their sizes show which branch is taken: see separate.hpp.
#pragma once

#include <memory>

#include "driver/convert.hpp"

namespace lithify::driver {

/// Converts traces of different paths. Throws Error where that cannot be.
Converted with_branches(const std::shared_ptr<const Opened>& opened, const ExportOptions& options);

}  // namespace lithify::driver
