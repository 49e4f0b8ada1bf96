// Rounding to the steps of a small integer type, and back.
#pragma once

#include "ops/elementwise.hpp"

namespace lithify::ops {

/// How numbers become small integers: one scale for all, or one for each position of an axis.
struct Scheme {
  Ref scale;       ///< float32, 0-d or 1-D
  Ref zero_point;  ///< int64 or int32, of the same shape
  std::optional<int64_t> axis;
  int64_t low, high;

  /// The type of a byte that holds the range, if there is one.
  std::optional<DType> byte() const;
};

/// x as integers of a type.
Ref quantize(Builder& b, const Scheme& s, Ref x, DType t);
Ref dequantize(Builder& b, const Scheme& s, Ref q);

/// What the range of a tensor asks for: the step that covers it with 0 by `steps` steps, and the least number of it.
struct Range {
  Ref least;
  Ref step;
};
Range range_of(Builder& b, Ref x, double steps);

}  // namespace lithify::ops
