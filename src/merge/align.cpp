#include "merge/align.hpp"

#include <algorithm>
#include <unordered_map>

namespace lithify::merge {
namespace {

using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;

/// More pairs of equal keys than this are not all considered.
constexpr size_t max_pairs = 4'000'000;

/// Where each key is.
std::unordered_map<uint32_t, std::vector<uint32_t>> positions(std::span<const uint32_t> keys) {
  std::unordered_map<uint32_t, std::vector<uint32_t>> out;
  for (uint32_t i = 0; i < keys.size(); ++i) out[keys[i]].push_back(i);
  return out;
}

/// All pairs of equal keys: by ascending position in a, and then by descending position in b, so that an ascending
/// sequence of positions in b has each position in a once. Where they are too many, the n-th of a key in a with the
/// n-th in b only.
Pairs candidates(std::span<const uint32_t> a, std::span<const uint32_t> b) {
  const auto in_a = positions(a), in_b = positions(b);
  size_t count = 0;
  for (const auto& [key, at] : in_a)
    if (const auto found = in_b.find(key); found != in_b.end()) count += at.size() * found->second.size();
  Pairs out;
  std::unordered_map<uint32_t, size_t> seen;
  for (uint32_t i = 0; i < a.size(); ++i) {
    const auto found = in_b.find(a[i]);
    if (found == in_b.end()) continue;
    const std::vector<uint32_t>& at = found->second;
    if (count > max_pairs) {
      if (const size_t n = seen[a[i]]++; n < at.size()) out.emplace_back(i, at[n]);
    } else {
      for (auto j = at.rbegin(); j != at.rend(); ++j) out.emplace_back(i, *j);
    }
  }
  return out;
}

/// A longest subsequence of pairs that ascends in both: patience sorting by the position in b.
Pairs longest_ascending(const Pairs& pairs) {
  constexpr auto none = static_cast<size_t>(-1);
  std::vector<size_t> last;  // of the shortest end of a sequence of each length
  std::vector<size_t> before(pairs.size(), none);
  for (size_t k = 0; k < pairs.size(); ++k) {
    const auto at = std::ranges::lower_bound(last, pairs[k].second, {}, [&](size_t i) { return pairs[i].second; });
    if (at != last.begin()) before[k] = *std::prev(at);
    if (at == last.end())
      last.push_back(k);
    else
      *at = k;
  }
  Pairs out;
  for (size_t k = last.empty() ? none : last.back(); k != none; k = before[k]) out.push_back(pairs[k]);
  std::ranges::reverse(out);
  return out;
}

}  // namespace

Pairs aligned(std::span<const uint32_t> a, std::span<const uint32_t> b) {
  Pairs out;
  uint32_t begin = 0, a_end = static_cast<uint32_t>(a.size()), b_end = static_cast<uint32_t>(b.size());
  for (; begin < std::min(a_end, b_end) && a[begin] == b[begin]; ++begin) out.emplace_back(begin, begin);
  const uint32_t a_size = a_end, b_size = b_end;
  for (; a_end > begin && b_end > begin && a[a_end - 1] == b[b_end - 1]; --a_end) --b_end;
  const auto between = longest_ascending(candidates(a.subspan(begin, a_end - begin), b.subspan(begin, b_end - begin)));
  for (const auto& [i, j] : between) out.emplace_back(begin + i, begin + j);
  for (; a_end < a_size && b_end < b_size; ++a_end, ++b_end) out.emplace_back(a_end, b_end);
  return out;
}

}  // namespace lithify::merge
