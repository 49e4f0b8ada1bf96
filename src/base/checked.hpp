// Integer arithmetic on numbers from files: overflow is an error, never a wrap-around.
#pragma once

#include <cstdint>
#include <optional>

#include "base/diagnostic.hpp"

namespace lithify {

inline int64_t checked_add(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) throw Error(Code::LimitExceeded, "an integer does not fit into 64 bits");
  return r;
}

inline int64_t checked_mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) throw Error(Code::LimitExceeded, "an integer does not fit into 64 bits");
  return r;
}

inline int64_t checked_sub(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_sub_overflow(a, b, &r)) throw Error(Code::LimitExceeded, "an integer does not fit into 64 bits");
  return r;
}

/// The integer part of a number, if it fits.
inline std::optional<int64_t> truncated(double v) {
  constexpr double end = 0x1p63;
  if (!(v >= -end && v < end)) return std::nullopt;
  return static_cast<int64_t>(v);
}
/// The integer that a number is, if it is one.
inline std::optional<int64_t> exact_integer(double v) {
  const std::optional<int64_t> whole = truncated(v);
  return whole && static_cast<double>(*whole) == v ? whole : std::nullopt;
}
/// The integer part of a number, which must fit.
inline int64_t checked_integer(double v) {
  if (const std::optional<int64_t> whole = truncated(v)) return *whole;
  throw Error(Code::LimitExceeded, "a number does not fit into 64 bits");
}

/// Floor division and the modulo that goes with it, as Python's // and %. `b` is not 0.
inline int64_t floor_div(int64_t a, int64_t b) {
  if (b == -1) return checked_mul(a, -1);
  int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}
inline int64_t floor_mod(int64_t a, int64_t b) {
  if (b == -1) return 0;
  int64_t r = a % b;
  return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r;
}

}  // namespace lithify
