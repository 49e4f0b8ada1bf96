#include "ops/repeat.hpp"

#include <fmt/format.h>

#include "eval/carry.hpp"

namespace lithify::ops {

namespace {

// A body of outputs [again, carried..., kept...] by `run`, which is given the number of the iteration, the condition
// and what is carried.
Vector<Ref> loop(Builder& b, Ref most, const Vector<Ref>& start, std::optional<Dim> iterations,
                 const std::function<Vector<Ref>(Ref, Ref, const Vector<Ref>&)>& run) {
  std::shared_ptr<onnx::Graph> body = b.new_body(Builder::Body::Loop);
  Vector<Builder::Fact> facts;
  {
    const eval::Inside inside(b, *body);
    Ref iteration = b.input("iteration", DType::Int64, {}), condition = b.input("condition", DType::Bool, {});
    Vector<Ref> carried;
    for (size_t i = 0; i < start.size(); ++i) {
      facts.push_back({start[i]->dtype, start[i]->shape});
      carried.push_back(b.input(fmt::format("carried{}", i), start[i]->dtype, start[i]->shape));
    }
    Vector<Ref> after = run(iteration, condition, carried);
    for (size_t i = start.size() + 1; i < after.size(); ++i) {
      Shape shape = after[i]->shape;
      shape.insert(shape.begin(), *iterations);
      facts.push_back({after[i]->dtype, shape});
    }
    b.body_outputs(after);
  }
  onnx::Inputs inputs{most, b.scalar(DType::Bool, 1)};
  inputs.insert(inputs.end(), start.begin(), start.end());
  return b.control("Loop", inputs, {{"body", body}}, facts);
}

}  // namespace

Vector<Ref> repeat(Builder& b, Ref most, const Vector<Ref>& start,
                   const std::function<Step(const Vector<Ref>&)>& step) {
  return loop(b, most, start, std::nullopt, [&](Ref, Ref always, const Vector<Ref>& carried) {
    Step after = step(carried);
    after.carried.insert(after.carried.begin(), after.again ? after.again : always);
    return after.carried;
  });
}

Vector<Ref> collect(Builder& b, Dim iterations, const Vector<Ref>& start,
                    const std::function<Iteration(Ref, const Vector<Ref>&)>& run) {
  return loop(b, b.symbolic(iterations), start, iterations, [&](Ref iteration, Ref always, const Vector<Ref>& carried) {
    Iteration after = run(iteration, carried);
    after.carried.insert(after.carried.begin(), always);
    after.carried.push_back(after.kept);
    return after.carried;
  });
}

}  // namespace lithify::ops
