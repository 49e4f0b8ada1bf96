// What goes where in a file, known before the first byte is written, so that several threads can write it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "base/quantized.hpp"
#include "onnx/graph.hpp"
#include "write/file.hpp"

namespace lithify::write {

/// Counts the bytes of all files and reports them to the caller of write_model.
class Progress {
 public:
  using Callback = std::function<void(uint64_t done, uint64_t total)>;
  Progress(const Callback& callback, uint64_t total) : callback_(callback), total_(total) {}
  void add(uint64_t bytes) { done_ += bytes; }
  /// Only on the calling thread.
  void report() const {
    if (callback_) callback_(done_, total_);
  }

 private:
  const Callback& callback_;
  uint64_t total_;
  std::atomic<uint64_t> done_{0};
};

/// The contents of one file, added in the order of their offsets. Refers to the bytes and tensors that it is given.
class Plan {
 public:
  void add(std::string_view bytes);
  void add(const onnx::Tensor& tensor);
  /// Leaves a hole of zeros up to `offset`.
  void skip_to(uint64_t offset) { size_ = offset; }
  uint64_t size() const { return size_; }
  /// Without the holes.
  uint64_t bytes() const { return bytes_; }

  /// Writes everything, with a second thread when there is much. Memory is bounded by buffers of a fixed size.
  void run(const Output& out, Progress& progress) const;

 private:
  /// A view that is not contiguous, or whose elements change as they are written.
  struct Gathered {
    TensorView view;
    const float* scale;  ///< one for each index of the first dimension; may be nullptr
    DType to;            ///< what elements are rounded to

    uint64_t bytes() const { return byte_size(to, static_cast<size_t>(view.numel())); }
  };
  /// Rows of a matrix, of whose quantized form a part is written.
  struct Rows {
    TensorView matrix;
    Quantized part;
    DType to;  ///< what scales are rounded to; others have this type already
  };
  using Contents = std::variant<std::span<const std::byte>, Gathered, Rows>;
  struct Part {
    uint64_t offset;
    uint64_t size;
    Contents contents;
  };
  class Worker;

  void add(std::span<const std::byte> bytes);
  void add(const Gathered& gathered);
  void add(const TensorView& matrix, const Quantized& part, DType to);
  void append(uint64_t size, Contents contents);
  /// Indices of the parts at which a job begins, and the end.
  std::vector<size_t> jobs() const;

  std::vector<Part> parts_;
  uint64_t size_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace lithify::write
