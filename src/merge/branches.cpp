#include "merge/branches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "merge/expressions.hpp"
#include "merge/operators.hpp"

namespace lithify::merge {
namespace {

using program::Expr;
using program::Stmt;

/// Steps that both sides of a condition run stand in both, where they are at most this many operators between steps
/// that only one side runs: an If more would cost as much.
constexpr int most_repeated = 2;

/// A value of the program: a result of a column; or the contents of a literal.
struct Ref {
  uint32_t column = no_step;  ///< no_step for a literal
  uint64_t id = 0;
  bool operator==(const Ref&) const = default;
};

/// Which value each of some traces has in a place.
struct Choice {
  Set of = 0;
  std::vector<Ref> refs;                  ///< of each trace
  std::vector<const Node*> own = {};      ///< of literals: that of each trace
  std::vector<uint8_t> shown = {};        ///< and the trace whose literal stands for it
  std::vector<const Node*> literal = {};  ///< that literal

  Choice among(Set traces) const {
    Choice out = *this;
    out.of &= traces;
    return out;
  }
  const Ref& first() const { return refs[*Members(of).begin()]; }
  Set same_as_first() const {
    Set out = 0;
    for (size_t t : Members(of))
      if (refs[t] == first()) out |= set_of(t);
    return out;
  }
  bool constant() const { return same_as_first() == of; }
  /// Whether this has the values of another one, for all traces of it.
  bool covers(const Choice& other) const {
    if (!is_subset(other.of, of)) return false;
    for (size_t t : Members(other.of))
      if (refs[t] != other.refs[t]) return false;
    return true;
  }
};

struct If;

/// Statements that run one after the other, at the outcomes of some traces.
struct Block {
  struct Item {
    Stmt statement;
    Set present = 0;             ///< of a step
    std::unique_ptr<If> branch;  ///< nullptr for a statement
  };
  /// A bool that holds at the outcomes of some traces.
  struct Guard {
    std::string name;
    Set of, holds;
    size_t item;  ///< where it is known
  };
  Set of = 0;
  Block* parent = nullptr;
  size_t place = 0;  ///< of the if among the items of the parent
  size_t depth = 0;
  std::vector<Item> items = {};
  std::vector<size_t> ifs = {};  ///< among the items
  std::vector<Guard> guards = {};
};

struct If {
  struct Result {
    Choice choice;
    std::string name;
  };
  Expr condition;
  Block body, orelse;
  std::vector<Result> results = {};
  uint32_t column = 0;  ///< the first column that is not before its end
  uint64_t time = 0;    ///< of its end
};

/// How some traces are told apart: by a condition, or by a bool of several.
struct Split {
  std::optional<size_t> condition;
  Set of = 0, holds = 0;
};

class Branches {
 public:
  Branches(const Layout& layout, const std::vector<Trace>& traces, Definitions& definitions,
           const std::vector<std::string>& parameters)
      : layout_(layout), traces_(traces), definitions_(definitions), emitted_(layout.columns.size()) {
    for (size_t t = 0; t < traces.size(); ++t) root_.of |= set_of(t);
    used_.insert(parameters.begin(), parameters.end());
    emitted_[0].push_back({&root_, 0, parameters});
    find_conditions();
  }

  Branched run() {
    block(1, static_cast<uint32_t>(layout_.columns.size()), root_);
    add_return();
    Branched out;
    out.body = statements(root_, out.present);
    out.sources = std::move(sources_);
    return out;
  }

 private:
  /// A column as statements; it may stand on both sides of an if.
  struct Emitted {
    Block* block;
    size_t item;
    std::vector<std::string> names;
  };
  struct Condition {
    Set asked = 0, holds = 0;
    std::vector<ValueRef> values;
  };

  // ---- conditions ---------------------------------------------------------------------------------------------------

  void find_conditions() {
    std::map<size_t, size_t> numbers;
    for (size_t t = 0; t < traces_.size(); ++t)
      for (const Trace::Asked& a : traces_[t].asked) {
        if (!a.value) continue;
        const auto [number, is_new] = numbers.try_emplace(a.condition, conditions_.size());
        if (is_new) conditions_.push_back({0, 0, std::vector<ValueRef>(traces_.size())});
        Condition& c = conditions_[number->second];
        c.asked |= set_of(t);
        if (a.outcome) c.holds |= set_of(t);
        c.values[t] = *a.value;
      }
  }

  /// The last column with the value of a condition.
  uint32_t known_at(const Condition& c, Set of) const {
    uint32_t out = 0;
    for (size_t t : Members(of)) out = std::max(out, layout_.column_of[t][c.values[t].step]);
    return out;
  }

  /// Whether a condition is known before a column and decides between some of these traces.
  bool decides(const Condition& c, Set of, uint32_t column) const {
    return is_subset(of, c.asked) && (of & c.holds) != 0 && (of & ~c.holds) != 0 && known_at(c, of) < column;
  }

  static bool tells_apart(Set holds, Set a, Set b) {
    return (is_subset(a, holds) && (b & holds) == 0) || (is_subset(b, holds) && (a & holds) == 0);
  }

  /// The condition that decides between a and b at a column, and if there are several, the last that was known; or else
  /// the first that was asked of those with a side that has nothing of a or nothing of b; or else of those that decide
  /// something.
  std::optional<size_t> deciding(Set of, Set a, Set b, uint32_t column) const {
    std::optional<size_t> exact, partly, some;
    for (size_t i = 0; i < conditions_.size(); ++i) {
      const Condition& c = conditions_[i];
      if (!decides(c, of, column)) continue;
      if (!some) some = i;
      if (tells_apart(c.holds, a, b) && (!exact || known_at(c, of) >= known_at(conditions_[*exact], of))) exact = i;
      const bool settles = !(a & c.holds) || !(b & c.holds) || !(a & ~c.holds) || !(b & ~c.holds);
      if (settles && !partly) partly = i;
    }
    return exact ? exact : partly ? partly : some;
  }

  /// Tells a from b, which are among `of`. Empty when no condition does.
  std::optional<Split> split(Set of, Set a, Set b, uint32_t column) const {
    const std::optional<size_t> c = deciding(of, a, b, column);
    if (!c) return std::nullopt;
    if (tells_apart(conditions_[*c].holds, a, b)) return Split{c, of, of & conditions_[*c].holds};
    const std::optional<Set> holds = holds_of(of, a, b, column);
    return holds ? std::optional(Split{std::nullopt, of, *holds}) : std::nullopt;
  }

  /// The traces at whose outcomes the guard holds that tells a from b: see `guard`.
  std::optional<Set> holds_of(Set of, Set a, Set b, uint32_t column) const {
    if ((of & a) == 0) return 0;
    if ((of & b) == 0) return of;
    const std::optional<size_t> c = deciding(of, of & a, of & b, column);
    if (!c) return std::nullopt;
    const Set holds = conditions_[*c].holds;
    const auto x = holds_of(of & holds, a, b, column), y = holds_of(of & ~holds, a, b, column);
    return x && y ? std::optional(*x | *y) : std::nullopt;
  }

  Expr condition(const Split& s, Block& at, uint32_t column) {
    if (!s.condition) return guard(s, at, column);
    const Condition& c = conditions_[*s.condition];
    // A value that has to be chosen by itself cannot be.
    if (std::ranges::find(choosing_, *s.condition) != choosing_.end()) {
      const size_t t = *Members(s.of).begin();
      diverge(traces_[t], t, c.values[t].step, definitions_, "a condition is computed in different ways");
    }
    choosing_.push_back(*s.condition);
    Choice choice{s.of, std::vector<Ref>(traces_.size())};
    for (size_t t : Members(s.of)) choice.refs[t] = ref(t, c.values[t]);
    Expr chosen = value(choice, at, column);
    choosing_.pop_back();
    return chosen;
  }

  /// A bool that holds at the outcomes of some traces, by nested ifs.
  Expr guard(const Split& s, Block& at, uint32_t column) {
    size_t end = at.items.size();
    for (const Block* b = &at; b; end = b->place, b = b->parent)
      for (const Block::Guard& g : b->guards)
        if (g.item < end && is_subset(s.of, g.of) && (g.holds & s.of) == s.holds) return name_of(g.name);
    const std::string name = new_name("_condition");
    decide(name, s.of, s.holds, at, column);
    at.guards.push_back({name, s.of, s.holds, at.items.size() - 1});
    return name_of(name);
  }

  void decide(const std::string& name, Set of, Set holds, Block& at, uint32_t column) {
    if (is_subset(of, holds) || (of & holds) == 0) {
      Expr flag;
      flag.kind = Expr::Kind::Bool;
      flag.integer = is_subset(of, holds);
      return assign(name, std::move(flag), at);
    }
    const size_t c = *deciding(of, of & holds, of & ~holds, column);
    If& branch = add_if({c, of, of & conditions_[c].holds}, at, column);
    decide(name, branch.body.of, holds, branch.body, column);
    decide(name, branch.orelse.of, holds, branch.orelse, column);
    close(branch, column);
  }

  // ---- statements and ifs -------------------------------------------------------------------------------------------

  void assign(const std::string& name, Expr value, Block& at) {
    Stmt s;
    s.kind = Stmt::Kind::Assign;
    s.pos = value.pos;
    s.targets = {name};
    s.values.push_back(std::move(value));
    at.items.push_back({std::move(s), 0, nullptr});
  }

  If& add_if(const Split& s, Block& at, uint32_t column) {
    auto branch = std::make_unique<If>();
    branch->condition = condition(s, at, column);
    branch->body = {s.holds, &at, at.items.size(), at.depth + 1};
    branch->orelse = {s.of & ~s.holds, &at, at.items.size(), at.depth + 1};
    at.ifs.push_back(at.items.size());
    at.items.push_back({{}, 0, std::move(branch)});
    return *at.items.back().branch;
  }

  void close(If& branch, uint32_t column) {
    branch.column = column;
    branch.time = ++time_;
  }

  /// Columns [begin, end) at the outcomes of the traces of a block.
  void block(uint32_t begin, uint32_t end, Block& at) {
    for (uint32_t c = begin; c < end;) {
      if ((layout_.columns[c].present & at.of) == 0) {
        ++c;
      } else if (is_subset(at.of, layout_.runs[c])) {
        emit(c++, at);
      } else {
        c = region(c, end, at);
      }
    }
  }

  /// Columns from `begin` that are in one if.
  struct Region {
    Split split;
    uint32_t end = 0;
    int separate = 0;    ///< how many of them only one side runs
    bool exact = false;  ///< the first of them is all of one side
  };

  uint32_t region(uint32_t begin, uint32_t end, Block& at) {
    const Set runs = layout_.runs[begin] & at.of;
    Region best;
    auto consider = [&](const Split& s) {
      Region r = extent(s, begin, end);
      r.exact = runs == s.holds || runs == (s.of & ~s.holds);
      // Of equals, the condition that was known last.
      const auto rank = [&](const Region& x) {
        return std::tuple(x.separate, x.exact, x.split.condition.has_value(),
                          x.split.condition ? known_at(conditions_[*x.split.condition], at.of) : 0);
      };
      if (r.separate > 0 && (best.separate == 0 || rank(r) >= rank(best))) best = r;
    };
    for (size_t i = 0; i < conditions_.size(); ++i)
      if (decides(conditions_[i], at.of, begin)) consider({i, at.of, at.of & conditions_[i].holds});
    if (const auto s = split(at.of, runs, at.of & ~runs, begin); s && !s->condition) consider(*s);
    if (best.separate == 0) {
      const size_t t = *Members(layout_.columns[begin].present & at.of).begin();
      fail(t, layout_.columns[begin].steps[t]);
    }
    If& branch = add_if(best.split, at, begin);
    block(begin, best.end, branch.body);
    block(begin, best.end, branch.orelse);
    close(branch, best.end);
    return best.end;
  }

  /// How far an if reaches: up to what both sides run, unless that is little and more follows; and up to what would
  /// have to stand in both.
  Region extent(const Split& s, uint32_t begin, uint32_t end) const {
    Region out{s, begin, 0, false};
    int repeated = 0;
    for (uint32_t c = begin; c < end; ++c) {
      if ((layout_.columns[c].present & s.of) == 0) continue;
      const Set runs = layout_.runs[c] & s.of;
      if (runs == s.of) {
        repeated += is_condition(c) ? most_repeated + 1 : is_on_sizes(operation(c)) ? 0 : 1;
        if (repeated > most_repeated) break;
      } else if (is_subset(runs, s.holds) || (runs & s.holds) == 0) {
        out.end = c + 1;
        ++out.separate;
        repeated = 0;
      } else {
        break;
      }
    }
    return out;
  }

  const Node& operation(uint32_t column) const {
    const size_t some = *Members(layout_.columns[column].present).begin();
    return traces_[some].code.steps[layout_.columns[column].steps[some]].operation;
  }

  bool is_condition(uint32_t column) const {
    for (const Condition& c : conditions_)
      for (size_t t : Members(c.asked & layout_.columns[column].present))
        if (c.values[t].step == layout_.columns[column].steps[t]) return true;
    return false;
  }

  [[noreturn]] void fail(size_t trace, size_t step) const {
    diverge(traces_[trace], trace, step, definitions_, "no condition decides which values are used");
  }

  // ---- steps --------------------------------------------------------------------------------------------------------

  /// The values and literals of an operation, in the order of its text.
  static void add_leaves(const Node& n, std::vector<const Node*>& out) {
    if (n.value || n.is_literal()) out.push_back(&n);
    for (const Node& item : n.items) add_leaves(item, out);
  }

  void emit(uint32_t column, Block& at) {
    const Set present = layout_.columns[column].present & at.of;
    const std::vector<uint32_t>& steps = layout_.columns[column].steps;
    const size_t some = *Members(present).begin();
    const Step& step = traces_[some].code.steps[steps[some]];
    std::vector<const Node*> nodes(traces_.size());
    for (size_t t : Members(layout_.columns[column].present)) nodes[t] = &traces_[t].code.steps[steps[t]].operation;
    Stmt s;
    s.kind = step.results == 0 ? Stmt::Kind::Evaluate : Stmt::Kind::Assign;
    s.values.push_back(expression(nodes, present, column, at));
    s.pos = definitions_.adapted(some, step.statement ? step.statement->pos : pos_of(step));
    s.scope = step.scope;
    s.unpack = step.statement && step.statement->unpack;
    s.trailing_comma = step.statement && step.statement->trailing_comma;
    const bool named = step.statement && step.statement->targets.size() == step.results;
    for (uint32_t i = 0; i < step.results; ++i) s.targets.push_back(new_name(named ? step.statement->targets[i] : "_"));
    emitted_[column].push_back({&at, at.items.size(), s.targets});
    at.items.push_back({std::move(s), layout_.columns[column].present, nullptr});
    ++time_;
    note_write(column, present);
    if (is_condition(column)) add_checks(column, at);
  }

  /// A condition that all traces of a block answered alike is assumed: the other side raises.
  void add_checks(uint32_t column, Block& at) {
    for (const Condition& c : conditions_) {
      const bool holds = is_subset(at.of, c.holds);
      if (!is_subset(at.of, c.asked) || (!holds && (at.of & c.holds) != 0) || known_at(c, at.of) != column) continue;
      Choice choice{at.of, std::vector<Ref>(traces_.size())};
      for (size_t t : Members(at.of)) choice.refs[t] = ref(t, c.values[t]);
      auto branch = std::make_unique<If>();
      branch->condition = value(choice, at, column + 1);
      branch->body = {holds ? at.of : 0, &at, at.items.size(), at.depth + 1};
      branch->orelse = {holds ? 0 : at.of, &at, at.items.size(), at.depth + 1};
      (holds ? branch->orelse : branch->body).items.push_back({raise(), 0, nullptr});
      at.items.push_back({{}, 0, std::move(branch)});
    }
  }

  static Stmt raise() {
    Expr text, operation;
    text.kind = Expr::Kind::String;
    text.name = "the recordings do not show what the model does here";
    operation.kind = Expr::Kind::Operator;
    operation.name = "prim::RaiseException";
    operation.items.push_back(std::move(text));
    Stmt s;
    s.kind = Stmt::Kind::Evaluate;
    s.values.push_back(std::move(operation));
    return s;
  }

  /// The expression of some traces in a place; they differ in their values and literals alone.
  Expr expression(const std::vector<const Node*>& nodes, Set present, uint32_t column, Block& at) {
    std::vector<std::vector<const Node*>> leaves(traces_.size());
    for (size_t t = 0; t < traces_.size(); ++t)
      if (nodes[t]) add_leaves(*nodes[t], leaves[t]);
    const size_t some = *Members(present).begin();
    size_t next = 0;
    auto build = [&](const auto& self, const Node& n) -> Expr {
      if (n.value || n.is_literal()) return leaf(leaves, next++, present, column, at);
      Expr out = definitions_.adapted(some, *n.expr);
      for (const Node& item : n.items) out.items.push_back(self(self, item));
      return out;
    };
    return build(build, *nodes[some]);
  }

  Expr leaf(const std::vector<std::vector<const Node*>>& leaves, size_t i, Set present, uint32_t column, Block& at) {
    Choice c{present, std::vector<Ref>(traces_.size())};
    if (leaves[*Members(present).begin()][i]->value) {
      for (size_t t : Members(present)) c.refs[t] = ref(t, *leaves[t][i]->value);
      return value(c, at, column);
    }
    c.own.resize(traces_.size());
    c.literal.resize(traces_.size());
    c.shown.resize(traces_.size());
    for (size_t t : Members(present)) {
      const bool last = column == layout_.columns.size();
      c.shown[t] = last ? static_cast<uint8_t>(t) : layout_.literals_of[column][t];
      c.own[t] = leaves[t][i];
      c.literal[t] = leaves[c.shown[t]][i];
      c.refs[t] = {no_step, contents_of(*c.literal[t], c.shown[t], definitions_)};
    }
    return value(c, at, column);
  }

  Expr literal(const Choice& c) {
    const size_t some = *Members(c.of).begin();
    Expr out = definitions_.adapted(c.shown[some], *c.literal[some]->expr);
    std::vector<Source>& sources = sources_.emplace_back();
    for (size_t t : Members(c.of)) sources.push_back({traces_[t].recording, c.own[t]->expr});
    out.integer2 = static_cast<int64_t>(sources_.size());
    return out;
  }

  void note_write(uint32_t column, Set present) {
    const std::optional<size_t> written = written_operand(operation(column));
    if (!written) return;
    for (size_t t : Members(present)) {
      const Node& operand = traces_[t].code.steps[layout_.columns[column].steps[t]].operation.items[*written];
      if (operand.value) written_at_[key(ref(t, base_of(traces_[t], *operand.value)))] = time_;
    }
  }

  // ---- values -------------------------------------------------------------------------------------------------------

  static std::pair<uint32_t, uint64_t> key(const Ref& r) { return {r.column, r.id}; }

  Ref ref(size_t trace, ValueRef v) const { return {layout_.column_of[trace][v.step], v.result}; }

  /// Where something is, as seen from a block: an item of it or of one around it, or inside an if among these.
  struct Position {
    size_t depth = 0, item = 0;
    bool inside = false;
    auto operator<=>(const Position&) const = default;
  };

  Position position(const Emitted& e, const Block& from) const {
    const Block* at = e.block;
    size_t item = e.item;
    bool inside = false;
    for (; !is_around(at, from); at = at->parent) {
      item = at->place;
      inside = true;
    }
    return {at->depth, item, inside};
  }

  static bool is_around(const Block* outer, const Block& inner) {
    const Block* b = &inner;
    while (b && b->depth > outer->depth) b = b->parent;
    return b == outer;
  }

  /// The expression that has a choice of values at the end of a block. `column` is the first that is not before it.
  Expr value(const Choice& c, Block& at, uint32_t column) {
    const bool constant = c.constant(), literals = c.first().column == no_step;
    if (constant && literals) return literal(c);
    std::optional<Position> last;  // of the values
    for (size_t t : Members(c.of)) {
      if (literals) break;
      for (const Emitted& e : emitted_[c.refs[t].column]) {
        if ((e.block->of & set_of(t)) == 0) continue;
        const Position p = position(e, at);
        if (constant && !p.inside) return name_of(e.names[c.first().id]);
        if (!last || p > *last) last = p;
      }
    }
    if (!last && !literals) throw Error(Code::Internal, "a value is used before the step that makes it");
    if (If* branch = nearest(c, at, last)) return result(c, *branch);
    return result(c, new_if(c, at, column));
  }

  /// The last if that can give a choice as a result: it makes one of the values, or it decides between them.
  If* nearest(const Choice& c, Block& at, const std::optional<Position>& last) {
    size_t end = at.items.size();
    for (Block* b = &at; b; end = b->place, b = b->parent) {
      for (auto i = b->ifs.rbegin(); i != b->ifs.rend(); ++i) {
        if (*i >= end) continue;
        const Position here{b->depth, *i, true};
        if (last && here < *last) return nullptr;
        If& branch = *b->items[*i].branch;
        const bool makes = last && here == *last;
        const bool known = find(c, branch) != nullptr;
        const bool chooses = (c.of & branch.body.of) != 0 && (c.of & branch.orelse.of) != 0 && !c.constant() &&
                             can_choose(c, branch.body, branch.column) && can_choose(c, branch.orelse, branch.column);
        if (known || (makes && c.constant()) || ((makes || chooses) && is_fresh(c, branch.time))) return &branch;
        if (makes) return nullptr;
      }
      if (last && last->depth == b->depth) return nullptr;
    }
    return nullptr;
  }

  /// Whether what is known before a column decides between the values on a side of an if.
  bool can_choose(const Choice& c, const Block& side, uint32_t column) const {
    for (Choice rest = c.among(side.of); rest.of != 0 && !rest.constant();) {
      const Set same = rest.same_as_first();
      if (!split(side.of, same, rest.of & ~same, column)) return false;
      rest = rest.among(~same);
    }
    return true;
  }

  /// A result that an if gives already.
  const If::Result* find(const Choice& c, const If& branch) const {
    if (c.first().column == no_step) return nullptr;  // each literal is separate
    for (const If::Result& r : branch.results)
      if (r.choice.covers(c) && (r.choice.constant() || is_fresh(r.choice, branch.time))) return &r;
    return nullptr;
  }

  /// Whether nothing was written to the values since then: a result of an if does not change with what it was chosen
  /// from.
  bool is_fresh(const Choice& c, uint64_t time) const {
    for (size_t t : Members(c.of)) {
      if (c.refs[t].column == no_step) return true;
      const ValueRef v{layout_.columns[c.refs[t].column].steps[t], static_cast<uint32_t>(c.refs[t].id)};
      const auto written = written_at_.find(key(ref(t, base_of(traces_[t], v))));
      if (written != written_at_.end() && written->second > time) return false;
    }
    return true;
  }

  If& new_if(const Choice& c, Block& at, uint32_t column) {
    const Set same = c.same_as_first();
    const std::optional<Split> s = split(at.of, same, c.of & ~same, column);
    if (!s) {
      const size_t t = *Members(c.of & ~same ? c.of & ~same : same).begin();
      fail(t, column < layout_.columns.size() ? layout_.columns[column].steps[t] : traces_[t].code.steps.size() - 1);
    }
    If& branch = add_if(*s, at, column);
    close(branch, column);
    return branch;
  }

  /// Makes a choice a result of an if.
  Expr result(const Choice& c, If& branch) {
    if (const If::Result* known = find(c, branch)) return name_of(known->name);
    const std::string name = new_name(name_for(c));
    for (Block* side : {&branch.body, &branch.orelse}) {
      const Choice there = c.among(side->of);
      Expr e;
      if (there.of == 0) {
        e.kind = Expr::Kind::Uninitialized;
        e.type.name = "Tensor";
      } else {
        e = value(there, *side, branch.column);
      }
      assign(name, std::move(e), *side);
    }
    branch.results.push_back({c, name});
    return name_of(name);
  }

  // ---- names --------------------------------------------------------------------------------------------------------

  std::string name_for(const Choice& c) const {
    for (size_t t : Members(c.of)) {
      if (c.refs[t].column == no_step) continue;
      for (const Emitted& e : emitted_[c.refs[t].column])
        if (const std::string& name = e.names[c.refs[t].id]; !name.starts_with('_')) return name;
    }
    return "_";
  }

  std::string new_name(std::string name) {
    if (name.starts_with('_')) name = "_";
    if (name != "_" && used_.insert(name).second) return name;
    const std::string stem = name == "_" ? name : name.substr(0, name.find_last_not_of("0123456789") + 1);
    for (size_t& n = numbers_[stem];; ++n)
      if (used_.insert(fmt::format("{}{}", stem, n)).second) return fmt::format("{}{}", stem, n++);
  }

  // ---- the end ------------------------------------------------------------------------------------------------------

  void add_return() {
    const auto end = static_cast<uint32_t>(layout_.columns.size());
    std::vector<Expr> outputs;
    for (size_t i = 0; i < traces_[0].outputs; ++i) {
      std::vector<const Node*> nodes;
      for (size_t t = 0; t < traces_.size(); ++t) {
        nodes.push_back(&traces_[t].code.results[i]);
        if (form_of(*nodes[t], t, definitions_) != form_of(*nodes[0], 0, definitions_))
          diverge(traces_[t], t, traces_[t].code.steps.size() - 1, definitions_, "the results are of other kinds");
      }
      outputs.push_back(expression(nodes, root_.of, end, root_));
    }
    Stmt s;
    s.kind = Stmt::Kind::Return;
    if (outputs.size() == 1) {
      s.values = std::move(outputs);
    } else {
      Expr all;
      all.kind = Expr::Kind::Tuple;
      all.items = std::move(outputs);
      s.values.push_back(std::move(all));
    }
    root_.items.push_back({std::move(s), 0, nullptr});
  }

  static std::vector<Stmt> statements(Block& block, std::vector<Set>& present) {
    std::vector<Stmt> out;
    for (Block::Item& item : block.items) {
      present.push_back(item.present);
      if (!item.branch) {
        out.push_back(std::move(item.statement));
        continue;
      }
      Stmt s;
      s.kind = Stmt::Kind::If;
      s.values.push_back(std::move(item.branch->condition));
      s.body = statements(item.branch->body, present);
      s.orelse = statements(item.branch->orelse, present);
      for (const std::vector<Stmt>* side : {&s.orelse, &s.body})
        if (!side->empty()) s.pos = side->front().pos;
      s.scope = common_scope(s);
      out.push_back(std::move(s));
    }
    return out;
  }

  /// The module that all statements of an if belong to.
  static std::optional<std::string> common_scope(const Stmt& s) {
    std::optional<std::string> out;
    for (const std::vector<Stmt>* side : {&s.body, &s.orelse})
      for (const Stmt& inner : *side)
        if (inner.scope) out = out ? common_path(*out, *inner.scope) : *inner.scope;
    return out;
  }

  /// "encoder.layer" of "encoder.layer.0" and "encoder.layer.1".
  static std::string common_path(const std::string& a, const std::string& b) {
    const auto [x, y] = std::ranges::mismatch(a, b);
    const auto n = static_cast<size_t>(x - a.begin());
    const bool at_end = (n == a.size() || a[n] == '.') && (n == b.size() || b[n] == '.');
    if (at_end) return a.substr(0, n);
    const size_t dot = n == 0 ? std::string::npos : a.rfind('.', n - 1);
    return dot == std::string::npos ? "" : a.substr(0, dot);
  }

  const Layout& layout_;
  const std::vector<Trace>& traces_;
  Definitions& definitions_;
  std::vector<Condition> conditions_;
  std::vector<size_t> choosing_;  // conditions whose values are being chosen
  Block root_;
  std::vector<std::vector<Emitted>> emitted_;  // of each column
  std::vector<std::vector<Source>> sources_;
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> written_at_;  // the time of the last write to a value
  uint64_t time_ = 0;
  std::set<std::string> used_;
  std::map<std::string, size_t> numbers_;
};

}  // namespace

Branched branched(const Layout& layout, const std::vector<Trace>& traces, Definitions& definitions,
                  const std::vector<std::string>& parameters) {
  return Branches(layout, traces, definitions, parameters).run();
}

}  // namespace lithify::merge
