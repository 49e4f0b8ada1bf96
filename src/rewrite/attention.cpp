// Attention and rotary embeddings that a program spells out, as one node each.
#include <cmath>
#include <optional>

#include "onnx/finite.hpp"
#include "onnx/kernels.hpp"
#include "rewrite/rewrites.hpp"

namespace lithify::rewrite {
namespace {

std::optional<double> number_of(const Value* v) {
  if (!v->constant || v->constant->numel() != 1 || !is_float(v->dtype)) return std::nullopt;
  return v->constant->reals()[0];
}

/// x in x * c and x / c for a number c, which is taken into `scale`; or else the value itself.
Value* unscaled(const Uses& uses, Value* v, double& scale) {
  const Node* n = sole(uses, v, "Mul");
  for (const size_t i : {0, 1})
    if (const auto factor = n ? number_of(n->inputs[i]) : std::nullopt) {
      scale *= *factor;
      return n->inputs[1 - i];
    }
  n = sole(uses, v, "Div");
  const auto divisor = n ? number_of(n->inputs[1]) : std::nullopt;
  if (!divisor) return v;
  scale /= *divisor;
  return n->inputs[0];
}

bool is_last_axis(const Node& n, int64_t otherwise) {
  const int64_t axis = n.int_attribute("axis", otherwise);
  return axis == -1 || axis == static_cast<int64_t>(n.outputs[0]->rank()) - 1;
}

/// The heads of a key or value, each of which serves several of the query: what they are before they are repeated.
Value* unrepeated(Value* v, Dim heads) {
  const Node* gather = made_by(v, "Gather");
  if (!gather || gather->int_attribute("axis", 0) != 1 || gather->inputs[0]->rank() != 4) return v;
  const auto have = gather->inputs[0]->shape[1].constant(), want = heads.constant();
  const auto& index = gather->inputs[1]->contents;
  if (!have || !want || !index || gather->inputs[1]->rank() != 1 || *have <= 0 || *want % *have != 0) return v;
  for (size_t i = 0; i < index->size(); ++i)
    if (!(*index)[i].is(static_cast<int64_t>(i) / (*want / *have))) return v;
  return gather->inputs[0];
}

/// What stands between the products of an attention, from the weights back to the scores.
struct Scores {
  Node* product = nullptr;  ///< of the query and the transposed key
  Value* mask = nullptr;    ///< bool, or added; may be nullptr
  bool selects = false;     ///< a bool, or else it is added
  bool zeroed = false;      ///< weights that are masked are 0, also in a row of nothing else
  double scale = 1;
};

/// A product with a query that may be scaled before or behind it.
Node* product_of(const Uses& uses, Value* v, double& scale) { return sole(uses, unscaled(uses, v, scale), "MatMul"); }

std::optional<Scores> scores_of(const Uses& uses, Value* weights) {
  Scores out;
  const Node* zeroed = sole(uses, weights, "Where");
  if (zeroed) {
    if (number_of(zeroed->inputs[2]) != 0) return std::nullopt;
    weights = zeroed->inputs[1];
  }
  const Node* softmax = sole(uses, weights, "Softmax");
  if (!softmax || !is_last_axis(*softmax, -1)) return std::nullopt;
  Value* masked = softmax->inputs[0];
  if (const Node* where = sole(uses, masked, "Where")) {
    // What is masked gets a weight of 0 beside any other, and what is added to this number vanishes in it.
    const auto low = number_of(where->inputs[2]);
    if (!low || *low > -1e30 || std::isinf(*low) || (zeroed && zeroed->inputs[0] != where->inputs[0]))
      return std::nullopt;
    out.mask = where->inputs[0];
    out.zeroed = zeroed != nullptr;
    out.selects = true;
    out.product = product_of(uses, where->inputs[1], out.scale);
  } else if (zeroed) {
    return std::nullopt;
  } else if (const Node* sum = sole(uses, masked, "Add")) {
    for (const size_t i : {0, 1})
      if (!out.product) {
        out.scale = 1;
        out.product = product_of(uses, sum->inputs[i], out.scale);
        out.mask = sum->inputs[1 - i];
      }
    if (onnx::may_be_infinite(out.mask)) return std::nullopt;
  } else {
    out.product = product_of(uses, masked, out.scale);
  }
  return out.product ? std::optional(out) : std::nullopt;
}

/// Whether a mask has the scores' last two sizes, and of the others those or 1.
bool is_mask_for(const Value& mask, const Shape& scores) {
  const size_t rank = mask.rank();
  if (rank < 2 || rank > 4) return false;
  for (size_t i = 1; i <= rank; ++i) {
    const Dim have = mask.shape[rank - i], want = scores[4 - i];
    if (have != want && !(i > 2 && have.is(1))) return false;
  }
  return true;
}

/// The mask that an Attention takes. What it gives for a query that all keys are masked for is not defined, where they
/// are so by a bool or by the lowest number of float32. A larger one stands for that: what is added vanishes in it too.
Value* attention_mask(Builder& b, const Scores& scores) {
  constexpr double low = -1e30;
  Value* mask = scores.mask;
  Vector<int64_t> axes;
  for (size_t i = mask->rank(); i < 4; ++i) axes.push_back(static_cast<int64_t>(axes.size()));
  if (!axes.empty()) mask = b.unsqueeze(mask, axes);
  if (scores.selects)
    return scores.zeroed ? mask : b.where(mask, b.scalar(DType::Float, 0.0), b.scalar(DType::Float, low));
  return onnx::may_be_infinite(mask, -low) ? b.op("Max", {mask, b.scalar(DType::Float, low)}) : mask;
}

/// Half of a value whose last axis has the same elements twice, as [batch, length, half] of [batch, 1, length, all];
/// nullptr when it is not so.
Value* first_half(Builder& b, Value* v) {
  const Node* n = v->producer;
  if (!n || !n->domain.empty()) return nullptr;
  const size_t last = v->rank() - 1;
  if (n->is("Concat")) {
    const bool is_twice = n->inputs.size() == 2 && n->inputs[0] == n->inputs[1];
    return is_twice && is_last_axis(*n, 0) && last == 2 ? n->inputs[0] : nullptr;
  }
  if (n->is("Reshape") || n->is("Unsqueeze")) {
    const Shape& from = n->inputs[0]->shape;
    const bool is_inserted = last == 3 && from.size() == 3 && v->shape[1].is(1) && v->shape[0] == from[0] &&
                             v->shape[2] == from[1] && v->shape[3] == from[2];
    return is_inserted ? first_half(b, n->inputs[0]) : nullptr;
  }
  if (n->is("Cos") || n->is("Sin")) {
    Value* half = first_half(b, n->inputs[0]);
    return half && last == 2 ? b.op(n->op_type, {half}) : nullptr;
  }
  if (n->is("Mul"))
    for (const size_t i : {0, 1})
      if (number_of(n->inputs[i]) && n->inputs[1 - i]->rank() == v->rank()) {
        Value* half = first_half(b, n->inputs[1 - i]);
        return half && last == 2 ? b.mul(half, n->inputs[i]) : nullptr;
      }
  return nullptr;
}

/// x, where a value is x with its second half, negated, in front of the first.
Value* half_turned(const Uses& uses, Value* v) {
  const Node* turned = sole(uses, v, "Concat");
  if (!turned || turned->inputs.size() != 2 || !is_last_axis(*turned, 0)) return nullptr;
  const Node* negated = sole(uses, turned->inputs[0], "Neg");
  const Node* split = made_by(turned->inputs[1], "Split");
  if (!negated || !split || split->outputs.size() != 2 || !is_last_axis(*split, 0)) return nullptr;
  const bool is_halves = split->outputs[0]->shape.back() == split->outputs[1]->shape.back();
  return is_halves && turned->inputs[1] == split->outputs[0] && negated->inputs[0] == split->outputs[1]
             ? split->inputs[0]
             : nullptr;
}

}  // namespace

void fuse_attention(Builder& b, const Uses& uses, Node& n) {
  Value *v = n.inputs[1], *out = n.outputs[0];
  if (out->rank() != 4 || v->rank() != 4 || out->dtype != DType::Float) return;
  if (!onnx::has_kernel("Attention", b.opset(), DType::Float)) return;
  std::optional<Scores> scores = scores_of(uses, n.inputs[0]);
  if (!scores) return;
  Value *q = unscaled(uses, scores->product->inputs[0], scores->scale), *turned = scores->product->inputs[1];
  const Node* transpose = sole(uses, turned, "Transpose");
  if (!transpose || q->rank() != 4 || turned->rank() != 4 || scores->scale <= 0) return;
  if (scores->mask && !is_mask_for(*scores->mask, scores->product->outputs[0]->shape)) return;
  const Dim batch = q->shape[0], heads = q->shape[1];
  if (turned->shape[0] != batch || v->shape[0] != batch || turned->shape[1] != heads || v->shape[1] != heads) return;
  Value* k = b.swap_dims(turned, 2, 3);
  Value *few_k = unrepeated(k, heads), *few_v = unrepeated(v, heads);
  if (few_k->shape[1] == few_v->shape[1]) {
    k = few_k;
    v = few_v;
  }
  Inputs inputs{q, k, v};
  if (scores->mask) inputs.push_back(attention_mask(b, *scores));
  const Attributes attributes{{"scale", static_cast<float>(scores->scale)}};
  if (!scores->zeroed) return become(n, "Attention", inputs, attributes);
  Value* any = b.reduce("ReduceMax", inputs[3], {3}, true);
  become(n, "Where", {any, b.op("Attention", inputs, attributes), b.scalar(out->dtype, 0.0)});
}

void fuse_rotary(Builder& b, const Uses& uses, Node& n) {
  if (n.outputs[0]->rank() != 4 || n.outputs[0]->dtype != DType::Float) return;
  if (!onnx::has_kernel("RotaryEmbedding", b.opset(), DType::Float)) return;
  for (const size_t i : {0, 1}) {
    const Node *plain = sole(uses, n.inputs[i], "Mul"), *turned = sole(uses, n.inputs[1 - i], "Mul");
    if (!plain || !turned) continue;
    for (const size_t j : {0, 1}) {
      Value* x = half_turned(uses, turned->inputs[j]);
      Value* cos = x ? beside(plain, x) : nullptr;
      if (!cos || x->shape != n.outputs[0]->shape) continue;
      Value *sin = turned->inputs[1 - j], *half_cos = first_half(b, cos), *half_sin = first_half(b, sin);
      if (!half_cos || !half_sin || half_cos->shape != half_sin->shape) continue;
      if (half_cos->shape[0] != x->shape[0] || half_cos->shape[1] != x->shape[2]) continue;
      return become(n, "RotaryEmbedding", {x, half_cos, half_sin});
    }
  }
}

}  // namespace lithify::rewrite
