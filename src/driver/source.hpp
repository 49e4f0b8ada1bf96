// From the caller's description of where a model is to a Program.
#pragma once

#include "lithify/lithify.hpp"
#include "read/open.hpp"

namespace lithify::driver {

/// Reads the model. Throws Error: also BadOption for a live tensor that cannot be.
read::Opened open_source(const ModelSource& source);

}  // namespace lithify::driver
