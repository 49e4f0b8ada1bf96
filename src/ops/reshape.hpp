// Views of the same elements under other sizes.
#pragma once

#include "ops/register.hpp"

namespace lithify::ops {

/// A view of the argument "self" with a shape of as many elements.
Value reshaped(Call& c, Shape to);

}  // namespace lithify::ops
