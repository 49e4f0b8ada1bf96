#include "driver/other_sizes.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>
#include <span>

namespace lithify::driver {
namespace {

/// Every size one or more steps up (direction 1) or down (-1). Aligned steps keep the powers of two in it, others none.
Sizes moved(const Sizes& sample, int64_t direction, bool aligned) {
  Sizes out;
  std::set<int64_t> used, amounts;
  for (auto& [name, size] : sample) used.insert(size);
  for (auto& [name, size] : sample) {
    const int64_t step = aligned ? aligned_step(size) : 2;
    int64_t amount = aligned ? step : 1;
    while (used.contains(size + direction * amount) || amounts.contains(amount)) amount += step;
    amounts.insert(amount);
    used.insert(size + direction * amount);
    out.emplace_back(name, size + direction * amount);
  }
  return out;
}

/// The first two other dimensions whose sizes add up to that of dimension `i`.
std::optional<std::pair<size_t, size_t>> summands(const Sizes& sample, size_t i) {
  for (size_t a = 0; a < sample.size(); ++a)
    for (size_t b = a + 1; b < sample.size(); ++b)
      if (a != i && b != i && sample[a].second + sample[b].second == sample[i].second) return {{a, b}};
  return std::nullopt;
}

/// A dimension that is the sum of two others stays so: the past, the present, and both.
Sizes with_sums_kept(const Sizes& sample, const Sizes& moved) {
  Sizes out = moved;
  std::vector<size_t> ascending(sample.size());  // a sum may be a summand of a larger one
  std::iota(ascending.begin(), ascending.end(), size_t{0});
  std::ranges::stable_sort(ascending, {}, [&](size_t i) { return sample[i].second; });
  for (size_t i : ascending)
    if (const auto of = summands(sample, i)) out[i].second = out[of->first].second + out[of->second].second;
  return out;
}

/// Dimensions of equal size stay equal: some models need it under whatever names.
Sizes with_equals_kept(const Sizes& sample, const Sizes& moved) {
  Sizes out = moved;
  for (size_t i = 0; i < sample.size(); ++i)
    out[i].second = moved[static_cast<size_t>(std::ranges::find(sample, sample[i].second, &Sizes::value_type::second) -
                                              sample.begin())]
                        .second;
  return out;
}

/// Adds sizes with the relations of the sample, those with most of them first.
void add_moved(const Sizes& sample, const Sizes& plain, std::vector<Sizes>& out) {
  const Sizes equals = with_equals_kept(sample, plain);
  for (const Sizes& candidate : {with_sums_kept(sample, equals), with_sums_kept(sample, plain), equals, plain}) {
    const bool positive = std::ranges::all_of(candidate, [](auto& dimension) { return dimension.second > 0; });
    if (positive && std::ranges::find(out, candidate) == out.end()) out.push_back(candidate);
  }
}

}  // namespace

int64_t aligned_step(int64_t size) {
  int64_t step = 1;
  while (size % (2 * step) == 0 && 8 * step <= size) step *= 2;
  return step;
}

std::vector<Sizes> aligned_sizes(const Sizes& sample) {
  std::vector<Sizes> out;
  for (int64_t direction : {1, -1}) add_moved(sample, moved(sample, direction, true), out);
  // Multiples keep what is a multiple of something.
  for (int64_t factor : {2, 3}) {
    Sizes multiple = sample;
    for (auto& [name, size] : multiple) size *= factor;
    out.push_back(multiple);
  }
  return out;
}

std::vector<Sizes> many_sizes(const Sizes& sample) {
  std::vector<Sizes> out = {aligned_sizes(sample).front()};
  // Where all sizes are even, a half may be rounded up or down.
  for (int64_t direction : {1, -1}) add_moved(sample, moved(sample, direction, false), out);
  for (const Sizes& start : {sample, Sizes(out.front())})
    for (const Sizes& further : aligned_sizes(start))
      if (further != sample && std::ranges::find(out, further) == out.end()) out.push_back(further);
  return out;
}

std::vector<Sizes> bound_sizes(const Sizes& sample) {
  std::vector<Sizes> out;
  const auto add = [&](const Sizes& sizes) {
    if (sizes != sample && std::ranges::find(out, sizes) == out.end()) out.push_back(sizes);
  };
  const auto add_alone = [&](const Sizes& moved) {
    for (size_t i = 0; i < sample.size(); ++i) {
      Sizes one = sample;
      one[i] = moved[i];
      add(one);
    }
  };
  const std::vector<Sizes> aligned = aligned_sizes(sample);
  add_alone(aligned.front());
  for (const Sizes& multiple : std::span(aligned).last(2)) add(multiple);
  add_alone(aligned.back());
  return out;
}

std::vector<int64_t> telling_sizes(int64_t size) {
  constexpr int64_t large = 64;
  std::vector<int64_t> out;
  for (int64_t other : {int64_t{1}, int64_t{2}, size - 1, size + 1, size + 2, 2 * size, 2 * size + 1, 4 * size})
    if (other > 0 && other != size && (size <= large || other <= size + 2) &&
        std::ranges::find(out, other) == out.end())
      out.push_back(other);
  return out;
}

std::vector<int64_t> distinguishing_sizes(int64_t size, size_t index, int round) {
  constexpr std::array<int64_t, 6> beyond_second = {1, 4, 2, 7, 5, 9}, beyond_third = {3, 7, 5, 11, 9, 13};
  const int64_t step = std::clamp<int64_t>(size, 1, 64), number = static_cast<int64_t>(index);
  std::vector<int64_t> out;
  if (round == 1)
    out = {size + step + beyond_second[index % 6], size + step, 2 * size, size / 2, size - 1};
  else
    out = {size + 2 * step + beyond_third[index % 6], size + (2 + number) * step, (3 + number) * size,
           size - 1 - number};
  std::erase_if(out, [&](int64_t s) { return s < 1 || s == size; });
  return out;
}

}  // namespace lithify::driver
