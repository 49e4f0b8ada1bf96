#include "base/dtype.hpp"

#include <array>

namespace lithify {
namespace {

enum class ElementKind : uint8_t { Other, Float, Complex, Signed, Unsigned, Bool };

struct Row {
  DType type;
  std::string_view name;
  std::string_view alias;
  int torch;  // PyTorch's scalar type number, -1 when it has none
  uint8_t bytes;
  ElementKind kind;
};

constexpr std::array rows{
    Row{DType::UInt8, "uint8", "byte", 0, 1, ElementKind::Unsigned},
    Row{DType::Int8, "int8", "char", 1, 1, ElementKind::Signed},
    Row{DType::Int16, "int16", "short", 2, 2, ElementKind::Signed},
    Row{DType::Int32, "int32", "int", 3, 4, ElementKind::Signed},
    Row{DType::Int64, "int64", "long", 4, 8, ElementKind::Signed},
    Row{DType::Half, "float16", "half", 5, 2, ElementKind::Float},
    Row{DType::Float, "float32", "float", 6, 4, ElementKind::Float},
    Row{DType::Double, "float64", "double", 7, 8, ElementKind::Float},
    Row{DType::ComplexHalf, "complex32", "chalf", 8, 4, ElementKind::Complex},
    Row{DType::ComplexFloat, "complex64", "cfloat", 9, 8, ElementKind::Complex},
    Row{DType::ComplexDouble, "complex128", "cdouble", 10, 16, ElementKind::Complex},
    Row{DType::Bool, "bool", "", 11, 1, ElementKind::Bool},
    Row{DType::QInt8, "qint8", "", 12, 1, ElementKind::Other},
    Row{DType::QUInt8, "quint8", "", 13, 1, ElementKind::Other},
    Row{DType::QInt32, "qint32", "", 14, 4, ElementKind::Other},
    Row{DType::BFloat16, "bfloat16", "", 15, 2, ElementKind::Float},
    Row{DType::Float8E5M2, "float8_e5m2", "", 23, 1, ElementKind::Float},
    Row{DType::Float8E4M3FN, "float8_e4m3fn", "", 24, 1, ElementKind::Float},
    Row{DType::Float8E5M2FNUZ, "float8_e5m2fnuz", "", 25, 1, ElementKind::Float},
    Row{DType::Float8E4M3FNUZ, "float8_e4m3fnuz", "", 26, 1, ElementKind::Float},
    Row{DType::UInt16, "uint16", "", 27, 2, ElementKind::Unsigned},
    Row{DType::UInt32, "uint32", "", 28, 4, ElementKind::Unsigned},
    Row{DType::UInt64, "uint64", "", 29, 8, ElementKind::Unsigned},
    Row{DType::Float8E8M0FNU, "float8_e8m0fnu", "", 44, 1, ElementKind::Float},
    Row{DType::UInt4, "uint4", "", -1, 0, ElementKind::Unsigned},
    Row{DType::Int4, "int4", "", -1, 0, ElementKind::Signed},
    Row{DType::String, "string", "", -1, 0, ElementKind::Other},
    Row{DType::Undefined, "undefined", "", -1, 0, ElementKind::Other},
};

const Row& row(DType t) {
  for (const Row& r : rows)
    if (r.type == t) return r;
  return rows.back();
}

}  // namespace

size_t byte_size(DType t) { return row(t).bytes; }
size_t byte_size(DType t, size_t elements) {
  return t == DType::UInt4 || t == DType::Int4 ? elements / 2 + elements % 2 : elements * byte_size(t);
}
std::string_view name_of(DType t) { return row(t).name; }

std::optional<DType> dtype_named(std::string_view name) {
  for (const Row& r : rows)
    if (r.torch >= 0 && (r.name == name || (!r.alias.empty() && r.alias == name))) return r.type;
  return std::nullopt;
}

std::optional<DType> dtype_of_torch(int64_t number) {
  for (const Row& r : rows)
    if (r.torch >= 0 && r.torch == number) return r.type;
  return std::nullopt;
}

int64_t torch_number(DType t) { return row(t).torch; }
bool is_float(DType t) { return row(t).kind == ElementKind::Float; }
bool is_16_bit_float(DType t) { return t == DType::Half || t == DType::BFloat16; }
bool is_complex(DType t) { return row(t).kind == ElementKind::Complex; }
DType part_type(DType t) {
  switch (t) {
    case DType::ComplexHalf:
      return DType::Half;
    case DType::ComplexFloat:
      return DType::Float;
    case DType::ComplexDouble:
      return DType::Double;
    default:
      return t;
  }
}
DType complex_type(DType t) {
  if (is_complex(t)) return t;
  return t == DType::Half ? DType::ComplexHalf : t == DType::Double ? DType::ComplexDouble : DType::ComplexFloat;
}
bool is_integer(DType t) { return row(t).kind == ElementKind::Signed || row(t).kind == ElementKind::Unsigned; }
bool is_unsigned(DType t) { return row(t).kind == ElementKind::Unsigned; }

}  // namespace lithify
