// Windows that slide over the last dimensions of a tensor.
#pragma once

#include "ops/elementwise.hpp"

namespace lithify::ops {

struct Sliding {
  std::vector<int64_t> kernel, stride, dilation;  ///< a number for each dimension
};

/// [.., sizes...] -> [.., kernel..., steps...]: the elements under each window.
Ref windows(Builder& b, Ref x, const Sliding& s);

}  // namespace lithify::ops
