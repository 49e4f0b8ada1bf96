// Element types, as PyTorch has them, and their numbers in ONNX and in PyTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lithify {

/// Enumerators have the numbers of ONNX's TensorProto.DataType where ONNX has the type.
enum class DType : uint8_t {
  Undefined = 0,
  Float = 1,
  UInt8 = 2,
  Int8 = 3,
  UInt16 = 4,
  Int16 = 5,
  Int32 = 6,
  Int64 = 7,
  String = 8,
  Bool = 9,
  Half = 10,
  Double = 11,
  UInt32 = 12,
  UInt64 = 13,
  ComplexFloat = 14,
  ComplexDouble = 15,
  BFloat16 = 16,
  Float8E4M3FN = 17,
  Float8E4M3FNUZ = 18,
  Float8E5M2 = 19,
  Float8E5M2FNUZ = 20,
  UInt4 = 21,
  Int4 = 22,
  Float8E8M0FNU = 24,
  // Types that only PyTorch has.
  ComplexHalf = 64,
  QInt8 = 65,
  QUInt8 = 66,
  QInt32 = 67,
};

/// Bytes of one element; 0 for Undefined and String, and where two elements share a byte.
size_t byte_size(DType t);
/// Bytes of so many elements, which follow one another without gaps.
size_t byte_size(DType t, size_t elements);
/// "float32", "int64", "bool", ...: PyTorch's name without the "torch." prefix.
std::string_view name_of(DType t);
/// The inverse of name_of; also takes PyTorch's short forms ("float", "double", "half", "long", "int", "short").
std::optional<DType> dtype_named(std::string_view name);
/// PyTorch's scalar type number, as TorchScript code has it (6 is float32).
std::optional<DType> dtype_of_torch(int64_t number);
int64_t torch_number(DType t);

bool is_float(DType t);         ///< floating point, not complex
bool is_16_bit_float(DType t);  ///< float16 or bfloat16
bool is_complex(DType t);
/// The type of the parts of a complex type; any other type is its own.
DType part_type(DType t);
/// The complex type whose parts have this floating type; complex64 for all that is not floating.
DType complex_type(DType t);
bool is_integer(DType t);  ///< signed or unsigned, not bool
bool is_unsigned(DType t);

}  // namespace lithify
