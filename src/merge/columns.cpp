#include "merge/columns.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "merge/align.hpp"

namespace lithify::merge {
namespace {

using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;

/// Adds one trace after the other, each beside the trace that parts from it last.
class Alignment {
 public:
  Alignment(const std::vector<Trace>& traces, const Definitions& definitions, Sharing sharing)
      : traces_(traces), definitions_(definitions), sharing_(sharing) {
    for (uint32_t step = 0; step < traces[0].code.steps.size(); ++step) columns_.push_back(new_column(0, step));
    for (size_t t = 1; t < traces.size(); ++t) add(t);
  }

  std::vector<Column> columns_;

 private:
  Column new_column(size_t trace, uint32_t step) const {
    Column out{std::vector<uint32_t>(traces_.size(), no_step), set_of(trace)};
    out.steps[trace] = step;
    return out;
  }

  uint32_t key(const Column& c) const {
    const size_t some = *Members(c.present).begin();
    return traces_[some].keys[c.steps[some]];
  }

  [[noreturn]] void fail(size_t t, size_t step, const std::string& what) const {
    diverge(traces_[t], t, step, definitions_, what);
  }

  /// Where two traces part.
  size_t parting_of(size_t a, size_t b) const {
    if (const std::optional<size_t> at = parting(traces_[a], traces_[b])) return *at;
    const auto [left, right] = std::ranges::mismatch(traces_[a].keys, traces_[b].keys);
    fail(a, static_cast<size_t>(left - traces_[a].keys.begin()), "no condition decides how the model goes on");
  }

  /// The trace before `t` that has the most outcomes in common with it: before they part, and then in all.
  size_t nearest(size_t t) const {
    size_t best = 0;
    std::pair<size_t, size_t> most = {0, 0};
    for (size_t other = 0; other < t; ++other) {
      size_t same = 0;
      for (const Trace::Asked& a : traces_[t].asked)
        for (const Trace::Asked& b : traces_[other].asked)
          if (a.condition == b.condition && a.outcome == b.outcome) ++same;
      const std::pair common(parting_of(t, other), same);
      if (other == 0 || common > most) std::tie(best, most) = std::tie(other, common);
    }
    return best;
  }

  void add(size_t t) {
    const size_t beside = nearest(t);
    const size_t end = parting_of(t, beside) + 1;
    // The steps of the conditions that both asked are the same.
    Pairs fixed;
    for (size_t i = 0; i < end; ++i) {
      const auto &mine = traces_[t].asked[i].value, &other = traces_[beside].asked[i].value;
      if (!mine || !other) {
        if (i + 1 < end) continue;
        fail(t, 0, "a condition on sizes that are no dynamic dimensions decides how the model goes on");
      }
      fixed.emplace_back(other->step, mine->step);
      if (traces_[t].keys[mine->step] != traces_[beside].keys[other->step])
        fail(t, mine->step, "a condition is computed in different ways");
    }
    std::ranges::sort(fixed);
    fixed.erase(std::unique(fixed.begin(), fixed.end()), fixed.end());
    for (size_t i = 1; i < fixed.size(); ++i)
      if (fixed[i].second <= fixed[i - 1].second) fail(t, fixed[i].second, "conditions are computed in another order");
    insert(t, beside, aligned_between(traces_[beside].keys, traces_[t].keys, fixed));
  }

  /// Aligns what is between pairs that are given.
  Pairs aligned_between(std::span<const uint32_t> a, std::span<const uint32_t> b, const Pairs& fixed) const {
    Pairs out;
    uint32_t i = 0, j = 0;
    auto align_to = [&](uint32_t a_end, uint32_t b_end) {
      for (const auto& [x, y] : aligned(a.subspan(i, a_end - i), b.subspan(j, b_end - j)))
        out.emplace_back(i + x, j + y);
    };
    for (const auto& [x, y] : fixed) {
      align_to(x, y);
      out.emplace_back(x, y);
      i = x + 1;
      j = y + 1;
    }
    if (sharing_ == Sharing::Everywhere) align_to(static_cast<uint32_t>(a.size()), static_cast<uint32_t>(b.size()));
    return out;
  }

  /// `pairs`: steps of the trace `beside` and of `t` that are the same. What is between two of them may be in columns
  /// of other traces.
  void insert(size_t t, size_t beside, const Pairs& pairs) {
    std::vector<Column> out, gap;
    uint32_t next = 0;  // step of t
    auto close_gap = [&](uint32_t end) {
      fill(t, next, end, gap, out);
      gap.clear();
      next = end;
    };
    size_t pair = 0;
    for (Column& c : columns_) {
      if (pair < pairs.size() && c.steps[beside] == pairs[pair].first) {
        close_gap(pairs[pair].second);
        c.steps[t] = next++;
        c.present |= set_of(t);
        out.push_back(std::move(c));
        ++pair;
      } else {
        gap.push_back(std::move(c));
      }
    }
    close_gap(static_cast<uint32_t>(traces_[t].code.steps.size()));
    columns_ = std::move(out);
  }

  /// Appends columns of others and the steps [begin, end) of t, which share columns where they are the same.
  void fill(size_t t, uint32_t begin, uint32_t end, std::vector<Column>& gap, std::vector<Column>& out) const {
    std::vector<uint32_t> keys;
    for (const Column& c : gap) keys.push_back(key(c));
    const std::span<const uint32_t> mine = std::span(traces_[t].keys).subspan(begin, end - begin);
    uint32_t step = begin;
    size_t column = 0;
    auto append_to = [&](size_t columns, uint32_t steps) {
      for (; column < columns; ++column) out.push_back(std::move(gap[column]));
      for (; step < steps; ++step) out.push_back(new_column(t, step));
    };
    for (const auto& [i, j] : sharing_ == Sharing::Everywhere ? aligned(keys, mine) : Pairs()) {
      append_to(i, begin + j);
      gap[i].steps[t] = step++;
      gap[i].present |= set_of(t);
    }
    append_to(gap.size(), end);
  }

  const std::vector<Trace>& traces_;
  const Definitions& definitions_;
  Sharing sharing_;
};

}  // namespace

std::vector<Column> columns_of(const std::vector<Trace>& traces, const Definitions& definitions, Sharing sharing) {
  return Alignment(traces, definitions, sharing).columns_;
}

}  // namespace lithify::merge
