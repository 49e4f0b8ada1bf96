// The external data file: which tensor lies where.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "onnx/graph.hpp"

namespace lithify::write {

class ExternalData {
 public:
  /// Smaller tensors stay in the model: tools read shapes and axes from them without the data file.
  static constexpr size_t smallest = 1024;

  struct Region {
    uint64_t offset;
    const onnx::Tensor* tensor;
  };

  /// `location` is the file's name as the model refers to it: relative to the model's directory.
  explicit ExternalData(std::string location) : location_(std::move(location)) {}

  /// The offset of the tensor's bytes. A tensor of the same pieces as an earlier one gets that one's region.
  /// Regions start at multiples of 4 KiB, and of 64 KiB from 1 MiB on, so that runtimes can map them on every system.
  uint64_t place(const onnx::Tensor& tensor);

  const std::string& location() const { return location_; }
  const std::vector<Region>& regions() const { return regions_; }
  uint64_t size() const { return size_; }
  /// Without the padding between regions.
  uint64_t weight_bytes() const { return weight_bytes_; }

 private:
  std::string location_;
  std::vector<Region> regions_;
  std::map<std::string, uint64_t> placed_;
  uint64_t size_ = 0;
  uint64_t weight_bytes_ = 0;
};

}  // namespace lithify::write
