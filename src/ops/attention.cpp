#include "ops/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/finite.hpp"
#include "ops/elementwise.hpp"
#include "ops/linear.hpp"
#include "ops/norm.hpp"
#include "ops/random.hpp"

namespace lithify::ops {
namespace {

using eval::None;
using eval::Registry;

double lowest_of(DType t) {
  switch (t) {
    case DType::Half:
      return -65504;
    case DType::Double:
      return std::numeric_limits<double>::lowest();
    case DType::BFloat16:
      return -3.3895313892515355e38;
    default:
      return std::numeric_limits<float>::lowest();
  }
}

// Each head of k and v serves several heads of q.
onnx::Value* repeat_heads(Call& c, onnx::Value* x, Dim heads) {
  size_t at = x->rank() - 3;
  if (x->shape[at] == heads) return x;
  std::optional<Dim> times = c.sym.divide_exactly(heads, x->shape[at]);
  if (!times) c.mismatch("the number of heads of the query is not a multiple of that of the key");
  Shape wide = x->shape, out = x->shape;
  wide.insert(wide.begin() + static_cast<std::ptrdiff_t>(at) + 1, *times);
  out[at] = heads;
  return c.onnx.reshape(c.onnx.expand(c.onnx.unsqueeze(x, {static_cast<int64_t>(at) + 1}), wide), out);
}

onnx::Value* scaled_scores(onnx::Builder& b, onnx::Value* q, onnx::Value* k, double scale) {
  return b.matmul(b.mul(q, b.scalar(q->dtype, scale)), b.swap_dims(k, -1, -2));
}

// Whether the elements of a constant, a row of its last dimension at a time, are all such that no key takes part.
bool has_empty_row(const onnx::Tensor& mask) {
  Vector<double> all = mask.reals();
  size_t width = mask.sizes.empty() ? 1 : static_cast<size_t>(mask.sizes.back());
  auto out = [&](double v) { return mask.dtype == DType::Bool ? v == 0 : std::isinf(v) && v < 0; };
  for (size_t row = 0; width > 0 && row < all.size(); row += width)
    if (std::all_of(all.begin() + static_cast<std::ptrdiff_t>(row),
                    all.begin() + static_cast<std::ptrdiff_t>(row + width), out))
      return true;
  return false;
}

constexpr int64_t kMostScanned = int64_t{1} << 22;

bool may_mask_row(const onnx::Value* mask) {
  if (mask->is_constant() && mask->constant->numel() <= kMostScanned) return has_empty_row(*mask->constant);
  return mask->dtype == DType::Bool || onnx::may_be_infinite(mask);
}

Value scaled_dot_product_attention(Call& c) {
  onnx::Value *q = c.tensor("query"), *k = c.tensor("key"), *v = c.tensor("value");
  size_t rank = q->rank();
  double scale;
  if (auto given = c.none("scale") ? std::nullopt : c.maybe_real("scale")) {
    scale = *given;
  } else {
    std::optional<int64_t> width = q->shape[rank - 1].constant();
    if (!width) c.unsupported("a width of the heads that is known only at run time");
    scale = 1 / std::sqrt(static_cast<double>(*width));
  }
  if (c.schema.argument("enable_gqa") && c.flag("enable_gqa")) {
    k = repeat_heads(c, k, q->shape[rank - 3]);
    v = repeat_heads(c, v, q->shape[rank - 3]);
  }
  AttentionMask mask{c.maybe_tensor("attn_mask"), false};
  if (mask.value) mask.all_rows = !may_mask_row(mask.value);
  if (c.flag("is_causal"))
    mask = {triangle(c.onnx, q->shape[rank - 2], k->shape[k->rank() - 2], c.sym.constant(0), true), true};
  if (mask.value && mask.value->dtype != DType::Bool) mask.value = c.onnx.cast(mask.value, q->dtype);
  return attend(c.onnx, q, k, v, mask, scale, c.real("dropout_p")).output;
}

// The condition of Where(condition, nonzero, 0): what a cast of it to bool comes to.
onnx::Value* nonzero(onnx::Builder& b, onnx::Value* v) {
  const onnx::Node* from = v->producer;
  auto number = [&](size_t i) -> std::optional<double> {
    const onnx::Value* input = from->inputs[i];
    if (!input->is_constant() || input->constant->numel() != 1) return std::nullopt;
    return input->constant->reals()[0];
  };
  if (from && from->op_type == "Where" && from->inputs[0]->shape == v->shape && number(1).value_or(0) != 0 &&
      number(2) == 0)
    return from->inputs[0];
  return b.cast(v, DType::Bool);
}

// The scores with those that nn.MultiheadAttention's fast path masks, by nonzero elements, at minus infinity: a row of
// them gives NaN, as PyTorch's does.
onnx::Value* fast_path_masked(Call& c, onnx::Value* scores) {
  onnx::Value* mask = c.maybe_tensor("mask");
  if (!mask) return scores;
  mask = nonzero(c.onnx, mask);
  if (c.maybe_integer("mask_type") == 1) mask = c.onnx.unsqueeze(mask, {1, 2});  // [batch, key]
  return c.onnx.where(mask, c.onnx.scalar(scores->dtype, -infinity), scores);
}

// [batch, length, heads * width] -> [batch, heads, length, width].
onnx::Value* split_heads(onnx::Builder& b, onnx::Value* x, int64_t heads) {
  Dim width = *b.sym.divide_exactly(x->shape[2], b.dim(heads));
  return b.transpose(b.reshape(x, {x->shape[0], x->shape[1], b.dim(heads), width}), {0, 2, 1, 3});
}

Attention multi_head(Call& c, onnx::Value* query, onnx::Value* key, onnx::Value* value, int64_t heads) {
  onnx::Builder& b = c.onnx;
  onnx::Value *weight = c.tensor("qkv_weight"), *bias = c.tensor("qkv_bias");
  Dim embed = query->shape[2];
  Vector<onnx::Value*> parts;
  if (query == key && key == value) {
    parts = b.split(linear(b, query, weight, bias), Vector<Dim>(3, embed), 2);
  } else {
    Vector<onnx::Value*> weights = b.split(weight, Vector<Dim>(3, embed), 0),
                         biases = b.split(bias, Vector<Dim>(3, embed), 0);
    onnx::Value* from[] = {query, key, value};
    for (size_t i = 0; i < 3; ++i) parts.push_back(linear(b, from[i], weights[i], biases[i]));
  }
  for (onnx::Value*& p : parts) p = split_heads(b, p, heads);
  double width = static_cast<double>(*parts[0]->shape[3].constant());
  onnx::Value* scores = scaled_scores(b, parts[0], parts[1], 1 / std::sqrt(width));
  onnx::Value* weights = b.softmax("Softmax", fast_path_masked(c, scores), -1);
  onnx::Value* joined = b.reshape(b.transpose(b.matmul(weights, parts[2]), {0, 2, 1, 3}), query->shape);
  return {linear(b, joined, c.tensor("proj_weight"), c.tensor("proj_bias")), weights};
}

Value native_multi_head_attention(Call& c) {
  Attention a = multi_head(c, c.tensor("query"), c.tensor("key"), c.tensor("value"), c.integer("num_head"));
  if (!c.flag("need_weights")) return Value::tuple({a.output, None{}});
  onnx::Value* weights =
      c.flag("average_attn_weights") ? c.onnx.reduce("ReduceMean", a.weights, {1}, false) : a.weights;
  return Value::tuple({a.output, weights});
}

Value transformer_encoder_layer(Call& c) {
  onnx::Builder& b = c.onnx;
  onnx::Value* x = c.tensor("src");
  if (x->rank() != 3) c.unsupported("an input that is not [batch, length, width]");
  double eps = c.real("eps");
  bool first = c.flag("norm_first");
  auto norm = [&](onnx::Value* v, const char* weight, const char* bias) {
    return layer_norm(b, v, 1, c.tensor(weight), c.tensor(bias), eps);
  };
  auto attention = [&](onnx::Value* v) { return multi_head(c, v, v, v, c.integer("num_heads")).output; };
  auto feed_forward = [&](onnx::Value* v) {
    Value hidden = linear(b, v, c.tensor("ffn_weight_1"), c.tensor("ffn_bias_1"));
    Value active = c.call(c.flag("use_gelu") ? "aten::gelu" : "aten::relu", {hidden});
    return linear(b, active.tensor()->read(b), c.tensor("ffn_weight_2"), c.tensor("ffn_bias_2"));
  };
  if (first) {
    x = b.add(x, attention(norm(x, "norm_weight_1", "norm_bias_1")));
    return b.add(x, feed_forward(norm(x, "norm_weight_2", "norm_bias_2")));
  }
  x = norm(b.add(x, attention(x)), "norm_weight_1", "norm_bias_1");
  return norm(b.add(x, feed_forward(x)), "norm_weight_2", "norm_bias_2");
}

}  // namespace

Attention attend(onnx::Builder& b, onnx::Value* q, onnx::Value* k, onnx::Value* v, AttentionMask mask, double scale,
                 double dropout) {
  onnx::Value* scores = scaled_scores(b, q, k, scale);
  onnx::Value *weights, *zero = b.scalar(q->dtype, 0.0);
  if (mask.value && mask.value->dtype == DType::Bool) {
    weights = b.softmax("Softmax", b.where(mask.value, scores, b.scalar(q->dtype, lowest_of(q->dtype))), -1);
    if (!mask.all_rows) weights = b.where(mask.value, weights, zero);
  } else {
    weights = b.softmax("Softmax", mask.value ? b.add(scores, mask.value) : scores, -1);
    if (mask.value && !mask.all_rows) weights = b.where(b.op("IsNaN", {weights}), zero, weights);
  }
  if (dropout > 0) weights = dropped(b, weights, dropout, false);
  return {b.matmul(weights, v), weights};
}

void register_attention(Registry& ops) {
  for (const char* schema :
       {"aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float "
        "dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
        "aten::scaled_dot_product_attention.old(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float "
        "dropout_p=0.0, bool is_causal=False, float? scale=None) -> Tensor"})
    ops.add(schema, scaled_dot_product_attention);
  ops.add(
      "aten::_native_multi_head_attention(Tensor query, Tensor key, Tensor value, int embed_dim, int num_head, Tensor "
      "qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, Tensor? mask=None, bool need_weights=True, "
      "bool average_attn_weights=True, int? mask_type=None) -> (Tensor, Tensor)",
      native_multi_head_attention);
  ops.add(
      "aten::_transformer_encoder_layer_fwd(Tensor src, int embed_dim, int num_heads, Tensor qkv_weight, Tensor "
      "qkv_bias, Tensor proj_weight, Tensor proj_bias, bool use_gelu, bool norm_first, float eps, Tensor "
      "norm_weight_1, Tensor norm_bias_1, Tensor norm_weight_2, Tensor norm_bias_2, Tensor ffn_weight_1, Tensor "
      "ffn_bias_1, Tensor ffn_weight_2, Tensor ffn_bias_2, Tensor? mask=None, int? mask_type=None) -> Tensor",
      transformer_encoder_layer);
}

}  // namespace lithify::ops
