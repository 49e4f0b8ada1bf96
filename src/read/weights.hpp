// Files that have only weights: names, types and sizes of their tensors. The contents are not read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "archive/pickle.hpp"
#include "base/dtype.hpp"

namespace lithify::read {

struct WeightFile {
  struct Tensor {
    std::string name;  ///< keys of dictionaries inside each other have dots between them
    std::string dtype;
    std::vector<int64_t> sizes;
    uint64_t bytes = 0;
  };
  std::string kind;  ///< "state dict" or "safetensors"
  std::vector<Tensor> tensors;
};

/// A dictionary, plain or ordered.
bool is_dict(const archive::PickleValue& value);

/// The tensors of a file of torch.save or of safetensors; nothing when the file is of another kind, has no tensors, or
/// is damaged.
std::optional<WeightFile> read_weights(const archive::Record& contents);

}  // namespace lithify::read
