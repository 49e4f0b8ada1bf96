#include "ops/repeat.hpp"

#include <fmt/format.h>

namespace lithify::ops {

std::vector<Ref> repeat(Builder& b, Ref most, std::vector<Ref> start,
                        const std::function<Step(const std::vector<Ref>&)>& step) {
  std::shared_ptr<onnx::Graph> body = b.new_body(Builder::Body::Loop);
  std::vector<Builder::Fact> facts;
  b.enter(*body);
  b.input("turn", DType::Int64, {});
  Ref always = b.input("condition", DType::Bool, {});
  std::vector<Ref> carried;
  for (size_t i = 0; i < start.size(); ++i) {
    facts.push_back({start[i]->dtype, start[i]->shape});
    carried.push_back(b.input(fmt::format("carried{}", i), start[i]->dtype, start[i]->shape));
  }
  Step after = step(carried);
  after.carried.insert(after.carried.begin(), after.again ? after.again : always);
  b.body_outputs(after.carried);
  b.leave();
  onnx::Inputs inputs{most, b.scalar(DType::Bool, 1)};
  inputs.insert(inputs.end(), start.begin(), start.end());
  return b.control("Loop", inputs, {{"body", body}}, facts);
}

}  // namespace lithify::ops
