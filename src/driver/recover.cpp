#include "driver/recover.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <queue>
#include <set>

#include "driver/captures.hpp"
#include "driver/explain.hpp"
#include "driver/inputs.hpp"
#include "onnx/text.hpp"

namespace lithify::driver {
namespace {

constexpr int max_evaluations = 1500;
constexpr auto max_time = std::chrono::seconds(30);
constexpr int max_tries = 200;      // for one contradiction
constexpr int max_levels = 3;       // of cost, when the cheapest lead nowhere
constexpr size_t max_doubted = 24;  // numbers for one contradiction
constexpr size_t max_sizes = 40;    // of tensors that numbers are explained by
constexpr int max_cleared = 8;      // numbers in doubt that are shown not to matter
constexpr int64_t largest_doubted = int64_t{1} << 31;
constexpr int cost_of_quotient = 4;  // of a formula, however long, that is just what the other sizes leave
constexpr int cost_of_assumption = 1;
constexpr int cost_of_move = 4;  // of each side of a boundary between dimensions that does not stay in its place

using eval::Literal;
using eval::SizeIssue;

/// Some repairs, and how far the program gets with them.
struct State {
  std::map<Literal, sym::Expr> repairs;
  std::set<std::string> accepted;  // doubts that stay
  std::shared_ptr<Evaluated> outcome;
  int cost = 0;

  /// What is to be resolved next, nullptr when nothing is.
  const SizeIssue* issue() const {
    for (const SizeIssue& i : outcome->issues)
      if (i.kind == SizeIssue::Kind::Contradiction || !accepted.contains(i.text)) return &i;
    return nullptr;
  }
};

class Search {
 public:
  Search(const Captures& captures, const ExportOptions& options, std::shared_ptr<Evaluated> first)
      : program_(*captures[0]), options_(options), first_(std::move(first)) {
    for (auto& [name, symbol] : first_->dimensions) {
      const sym::SymbolInfo info = first_->sym.info(symbol);
      if (info.sample) dimensions_.push_back({sym_.symbol(info), {*info.sample}});
    }
    differing_ = differing_numbers(captures);
    for (size_t k = 1; k < captures.size(); ++k) add_sizes(*captures[k], k);
  }

  /// Whether not everything could be tried.
  bool exhausted() const {
    return evaluations_ >= max_evaluations || std::chrono::steady_clock::now() - start_ > max_time;
  }

  const sym::Context& sym() const { return sym_; }
  const std::vector<Dimension>& dimensions() const { return dimensions_; }

  /// Whether the export would be another one if a number of a solution stood for a dimension, as far as can be tried:
  /// not where the program contradicts itself then, or the number is in nothing that the graph computes.
  bool matters(const State& solution, const eval::NumberUse& use, const Dimension& d) {
    if (use.literal.element == Literal::fixed || ++cleared_ > max_cleared) return true;
    other_failures_ = false;
    State other = solution;
    other.repairs.emplace(use.literal, sym_.add(d.symbol, sym_.constant(use.number - d.sizes[0])));
    evaluate(other);
    graphs_ = {graph_of(solution)};
    solutions_ = {solution};
    complete(std::move(other));
    if (solutions_.size() == 1 && !exhausted() && !other_failures_) return false;
    cleared_ = max_cleared;  // a number that is refused decides
    return true;
  }

  /// What came of the program with the numbers solved for that differ between captures; nullptr when none do.
  const std::shared_ptr<Evaluated>& solved() const { return solved_; }

  /// Solutions whose graphs differ, at most two.
  std::vector<State> run() {
    if (dimensions_.empty() && differing_.empty()) return {};  // no sample says what a number could stand for
    State start;
    start.outcome = first_;
    // Where no size left the program, no number in it can be one.
    if (options_.left && first_->left.empty() && !first_->failed())
      for (const SizeIssue& issue : first_->issues) start.accepted.insert(issue.text);
    if (!differing_.empty()) {
      solve(start);
      solved_ = start.outcome;
    }
    complete(std::move(start));
    if (solutions_.size() == 1) try_ties();
    return std::move(solutions_);
  }

 private:
  /// The sizes of another capture: the names are those of the first.
  void add_sizes(const program::Program& capture, size_t k) {
    ExportOptions described;
    described.inputs = options_.also[k - 1].inputs;
    const std::vector<TensorInput> named = find_inputs(program_, options_), other = find_inputs(capture, described);
    for (size_t n = 0; n < named.size() && n < other.size(); ++n) {
      if (!named[n].sizes || !other[n].sizes || named[n].sizes->size() != other[n].sizes->size()) continue;
      for (size_t i = 0; i < named[n].sizes->size(); ++i)
        for (Dimension& d : dimensions_)
          if ((*named[n].sizes)[i].name == sym_.info(d.symbol).name && (*other[n].sizes)[i].value &&
              d.sizes.size() == k)
            d.sizes.push_back(*(*other[n].sizes)[i].value);
    }
    for (const Dimension& d : dimensions_)
      if (d.sizes.size() <= k)
        throw Error(Code::TracesDiverge,
                    fmt::format("a capture does not say the size of the dimension '{}'", sym_.info(d.symbol).name));
  }

  /// Replaces all numbers that differ between captures by their simplest formulas: of the dimensions, and where there
  /// is none, of sizes that the program is known to have so far.
  void solve(State& s) {
    for (auto& [literal, values] : differing_)
      if (!explained(values).empty()) s.repairs.emplace(literal, explained(values).front().formula);
    evaluate(s);
    while (s.repairs.size() < differing_.size()) {
      const std::vector<sym::Expr> sizes = sizes_in(*s.outcome);
      const size_t before = s.repairs.size();
      for (auto& [literal, values] : differing_) {
        std::vector<Explanation>& all = explained_[values];
        if (all.empty()) all = explain(sym_, dimensions_, values, sizes);
        if (!all.empty()) s.repairs.emplace(literal, all.front().formula);
      }
      if (s.repairs.size() == before) refuse_unsolved(s);
      evaluate(s);
    }
  }

  [[noreturn]] void refuse_unsolved(const State& s) const {
    const auto& [literal, values] =
        *std::ranges::find_if(differing_, [&](const auto& number) { return !s.repairs.contains(number.first); });
    std::string listed;
    for (int64_t v : values) listed += (listed.empty() ? "" : ", ") + std::to_string(v);
    throw Error(
        {Code::TracesDiverge, Severity::Error,
         fmt::format("a number is {} in the captures, which no formula of the dynamic dimensions explains", listed),
         program_.locate(literal.expr->pos), "declare every dimension in which the captures differ as dynamic", ""});
  }

  /// The sizes of the tensors that the program has got to, other than plain dimensions.
  std::vector<sym::Expr> sizes_in(const Evaluated& at) {
    std::vector<sym::Expr> out;
    if (!at.model.graph) return out;
    for (const onnx::Node* node : at.model.graph->all_nodes())
      for (const onnx::Value* value : node->outputs)
        for (const onnx::Dim& size : value->shape) {
          const std::vector<sym::Expr> symbols = sym::symbols(size);
          if (size.is_symbol() || symbols.empty() || out.size() >= max_sizes ||
              !std::all_of(symbols.begin(), symbols.end(), [&](sym::Expr s) { return ours(at, s); }))
            continue;
          const sym::Expr formula = sym_.rebuild(size, [&](sym::Expr s) { return ours(at, s); });
          if (std::ranges::find(out, formula) == out.end()) out.push_back(formula);
        }
    return out;
  }

  const std::vector<Explanation>& explained(const std::vector<int64_t>& values) {
    const auto [known, is_new] = explained_.try_emplace(values);
    if (is_new) known->second = explain(sym_, dimensions_, values);
    return known->second;
  }

  /// A number's values in all captures.
  std::vector<int64_t> values_of(const eval::Origins::Found& f) const {
    auto found = differing_.find(f.literal);
    return found == differing_.end() ? std::vector<int64_t>(dimensions_[0].sizes.size(), f.value) : found->second;
  }

  void evaluate(State& s) {
    ++evaluations_;
    try {
      s.outcome = driver::evaluate(program_, options_, {&sym_, s.repairs}, /*stop_early=*/true);
    } catch (const Error& e) {
      s.outcome = std::make_shared<Evaluated>();
      s.outcome->diagnostics.push_back(e.first());
    }
    for (const Diagnostic& d : s.outcome->diagnostics)
      other_failures_ |=
          d.severity == Severity::Error && d.code != Code::HardCodedSize && d.code != Code::ShapeMismatch;
  }

  void complete(State s) {
    if (solutions_.size() > 1 || exhausted()) return;
    const SizeIssue* issue = s.issue();
    if (!issue) {
      if (!s.outcome->failed()) add_solution(std::move(s));
      return;
    }
    const bool must = issue->kind == SizeIssue::Kind::Contradiction;
    // That a 1 is a dimension of size 1 is only likely.
    const bool may = !must && s.outcome->sym.sample(issue->a) == 1;
    const std::string text = issue->text;
    const size_t before = solutions_.size();
    for (int level = 0, above = -1; level < max_levels && solutions_.size() == before; ++level) {
      std::vector<State> next = resolved(s, above);
      if (next.empty()) break;
      above = next.front().cost;
      for (State& n : next) complete(std::move(n));
    }
    if (must || (solutions_.size() > before && !may)) return;
    s.accepted.insert(text);
    complete(std::move(s));
  }

  void add_solution(State s) {
    const std::string graph = graph_of(s);
    const auto known = std::ranges::find(graphs_, graph);
    if (known != graphs_.end()) {
      // The same nodes under other formulas: the one of which less has to be assumed says it best.
      State& same = solutions_[static_cast<size_t>(known - graphs_.begin())];
      if (s.outcome->sym.assumptions().size() < same.outcome->sym.assumptions().size()) same = std::move(s);
      return;
    }
    graphs_.push_back(graph);
    solutions_.push_back(std::move(s));
  }

  /// The graph without sizes: of each line, "name : type[sizes] = node", the name and the node.
  static std::string graph_of(const State& s) {
    const std::string graph = onnx::print(*s.outcome->model.graph);
    std::string out;
    for (size_t begin = 0; begin < graph.size();) {
      const size_t end = std::min(graph.find('\n', begin), graph.size());
      const std::string line = graph.substr(begin, end - begin);
      begin = end + 1;
      if (line.starts_with("size ")) continue;
      const size_t equals = line.find(" = ");
      out += line.substr(0, line.find(" : ")) + (equals == std::string::npos ? "" : line.substr(equals)) + '\n';
    }
    return out;
  }

  /// Whether a number that differs between captures may as well stand for something else that is as simple.
  void try_ties() {
    std::set<std::vector<int64_t>> tried;
    for (auto& [literal, values] : differing_) {
      if (!tried.insert(values).second) continue;
      const sym::Expr chosen = solutions_[0].repairs.at(literal);
      const std::vector<Explanation>& all = explained(values);
      const auto own = std::ranges::find(all, chosen, &Explanation::formula);
      for (const Explanation& e : all) {
        if (solutions_.size() > 1 || own == all.end() || e.cost > own->cost) break;
        if (e.formula == chosen) continue;
        State other = solutions_[0];
        for (auto& [same, its_values] : differing_)
          if (its_values == values && other.repairs.at(same) == chosen) other.repairs.at(same) = e.formula;
        evaluate(other);
        if (!other.issue() && !other.outcome->failed()) add_solution(std::move(other));
      }
    }
  }

  /// The cheapest states, but above a cost, in which the program gets past its next issue.
  std::vector<State> resolved(const State& from, int above) {
    const SizeIssue& issue = *from.issue();
    std::vector<State> found;
    auto later = [](const State& a, const State& b) { return a.cost > b.cost; };
    std::priority_queue<State, std::vector<State>, decltype(later)> open(later);
    std::set<std::map<Literal, const void*>> seen;
    auto expand = [&](const State& s) {
      for (State& next : repaired(s)) {
        std::map<Literal, const void*> key;
        for (auto& [literal, formula] : next.repairs) key.emplace(literal, formula.node());
        if (seen.insert(std::move(key)).second) open.push(std::move(next));
      }
    };
    expand(from);
    for (int tries = 0; !open.empty() && tries < max_tries && !exhausted(); ++tries) {
      State s = open.top();
      open.pop();
      if (!found.empty() && s.cost > best_of(found)) break;
      const std::string was = s.issue()->text;
      const size_t moved = s.outcome->moved_boundaries;
      const size_t assumed = s.outcome->sym.assumptions().size();
      evaluate(s);
      if (s.outcome->moved_boundaries > moved)
        s.cost += cost_of_move * static_cast<int>(s.outcome->moved_boundaries - moved);
      s.cost += cost_of_assumption * (s.outcome->sym.assumptions().size() > assumed);
      const SizeIssue* now = s.issue();
      if (now ? is_past(*now, issue) : !s.outcome->failed()) {
        if (s.cost > above) found.push_back(std::move(s));
      } else if (now && now->text != was) {
        expand(s);
      }
    }
    const int best = best_of(found);
    std::erase_if(found, [&](const State& s) { return s.cost > best; });
    return found;
  }

  static int best_of(const std::vector<State>& states) {
    int best = std::numeric_limits<int>::max();
    for (const State& s : states) best = std::min(best, s.cost);
    return best;
  }

  static bool is_past(const SizeIssue& now, const SizeIssue& before) {
    if (now.step != before.step) return now.step > before.step;
    // Within an operator, contradictions come before everything else.
    const bool contradicts = now.kind == SizeIssue::Kind::Contradiction;
    if (before.kind == SizeIssue::Kind::Contradiction && !contradicts) return true;
    return now.at > before.at || (now.at == before.at && are_others(now, before));
  }

  /// Whether two issues are about different sizes.
  static bool are_others(const SizeIssue& x, const SizeIssue& y) {
    for (sym::Expr a : {x.a, x.b})
      for (sym::Expr b : {y.a, y.b})
        if (!a.is_constant() && a.str() == b.str()) return false;
    return true;
  }

  /// A number less in doubt: the states that follow from one by a repair that the issue calls for.
  std::vector<State> repaired(const State& s) {
    std::vector<State> out;
    const SizeIssue& issue = *s.issue();
    const std::set<std::string> needed = unmatched(s);
    for (const eval::Origins::Found& f : s.outcome->origins.numbers(issue.origin, max_doubted)) {
      const auto now = s.repairs.find(f.literal);
      if (f.literal.element == Literal::fixed) continue;
      if (f.value < 1 || f.value > largest_doubted || (now != s.repairs.end() && !differing_.contains(f.literal)))
        continue;
      for (const Explanation& e : explanations(*s.outcome, issue, f)) {
        if (now != s.repairs.end() && now->second == e.formula) continue;
        const std::vector<sym::Expr> has = sym::symbols(e.formula);
        if (std::none_of(has.begin(), has.end(), [&](sym::Expr d) { return needed.contains(sym_.info(d).name); }))
          continue;
        State next = s;
        next.repairs.insert_or_assign(f.literal, e.formula);
        const int again = 1 + cost_of_unseen(dimensions_, e.formula);
        next.cost += 2 * (stands_for(s, e.formula) ? std::min(again, e.cost) : e.cost) + f.distance;
        out.push_back(std::move(next));
      }
    }
    return out;
  }

  /// Whether another number of the program is known to stand for it.
  static bool stands_for(const State& s, sym::Expr formula) {
    return std::ranges::any_of(s.repairs, [&](auto& repair) { return repair.second == formula; });
  }

  /// The dimensions that a repair must bring in: those on one side of the issue only.
  static std::set<std::string> unmatched(const State& s) {
    auto names = [&](sym::Expr e) {
      std::set<std::string> out;
      for (sym::Expr symbol : sym::symbols(e)) out.insert(s.outcome->sym.info(symbol).name);
      return out;
    };
    const std::set<std::string> a = names(s.issue()->a), b = names(s.issue()->b);
    std::set<std::string> out;
    std::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(), std::inserter(out, out.end()));
    return out.empty() ? a : out;
  }

  /// What a number may stand for: what the other side of the contradiction says, and what its value suggests.
  std::vector<Explanation> explanations(Evaluated& at, const SizeIssue& issue, const eval::Origins::Found& f) {
    const std::vector<int64_t> values = values_of(f);
    std::vector<Explanation> all;
    if (issue.kind == SizeIssue::Kind::Doubt) {
      const sym::Expr elements = at.sym.mul(issue.a, at.sym.constant(f.value));
      if (auto kept = at.sym.divide_exactly(elements, issue.b)) derived(at, *kept, values, cost_of_quotient, all);
      return all;
    }
    all = explained(values);
    if (issue.kind == SizeIssue::Kind::Broadcast) {
      derived(at, issue.a, values, cost_of_quotient, all);
      return all;
    }
    for (const auto& [a, b] : {std::pair{issue.a, issue.b}, std::pair{issue.b, issue.a}}) {
      const sym::Expr number = at.sym.constant(f.value);
      derived(at, at.sym.add(number, at.sym.sub(a, b)), values, std::numeric_limits<int>::max(), all);
      if (auto quotient = at.sym.divide_exactly(at.sym.mul(a, number), b))
        derived(at, *quotient, values, cost_of_quotient, all);
    }
    return all;
  }

  void derived(const Evaluated& at, sym::Expr e, const std::vector<int64_t>& values, int at_most,
               std::vector<Explanation>& all) {
    const std::vector<sym::Expr> symbols = sym::symbols(e);
    if (symbols.empty() || !std::all_of(symbols.begin(), symbols.end(), [&](sym::Expr s) { return ours(at, s); }))
      return;
    const sym::Expr formula = sym_.rebuild(e, [&](sym::Expr s) { return ours(at, s); });
    if (!explains(sym_, dimensions_, formula, values)) return;
    std::erase_if(all, [&](const Explanation& x) { return x.formula == formula; });
    const int unseen = cost_of_unseen(dimensions_, formula);
    all.push_back({formula, std::min(cost_of(formula), at_most) + unseen});
  }

  sym::Expr ours(const Evaluated& at, sym::Expr symbol) const {
    for (const Dimension& d : dimensions_)
      if (sym_.info(d.symbol).name == at.sym.info(symbol).name) return d.symbol;
    return {};
  }

  const program::Program& program_;
  const ExportOptions& options_;
  std::shared_ptr<Evaluated> first_;
  sym::Context sym_;
  std::vector<Dimension> dimensions_;
  std::map<Literal, std::vector<int64_t>> differing_;  // between captures
  std::map<std::vector<int64_t>, std::vector<Explanation>> explained_;
  std::vector<State> solutions_;
  std::vector<std::string> graphs_;
  std::shared_ptr<Evaluated> solved_;
  int evaluations_ = 0;
  int cleared_ = 0;
  bool other_failures_ = false;  // than of sizes, in an evaluation: they show nothing about numbers
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Whether the program could be exported if sizes agreed.
bool only_sizes_fail(const Evaluated& e) {
  return std::all_of(e.diagnostics.begin(), e.diagnostics.end(), [](const Diagnostic& d) {
    return d.severity != Severity::Error || d.code == Code::HardCodedSize;
  });
}

int64_t number_at(const program::Program& program, const Literal& literal) {
  if (literal.expr->kind == program::Expr::Kind::Int) return literal.expr->integer;
  const program::Data& data = program.constants.at(static_cast<size_t>(literal.expr->integer));
  if (literal.element == Literal::length) return data.tensor->numel();
  return onnx::Tensor(*data.tensor).integers().at(literal.element);
}

/// Tells it once.
void tell(Evaluated& e, Diagnostic d) {
  const bool known = std::ranges::any_of(e.diagnostics, [&](const Diagnostic& o) {
    return o.code == d.code && o.message == d.message && o.place == d.place;
  });
  if (!known) e.diagnostics.push_back(std::move(d));
}

void tell_repairs(const program::Program& program, const sym::Context& sym, const State& s) {
  for (auto& [literal, formula] : s.repairs) {
    for (sym::Expr d : sym::symbols(formula)) ++s.outcome->repaired[sym.info(d).name];
    tell(*s.outcome, {Code::RecoveredSize, Severity::Note,
                      fmt::format("the number {}, hard-coded by tracing, stands for {}", number_at(program, literal),
                                  formula.str()),
                      program.locate(literal.expr->pos), "", formula.str()});
  }
}

/// Whether a number that is used so may be the size of a dimension, or one off. One that is 0 or 1 may be anything: it
/// is doubted only where the dimension has the size 1, and a 0 only as a position in that dimension.
bool may_be(const eval::NumberUse& use, const Evaluated& outcome, const std::string& dimension,
            const std::vector<int64_t>& sizes) {
  using As = eval::NumberUse::As;
  const bool near = std::ranges::all_of(sizes, [&](int64_t size) {
    return use.number == size || (use.as == As::Position && std::abs(use.number - size) == 1);
  });
  if (!near || use.number > 1) return near;
  if (sizes[0] != 1 || (use.as == As::Operand && use.literal.element == Literal::fixed)) return false;
  if (use.number == 1 && (use.as != As::Size || !use.size)) return true;
  if (!use.size) return false;
  const std::vector<sym::Expr> within = sym::symbols(use.size);
  return std::ranges::any_of(within, [&](sym::Expr s) { return outcome.sym.info(s).name == dimension; });
}

/// Tells of sizes that left the program, and what follows from them: only a second capture shows it.
void tell_left(const State& s, const ExportOptions& options) {
  for (const std::string& what : s.outcome->left)
    if (options.also.empty())
      tell(*s.outcome, {Code::UnverifiedSize, options.strict ? Severity::Error : Severity::Warning,
                        fmt::format("what the model does with the {} is not known at other sizes", what), Place(),
                        "give a second capture at other sizes by --also", what});
}

/// Tells of numbers that may be sizes where no contradiction shows it. The size of a new tensor is refused when the
/// program is known to have burnt that dimension in elsewhere, unless the number can be shown not to matter.
void report_unverified(const program::Program& program, Search& search, const State& s, const ExportOptions& options) {
  using As = eval::NumberUse::As;
  if (options.left) {
    tell_left(s, options);
    if (s.outcome->left.empty()) return;
  }
  std::set<std::pair<Literal, std::string>> counted;
  for (const eval::NumberUse& use : s.outcome->uses) {
    if (s.repairs.contains(use.literal)) continue;
    for (const Dimension& d : search.dimensions()) {
      const std::string& name = search.sym().info(d.symbol).name;
      if (!may_be(use, *s.outcome, name, d.sizes)) continue;
      const bool size = use.as == As::Size || use.as == As::Fill;
      const bool hard_coded_elsewhere = size && s.outcome->repaired[name] > 0;
      if (hard_coded_elsewhere && !options.strict && !search.matters(s, use, d)) continue;
      const bool refused = hard_coded_elsewhere || options.strict;
      s.outcome->unverified[name] += counted.emplace(use.literal, name).second;
      tell(*s.outcome,
           {Code::UnverifiedSize, refused ? Severity::Error : Severity::Warning,
            fmt::format("the number {} may come from the size of '{}' in the sample, and nothing shows whether it does",
                        use.number, name),
            program.locate(use.pos), "give a second capture at other sizes by --also", name});
    }
  }
}

/// Whether a tensor that the model holds has a dimension of this size.
bool is_size_of_weight(const program::Object& object, int64_t size) {
  return std::ranges::any_of(object.attributes, [&](const auto& attribute) {
    const program::Data& held = attribute.second;
    if (held.object) return is_size_of_weight(*held.object, size);
    return held.tensor && std::ranges::find(held.tensor->sizes, size) != held.tensor->sizes.end();
  });
}

/// Refuses a limit of a dimension that is no size of a weight and little more than the sample, in a program with
/// numbers that may be that dimension: 2*seq - 1 positions, say, of which every length takes its part.
void tell_limited(const program::Program& program, const State& s) {
  sym::Context& sym = s.outcome->sym;
  auto doubted = [&](sym::Expr d) { return s.outcome->unverified[sym.info(d).name] > 0; };
  for (const auto& [kind, size, limit] : sym.assumptions()) {
    const std::optional<int64_t> sample = sym.sample(size), most = limit.constant();
    if (kind != sym::Assumption::Kind::AtMost || !sample || !most || *most > 2 * *sample) continue;
    const std::vector<sym::Expr> within = sym::symbols(size);
    if (std::ranges::any_of(within, doubted) && !is_size_of_weight(*program.root, *most))
      tell(*s.outcome,
           {Code::HardCodedSize, Severity::Error,
            fmt::format("{} would be at most {}, which seems to be made from the sample's size", size.str(), *most),
            Place(), "give a second capture at other sizes by --also", ""});
  }
}

/// Refuses a dimension whose elements one line takes one by one, as many as there are in the sample: a loop of the
/// model that tracing unrolled. Two on a single line may be meant.
void tell_unrolled(const program::Program& program, const State& s) {
  using As = eval::NumberUse::As;
  std::map<std::tuple<std::string, int, std::string>, std::set<int64_t>> taken;
  std::map<std::string, int> lines;  // that take all elements along a size
  for (const eval::NumberUse& use : s.outcome->uses) {
    if (use.as != As::Position || !use.size || use.size.is_constant()) continue;
    const std::optional<int64_t> size = s.outcome->sym.sample(use.size);
    if (!size || *size < 2 || use.number >= *size) continue;
    const Place place = program.locate(use.pos);
    std::set<int64_t>& positions = taken[{place.file, place.line, use.size.str()}];
    if (!positions.insert(use.number).second || positions.size() != static_cast<size_t>(*size)) continue;
    if (++lines[use.size.str()] != 2 && *size == 2) continue;
    tell(*s.outcome,
         {Code::HardCodedSize, Severity::Error,
          fmt::format("each of the {} elements along a dimension of size {} is taken by itself: a loop of the "
                      "model over them was unrolled by tracing",
                      *size, use.size.str()),
          place, "script the function that has the loop, or compute on the whole dimension at once", ""});
  }
}

/// That another solution may be meant: the number that makes the difference.
Diagnostic ambiguity(const program::Program& program, const State& best, const State& other) {
  auto differs = [&](auto& repair) {
    auto found = other.repairs.find(repair.first);
    return found == other.repairs.end() || found->second != repair.second;
  };
  auto number = std::ranges::find_if(best.repairs, differs);
  if (number == best.repairs.end()) number = best.repairs.begin();
  const auto otherwise = other.repairs.find(number->first);
  const std::string alternative = otherwise == other.repairs.end()      ? "for itself"
                                  : otherwise->second != number->second ? "for " + otherwise->second.str()
                                                                        : "not";
  return {
      Code::AmbiguousSize,
      Severity::Error,
      fmt::format("the number {} may stand for {} or {}, and nothing in the program decides which",
                  number_at(program, number->first), number->second.str(), alternative),
      program.locate(number->first.expr->pos),
      "capture the model at sizes that differ from each other and from other numbers in it, give a second capture by "
      "--also, or take the first choice by --recover=guess",
      ""};
}

}  // namespace

std::shared_ptr<Evaluated> evaluate_and_recover(const Captures& captures, const ExportOptions& options) {
  const program::Program& program = *captures[0];
  std::shared_ptr<Evaluated> first = evaluate(program, options);
  if (captures.size() == 1 && (first->dimensions.empty() || !only_sizes_fail(*first))) return first;
  // torch.export follows every size that it leaves open.
  const bool traced = captures.size() > 1 || program.producer != "torch.export";
  Search search(captures, options, first);
  if (options.recover == ExportOptions::Recover::Never) {
    State as_it_is;
    as_it_is.outcome = first;
    if (!first->failed() && traced) report_unverified(program, search, as_it_is, options);
    return first;
  }
  std::vector<State> solutions = search.run();
  if (solutions.empty()) return search.solved() && search.solved()->failed() ? search.solved() : first;
  const bool undecided = solutions.size() > 1 || search.exhausted();
  State& best = solutions.front();
  tell_repairs(program, search.sym(), best);
  if (traced) report_unverified(program, search, best, options);
  const bool nothing_left = options.left && best.outcome->left.empty();
  if (options.recover == ExportOptions::Recover::Guess) return best.outcome;
  if (captures.size() == 1 && traced && !nothing_left) {
    tell_unrolled(program, best);
    tell_limited(program, best);
  }
  if (undecided && !best.repairs.empty()) tell(*best.outcome, ambiguity(program, best, solutions.back()));
  return best.outcome;
}

}  // namespace lithify::driver
