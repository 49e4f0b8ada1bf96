// What of C++20 the library of emscripten 3.1.6 (libc++ 13) lacks and the core uses. Its compiler includes this before
// every file; with a newer library it is empty.
#pragma once

#include <version>

#if _LIBCPP_VERSION < 15000
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <memory>
#include <ranges>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

namespace std {

template <class To, class From>
requires(sizeof(To) == sizeof(From) && is_trivially_copyable_v<To> && is_trivially_copyable_v<From>) constexpr To
    bit_cast(const From& from) noexcept {
  return __builtin_bit_cast(To, from);
}

template <class T>
requires is_array_v<T> unique_ptr<T> make_unique_for_overwrite(size_t size) {
  return unique_ptr<T>(new remove_extent_t<T>[size]);
}
template <class T>
requires is_array_v<T> shared_ptr<T> make_shared_for_overwrite(size_t size) {
  return shared_ptr<T>(new remove_extent_t<T>[size]);
}

class jthread : public thread {
 public:
  using thread::thread;
  jthread(jthread&&) = default;
  jthread& operator=(jthread&&) = default;
  ~jthread() {
    if (joinable()) join();
  }
};

/// The longest decimal number at the start.
template <class T>
requires is_floating_point_v<T> from_chars_result from_chars(const char* first, const char* last, T& value) {
  const auto digits = [&](const char* at) {
    while (at != last && *at >= '0' && *at <= '9') ++at;
    return at;
  };
  const char* const start = first + (first != last && *first == '-');
  const char* end = digits(start);
  bool number = end != start;
  if (end != last && *end == '.') {
    const char* const fraction = digits(end + 1);
    number = number || fraction != end + 1;
    end = fraction;
  }
  const string_view word(start, static_cast<size_t>(last - start));
  if (word.starts_with("inf") || word.starts_with("nan")) {
    end = start + (word.starts_with("infinity") ? 8 : 3);
  } else if (!number) {
    return {first, errc::invalid_argument};
  } else if (end != last && (*end == 'e' || *end == 'E')) {
    const char* const exponent = end + 1 + (end + 1 != last && (end[1] == '-' || end[1] == '+'));
    if (digits(exponent) != exponent) end = digits(exponent);
  }
  T found = 0;
  if constexpr (is_same_v<T, float>)
    found = strtof(string(first, end).c_str(), nullptr);
  else
    found = strtod(string(first, end).c_str(), nullptr);
  const bool out_of_range = word[0] != 'i' && isinf(found);
  if (!out_of_range) value = found;
  return {end, out_of_range ? errc::result_out_of_range : errc()};
}

template <class I>
struct boyer_moore_searcher : default_searcher<I> {
  using default_searcher<I>::default_searcher;
};
template <class I>
boyer_moore_searcher(I, I) -> boyer_moore_searcher<I>;

namespace ranges {

template <class I1, class I2>
struct in_in_result {
  I1 in1;
  I2 in2;
};
template <class I, class O>
struct in_out_result {
  I in;
  O out;
};

/// A predicate or comparison of what a projection gives.
template <class F, class P>
constexpr auto projected_by(F& f, P& p) {
  return [&f, &p](auto&&... x) -> decltype(auto) {
    return std::invoke(f, std::invoke(p, std::forward<decltype(x)>(x))...);
  };
}

template <range R, class F, class P = identity>
constexpr auto find_if(R&& r, F f, P p = {}) {
  return std::find_if(ranges::begin(r), ranges::end(r), projected_by(f, p));
}
template <range R, class F, class P = identity>
constexpr auto find_if_not(R&& r, F f, P p = {}) {
  return std::find_if_not(ranges::begin(r), ranges::end(r), projected_by(f, p));
}
template <range R, class T, class P = identity>
constexpr auto find(R&& r, const T& value, P p = {}) {
  return ranges::find_if(
      r, [&](const auto& x) { return x == value; }, p);
}
template <class I, class T>
constexpr I find(I first, I last, const T& value) {
  return std::find(first, last, value);
}
template <range R, class F, class P = identity>
constexpr bool any_of(R&& r, F f, P p = {}) {
  return ranges::find_if(r, std::ref(f), p) != ranges::end(r);
}
template <range R, class F, class P = identity>
constexpr bool all_of(R&& r, F f, P p = {}) {
  return ranges::find_if_not(r, std::ref(f), p) == ranges::end(r);
}
template <range R, class F, class P = identity>
constexpr bool none_of(R&& r, F f, P p = {}) {
  return !ranges::any_of(r, std::ref(f), p);
}
template <range R, class F, class P = identity>
constexpr auto count_if(R&& r, F f, P p = {}) {
  return std::count_if(ranges::begin(r), ranges::end(r), projected_by(f, p));
}
template <range R, class T, class P = identity>
constexpr auto count(R&& r, const T& value, P p = {}) {
  return ranges::count_if(
      r, [&](const auto& x) { return x == value; }, p);
}
template <range R, class F, class P = identity>
constexpr F for_each(R&& r, F f, P p = {}) {
  for (auto&& x : r) std::invoke(f, std::invoke(p, x));
  return f;
}

template <range R, class F = less, class P = identity>
constexpr void sort(R&& r, F f = {}, P p = {}) {
  std::sort(ranges::begin(r), ranges::end(r), projected_by(f, p));
}
template <range R, class F = less, class P = identity>
void stable_sort(R&& r, F f = {}, P p = {}) {
  std::stable_sort(ranges::begin(r), ranges::end(r), projected_by(f, p));
}
template <range R, class F = less, class P = identity>
constexpr bool is_sorted(R&& r, F f = {}, P p = {}) {
  return std::is_sorted(ranges::begin(r), ranges::end(r), projected_by(f, p));
}
template <range R, class F = equal_to, class P = identity>
constexpr auto adjacent_find(R&& r, F f = {}, P p = {}) {
  return std::adjacent_find(ranges::begin(r), ranges::end(r), projected_by(f, p));
}
template <range R, class F = less, class P = identity>
constexpr auto min_element(R&& r, F f = {}, P p = {}) {
  return std::min_element(ranges::begin(r), ranges::end(r), projected_by(f, p));
}
template <range R, class F = less, class P = identity>
constexpr auto max_element(R&& r, F f = {}, P p = {}) {
  return std::max_element(ranges::begin(r), ranges::end(r), projected_by(f, p));
}
template <range R, class F = less, class P = identity>
constexpr auto min(R&& r, F f = {}, P p = {}) {
  return *ranges::min_element(r, f, p);
}
template <range R, class T, class F = less, class P = identity>
constexpr auto lower_bound(R&& r, const T& value, F f = {}, P p = {}) {
  return std::lower_bound(ranges::begin(r), ranges::end(r), value,
                          [&](auto&& x, const T& v) { return std::invoke(f, std::invoke(p, x), v); });
}
template <range R, class T, class F = less, class P = identity>
constexpr auto upper_bound(R&& r, const T& value, F f = {}, P p = {}) {
  return std::upper_bound(ranges::begin(r), ranges::end(r), value,
                          [&](const T& v, auto&& x) { return std::invoke(f, v, std::invoke(p, x)); });
}

template <range A, range B, class F = equal_to, class PA = identity, class PB = identity>
constexpr bool equal(A&& a, B&& b, F f = {}, PA pa = {}, PB pb = {}) {
  return std::equal(ranges::begin(a), ranges::end(a), ranges::begin(b), ranges::end(b),
                    [&](auto&& x, auto&& y) { return std::invoke(f, std::invoke(pa, x), std::invoke(pb, y)); });
}
template <range A, range B, class F = equal_to>
constexpr auto mismatch(A&& a, B&& b, F f = {}) {
  const auto [x, y] = std::mismatch(ranges::begin(a), ranges::end(a), ranges::begin(b), ranges::end(b), std::ref(f));
  return in_in_result<decltype(x), decltype(y)>{x, y};
}
template <range A, range B, class F = less>
constexpr bool includes(A&& a, B&& b, F f = {}) {
  return std::includes(ranges::begin(a), ranges::end(a), ranges::begin(b), ranges::end(b), std::ref(f));
}

template <range R, class O>
constexpr auto copy(R&& r, O out) {
  return in_out_result<iterator_t<R>, O>{ranges::end(r), std::copy(ranges::begin(r), ranges::end(r), out)};
}
template <range R, class O, class F, class P = identity>
constexpr auto copy_if(R&& r, O out, F f, P p = {}) {
  return in_out_result<iterator_t<R>, O>{ranges::end(r),
                                         std::copy_if(ranges::begin(r), ranges::end(r), out, projected_by(f, p))};
}
template <range R, class O>
constexpr auto move(R&& r, O out) {
  return in_out_result<iterator_t<R>, O>{ranges::end(r), std::move(ranges::begin(r), ranges::end(r), out)};
}
template <range R, class O, class F, class P = identity>
constexpr auto transform(R&& r, O out, F f, P p = {}) {
  return in_out_result<iterator_t<R>, O>{ranges::end(r),
                                         std::transform(ranges::begin(r), ranges::end(r), out, projected_by(f, p))};
}
template <range R>
constexpr void reverse(R&& r) {
  std::reverse(ranges::begin(r), ranges::end(r));
}
template <range R, class T>
constexpr void replace(R&& r, const T& before, const T& after) {
  std::replace(ranges::begin(r), ranges::end(r), before, after);
}
template <range R, class F, class T, class P = identity>
constexpr void replace_if(R&& r, F f, const T& after, P p = {}) {
  std::replace_if(ranges::begin(r), ranges::end(r), projected_by(f, p), after);
}
template <range A, range B, class O, class F = less>
constexpr void merge(A&& a, B&& b, O out, F f = {}) {
  std::merge(ranges::begin(a), ranges::end(a), ranges::begin(b), ranges::end(b), out, std::ref(f));
}
template <range A, range B, class O, class F = less>
constexpr void set_intersection(A&& a, B&& b, O out, F f = {}) {
  std::set_intersection(ranges::begin(a), ranges::end(a), ranges::begin(b), ranges::end(b), out, std::ref(f));
}
template <range A, range B, class O, class F = less>
constexpr void set_difference(A&& a, B&& b, O out, F f = {}) {
  std::set_difference(ranges::begin(a), ranges::end(a), ranges::begin(b), ranges::end(b), out, std::ref(f));
}

}  // namespace ranges
}  // namespace std
#endif
