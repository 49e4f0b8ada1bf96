#include "ops/window.hpp"

namespace lithify::ops {

Ref windows(Builder& b, Ref x, const Sliding& s) {
  size_t dims = s.kernel.size(), lead = x->rank() - dims;
  Vector<int64_t> perm;
  for (size_t i = 0; i < lead; ++i) perm.push_back(static_cast<int64_t>(i));
  for (size_t i = 0; i < dims; ++i) {
    int64_t reach = s.dilation[i] * (s.kernel[i] - 1) + 1, axis = static_cast<int64_t>(lead + 2 * i);
    Dim room = b.sym.sub(x->shape[static_cast<size_t>(axis)], b.dim(reach));
    Dim steps = b.sym.add(b.sym.floor_div(room, b.dim(s.stride[i])), b.dim(1));
    Ref within = b.mul(arange(b, b.dim(s.kernel[i])), b.scalar_int(DType::Int64, s.dilation[i]));
    Ref starts = b.mul(arange(b, steps), b.scalar_int(DType::Int64, s.stride[i]));
    x = b.gather(x, b.add(b.unsqueeze(within, {1}), starts), axis);
  }
  for (size_t half : {0, 1})
    for (size_t i = 0; i < dims; ++i) perm.push_back(static_cast<int64_t>(lead + 2 * i + half));
  return b.transpose(x, perm);
}

}  // namespace lithify::ops
