// Windows that slide over the last dimensions of a tensor.
#pragma once

#include <fmt/format.h>

#include "ops/elementwise.hpp"

namespace lithify::ops {

/// A number for each of the dimensions over which a window slides; a single one stands for all. An empty list, which
/// stands for a default, stays empty.
inline Vector<int64_t> spread(Vector<int64_t> v, size_t dims) {
  if (v.size() == 1) v.resize(dims, v[0]);
  if (!v.empty() && v.size() != dims)
    throw Error(Code::ShapeMismatch, fmt::format("{} numbers are given for {} dimensions", v.size(), dims));
  return v;
}

/// What f makes of a batch; an input without a batch dimension is a batch of one.
template <class F>
Vector<Ref> batched(Builder& b, Ref x, size_t dims, F f) {
  if (x->rank() == dims + 2) return f(x);
  Vector<Ref> out = f(b.unsqueeze(x, {0}));
  for (Ref& v : out) v = b.squeeze(v, {0});
  return out;
}

struct Sliding {
  Vector<int64_t> kernel, stride, dilation;  ///< a number for each dimension
};

/// [.., sizes...] -> [.., kernel..., steps...]: the elements under each window.
Ref windows(Builder& b, Ref x, const Sliding& s);

}  // namespace lithify::ops
