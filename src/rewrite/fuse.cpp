// Operators that a program spells out, and operators that another one does as well.
#include <cmath>
#include <numbers>
#include <optional>

#include "rewrite/rewrites.hpp"

namespace lithify::rewrite {
namespace {

double epsilon_of(const Node& n) {
  const float* epsilon = n.attribute_as<float>("epsilon");
  return epsilon ? *epsilon : 1e-5;
}

bool is_float_constant(const Value* v) { return v->constant && v->dtype == DType::Float; }

/// Which form of Gelu of x is (1 + function(x)); nothing when it is none.
std::optional<std::string> gelu_form(const Uses& uses, Value* one_plus, Value* x) {
  Value* function = beside(sole(uses, one_plus, "Add"), 1.0);
  if (Node* erf = sole(uses, function, "Erf")) {
    const Node* quotient = made_by(erf->inputs[0], "Div");
    if (quotient && quotient->inputs[0] == x && is_number(quotient->inputs[1], std::sqrt(2.0))) return "none";
    if (beside(made_by(erf->inputs[0], "Mul"), std::sqrt(0.5)) == x) return "none";
  }
  if (Node* tanh = sole(uses, function, "Tanh")) {
    Value* sum = beside(sole(uses, tanh->inputs[0], "Mul"), std::sqrt(2 / std::numbers::pi));
    Value* cubic = beside(sole(uses, sum, "Add"), x);
    Value* cube = beside(sole(uses, cubic, "Mul"), 0.044715);
    const Node* pow = made_by(cube, "Pow");
    const Value* exponent = pow && pow->inputs[0] == x ? pow->inputs[1] : nullptr;
    if (exponent && exponent->constant && exponent->constant->numel() == 1 && exponent->constant->reals()[0] == 3)
      return "tanh";
  }
  return std::nullopt;
}

/// The numerator and the denominator of x / y, also when it is spelled x * (1 / y).
std::pair<Value*, Value*> quotient_of(const Uses& uses, Value* v) {
  if (const Node* quotient = sole(uses, v, "Div")) return {quotient->inputs[0], quotient->inputs[1]};
  if (const Node* product = sole(uses, v, "Mul"))
    for (size_t i : {1, 0})
      if (const Node* r = sole(uses, product->inputs[i], "Reciprocal")) return {product->inputs[1 - i], r->inputs[0]};
  return {nullptr, nullptr};
}

/// Whether a mean is over the last axis of x, which it keeps.
bool is_mean_of_rows(Builder& b, const Node& mean, const Value& x) {
  if (x.rank() == 0) return false;
  Shape row = x.shape;
  row.back() = b.dim(1);
  if (mean.outputs[0]->shape != row || mean.inputs.size() != 2) return false;
  const auto& axes = mean.inputs[1]->contents;
  return axes && axes->size() == 1 && axes->front().is(static_cast<int64_t>(x.rank()) - 1);
}

}  // namespace

void fold_batch_norm(Builder& b, const Uses& uses, Node& norm) {
  if (norm.outputs.size() != 1 || norm.int_attribute("training_mode", 0) != 0) return;
  Node* conv = sole(uses, norm.inputs[0], "Conv");
  if (!conv) return;
  Value* weight = conv->inputs[1];
  Value* bias = conv->inputs.size() > 2 ? conv->inputs[2] : nullptr;
  bool known =
      is_float_constant(weight) && uses.of(weight) == 1 && weight->constant->view() && (!bias || bias->constant);
  for (size_t i = 1; i < 5; ++i) known = known && is_float_constant(norm.inputs[i]);
  if (!known) return;
  const Vector<double> gamma = norm.inputs[1]->constant->reals(), beta = norm.inputs[2]->constant->reals(),
                       mean = norm.inputs[3]->constant->reals(), variance = norm.inputs[4]->constant->reals();
  const Vector<double> shift = bias ? bias->constant->reals() : Vector<double>(gamma.size(), 0);
  auto scale = std::make_shared<Vector<float>>();
  Vector<float> new_bias;
  const double epsilon = epsilon_of(norm);
  for (size_t i = 0; i < gamma.size(); ++i) {
    const double s = gamma[i] / std::sqrt(variance[i] + epsilon);
    scale->push_back(static_cast<float>(s));
    new_bias.push_back(static_cast<float>((shift[i] - mean[i]) * s + beta[i]));
  }
  onnx::Tensor scaled = *weight->constant;
  scaled.pieces[0].scale = std::move(scale);
  Value* w = b.constant(std::move(scaled), weight->name);
  Value* c = b.graph().new_value();
  *c = *b.floats(new_bias);
  c->name = bias ? bias->name : norm.inputs[2]->name;
  // The norm node becomes the convolution, so that its output keeps its place and name.
  norm.scope = conv->scope;
  become(norm, "Conv", {conv->inputs[0], w, c}, conv->attributes);
}

void divide(Builder&, const Uses& uses, Node& n) {
  for (size_t i : {0, 1})
    if (Node* r = sole(uses, n.inputs[i], "Reciprocal")) return become(n, "Div", {n.inputs[1 - i], r->inputs[0]});
}

void fuse_gelu(Builder&, const Uses& uses, Node& n) {
  for (size_t i : {0, 1}) {
    Value *half = n.inputs[i], *rest = n.inputs[1 - i];
    Value* x = nullptr;
    std::optional<std::string> form;
    if (Value* inside = beside(sole(uses, half, "Mul"), 0.5)) {  // (0.5 x) (1 + ...)
      x = inside;
      form = gelu_form(uses, rest, x);
    } else if (is_number(half, 0.5) && sole(uses, rest, "Mul")) {  // 0.5 (x (1 + ...))
      for (size_t j : {0, 1}) {
        if (form) break;
        x = rest->producer->inputs[j];
        form = gelu_form(uses, rest->producer->inputs[1 - j], x);
      }
    }
    if (!form) continue;
    return become(n, "Gelu", {x}, *form == "tanh" ? Attributes{{"approximate", *form}} : Attributes{});
  }
}

void fuse_rms_norm(Builder& b, const Uses& uses, Node& n) {
  for (size_t i : {0, 1}) {
    Value* weight = n.inputs[1 - i];
    const auto [x, divisor] = quotient_of(uses, n.inputs[i]);
    const Node* root = sole(uses, divisor, "Sqrt");
    const Node* sum = root ? sole(uses, root->inputs[0], "Add") : nullptr;
    if (!sum) continue;
    const size_t last = sum->inputs[0]->constant ? 0 : 1;
    const Value* epsilon = sum->inputs[last];
    const Node* mean = sole(uses, sum->inputs[1 - last], "ReduceMean");
    const Node* square = mean ? sole(uses, mean->inputs[0], "Mul") : nullptr;
    if (!square || square->inputs[0] != x || square->inputs[1] != x || x->dtype != DType::Float) continue;
    if (!is_mean_of_rows(b, *mean, *x) || weight->shape != Shape{x->shape.back()}) continue;
    if (!epsilon->constant || epsilon->constant->numel() != 1) continue;
    return become(n, "RMSNormalization", {x, weight},
                  {{"axis", int64_t{-1}}, {"epsilon", static_cast<float>(epsilon->constant->reals()[0])}});
  }
}

void unflatten_gemm(Builder& b, const Uses& uses, Node& n) {
  Node* gemm = sole(uses, n.inputs[0], "Gemm");
  if (!gemm || gemm->int_attribute("transA", 0) || gemm->attribute("alpha") || gemm->attribute("beta")) return;
  Node* flat = made_by(gemm->inputs[0], "Reshape");
  Value* bias = gemm->inputs.size() > 2 ? gemm->inputs[2] : nullptr;
  const Shape& to = n.outputs[0]->shape;
  if (!flat || to.size() < 3 || !(to.back() == gemm->outputs[0]->shape[1]) || (bias && bias->rank() > 1)) return;
  Shape from = to;
  from.back() = gemm->inputs[0]->shape[1];
  Value *x = flat->inputs[0], *weight = gemm->inputs[1];
  if (x->shape != from) {
    if (uses.of(flat->outputs[0]) != 1) return;
    x = b.reshape(x, from);
  }
  if (gemm->int_attribute("transB", 0)) weight = b.swap_dims(weight, 0, 1);
  if (!bias) return become(n, "MatMul", {x, weight});
  become(n, "Add", {b.matmul(x, weight), bias});
}

}  // namespace lithify::rewrite
