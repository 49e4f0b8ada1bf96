// PyTorch's type promotion: dimensioned tensors before 0-d tensors before Python numbers.
#include <algorithm>

#include "eval/call.hpp"

namespace lithify::eval {
namespace {

// bool < integers < floats < complex.
int category(DType t) {
  if (is_complex(t)) return 3;
  if (is_float(t)) return 2;
  return is_integer(t) ? 1 : 0;
}

DType promote_integers(DType a, DType b) {
  bool ua = is_unsigned(a), ub = is_unsigned(b);
  size_t sa = byte_size(a), sb = byte_size(b);
  if (ua == ub) return sa >= sb ? a : b;
  // An unsigned type is held by the next wider signed one.
  DType unsigned_type = ua ? a : b, signed_type = ua ? b : a;
  if (byte_size(signed_type) > byte_size(unsigned_type)) return signed_type;
  switch (byte_size(unsigned_type)) {
    case 1:
      return DType::Int16;
    case 2:
      return DType::Int32;
    default:
      return DType::Int64;
  }
}

DType promote_floats(DType a, DType b) {
  size_t sa = byte_size(a), sb = byte_size(b);
  if (sa != sb) return sa > sb ? a : b;
  return DType::Float;  // half and bfloat16
}

DType complex_of(DType t) {
  return t == DType::Double || t == DType::ComplexDouble ? DType::ComplexDouble : DType::ComplexFloat;
}

}  // namespace

DType promote(DType a, DType b) {
  if (a == b || b == DType::Undefined) return a;
  if (a == DType::Undefined) return b;
  int ca = category(a), cb = category(b);
  if (ca == 3 || cb == 3) {
    bool wide = complex_of(a) == DType::ComplexDouble || complex_of(b) == DType::ComplexDouble;
    return wide ? DType::ComplexDouble : DType::ComplexFloat;
  }
  if (ca != cb) return ca > cb ? a : b;
  if (ca == 2) return promote_floats(a, b);
  return ca == 1 ? promote_integers(a, b) : a;
}

DType result_type(const Vector<Value>& values) {
  DType dimensioned = DType::Undefined, zero = DType::Undefined, number = DType::Undefined;
  for (const Value& v : values) {
    if (v.is_tensor()) {
      const Tensor& t = *v.tensor();
      DType type = t.dtype();
      if (t.is_number) {
        // A Python float is a float of the default type, whatever it was stored as.
        if (type == DType::Double) type = DType::Float;
        if (type == DType::ComplexDouble) type = DType::ComplexFloat;
        number = promote(number, type);
      } else {
        DType& into = t.rank() > 0 ? dimensioned : zero;
        into = promote(into, type);
      }
    } else if (v.is_int()) {
      number = promote(number, DType::Int64);
    } else if (v.is<double>()) {
      number = promote(number, DType::Float);
    } else if (v.is<bool>()) {
      number = promote(number, DType::Bool);
    } else if (v.is<std::complex<double>>()) {
      number = promote(number, DType::ComplexFloat);
    }
  }
  // A lower rank of operand changes the type only if it is of a higher category.
  auto combine = [](DType higher, DType lower) {
    if (higher == DType::Undefined) return lower;
    if (lower == DType::Undefined || category(higher) >= category(lower)) return higher;
    return promote(higher, lower);
  };
  return combine(combine(dimensioned, zero), number);
}

}  // namespace lithify::eval
