// Tensors whose elements are in memory: strided views of bytes that somebody owns (a mapped file, a buffer).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "base/vector.hpp"

namespace lithify {

/// One storage: bytes kept alive by `owner`. Views share it; identity of the Storage is identity of the memory.
struct Storage {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// A strided view of a storage, as PyTorch stores a tensor: offset, sizes and strides in elements.
/// Every view that a reader hands out has been checked: all its elements lie inside the storage.
struct TensorView {
  DType dtype = DType::Undefined;
  Vector<int64_t> sizes;
  Vector<int64_t> strides;
  int64_t offset = 0;
  std::shared_ptr<const Storage> storage;

  /// A new dense tensor that owns `data`.
  static TensorView dense(DType dtype, std::vector<int64_t> sizes, std::vector<std::byte> data);

  int64_t numel() const;
  bool contiguous() const;
  size_t nbytes() const;
  const std::byte* element(int64_t element_offset) const {
    return storage->bytes.data() + static_cast<size_t>(offset + element_offset) * byte_size(dtype);
  }
  TensorView permuted(std::span<const int64_t> dims) const;
  /// Elements [start, start + length) of one dimension.
  TensorView narrowed(size_t dim, int64_t start, int64_t length) const;
  /// The same elements under other sizes; empty when that needs a copy.
  std::optional<TensorView> reshaped(std::vector<int64_t> new_sizes) const;
  /// All elements copied out in row-major order. For small tensors only.
  std::vector<std::byte> dense_bytes() const;
};

/// Appends all elements of a view in row-major order, converted: of integer, bool and floating tensors. Throws
/// UnsupportedType for others. For small tensors only.
void append_elements(const TensorView& view, std::vector<int64_t>& out);
void append_elements(const TensorView& view, std::vector<double>& out);
Vector<int64_t> integers_of(const TensorView& view);

/// Row-major strides of `sizes`.
Vector<int64_t> row_major_strides(std::span<const int64_t> sizes);

/// Calls `emit(pointer, bytes)` with runs of bytes that make up the view in row-major order. Runs are as long as the
/// strides allow; a view that is not contiguous is gathered through a bounded buffer.
void for_each_run(const TensorView& view, const std::function<void(const std::byte*, size_t)>& emit);

}  // namespace lithify
