#include "base/quantized.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/diagnostic.hpp"
#include "base/half.hpp"

namespace lithify {
namespace {

/// Elements of a matrix as float32, and scales in the matrix's type.
template <class Bits, float (*load)(Bits), Bits (*store)(float)>
struct Elements {
  using Stored = Bits;
  static float get(const std::byte* at) {
    Bits bits;
    std::memcpy(&bits, at, sizeof bits);
    return load(bits);
  }
  static void put(std::byte* at, float value) {
    const Bits bits = store(value);
    std::memcpy(at, &bits, sizeof bits);
  }
  static float rounded(float value) { return load(store(value)); }
};
float same(float value) { return value; }
using Floats = Elements<float, same, same>;
using Halves = Elements<uint16_t, float_from_half, half_from_float>;
using BFloats = Elements<uint16_t, float_from_bfloat16, bfloat16_from_float>;

/// Calls `run` with the functions of the element type.
template <class Run>
auto with_elements(DType dtype, Run run) {
  switch (dtype) {
    case DType::Float:
      return run(Floats());
    case DType::Half:
      return run(Halves());
    case DType::BFloat16:
      return run(BFloats());
    default:
      throw Error(Code::Internal, "a matrix that is quantized is not of a floating point type");
  }
}

struct Range {
  int low, high;
};

Range range_of(DType integers) {
  switch (integers) {
    case DType::Int4:
      return {-8, 7};
    case DType::UInt4:
      return {0, 15};
    case DType::Int8:
      return {-128, 127};
    default:
      return {0, 255};
  }
}

/// The nearest integer, the even one of two, of a number below 2^22. Compilers make vectors of it.
int rounded(float value) {
  constexpr float large = 0x1.8p23F;
  return std::bit_cast<int32_t>(value + large) - std::bit_cast<int32_t>(large);
}

struct Step {
  float scale;
  int zero_point;
};

constexpr size_t largest_block = 256;

/// The scale and zero point of a block: the element of the largest magnitude is the lowest integer, which signed types
/// have one more of; unsigned ones have both ends of the block, and 0.
template <class E>
Step step_of(std::span<const float> block, Range range) {
  float least = 0, most = 0;
  for (const float value : block) {
    least = value < least ? value : least;
    most = value > most ? value : most;
  }
  if (range.low < 0) return {E::rounded((-least > most ? least : most) / static_cast<float>(range.low)), 0};
  const float scale = E::rounded((most - least) / static_cast<float>(range.high));
  return {scale, scale == 0 ? 0 : std::clamp(rounded(-least / scale), range.low, range.high)};
}

class Quantizer {
 public:
  Quantizer(const Quantized& part, const TensorView& matrix, std::span<std::byte> out)
      : part_(part), matrix_(matrix), out_(out), range_(range_of(part.integers)) {}

  template <class E>
  void run() {
    const size_t across = 1 - part_.axis;
    const int64_t lines = matrix_.sizes[across];
    const std::span<float> values(values_.data(), static_cast<size_t>(part_.block));
    // So many lines at a time that what is read and what is written stays in the cache, whichever is transposed.
    constexpr int64_t together = 64;
    for (int64_t first = 0; first < lines; first += together)
      for (int64_t block = 0; block < blocks(); ++block)
        for (int64_t line = first; line < std::min(first + together, lines); ++line) {
          load<E>(block * part_.block * matrix_.strides[part_.axis] + line * matrix_.strides[across], values);
          put_block<E>(step_of<E>(values, range_), values, block, line);
        }
    if (part_.error) part_.error->add(differences_, elements_);
  }

 private:
  template <class E>
  void load(int64_t offset, std::span<float> values) const {
    constexpr size_t bytes = sizeof(typename E::Stored);
    const std::byte* first = matrix_.element(offset);
    if (const int64_t stride = matrix_.strides[part_.axis]; stride != 1) {
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = E::get(first + static_cast<int64_t>(i) * stride * static_cast<int64_t>(bytes));
    } else {
      for (size_t i = 0; i < values.size(); ++i) values[i] = E::get(first + i * bytes);
    }
  }

  template <class E>
  void put_block(const Step& step, std::span<float> values, int64_t block, int64_t line) {
    const int64_t at = position(block, line, part_.part == Quantized::Part::ZeroPoints ? zero_points_ : blocks());
    if (part_.part == Quantized::Part::Scales)
      return E::put(out_.data() + at * static_cast<int64_t>(sizeof(typename E::Stored)), step.scale);
    if (part_.part == Quantized::Part::ZeroPoints) return put(at, step.zero_point);
    std::array<int, largest_block> integers;
    const float inverse = step.scale == 0 ? 0 : 1 / step.scale;
    for (size_t i = 0; i < values.size(); ++i) {
      const int integer = rounded(values[i] * inverse) + step.zero_point;
      integers[i] = std::clamp(integer, range_.low, range_.high);
    }
    if (part_.error) compare(step, values, integers);
    const int64_t begin = position(block * part_.block, line, matrix_.sizes[part_.axis]);
    const int64_t next = part_.axis == 0 ? matrix_.sizes[1] : 1;
    for (size_t i = 0; i < values.size(); ++i) put(begin + static_cast<int64_t>(i) * next, integers[i]);
  }

  void compare(const Step& step, std::span<const float> values, const std::array<int, largest_block>& integers) {
    float differences = 0, elements = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const float difference = static_cast<float>(integers[i] - step.zero_point) * step.scale - values[i];
      differences += difference * difference;
      elements += values[i] * values[i];
    }
    differences_ += static_cast<double>(differences);
    elements_ += static_cast<double>(elements);
  }

  /// In row-major order, where the axis has `size` elements.
  int64_t position(int64_t along, int64_t line, int64_t size) const {
    return part_.axis == 0 ? along * matrix_.sizes[1] + line : line * size + along;
  }

  int64_t blocks() const { return matrix_.sizes[part_.axis] / part_.block; }

  void put(int64_t at, int integer) {
    const auto bits = static_cast<uint8_t>(part_.packed ? integer - range_.low : integer);
    if (!is_half_) {
      out_[static_cast<size_t>(at)] = std::byte{bits};
      return;
    }
    std::byte& pair = out_[static_cast<size_t>(at / 2)];
    const auto nibble = static_cast<uint8_t>(bits & 0xfU);
    pair = at % 2 == 0 ? (pair & std::byte{0xf0}) | std::byte{nibble}
                       : (pair & std::byte{0x0f}) | std::byte{static_cast<uint8_t>(nibble << 4U)};
  }

  const Quantized& part_;
  const TensorView& matrix_;
  std::span<std::byte> out_;
  const Range range_;
  const bool is_half_ = byte_size(part_.integers) == 0;  ///< of a byte
  /// Of a row, with those that fill its last byte.
  const int64_t zero_points_ = blocks() + (part_.packed && is_half_ ? blocks() % 2 : 0);
  std::array<float, largest_block> values_;
  double differences_ = 0, elements_ = 0;
};

}  // namespace

void QuantizationError::add(double squared_differences, double squared_elements) {
  const std::lock_guard lock(mutex_);
  differences_ += squared_differences;
  elements_ += squared_elements;
}

double QuantizationError::relative() const {
  const std::lock_guard lock(mutex_);
  return elements_ == 0 ? 0 : std::sqrt(differences_ / elements_);
}

bool can_quantize(const TensorView& matrix, size_t axis, int64_t block) {
  const bool has_type = matrix.dtype == DType::Float || matrix.dtype == DType::Half || matrix.dtype == DType::BFloat16;
  return has_type && matrix.sizes.size() == 2 && matrix.numel() > 0 && matrix.sizes[axis] % block == 0 &&
         block <= static_cast<int64_t>(largest_block);
}

bool is_finite(const TensorView& matrix) {
  return with_elements(matrix.dtype, [&](auto elements) {
    using E = decltype(elements);
    float sum = 0;  // of zeros, and of NaN for what is not finite
    for_each_run(matrix, [&](const std::byte* data, size_t size) {
      std::array<float, 8> sums{};  // as many as a vector has
      const size_t count = size / sizeof(typename E::Stored);
      for (size_t i = 0; i < count; ++i) sums[i % sums.size()] += E::get(data + i * sizeof(typename E::Stored)) * 0;
      for (const float each : sums) sum += each;
    });
    return sum == 0;
  });
}

DType dtype_of(const Quantized& part, const TensorView& matrix) {
  if (part.part == Quantized::Part::Scales) return matrix.dtype;
  return part.packed ? DType::UInt8 : part.integers;
}

Vector<int64_t> sizes_of(const Quantized& part, const TensorView& matrix) {
  Vector<int64_t> sizes = matrix.sizes;
  const auto bytes = [&](int64_t integers) {
    return static_cast<int64_t>(byte_size(part.integers, static_cast<size_t>(integers)));
  };
  const int64_t blocks = sizes[part.axis] / part.block;
  if (part.packed && part.part == Quantized::Part::Integers) return {sizes[0], blocks, bytes(part.block)};
  if (part.packed && part.part == Quantized::Part::ZeroPoints) return {sizes[0], bytes(blocks)};
  if (part.part != Quantized::Part::Integers) sizes[part.axis] = blocks;
  return sizes;
}

size_t byte_size(const Quantized& part, const TensorView& matrix) {
  size_t elements = 1;
  for (const int64_t size : sizes_of(part, matrix)) elements *= static_cast<size_t>(size);
  return byte_size(dtype_of(part, matrix), elements);
}

void quantize(const Quantized& part, const TensorView& matrix, std::span<std::byte> out) {
  with_elements(matrix.dtype, [&](auto elements) { Quantizer(part, matrix, out).run<decltype(elements)>(); });
}

}  // namespace lithify
