// Integer arithmetic on numbers from files: overflow is an error, never a wrap-around.
#pragma once

#include <cstdint>

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
