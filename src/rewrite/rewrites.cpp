#include "rewrite/rewrites.hpp"

namespace lithify::rewrite {

std::span<const Rewrite> rewrites() {
  static constexpr Rewrite list[] = {
      {"fold_constants", "", nullptr, fold_constants},
      {"fold_batch_norm", "BatchNormalization", fold_batch_norm, nullptr},
      {"fuse_rms_norm", "Mul", fuse_rms_norm, nullptr, 23},
      {"divide", "Mul", divide, nullptr},
      {"fuse_gelu", "Mul", fuse_gelu, nullptr, 20},
      {"unflatten_gemm", "Reshape", unflatten_gemm, nullptr},
      {"repeat_by_gather", "Reshape", repeat_by_gather, nullptr},
      {"fuse_attention", "MatMul", fuse_attention, nullptr, 23},
      {"slice_of_split", "Gather", slice_of_split, nullptr},
      {"move_apart", "Reshape", move_apart, nullptr},
      {"join_moves", "Transpose", join_moves, nullptr},
      {"split_slices", "", nullptr, split_slices},
      {"fuse_rotary", "Add", fuse_rotary, nullptr, 23},
  };
  return list;
}

void apply(const Rewrite& rewrite, Builder& b) {
  if (b.opset() < rewrite.since) return;
  if (rewrite.on_node)
    each_node(b, rewrite.op_type, rewrite.on_node);
  else
    rewrite.on_graph(b);
}

}  // namespace lithify::rewrite
