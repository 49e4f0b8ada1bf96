#include "onnx/rewrite.hpp"

#include <cmath>
#include <cstring>

namespace lithify::onnx {
namespace {

/// How often each value is used, by nodes and as a graph output.
class Uses {
 public:
  explicit Uses(const Graph& graph) {
    for (const Node* n : graph.nodes)
      for (const Value* v : n->inputs) ++count_[v];
    for (const Value* v : graph.outputs) ++count_[v];
  }
  int of(const Value* v) const {
    auto found = count_.find(v);
    return found == count_.end() ? 0 : found->second;
  }

 private:
  std::unordered_map<const Value*, int> count_;
};

/// The node that makes `v`, if it is of a type and nothing else uses `v`.
Node* sole(const Uses& uses, const Value* v, std::string_view op_type) {
  bool fits = v && v->producer && v->producer->op_type == op_type && uses.of(v) == 1;
  return fits ? v->producer : nullptr;
}

double epsilon_of(const Node& n) {
  const Attribute* a = n.attribute("epsilon");
  return a ? std::get<float>(a->data) : 1e-5;
}

// Batch normalization of a convolution scales the rows of its weight and shifts its bias.
void fold_batch_norm(Builder& b, const Uses& uses, Node& norm) {
  if (norm.outputs.size() != 1 || norm.int_attribute("training_mode", 0) != 0) return;
  Node* conv = sole(uses, norm.inputs[0], "Conv");
  if (!conv) return;
  Value* weight = conv->inputs[1];
  Value* bias = conv->inputs.size() > 2 ? conv->inputs[2] : nullptr;
  bool known = weight->constant && weight->dtype == DType::Float && uses.of(weight) == 1 && weight->constant->view() &&
               (!bias || bias->constant);
  for (size_t i = 1; i < 5; ++i) known = known && norm.inputs[i]->constant && norm.inputs[i]->dtype == DType::Float;
  if (!known) return;
  std::vector<double> gamma = norm.inputs[1]->constant->reals(), beta = norm.inputs[2]->constant->reals(),
                      mean = norm.inputs[3]->constant->reals(), variance = norm.inputs[4]->constant->reals();
  std::vector<double> shift = bias ? bias->constant->reals() : std::vector<double>(gamma.size(), 0);
  auto scale = std::make_shared<std::vector<float>>();
  std::vector<float> new_bias;
  double epsilon = epsilon_of(norm);
  for (size_t i = 0; i < gamma.size(); ++i) {
    double s = gamma[i] / std::sqrt(variance[i] + epsilon);
    scale->push_back(static_cast<float>(s));
    new_bias.push_back(static_cast<float>((shift[i] - mean[i]) * s + beta[i]));
  }
  Tensor scaled = *weight->constant;
  scaled.pieces[0].scale = std::move(scale);
  Value* w = b.constant(std::move(scaled), weight->name);
  Value* c = b.graph().new_value();
  *c = *b.floats(new_bias);
  c->name = bias ? bias->name : norm.inputs[2]->name;
  // The norm node becomes the convolution, so that its output keeps its place and name.
  norm.op_type = "Conv";
  norm.attributes = conv->attributes;
  norm.scope = conv->scope;
  norm.inputs = {conv->inputs[0], w, c};
}

}  // namespace

void rewrite(Builder& builder) {
  Uses uses(builder.graph());
  for (Node* n : builder.graph().nodes)
    if (n->op_type == "BatchNormalization") fold_batch_norm(builder, uses, *n);
  share_weights(builder);
}

}  // namespace lithify::onnx
