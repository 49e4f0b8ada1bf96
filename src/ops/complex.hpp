// Complex numbers where several families need them.
#pragma once

#include "ops/elementwise.hpp"

namespace lithify::ops {

/// Real numbers are their own conjugates.
Ref conjugate(Builder& b, Ref z);

}  // namespace lithify::ops
