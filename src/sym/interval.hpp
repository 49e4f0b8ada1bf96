// Intervals of integers with open ends, for what is known of an expression's value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/checked.hpp"

namespace lithify::sym {

/// lo <= value <= hi. The extreme values of int64_t stand for "unknown", so a result that does not fit is unknown too.
struct Interval {
  static constexpr int64_t kNoLower = std::numeric_limits<int64_t>::min();
  static constexpr int64_t kNoUpper = std::numeric_limits<int64_t>::max();

  int64_t lo = kNoLower;
  int64_t hi = kNoUpper;

  bool has_lower() const { return lo != kNoLower; }
  bool has_upper() const { return hi != kNoUpper; }

  /// The constant, or the widest sound interval for the two constants that stand for "unknown".
  static Interval point(int64_t v) { return {std::min(v, kNoUpper - 1), std::max(v, kNoLower + 1)}; }
};

namespace interval_detail {

inline int64_t lower_of(__int128 v) {
  if (v <= Interval::kNoLower) return Interval::kNoLower;
  return v >= Interval::kNoUpper ? Interval::kNoUpper - 1 : static_cast<int64_t>(v);
}
inline int64_t upper_of(__int128 v) {
  if (v >= Interval::kNoUpper) return Interval::kNoUpper;
  return v <= Interval::kNoLower ? Interval::kNoLower + 1 : static_cast<int64_t>(v);
}
inline bool open(int64_t v) { return v == Interval::kNoLower || v == Interval::kNoUpper; }

/// A product of two ends, where an open end times 0 is 0.
inline __int128 product(int64_t x, int64_t y) {
  if (x == 0 || y == 0) return 0;
  if (open(x) || open(y)) return (x < 0) == (y < 0) ? Interval::kNoUpper : Interval::kNoLower;
  return static_cast<__int128>(x) * y;
}

/// floor(x / y) for y >= 1, either of which may be open.
inline int64_t quotient(int64_t x, int64_t y) {
  if (open(x)) return x;
  if (y == Interval::kNoUpper) return x < 0 ? -1 : 0;
  return lithify::floor_div(x, y);
}

}  // namespace interval_detail

inline Interval operator+(Interval a, Interval b) {
  Interval r;
  if (a.has_lower() && b.has_lower()) r.lo = interval_detail::lower_of(static_cast<__int128>(a.lo) + b.lo);
  if (a.has_upper() && b.has_upper()) r.hi = interval_detail::upper_of(static_cast<__int128>(a.hi) + b.hi);
  return r;
}

inline Interval operator*(Interval a, Interval b) {
  using namespace interval_detail;
  auto [lo, hi] = std::minmax({product(a.lo, b.lo), product(a.lo, b.hi), product(a.hi, b.lo), product(a.hi, b.hi)});
  return {lower_of(lo), upper_of(hi)};
}

inline Interval operator-(Interval a) {
  return {a.has_upper() ? interval_detail::lower_of(-static_cast<__int128>(a.hi)) : Interval::kNoLower,
          a.has_lower() ? interval_detail::upper_of(-static_cast<__int128>(a.lo)) : Interval::kNoUpper};
}

inline Interval intersect(Interval a, Interval b) { return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)}; }

/// The range of floor(a / b) for nonzero b.
inline Interval floor_div(Interval a, Interval b) {
  using interval_detail::quotient;
  if (b.lo < 0 && b.hi <= 0) return floor_div(-a, -b);
  if (b.lo < 0) {
    // Rounding never takes a quotient further from 0 than the dividend is.
    Interval both = -a;
    return {std::min({a.lo, both.lo, int64_t{0}}), std::max({a.hi, both.hi, int64_t{0}})};
  }
  int64_t least = std::max<int64_t>(b.lo, 1), most = std::max<int64_t>(b.hi, 1);
  return {std::min(quotient(a.lo, least), quotient(a.lo, most)), std::max(quotient(a.hi, least), quotient(a.hi, most))};
}

/// The range of a - b * floor(a / b) for nonzero b.
inline Interval floor_mod(Interval a, Interval b) {
  Interval r{b.lo < 0 ? (b.has_lower() ? b.lo + 1 : Interval::kNoLower) : 0,
             b.hi > 0 ? (b.has_upper() ? b.hi - 1 : Interval::kNoUpper) : 0};
  if (b.lo >= 0 && a.lo >= 0) r.hi = std::min(r.hi, a.hi);
  return r;
}

}  // namespace lithify::sym
