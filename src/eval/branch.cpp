// An if whose condition is known only at run time: both branches are evaluated, and what they changed is joined.
#include <fmt/format.h>

#include <algorithm>

#include "eval/carry.hpp"
#include "eval/elements.hpp"
#include "eval/evaluator.hpp"
#include "eval/join.hpp"

namespace lithify::eval {

namespace {

/// Both sides of a difference as values of the graph, each in its body.
struct Sides {
  onnx::Value* values[2] = {nullptr, nullptr};
};

/// The size that is 0 on a path (0: the condition holds, 1: it does not), where the condition says so.
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
  const std::vector<sym::Term> terms = sym::terms(size);
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

/// `a and b`, and `a or b`, where b may as well be computed when it does not matter; nullptr for everything else.
onnx::Value* logical(onnx::Builder& b, const Difference& d, onnx::Value* condition, const Sides& sides) {
  const bool both = is_flag(d.second, false), either = is_flag(d.first, true);
  if (!both && !either) return nullptr;
  onnx::Value* other = sides.values[both ? 0 : 1];
  other = other->dtype == DType::Bool && other->rank() == 0 ? b.lifted(other) : nullptr;
  return other ? b.op(both ? "And" : "Or", {condition, other}) : nullptr;
}

/// What lists of both paths begin with is laid out for both before the branch.
void lay_out_common(onnx::Builder& b, const Difference& d) {
  const auto *first = d.first.get_if<std::shared_ptr<List>>(), *second = d.second.get_if<std::shared_ptr<List>>();
  if (!first || !second || (*first)->head || (*second)->head) return;
  const std::vector<Value>&x = (*first)->items, &y = (*second)->items;
  for (size_t i = 0; i < std::min(x.size(), y.size()) && x[i].is_tensor() && y[i].is_tensor(); ++i)
    if (x[i].tensor() == y[i].tensor() && !is_complex(x[i].tensor()->dtype())) carried(b, Value::list({x[i]}));
}

}  // namespace

struct Evaluator::Path {
  std::shared_ptr<onnx::Graph> body;
  std::optional<State> end;  // empty when the path raises
};

Evaluator::Path Evaluator::follow(const std::vector<program::Stmt>& statements, const State& before, Frame& frame) {
  Path path{builder_.new_body(onnx::Builder::Body::Branch), std::nullopt};
  const int depth = depth_;
  const std::string scope = builder_.scope;
  const program::Pos pos = pos_;
  const std::optional<DType> autocast = autocast_;
  try {
    Inside inside(builder_, *path.body);
    execute(statements, frame);
    path.end = before.now(frame);
  } catch (const Error& e) {
    if (e.first().code != Code::ProgramRaises) throw;
    depth_ = depth;
    builder_.scope = scope;
    pos_ = pos;
    autocast_ = autocast;
  }
  before.restore(frame);
  return path;
}

void Evaluator::branch(const program::Stmt& s, const Value& choice, Frame& frame) {
  const State before(frame);
  const Path paths[] = {follow(s.body, before, frame), follow(s.orelse, before, frame)};
  // A branch that raises is a check: where it is decided at run time, it is taken to hold.
  if (!paths[0].end) return execute(s.orelse, frame);
  if (!paths[1].end) return execute(s.body, frame);

  Join join(before, *paths[0].end, *paths[1].end);
  const std::vector<Difference>& differences = join.differences();
  std::vector<Sides> sides(differences.size());
  auto in_each = [&](auto f) {
    for (size_t p : {0, 1}) {
      paths[p].end->restore(frame);
      Inside inside(builder_, *paths[p].body);
      for (size_t i = 0; i < differences.size(); ++i) f(differences[i], p, sides[i]);
    }
    before.restore(frame);
  };
  for (const Difference& d : differences) lay_out_common(builder_, d);
  in_each([&](const Difference& d, size_t p, Sides& side) {
    side.values[p] = carried(builder_, p ? d.second : d.first);
    if (side.values[p]) side.values[p] = builder_.real(side.values[p]);
  });
  in_each([&](const Difference& d, size_t p, Sides& side) {
    onnx::Value*& mine = side.values[p];
    if (!mine && side.values[1 - p]) mine = placeholder(builder_, d, side.values[1 - p]);
    if (mine) mine = builder_.cast(mine, common_type(d, side.values[0], side.values[1]));
    if (mine && side.values[1 - p] && side.values[1 - p]->is_sequence()) mine = as_sequence(builder_, mine);
  });

  onnx::Value* condition = as_condition(builder_, choice);
  // What has no elements on one path may have other dimensions there: it takes those of the other path.
  in_each([&](const Difference& d, size_t p, Sides& side) {
    onnx::Value *mine = side.values[p], *other = side.values[1 - p];
    const std::optional<sym::Expr> none = absent(condition, p);
    if (!mine || !none || mine->rank() == other->rank() || !builder_.numel(without(builder_, mine->shape, *none)).is(0))
      return;
    const onnx::Shape shape = without(builder_, other->shape, *none);
    if (!builder_.numel(shape).is(0) ||
        !std::ranges::all_of(shape, [&](onnx::Dim n) { return builder_.computable(n); }))
      return;
    report({Code::UnsupportedControlFlow, Severity::Warning,
            fmt::format("'{}' has {} dimensions where it has no elements, and {} elsewhere; it is exported with {}",
                        d.name, mine->rank(), other->rank(), other->rank()),
            program_.locate(pos_), "", ""});
    side.values[p] = builder_.real(builder_.full(shape, builder_.scalar(mine->dtype, 0)));
  });
  std::vector<Value> results(differences.size());
  std::vector<size_t> chosen;
  std::vector<onnx::Builder::Fact> facts;
  std::vector<onnx::Value*> outputs[2];
  for (size_t i = 0; i < differences.size(); ++i) {
    const Difference& d = differences[i];
    auto [first, second] = sides[i].values;
    if (!first) {
      results[i] = d.first;
    } else if (is_flag(d.first, true) && is_flag(d.second, false)) {
      results[i] = uncarried(builder_, condition, d);
    } else if (is_flag(d.first, false) && is_flag(d.second, true)) {
      results[i] = uncarried(builder_, builder_.op("Not", {condition}), d);
    } else if (onnx::Value* both = logical(builder_, d, condition, sides[i])) {
      results[i] = uncarried(builder_, both, d);
    } else if (first == second) {
      results[i] = uncarried(builder_, first, d);
    } else {
      chosen.push_back(i);
      facts.push_back(common_fact(builder_, d.name, first, second));
      outputs[0].push_back(first);
      outputs[1].push_back(second);
    }
  }
  if (!chosen.empty()) {
    for (size_t p : {0, 1}) {
      Inside inside(builder_, *paths[p].body);
      builder_.body_outputs(outputs[p]);
    }
    std::vector<onnx::Value*> out =
        builder_.control("If", {condition}, {{"then_branch", paths[0].body}, {"else_branch", paths[1].body}}, facts);
    for (size_t k = 0; k < chosen.size(); ++k) results[chosen[k]] = uncarried(builder_, out[k], differences[chosen[k]]);
  }
  join.apply(builder_, frame, results);
}

}  // namespace lithify::eval
