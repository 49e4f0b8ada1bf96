#include "provenance/origin.hpp"

#include <algorithm>
#include <unordered_set>

namespace lithify::provenance {

std::optional<Progression> as_progression(const std::vector<int64_t>& sizes, const std::vector<int64_t>& elements) {
  if (!sizes.empty() && elements.size() == 1 && elements[0] == 0) return Progression{0, 1, 1, sizes.size() - 1};
  if (elements.size() < 2 || std::count(sizes.begin(), sizes.end(), 1) + 1 != static_cast<std::ptrdiff_t>(sizes.size()))
    return std::nullopt;
  const auto axis = std::find_if(sizes.begin(), sizes.end(), [](int64_t n) { return n != 1; }) - sizes.begin();
  // Numbers far apart never are the positions of anything, and their differences might not fit.
  constexpr int64_t far = int64_t{1} << 31;
  for (int64_t e : elements)
    if (e < -far || e > far) return std::nullopt;
  const Progression p{elements[0], elements[1] - elements[0], static_cast<int64_t>(elements.size()),
                      static_cast<size_t>(axis)};
  for (size_t i = 0; i < elements.size(); ++i)
    if (elements[i] != p.start + static_cast<int64_t>(i) * p.step) return std::nullopt;
  if (p.step == 0 || p.start == -p.last()) return std::nullopt;
  return p;
}

Origin Origins::literal(Literal literal, int64_t value) {
  nodes_.push_back({literal, value, {}, {}});
  return static_cast<Origin>(nodes_.size() - 1);
}

Origin Origins::join(std::vector<Origin> from, program::Pos pos) {
  std::sort(from.begin(), from.end());
  from.erase(std::unique(from.begin(), from.end()), from.end());
  if (!from.empty() && from.front() == 0) from.erase(from.begin());
  if (from.empty()) return 0;
  nodes_.push_back({{}, 0, pos, std::move(from)});
  return static_cast<Origin>(nodes_.size() - 1);
}

std::vector<Origins::Found> Origins::numbers(Origin origin, size_t most) const {
  std::vector<Found> out;
  std::unordered_set<Origin> seen;
  std::vector<Literal> known;
  std::vector<Origin> level{origin}, next;
  for (int distance = 0; !level.empty() && out.size() < most; ++distance, level.swap(next), next.clear())
    for (Origin o : level)
      for (Origin from : nodes_[o].from) {
        if (!seen.insert(from).second) continue;
        const Node& n = nodes_[from];
        if (!n.literal.expr) {
          next.push_back(from);
        } else if (std::find(known.begin(), known.end(), n.literal) == known.end()) {
          known.push_back(n.literal);
          if (out.size() < most) out.push_back({n.literal, n.value, nodes_[o].pos, distance});
        }
      }
  return out;
}

}  // namespace lithify::provenance
