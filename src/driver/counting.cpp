#include "driver/counting.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lithify::driver {
namespace {

constexpr size_t fewest = 3;  // numbers that count

/// A condition, by its index, its outcome, and the numbers in it.
struct Asked {
  size_t condition;
  bool outcome;
  std::vector<int64_t> numbers;
};

/// A formula without its numbers, and these: "s0 - 3 > 5" has 0, 3 and 5. A loop that makes a tensor in each iteration
/// asks for another size in each.
std::pair<std::string, std::vector<int64_t>> parts(const std::string& formula) {
  std::pair<std::string, std::vector<int64_t>> out;
  for (const char *at = formula.data(), *end = at + formula.size(); at != end;) {
    int64_t number = 0;
    const auto [behind, error] = std::from_chars(at, end, number);
    const bool is_number = error == std::errc() && *at != '-';
    if (is_number) out.second.push_back(number);
    out.first += is_number ? '#' : *at;
    at = is_number ? behind : at + 1;
  }
  return out;
}

/// Whether the last condition is the only one that says that a loop ends.
bool end_once(std::span<const Asked> all) {
  return std::ranges::all_of(all.first(all.size() - 1),
                             [&](const Asked& a) { return a.outcome != all.back().outcome; });
}

/// Whether one of the numbers counts up or down from each condition to the next, to the last, and all others stay.
bool counts(std::span<const Asked> all) {
  if (all.size() < fewest || !end_once(all)) return false;
  const std::vector<int64_t>&first = all[0].numbers, &second = all[1].numbers;
  size_t changed = 0, at = 0;
  for (size_t n = 0; n < first.size(); ++n)
    if (first[n] != second[n]) ++changed, at = n;
  if (changed != 1) return false;
  for (size_t i = 1; i < all.size(); ++i) {
    std::vector<int64_t> next = all[i - 1].numbers;
    next[at] += second[at] - first[at];
    if (all[i].numbers != next) return false;
  }
  return true;
}

}  // namespace

std::set<size_t> counting_conditions(const Followed& followed) {
  std::map<std::pair<std::string, std::string>, std::vector<Asked>> asked;
  for (size_t i = 0; i < followed.conditions.size(); ++i) {
    const Condition& c = followed.conditions[i];
    if (c.formula.empty() || c.question || c.other_raises) continue;
    auto [text, numbers] = parts(c.formula);
    asked[{c.where, std::move(text)}].push_back({i, c.outcome, std::move(numbers)});
  }
  std::set<size_t> out;
  for (const auto& [place, all] : asked)
    if (counts(all) || counts(std::span(all).subspan(1)))  // what the first asks may be from before the loop
      for (const Asked& a : all) out.insert(a.condition);
  return out;
}

void escape_counted(Followed& followed, const std::set<size_t>& counting) {
  std::set<std::string> places;
  for (size_t i : counting) {
    const Condition& c = followed.conditions[i];
    if (places.insert(c.where).second) followed.escapes.push_back({c.formula, 0, "comparison", c.where});
  }
}

}  // namespace lithify::driver
