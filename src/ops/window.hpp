// Windows that slide over the last dimensions of a tensor.
#pragma once

#include "ops/elementwise.hpp"

namespace lithify::ops {

/// A number for each of the dimensions over which a window slides; a single one stands for all.
inline std::vector<int64_t> spread(std::vector<int64_t> v, size_t dims) {
  if (v.size() == 1) v.resize(dims, v[0]);
  return v;
}

/// What f makes of a batch; an input without a batch dimension is a batch of one.
template <class F>
std::vector<Ref> batched(Builder& b, Ref x, size_t dims, F f) {
  if (x->rank() == dims + 2) return f(x);
  std::vector<Ref> out = f(b.unsqueeze(x, {0}));
  for (Ref& v : out) v = b.squeeze(v, {0});
  return out;
}

struct Sliding {
  std::vector<int64_t> kernel, stride, dilation;  ///< a number for each dimension
};

/// [.., sizes...] -> [.., kernel..., steps...]: the elements under each window.
Ref windows(Builder& b, Ref x, const Sliding& s);

}  // namespace lithify::ops
