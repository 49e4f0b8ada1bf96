// Matrices of a floating type as small integers: each block of elements along one axis has a scale of its own, and with
// unsigned integers a zero point. x is about (integer - zero point) * scale, as DequantizeLinear computes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "base/tensor.hpp"

namespace lithify {

/// How far the integers of a matrix are from its elements, summed up while they are computed, by any threads.
class QuantizationError {
 public:
  explicit QuantizationError(std::string name) : weight(std::move(name)) {}
  void add(double squared_differences, double squared_elements);
  /// The root of the mean square of the differences, as a part of that of the elements.
  double relative() const;

  const std::string weight;  ///< what the matrix is called

 private:
  mutable std::mutex mutex_;
  double differences_ = 0, elements_ = 0;
};

/// One of the tensors that a quantized matrix consists of. `axis` of the scales and zero points has one element for
/// each block.
struct Quantized {
  enum class Part : uint8_t { Integers, Scales, ZeroPoints };
  DType integers = DType::Int8;  ///< Int4, UInt4, Int8 or UInt8
  size_t axis = 0;
  int64_t block = 32;  ///< a multiple of 2, at most 256, that divides the size of the axis
  Part part = Part::Integers;
  /// In the bytes that MatMulNBits of ONNX Runtime takes: signed integers are stored as unsigned ones with the zero
  /// point in the middle, and each row of zero points begins with a byte. The matrix is [out, in], and `axis` is 1.
  bool packed = false;
  std::shared_ptr<QuantizationError> error = nullptr;  ///< of integers: what is to be told, if anything

  bool operator==(const Quantized&) const = default;
};

/// Whether a view can be quantized so: a matrix of float32, float16 or bfloat16 that has whole blocks.
bool can_quantize(const TensorView& matrix, size_t axis, int64_t block);
/// Whether all elements are finite: others have no integer.
bool is_finite(const TensorView& matrix);

DType dtype_of(const Quantized& part, const TensorView& matrix);
Vector<int64_t> sizes_of(const Quantized& part, const TensorView& matrix);
size_t byte_size(const Quantized& part, const TensorView& matrix);

/// Computes the part, in row-major order and packed as ONNX packs it. `out` has its size.
void quantize(const Quantized& part, const TensorView& matrix, std::span<std::byte> out);

}  // namespace lithify
