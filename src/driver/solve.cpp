#include "driver/solve.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <set>

#include "driver/other_sizes.hpp"

namespace lithify::driver {
namespace {

constexpr int64_t small = 24;               // up to here, every size is tried
constexpr int64_t near = 6;                 // and this far around the size that is there
constexpr int64_t steps = 8;                // aligned steps in either direction
constexpr int64_t part_steps = 3;           // and halves, quarters and so on of these
constexpr int64_t largest = 4096;           // of a single size, unless the sample's is larger
constexpr double most_growth = 6;           // in powers of two, of all sizes together
constexpr double cost_of_one = 0.5;         // a size of 1 shows the least
constexpr double cost_of_odds = 0.5;        // the less a size is aligned like the sample's, the less likely it is used
constexpr size_t widths[] = {200, 90, 24};  // candidates of the first, second and third dimension that is changed

int64_t& size_of(Sizes& sizes, const std::string& name) {
  return std::ranges::find(sizes, name, &Sizes::value_type::first)->second;
}

double cost_of(int64_t from, int64_t to) {
  if (from == to) return 0;
  double cost =
      std::abs(std::log2(static_cast<double>(to)) - std::log2(static_cast<double>(std::max<int64_t>(from, 1))));
  if (to == 1) cost += cost_of_one;
  if (const int64_t step = aligned_step(from); to % step != 0)
    cost += cost_of_odds * (1 - std::log2(std::gcd(to, step)) / std::log2(step));
  return cost;
}

double growth(const Sizes& from, const Sizes& to) {
  double out = 0;
  for (size_t i = 0; i < from.size(); ++i)
    if (to[i].second > small)
      out += std::log2(static_cast<double>(to[i].second)) -
             std::log2(static_cast<double>(std::max<int64_t>(from[i].second, 1)));
  return out;
}

/// The whole numbers in a formula: what it is compared with may be one.
std::vector<int64_t> numbers_in(const std::string& formula) {
  std::vector<int64_t> out;
  for (size_t at = 0; at < formula.size();) {
    const char* end = formula.data() + formula.size();
    int64_t number = 0;
    const auto [next, error] = std::from_chars(formula.data() + at, end, number);
    if (error == std::errc() && number > 0) out.push_back(number);
    at = next == formula.data() + at ? at + 1 : static_cast<size_t>(next - formula.data());
  }
  return out;
}

class Solver {
 public:
  Solver(std::span<const Wanted> wanted, const Sizes& from, const Sizes& sample)
      : wanted_(wanted), from_(from), sample_(sample) {}

  std::vector<Sizes> run(size_t most) {
    for (const std::vector<std::string>& changed : choices()) {
      vary(changed, 0, from_);
      if (!found_.empty()) break;
    }
    std::ranges::stable_sort(found_, {}, [&](const Sizes& s) { return distance(from_, s); });
    if (found_.size() > most) found_.resize(most);
    return std::move(found_);
  }

 private:
  /// Which dimensions to change: each of the last condition's, all of them, and then those of the others too.
  std::vector<std::vector<std::string>> choices() const {
    std::vector<std::vector<std::string>> out;
    const std::vector<std::string> own = names_of(*wanted_.back().condition);
    for (const std::string& name : own) out.push_back({name});
    std::vector<std::string> all = own;
    for (const Wanted& w : wanted_)
      for (const std::string& name : names_of(*w.condition))
        if (std::ranges::find(all, name) == all.end()) all.push_back(name);
    if (own.size() > 1) out.push_back(own);
    if (all.size() > own.size()) out.push_back(all);
    for (std::vector<std::string>& names : out)
      if (names.size() > std::size(widths)) names.resize(std::size(widths));
    return out;
  }

  std::vector<std::string> names_of(const claims::Formula& condition) const {
    const std::vector<std::string> names = condition.names();
    std::vector<std::string> out;
    for (const auto& [name, size] : from_)
      if (std::ranges::count(names, name) > 0) out.push_back(name);
    return out;
  }

  void vary(const std::vector<std::string>& changed, size_t at, Sizes sizes) {
    if (at == changed.size()) {
      if (sizes != from_ && growth(sample_, sizes) <= most_growth && is_wanted(sizes))
        found_.push_back(std::move(sizes));
      return;
    }
    for (int64_t size : candidates(changed[at], widths[at])) {
      size_of(sizes, changed[at]) = size;
      vary(changed, at + 1, sizes);
    }
  }

  bool is_wanted(const Sizes& sizes) const {
    return std::ranges::all_of(wanted_, [&](const Wanted& w) { return outcome_at(*w.condition, sizes) == w.outcome; });
  }

  /// The sizes of a dimension to try, the nearest first.
  std::vector<int64_t> candidates(const std::string& name, size_t most) {
    const int64_t size = size_of(from_, name), step = aligned_step(size), limit = std::max(largest, 4 * size);
    std::set<int64_t> all = {size};
    for (int64_t s = 1; s <= small; ++s) all.insert(s);
    for (int64_t d = -near; d <= near; ++d) all.insert(size + d);
    for (int64_t k = -steps; k <= steps; ++k) all.insert(size + k * step);
    for (int64_t part = step / 2; part > 1; part /= 2)
      for (int64_t k = -part_steps; k <= part_steps; ++k) all.insert(size + k * part);
    for (int64_t k : {2, 3, 4}) all.insert({k * size, size / k});
    for (const Wanted& w : wanted_) {
      for (int64_t number : numbers_in(w.condition->str()))
        for (int64_t d : {-1, 0, 1}) all.insert(number + d);
      for (int64_t boundary : boundaries(*w.condition, name, limit))
        all.insert({boundary - 1, boundary, boundary + 1, (boundary + step - 1) / step * step, boundary / step * step});
    }
    std::vector<int64_t> out;
    std::ranges::copy_if(all, std::back_inserter(out), [&](int64_t s) { return s >= 1 && s <= limit; });
    std::ranges::stable_sort(out, {}, [&](int64_t s) { return cost_of(size, s); });
    if (out.size() > most) out.resize(most);
    return out;
  }

  /// The sizes of a dimension at which the outcome changes, when all others stay as they are.
  std::vector<int64_t> boundaries(const claims::Formula& condition, const std::string& name, int64_t limit) {
    Sizes sizes = from_;
    auto outcome = [&](int64_t size) {
      size_of(sizes, name) = size;
      return outcome_at(condition, sizes);
    };
    std::vector<int64_t> out;
    for (int64_t low = 1; low < limit; low *= 2) {
      int64_t a = low, b = std::min(2 * low, limit);
      const std::optional<bool> at_a = outcome(a);
      if (at_a == outcome(b)) continue;
      while (b - a > 1) {
        const int64_t middle = a + (b - a) / 2;
        (outcome(middle) == at_a ? a : b) = middle;
      }
      out.push_back(b);
    }
    return out;
  }

  std::span<const Wanted> wanted_;
  Sizes from_;
  const Sizes& sample_;
  std::vector<Sizes> found_;
};

}  // namespace

std::optional<bool> outcome_at(const claims::Formula& condition, const Sizes& sizes) {
  const auto value = condition.evaluate([&](std::string_view name) -> std::optional<int64_t> {
    const auto found = std::ranges::find(sizes, name, &Sizes::value_type::first);
    return found == sizes.end() ? std::nullopt : std::optional(found->second);
  });
  return value ? std::optional(claims::truth(*value)) : std::nullopt;
}

double distance(const Sizes& from, const Sizes& to) {
  double out = 0;
  for (size_t i = 0; i < from.size(); ++i) out += cost_of(from[i].second, to[i].second);
  return out;
}

std::vector<Sizes> sizes_where(std::span<const Wanted> wanted, const Sizes& from, const Sizes& sample, size_t most) {
  return Solver(wanted, from, sample).run(most);
}

}  // namespace lithify::driver
