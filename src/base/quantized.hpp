// Matrices of a floating type as small integers: each block of elements along one axis has a scale of its own, and with
// unsigned integers a zero point. x is about (integer - zero point) * scale, as DequantizeLinear computes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/tensor.hpp"

namespace lithify {

/// One of the tensors that a quantized matrix consists of. All have two dimensions; `axis` of the scales and zero
/// points has one element for each block.
struct Quantized {
  enum class Part : uint8_t { Integers, Scales, ZeroPoints };
  DType integers = DType::Int8;  ///< Int4, UInt4, Int8 or UInt8
  size_t axis = 0;
  int64_t block = 32;  ///< a multiple of 2, at most 256, that divides the size of the axis
  Part part = Part::Integers;

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
