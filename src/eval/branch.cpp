// An if whose condition is known only at run time: both branches are evaluated, and what they changed is joined.
#include <fmt/format.h>

#include "eval/carry.hpp"
#include "eval/evaluator.hpp"
#include "eval/join.hpp"

namespace lithify::eval {

namespace {

/// Both sides of a difference as values of the graph, each in its body.
struct Sides {
  onnx::Value* values[2] = {nullptr, nullptr};
};

bool is_flag(const Value& v, bool flag) { return v.is<bool>() && *v.get_if<bool>() == flag; }

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
  in_each([&](const Difference& d, size_t p, Sides& side) {
    side.values[p] = carried(builder_, p ? d.second : d.first);
    if (side.values[p]) side.values[p] = builder_.real(side.values[p]);
  });
  in_each([&](const Difference& d, size_t p, Sides& side) {
    onnx::Value*& mine = side.values[p];
    if (!mine && side.values[1 - p]) mine = placeholder(builder_, d, side.values[1 - p]);
    if (mine) mine = builder_.cast(mine, common_type(d, side.values[0], side.values[1]));
  });

  onnx::Value* condition = as_condition(builder_, choice);
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
    } else if (first == second) {
      results[i] = uncarried(builder_, first, d);
    } else {
      chosen.push_back(i);
      facts.push_back({first->dtype, common_shape(builder_, d.name, first->shape, second->shape)});
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
