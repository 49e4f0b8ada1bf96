#include "rewrite/rewrites.hpp"

namespace lithify::rewrite {

std::span<const Rewrite> rewrites() {
  static constexpr Rewrite list[] = {
      {"fold_constants", nullptr, fold_constants},
      {"fold_batch_norm", fold_batch_norm, nullptr},
      {"fuse_rms_norm", fuse_rms_norm, nullptr},
      {"divide", divide, nullptr},
      {"fuse_gelu", fuse_gelu, nullptr},
      {"unflatten_gemm", unflatten_gemm, nullptr},
      {"repeat_by_gather", repeat_by_gather, nullptr},
      {"slice_of_split", slice_of_split, nullptr},
      {"move_apart", move_apart, nullptr},
      {"join_moves", join_moves, nullptr},
      {"split_slices", nullptr, split_slices},
  };
  return list;
}

void apply(const Rewrite& rewrite, Builder& b) {
  if (rewrite.on_node)
    each_node(b, rewrite.on_node);
  else
    rewrite.on_graph(b);
}

}  // namespace lithify::rewrite
