// An if whose condition is known only at run time: both branches are evaluated, and what they changed is joined.
#include <fmt/format.h>

#include <algorithm>

#include "base/restored.hpp"
#include "eval/carry.hpp"
#include "eval/elements.hpp"
#include "eval/evaluator.hpp"
#include "eval/join.hpp"
#include "onnx/facts.hpp"

namespace lithify::eval {

namespace {

/// Whether a block always ends in an exception.
bool raises(const std::vector<program::Stmt>& body) {
  return std::ranges::any_of(body, [](const program::Stmt& s) {
    if (s.kind == program::Stmt::Kind::If) return raises(s.body) && raises(s.orelse);
    return s.kind == program::Stmt::Kind::Evaluate && s.values[0].kind == program::Expr::Kind::Operator &&
           s.values[0].name == "prim::RaiseException";
  });
}

/// Both sides of a difference as values of the graph, each in its body.
struct Sides {
  onnx::Value* values[2] = {nullptr, nullptr};
};

/// The size that is 0 on a path (0: the condition holds, 1: it does not), where that follows from the condition.
std::optional<sym::Expr> absent(const onnx::Value* condition, size_t path) {
  const onnx::Node* node = condition->producer;
  if (!node) return std::nullopt;
  if (node->op_type == "Not") return absent(node->inputs[0], 1 - path);
  auto size = [&](size_t i) -> std::optional<sym::Expr> {
    const auto& contents = node->inputs[i]->contents;
    return contents && contents->size() == 1 ? std::optional((*contents)[0]) : std::nullopt;
  };
  // n > 0 and 0 < n do not hold, n == 0 holds.
  const bool swapped = node->op_type == "Less";
  if (path != (node->op_type == "Equal" ? 0 : 1) ||
      (!swapped && node->op_type != "Equal" && node->op_type != "Greater"))
    return std::nullopt;
  const std::optional<sym::Expr> n = size(swapped ? 1 : 0), zero = size(swapped ? 0 : 1);
  return n && zero && zero->is(0) && n->lower().value_or(-1) >= 0 ? n : std::nullopt;
}

/// The symbol that is 0 where a size is: of n, 3 * n, and min(n, 5).
std::optional<sym::Expr> absent_symbol(sym::Expr size) {
  if (sym::kind(size) == sym::Kind::Symbol) return size;
  if (sym::kind(size) == sym::Kind::Min) {
    const auto [a, b] = sym::operands(size);
    if (a.lower().value_or(0) > 0) return absent_symbol(b);
    return b.lower().value_or(0) > 0 ? absent_symbol(a) : std::nullopt;
  }
  const Vector<sym::Term> terms = sym::terms(size);
  const bool multiple = sym::kind(size) == sym::Kind::Polynomial && terms.size() == 1 && terms[0].atoms.size() == 1;
  return multiple ? absent_symbol(terms[0].atoms[0]) : std::nullopt;
}

/// A shape where a size is 0.
onnx::Shape without(onnx::Builder& b, onnx::Shape shape, sym::Expr size) {
  if (const std::optional<sym::Expr> symbol = absent_symbol(size))
    for (onnx::Dim& d : shape) d = b.sym.substitute(d, *symbol, b.dim(0));
  return shape;
}

bool is_flag(const Value& v, bool flag) { return v.is<bool>() && *v.get_if<bool>() == flag; }

/// `a and b`, and `a or b`, where b may as well be computed when it does not matter, and the same of `not a`; nullptr
/// for everything else.
onnx::Value* logical(onnx::Builder& b, const Difference& d, onnx::Value* condition, const Sides& sides) {
  for (const bool negated : {false, true}) {
    const bool both = is_flag(negated ? d.first : d.second, false),
               either = is_flag(negated ? d.second : d.first, true);
    if (!both && !either) continue;
    onnx::Value* other = sides.values[both != negated ? 0 : 1];
    other = other->dtype == DType::Bool && other->rank() == 0 ? b.lifted(other) : nullptr;
    if (!other) return nullptr;
    return b.op(both ? "And" : "Or", {negated ? b.op("Not", {condition}) : condition, other});
  }
  return nullptr;
}

/// A fact as something to be assumed; nothing for sizes that are not equal.
std::optional<sym::Assumption> as_assumption(sym::Context& sym, const sym::Fact& fact) {
  using Kind = sym::Assumption::Kind;
  switch (fact.kind) {
    case sym::Fact::Kind::Equal:
      return sym::Assumption{Kind::Equal, fact.a, fact.b};
    case sym::Fact::Kind::AtMost:
      return sym::Assumption{Kind::AtMost, fact.a, fact.b};
    case sym::Fact::Kind::Less:
      return sym::Assumption{Kind::AtMost, sym.add(fact.a, sym.constant(1)), fact.b};
    case sym::Fact::Kind::NotEqual:
      return std::nullopt;
  }
  return std::nullopt;
}

/// What lists of both paths begin with is laid out for both before the branch.
void lay_out_common(onnx::Builder& b, const Difference& d) {
  const auto *first = d.first.get_if<std::shared_ptr<List>>(), *second = d.second.get_if<std::shared_ptr<List>>();
  if (!first || !second || (*first)->head || (*second)->head) return;
  const Vector<Value>&x = (*first)->items, &y = (*second)->items;
  for (size_t i = 0; i < std::min(x.size(), y.size()) && x[i].is_tensor() && y[i].is_tensor(); ++i)
    if (x[i].tensor() == y[i].tensor() && !is_complex(x[i].tensor()->dtype())) carried(b, Value::list({x[i]}));
}

}  // namespace

/// One way through an if.
struct Evaluator::Path {
  std::shared_ptr<onnx::Graph> body;
  std::optional<State> end;  // empty when the path raises
};

/// The two ends of an if become one state, and an If node with what differs between them.
class Evaluator::Branch {
 public:
  Branch(Evaluator& evaluator, const State& before, const Path& first, const Path& second, onnx::Value* condition,
         Frame& frame)
      : e_(evaluator),
        b_(evaluator.builder_),
        before_(before),
        paths_{&first, &second},
        joined_{{first.body.get(), second.body.get()}, {}},
        frame_(frame),
        join_(before, *first.end, *second.end),
        differences_(join_.differences()),
        sides_(differences_.size()),
        condition_(condition) {
    if (const std::optional<bool> holds = onnx::at_sample(b_.sym, condition)) joined_.sampled = *holds ? 0 : 1;
  }

  void join() {
    for (const Difference& d : differences_) lay_out_common(b_, d);
    in_each_path(&Branch::carry);
    in_each_path(&Branch::unify_types);
    in_each_path(&Branch::unify_ranks);
    decide();
    join_.apply(b_, frame_, results_);
  }

 private:
  /// Runs a step on each difference, in the body and the state of each path (0: the condition holds, 1: it does not).
  void in_each_path(void (Branch::*step)(const Difference& d, size_t path, Sides& sides)) {
    for (size_t p : {0, 1}) {
      paths_[p]->end->restore(frame_);
      Inside inside(b_, *paths_[p]->body);
      for (size_t i = 0; i < differences_.size(); ++i) (this->*step)(differences_[i], p, sides_[i]);
    }
    before_.restore(frame_);
  }

  void carry(const Difference& d, size_t p, Sides& sides) {
    sides.values[p] = carried(b_, p ? d.second : d.first);
    if (sides.values[p]) sides.values[p] = b_.real(sides.values[p]);
  }

  void unify_types(const Difference& d, size_t p, Sides& sides) {
    onnx::Value*& mine = sides.values[p];
    const onnx::Value* other = sides.values[1 - p];
    if (!mine && other) mine = placeholder(b_, d, sides.values[1 - p]);
    if (mine) mine = b_.cast(mine, common_type(d, sides.values[0], sides.values[1]));
    if (mine && other && other->is_sequence()) mine = as_sequence(b_, mine);
  }

  /// What has no elements on one path may have other dimensions there: it takes those of the other path.
  void unify_ranks(const Difference& d, size_t p, Sides& sides) {
    const onnx::Value *mine = sides.values[p], *other = sides.values[1 - p];
    const std::optional<sym::Expr> none = absent(condition_, p);
    if (!mine || !none || mine->rank() == other->rank() || !b_.numel(without(b_, mine->shape, *none)).is(0)) return;
    const onnx::Shape shape = without(b_, other->shape, *none);
    const bool computable = std::ranges::all_of(shape, [&](onnx::Dim n) { return b_.computable(n); });
    if (!computable || !b_.numel(shape).is(0)) return;
    e_.report({Code::UnsupportedControlFlow, Severity::Warning,
               fmt::format("'{}' has {} dimensions where it has no elements, and {} elsewhere; it is exported with {}",
                           d.name, mine->rank(), other->rank(), other->rank()),
               e_.program_.locate(e_.pos_), "", ""});
    sides.values[p] = b_.real(b_.full(shape, b_.scalar(mine->dtype, 0)));
  }

  /// The value of each difference after the if: without a node where that can be, else an output of the If.
  void decide() {
    results_.resize(differences_.size());
    Vector<size_t> chosen;
    for (size_t i = 0; i < differences_.size(); ++i) {
      const Difference& d = differences_[i];
      if (!sides_[i].values[0])
        results_[i] = d.first;
      else if (const std::optional<onnx::Dim> number = same_number(d))
        results_[i] = *number;
      else if (onnx::Value* same = without_if(d, sides_[i]))
        results_[i] = result(same, d);
      else
        chosen.push_back(i);
    }
    if (chosen.empty()) return;
    const Vector<onnx::Value*> out = emit(chosen);
    for (size_t k = 0; k < chosen.size(); ++k) results_[chosen[k]] = result(out[k], differences_[chosen[k]]);
  }

  std::optional<onnx::Dim> same_number(const Difference& d) {
    if (!d.first.is_int() || !d.second.is_int()) return std::nullopt;
    return same_on_both(b_, d.first.integer(), d.second.integer(), joined_);
  }

  Value result(onnx::Value* v, const Difference& d) {
    if (!d.first.is_int() || !d.second.is_int()) return uncarried(b_, v, d);
    return common_number(b_, d.name, d.first.integer(), d.second.integer(), v, joined_);
  }

  /// What a difference is in terms of the condition alone; nullptr for everything else.
  onnx::Value* without_if(const Difference& d, const Sides& sides) {
    // What is not needed on one path may as well be computed there.
    const bool one = d.first.is<Uninitialized>() != d.second.is<Uninitialized>();
    if (onnx::Value* only = sides.values[d.first.is<Uninitialized>() ? 1 : 0]; one && only->rank() == 0)
      if (onnx::Value* lifted = b_.lifted(only)) return lifted;
    if (is_flag(d.first, true) && is_flag(d.second, false)) return condition_;
    if (is_flag(d.first, false) && is_flag(d.second, true)) return b_.op("Not", {condition_});
    if (onnx::Value* both = logical(b_, d, condition_, sides)) return both;
    if (sides.values[0] == sides.values[1]) return sides.values[0];
    return selected(sides);
  }

  /// A number that can as well be computed on both paths needs no If.
  onnx::Value* selected(const Sides& sides) {
    for (const onnx::Value* v : sides.values)
      if (v->is_sequence() || v->rank() != 0) return nullptr;
    onnx::Value *first = b_.lifted(sides.values[0]), *second = b_.lifted(sides.values[1]);
    return first && second ? b_.where(condition_, first, second) : nullptr;
  }

  Vector<onnx::Value*> emit(const Vector<size_t>& chosen) {
    Vector<onnx::Builder::Fact> facts;
    Vector<onnx::Value*> outputs[2];
    for (size_t i : chosen) {
      const auto& values = sides_[i].values;
      facts.push_back(common_fact(b_, differences_[i].name, values[0], values[1], joined_));
      for (size_t p : {0, 1}) outputs[p].push_back(values[p]);
    }
    for (size_t p : {0, 1}) {
      Inside inside(b_, *paths_[p]->body);
      b_.body_outputs(outputs[p]);
    }
    return b_.control("If", {condition_}, {{"then_branch", paths_[0]->body}, {"else_branch", paths_[1]->body}}, facts);
  }

  Evaluator& e_;
  onnx::Builder& b_;
  const State& before_;
  const Path* paths_[2];
  Paths joined_;
  Frame& frame_;
  Join join_;
  const Vector<Difference>& differences_;
  Vector<Sides> sides_;
  onnx::Value* condition_;
  Vector<Value> results_;
};

void Evaluator::choose(const program::Stmt& s, Frame& frame) {
  const Value choice = evaluate(s.values[0], frame);
  if (!decided_at_run_time(builder_, choice)) return execute(condition(choice) ? s.body : s.orelse, frame);
  onnx::Value* condition = as_condition(builder_, choice);
  // A branch that only raises is a check: where it is decided at run time, it is assumed to hold.
  if (raises(s.body) != raises(s.orelse)) return execute_checked(s, condition, !raises(s.body), frame);
  const State before(frame, names_of(s));
  const Path paths[] = {follow(s, condition, true, before, frame), follow(s, condition, false, before, frame)};
  for (const bool holds : {true, false})
    if (!paths[holds ? 1 : 0].end) return execute_checked(s, condition, holds, frame);
  Branch(*this, before, paths[0], paths[1], condition, frame).join();
}

/// Runs the branch of an if that is assumed to be taken: the other one raises.
void Evaluator::execute_checked(const program::Stmt& s, const onnx::Value* condition, bool holds, Frame& frame) {
  const sym::Facts facts = onnx::facts_of(condition, holds);
  for (const sym::Fact& fact : facts)
    if (const std::optional<sym::Assumption> assumed = as_assumption(builder_.sym, fact)) builder_.sym.assume(*assumed);
  builder_.give(facts);
  execute(holds ? s.body : s.orelse, frame);
}

/// Runs one branch in a separate body. Nothing of a path that raises is left.
Evaluator::Path Evaluator::follow(const program::Stmt& s, const onnx::Value* condition, bool holds, const State& before,
                                  Frame& frame) {
  Path path{builder_.new_body(onnx::Builder::Body::Branch), std::nullopt};
  path.body->given = onnx::facts_of(condition, holds);
  Journal::Attempt attempt(journal_);
  const program::Pos pos = pos_;
  const Restored scope(builder_.scope);
  try {
    Inside inside(builder_, *path.body);
    execute(holds ? s.body : s.orelse, frame);
    path.end = before.now(frame);
  } catch (const Error& e) {
    if (e.first().code != Code::ProgramRaises) throw;
    attempt.undo();
    pos_ = pos;
  }
  before.restore(frame);
  return path;
}

}  // namespace lithify::eval
