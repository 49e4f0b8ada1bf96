#include "provenance/search.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <queue>

namespace lithify::provenance {
namespace {

// Limits count work, not time: the outcome is the same on every machine.
constexpr int64_t max_steps = 3'000'000;  // operators that all evaluations apply
constexpr int max_tries = 200;            // for one issue
constexpr int max_levels = 3;             // of cost, when the cheapest lead nowhere
constexpr size_t max_suspected = 24;      // numbers for one issue
constexpr size_t max_sizes = 40;          // of tensors that numbers are explained by
constexpr int max_cleared = 8;            // numbers that are shown not to matter
constexpr int64_t largest_suspected = int64_t{1} << 31;
constexpr int cost_of_quotient = 4;  // of a formula, however long, that is just what the other sizes leave
constexpr int cost_of_assumption = 1;
constexpr int cost_of_move = 4;  // of each side of a boundary between dimensions that does not stay in its place

int lowest_cost(const std::vector<Solution>& all) {
  int lowest = std::numeric_limits<int>::max();
  for (const Solution& s : all) lowest = std::min(lowest, s.cost);
  return lowest;
}

/// Whether two issues are about different sizes.
bool are_others(const Issue& x, const Issue& y) {
  for (sym::Expr a : {x.a, x.b})
    for (sym::Expr b : {y.a, y.b})
      if (!a.is_constant() && a == b) return false;
  return true;
}

/// Whether the program gets further than `before`: to `now`.
bool is_past(const Issue& now, const Issue& before) {
  if (now.step != before.step) return now.step > before.step;
  // Within an operator, contradictions come before everything else.
  const bool contradicts = now.kind == Issue::Kind::Contradiction;
  if (before.kind == Issue::Kind::Contradiction && !contradicts) return true;
  return now.at > before.at || (now.at == before.at && are_others(now, before));
}

/// Whether another number of the program is known to stand for it.
bool stands_for(const Solution& s, sym::Expr formula) {
  return std::ranges::any_of(s.formulas, [&](auto& known) { return known.second == formula; });
}

/// The dimensions that a formula must bring in: those on one side of the issue only.
std::vector<sym::Expr> unmatched(const Issue& issue) {
  const std::vector<sym::Expr> a = sym::symbols(issue.a), b = sym::symbols(issue.b);
  std::vector<sym::Expr> out;
  auto add_missing = [&](const std::vector<sym::Expr>& from, const std::vector<sym::Expr>& in) {
    std::ranges::copy_if(from, std::back_inserter(out), [&](sym::Expr s) { return std::ranges::count(in, s) == 0; });
  };
  add_missing(a, b);
  add_missing(b, a);
  return out.empty() ? a : out;
}

bool has_any(sym::Expr formula, const std::vector<sym::Expr>& symbols) {
  const std::vector<sym::Expr> has = sym::symbols(formula);
  return std::ranges::any_of(has, [&](sym::Expr s) { return std::ranges::count(symbols, s) > 0; });
}

}  // namespace

const Issue* Solution::issue() const {
  const auto next = std::ranges::find_if(outcome->record.issues, [&](const Issue& i) {
    return i.kind == Issue::Kind::Contradiction || !accepted.contains(i.id());
  });
  return next == outcome->record.issues.end() ? nullptr : &*next;
}

/// What a search for the way past one issue has still to look at, the cheapest first; nothing twice.
class Search::Frontier {
 public:
  void push(std::vector<Solution> all) {
    for (Solution& s : all) {
      std::map<Literal, const void*> key;
      for (auto& [literal, formula] : s.formulas) key.emplace(literal, formula.node());
      if (seen_.insert(std::move(key)).second) open_.push(std::move(s));
    }
  }
  bool empty() const { return open_.empty(); }
  Solution pop() {
    Solution s = open_.top();
    open_.pop();
    return s;
  }

 private:
  struct Later {
    bool operator()(const Solution& a, const Solution& b) const { return a.cost > b.cost; }
  };
  std::priority_queue<Solution, std::vector<Solution>, Later> open_;
  std::set<std::map<Literal, const void*>> seen_;
};

// ---- the search ---------------------------------------------------------------------------------------------------

std::vector<Solution> Search::run() {
  if (q_.dimensions.empty() && q_.differing.empty()) return {};  // no sample shows what a number could stand for
  Solution start;
  start.outcome = q_.first;
  if (q_.accept_all && !q_.first->failed())
    for (const Issue& issue : q_.first->record.issues) start.accepted.insert(issue.id());
  if (!q_.differing.empty()) {
    solve(start);
    solved_ = start.outcome;
  }
  complete(std::move(start));
  if (solutions_.size() == 1) try_ties();
  return std::move(solutions_);
}

bool Search::exhausted() const { return evaluations_ >= q_.max_evaluations || steps_ >= max_steps; }

void Search::evaluate(Solution& s) {
  ++evaluations_;
  s.outcome = q_.evaluate(s.formulas);
  steps_ += s.outcome->record.steps;
  failed_otherwise_ = failed_otherwise_ || s.outcome->failed_otherwise();
}

/// Resolves one issue after the other, and goes back where that leads nowhere.
void Search::complete(Solution s) {
  if (solutions_.size() > 1 || exhausted()) return;
  const Issue* issue = s.issue();
  if (!issue) {
    if (!s.outcome->failed()) add_solution(std::move(s));
    return;
  }
  const size_t before = solutions_.size();
  complete_resolved(s);
  if (issue->kind == Issue::Kind::Contradiction) return;
  // An issue that may stay does so where nothing resolves it. That a 1 is a dimension of size 1 is only likely.
  if (solutions_.size() > before && q_.sym.sample(issue->a) != 1) return;
  s.accepted.insert(issue->id());
  complete(std::move(s));
}

/// Completes what gets past the next issue: the cheapest, and where that leads nowhere, what costs more.
void Search::complete_resolved(const Solution& s) {
  const size_t before = solutions_.size();
  int above = -1;
  for (int level = 0; level < max_levels && solutions_.size() == before; ++level) {
    std::vector<Solution> next = cheapest_past(s, above);
    if (next.empty()) return;
    above = next.front().cost;
    for (Solution& n : next) complete(std::move(n));
  }
}

/// The cheapest formulas, but above a cost, with which the program gets past its next issue.
std::vector<Solution> Search::cheapest_past(const Solution& from, int above) {
  const Issue& issue = *from.issue();
  std::vector<Solution> found;
  Frontier frontier;
  frontier.push(neighbors(from));
  for (int tries = 0; !frontier.empty() && tries < max_tries && !exhausted(); ++tries) {
    Solution s = frontier.pop();
    if (!found.empty() && s.cost > lowest_cost(found)) break;
    const Issue::Id was = s.issue()->id();
    evaluate_with_costs(s);
    const Issue* now = s.issue();
    if (now ? is_past(*now, issue) : !s.outcome->failed()) {
      if (s.cost > above) found.push_back(std::move(s));
    } else if (now && now->id() != was) {
      frontier.push(neighbors(s));
    }
  }
  const int lowest = lowest_cost(found);
  std::erase_if(found, [&](const Solution& s) { return s.cost > lowest; });
  return found;
}

/// Evaluates, and adds what the formulas cost in boundaries that move and in what has to be assumed.
void Search::evaluate_with_costs(Solution& s) {
  const size_t moved = s.outcome->record.moved_boundaries, assumed = s.outcome->record.assumptions.size();
  evaluate(s);
  const Record& now = s.outcome->record;
  if (now.moved_boundaries > moved) s.cost += cost_of_move * static_cast<int>(now.moved_boundaries - moved);
  s.cost += cost_of_assumption * (now.assumptions.size() > assumed);
}

/// What follows by one more formula, for a number that the next issue makes suspected.
std::vector<Solution> Search::neighbors(const Solution& s) {
  std::vector<Solution> out;
  const Issue& issue = *s.issue();
  const std::vector<sym::Expr> needed = unmatched(issue);
  for (const Origins::Found& f : s.outcome->record.origins.numbers(issue.origin, max_suspected)) {
    const auto now = s.formulas.find(f.literal);
    if (f.literal.element == Literal::fixed || f.value < 1 || f.value > largest_suspected) continue;
    if (now != s.formulas.end() && !q_.differing.contains(f.literal)) continue;
    for (const Explanation& e : explanations(issue, f)) {
      if ((now != s.formulas.end() && now->second == e.formula) || !has_any(e.formula, needed)) continue;
      Solution next = s;
      next.formulas.insert_or_assign(f.literal, e.formula);
      const int again = 1 + cost_of_unseen(q_.dimensions, e.formula);
      next.cost += 2 * (stands_for(s, e.formula) ? std::min(again, e.cost) : e.cost) + f.distance;
      out.push_back(std::move(next));
    }
  }
  return out;
}

void Search::add_solution(Solution s) {
  const auto same = std::ranges::find_if(
      solutions_, [&](const Solution& known) { return known.outcome->structure() == s.outcome->structure(); });
  if (same == solutions_.end()) {
    solutions_.push_back(std::move(s));
  } else if (s.outcome->record.assumptions.size() < same->outcome->record.assumptions.size()) {
    *same = std::move(s);  // the same nodes under other formulas: the one that assumes less is better
  }
}

bool Search::matters(const Solution& solution, const NumberUse& use, const Dimension& d) {
  if (use.literal.element == Literal::fixed || ++cleared_ > max_cleared) return true;
  failed_otherwise_ = false;
  Solution other = solution;
  other.formulas.emplace(use.literal, q_.sym.add(d.symbol, q_.sym.constant(use.number - d.sizes[0])));
  evaluate(other);
  solutions_ = {solution};
  complete(std::move(other));
  if (solutions_.size() == 1 && !exhausted() && !failed_otherwise_) return false;
  cleared_ = max_cleared;  // a number that is refused decides
  return true;
}

// ---- several traces -----------------------------------------------------------------------------------------------

/// Replaces all numbers that differ between traces by their simplest formulas: of the dimensions, and where there is
/// none, of sizes that the program is known to have so far.
void Search::solve(Solution& s) {
  for (auto& [literal, values] : q_.differing)
    if (!explained(values).empty()) s.formulas.emplace(literal, explained(values).front().formula);
  evaluate(s);
  while (s.formulas.size() < q_.differing.size()) {
    const std::vector<sym::Expr> sizes = composed_sizes(*s.outcome);
    const size_t before = s.formulas.size();
    for (auto& [literal, values] : q_.differing) {
      std::vector<Explanation>& all = explained_[values];
      if (all.empty()) all = explain(q_.sym, q_.dimensions, values, sizes);
      if (!all.empty()) s.formulas.emplace(literal, all.front().formula);
    }
    if (s.formulas.size() == before) refuse_unsolved(s);
    evaluate(s);
  }
}

void Search::refuse_unsolved(const Solution& s) const {
  const auto& [literal, values] =
      *std::ranges::find_if(q_.differing, [&](const auto& number) { return !s.formulas.contains(number.first); });
  throw Error({Code::TracesDiverge, Severity::Error,
               fmt::format("a number is {} in the traces, which no formula of the dynamic dimensions explains",
                           fmt::join(values, ", ")),
               q_.program.locate(literal.expr->pos), "declare every dimension in which the traces differ as dynamic",
               ""});
}

/// Whether a number that differs between traces may as well stand for something else that is as simple.
void Search::try_ties() {
  std::set<std::vector<int64_t>> tried;
  for (auto& [literal, values] : q_.differing) {
    if (!tried.insert(values).second) continue;
    const sym::Expr chosen = solutions_[0].formulas.at(literal);
    const std::vector<Explanation>& all = explained(values);
    const auto own = std::ranges::find(all, chosen, &Explanation::formula);
    for (const Explanation& e : all) {
      if (solutions_.size() > 1 || own == all.end() || e.cost > own->cost) break;
      if (e.formula == chosen) continue;
      Solution other = solutions_[0];
      for (auto& [same, its_values] : q_.differing)
        if (its_values == values && other.formulas.at(same) == chosen) other.formulas.at(same) = e.formula;
      evaluate(other);
      if (!other.issue() && !other.outcome->failed()) add_solution(std::move(other));
    }
  }
}

// ---- what a number may stand for ----------------------------------------------------------------------------------

const std::vector<Explanation>& Search::explained(const std::vector<int64_t>& values) {
  const auto [known, is_new] = explained_.try_emplace(values);
  if (is_new) known->second = explain(q_.sym, q_.dimensions, values, q_.escaped);
  return known->second;
}

/// What the other side of the issue suggests, and what the number's value does.
std::vector<Explanation> Search::explanations(const Issue& issue, const Origins::Found& f) {
  const std::vector<int64_t> values = values_of(f);
  const sym::Expr number = q_.sym.constant(f.value);
  std::vector<Explanation> all;
  auto add_quotient = [&](sym::Expr a, sym::Expr b) {
    if (auto quotient = q_.sym.divide_exactly(q_.sym.mul(a, number), b))
      add_derived(*quotient, values, cost_of_quotient, all);
  };
  if (issue.kind == Issue::Kind::MovedBoundary) {
    add_quotient(issue.a, issue.b);
    return all;
  }
  all = explained(values);
  if (issue.kind == Issue::Kind::Broadcast) {
    add_derived(issue.a, values, cost_of_quotient, all);
    return all;
  }
  for (const auto& [a, b] : {std::pair{issue.a, issue.b}, std::pair{issue.b, issue.a}}) {
    add_derived(q_.sym.add(number, q_.sym.sub(a, b)), values, std::numeric_limits<int>::max(), all);
    add_quotient(a, b);
  }
  return all;
}

void Search::add_derived(sym::Expr formula, const std::vector<int64_t>& values, int at_most,
                         std::vector<Explanation>& all) {
  if (!of_dimensions(formula) || !explains(q_.sym, q_.dimensions, formula, values)) return;
  std::erase_if(all, [&](const Explanation& x) { return x.formula == formula; });
  all.push_back({formula, std::min(cost_of(formula), at_most) + cost_of_unseen(q_.dimensions, formula)});
}

/// A number's values in all traces.
std::vector<int64_t> Search::values_of(const Origins::Found& f) const {
  const auto found = q_.differing.find(f.literal);
  if (found != q_.differing.end()) return found->second;
  return std::vector<int64_t>(q_.dimensions[0].sizes.size(), f.value);
}

/// The sizes of tensors other than plain dimensions.
std::vector<sym::Expr> Search::composed_sizes(const Outcome& at) const {
  std::vector<sym::Expr> out;
  for (sym::Expr size : at.sizes())
    if (out.size() < max_sizes && !size.is_symbol() && of_dimensions(size) && std::ranges::count(out, size) == 0)
      out.push_back(size);
  return out;
}

/// Whether it is a formula of the declared dimensions, and of nothing else.
bool Search::of_dimensions(sym::Expr e) const {
  const std::vector<sym::Expr> symbols = sym::symbols(e);
  return !symbols.empty() && std::ranges::all_of(symbols, [&](sym::Expr s) {
    return std::ranges::count(q_.dimensions, s, &Dimension::symbol) > 0;
  });
}

}  // namespace lithify::provenance
