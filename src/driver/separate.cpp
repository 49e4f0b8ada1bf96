#include "driver/separate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/diagnostic.hpp"

namespace lithify::driver {
namespace {

using Kind = Separator::Kind;
constexpr int64_t largest_divisor = 64;

class Separating {
 public:
  explicit Separating(const std::vector<std::vector<Sizes>>& paths) : paths_(paths) { out_.paths.resize(paths.size()); }

  Separation run() {
    std::vector<size_t> all(paths_.size());
    std::iota(all.begin(), all.end(), size_t{0});
    separate(all);
    return std::move(out_);
  }

 private:
  void separate(const std::vector<size_t>& paths) {
    if (paths.size() == 1) return;
    const Separator found = only_one(paths);
    const size_t number = out_.separators.size();
    out_.separators.push_back(found);
    std::vector<size_t> sides[2];
    for (size_t p : paths) {
      const bool holds = found.holds(paths_[p][0]);
      out_.paths[p].push_back({number, holds});
      sides[holds ? 1 : 0].push_back(p);
    }
    for (const std::vector<size_t>& side : sides) separate(side);
  }

  /// What may separate paths. It is decided where the sizes leave no other number for it.
  struct Candidate {
    Separator separator;
    bool decided = true;
  };

  Separator only_one(const std::vector<size_t>& paths) const {
    std::map<std::vector<bool>, std::vector<Candidate>> found;  // by the sides of the paths; that of the first is false
    for (const Candidate& c : candidates(paths))
      if (separates(c.separator, paths)) found[sides_of(c.separator, paths)].push_back(c);
    for (const auto& [sides, of] : found)
      if (of.size() == 1 && of[0].decided) return of[0].separator;
    if (found.empty()) throw Error(Code::TracesDiverge, "no condition on the sizes of the traces decides between them");
    const std::vector<Candidate>& of = found.begin()->second;
    const auto text = [&](const Candidate& c) { return c.separator.str(paths_[0][0]); };
    throw Error(Code::TracesDiverge,
                of.size() > 1
                    ? fmt::format("the sizes of the traces leave a choice of the condition that decides between them: "
                                  "'{}' or '{}'",
                                  text(of[0]), text(of[1]))
                    : fmt::format("the sizes of the traces leave a choice of the number in '{}', which may decide "
                                  "between them",
                                  text(of[0])),
                "add traces at sizes that show which one it is");
  }

  std::vector<bool> sides_of(const Separator& s, const std::vector<size_t>& paths) const {
    std::vector<bool> out;
    for (size_t p : paths) out.push_back(s.holds(paths_[p][0]) != s.holds(paths_[paths[0]][0]));
    return out;
  }

  std::vector<Candidate> candidates(const std::vector<size_t>& paths) const {
    std::vector<Candidate> out;
    const size_t dimensions = paths_[0][0].size();
    for (size_t d = 0; d < dimensions; ++d) {
      const std::set<int64_t> sizes = values(paths, [&](const Sizes& s) { return s[d].second; });
      for (int64_t size : sizes) {
        const bool below = sizes.contains(size - 1), above = sizes.contains(size + 1);
        if (size != *sizes.rbegin()) out.push_back({{Kind::Above, d, 0, size}, above});
        if (size != *sizes.rbegin() && size != *sizes.begin())
          out.push_back({{Kind::Equal, d, 0, size}, below && above});
      }
      for (int64_t divisor = 2; divisor <= largest_divisor; ++divisor) out.push_back({{Kind::Multiple, d, 0, divisor}});
      for (size_t other = 0; other < d; ++other) {
        const std::set<int64_t> off = values(paths, [&](const Sizes& s) { return s[d].second - s[other].second; });
        out.push_back({{Kind::AboveOther, d, other, 0}, off.contains(0) && off.contains(1)});
        out.push_back({{Kind::AboveOther, other, d, 0}, off.contains(0) && off.contains(-1)});
        out.push_back({{Kind::EqualOther, d, other, 0}, *off.begin() < 0 && *off.rbegin() > 0});
      }
    }
    return out;
  }

  template <class F>
  std::set<int64_t> values(const std::vector<size_t>& paths, F of) const {
    std::set<int64_t> out;
    for (size_t p : paths)
      for (const Sizes& s : paths_[p]) out.insert(of(s));
    return out;
  }

  /// Whether each path is on one side, and there are some on both. Multiples need two sizes on either side: any two
  /// sizes differ by what divides them.
  bool separates(const Separator& s, const std::vector<size_t>& paths) const {
    size_t count[2] = {0, 0};
    for (size_t p : paths) {
      const bool side = s.holds(paths_[p][0]);
      if (std::ranges::any_of(paths_[p], [&](const Sizes& sizes) { return s.holds(sizes) != side; })) return false;
      std::set<int64_t> sizes;
      for (const Sizes& at : paths_[p]) sizes.insert(at[s.first].second);
      count[side ? 1 : 0] += sizes.size();
    }
    const size_t least = s.kind == Kind::Multiple ? 2 : 1;
    return count[0] >= least && count[1] >= least;
  }

  const std::vector<std::vector<Sizes>>& paths_;
  Separation out_;
};

}  // namespace

bool Separator::holds(const Sizes& sizes) const {
  const int64_t size = sizes[first].second;
  switch (kind) {
    case Kind::Above:
      return size > number;
    case Kind::Equal:
      return size == number;
    case Kind::Multiple:
      return size % number == 0;
    case Kind::AboveOther:
      return size > sizes[second].second;
    case Kind::EqualOther:
      return size == sizes[second].second;
  }
  return false;
}

std::string Separator::str(const Sizes& names) const {
  const std::string& name = names[first].first;
  switch (kind) {
    case Kind::Above:
      return fmt::format("{} > {}", name, number);
    case Kind::Equal:
      return fmt::format("{} == {}", name, number);
    case Kind::Multiple:
      return fmt::format("{} % {} == 0", name, number);
    case Kind::AboveOther:
      return fmt::format("{} > {}", name, names[second].first);
    case Kind::EqualOther:
      return fmt::format("{} == {}", name, names[second].first);
  }
  return "";
}

Separation separated(const std::vector<std::vector<Sizes>>& paths) { return Separating(paths).run(); }

}  // namespace lithify::driver
