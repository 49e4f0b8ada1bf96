// Losses: a distance or likelihood of each element or row, then the reduction that the call names.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "ops/elementwise.hpp"
#include "ops/register.hpp"

namespace lithify::ops {
namespace {

enum class Reduction { None, Mean, Sum };  // PyTorch's numbers

Reduction reduction_of(Call& c) {
  int64_t r = c.integer("reduction");
  if (r < 0 || r > 2) c.mismatch(fmt::format("there is no reduction {}", r));
  return static_cast<Reduction>(r);
}

Ref total(Builder& b, Ref x) { return x->rank() == 0 ? x : b.reduce("ReduceSum", x, {}, false); }

Ref reduced(Builder& b, Ref loss, Reduction r) {
  if (r == Reduction::None || loss->rank() == 0) return loss;
  return r == Reduction::Sum ? total(b, loss) : b.reduce("ReduceMean", loss, {}, false);
}

Ref reduced(Call& c, Ref loss) { return reduced(c.onnx, loss, reduction_of(c)); }

// max(0, x)
Ref hinge(Builder& b, Ref x) { return is_float(x->dtype) ? b.op("Relu", {x}) : maximum(b, x, like(b, x, 0)); }

Ref squared(Builder& b, Ref x) { return b.mul(x, x); }

// What a real number makes of integers.
Ref as_real(Builder& b, Ref x) { return b.cast(x, float_type(x->dtype)); }

// ---- of two tensors, element by element ---------------------------------------------------------------------------

struct Operands {
  Ref x;
  Ref y;
};

Operands operands(Call& c, std::string_view x = "self", std::string_view y = "target") {
  DType t = c.result_type({x, y});
  return {c.tensor_as(x, t), c.tensor_as(y, t)};
}

Ref distance(Call& c) {
  auto [x, y] = operands(c);
  return c.onnx.op("Abs", {c.onnx.sub(x, y)});
}

// Half the square below `delta`, a straight line from there on: m (|d| - m / 2) with m = min(|d|, delta).
Ref huber(Builder& b, Ref distance, double delta) {
  Ref m = clip(b, distance, nullptr, like(b, distance, delta));
  return b.mul(m, b.sub(distance, b.mul(m, like(b, distance, 0.5))));
}

Value smooth_l1_loss(Call& c) {
  Ref apart = distance(c);
  double beta = c.real("beta");
  if (beta == 0) return reduced(c, apart);
  Ref loss = huber(c.onnx, apart, beta);
  return reduced(c, beta == 1 ? loss : c.onnx.div(loss, like(c.onnx, loss, beta)));
}

Value kl_div(Call& c) {
  Builder& b = c.onnx;
  auto [x, y] = operands(c);
  if (c.flag("log_target")) return reduced(c, b.mul(b.op("Exp", {y}), b.sub(y, x)));
  return reduced(c, b.sub(call(c, "aten::xlogy", {y, y}), b.mul(y, x)));
}

Ref weighted(Call& c, Ref loss) {
  Ref weight = c.maybe_tensor("weight");
  return weight ? c.onnx.mul(loss, c.onnx.cast(weight, loss->dtype)) : loss;
}

Value binary_cross_entropy(Call& c) {
  Builder& b = c.onnx;
  auto [p, y] = operands(c);
  Ref one = like(b, p, 1);
  auto log = [&](Ref v) { return maximum(b, b.op("Log", {v}), like(b, v, -100)); };
  Ref loss = b.sub(b.mul(b.sub(y, one), log(b.sub(one, p))), b.mul(y, log(p)));
  return reduced(c, weighted(c, loss));
}

Value binary_cross_entropy_with_logits(Call& c) {
  Builder& b = c.onnx;
  auto [x, y] = operands(c);
  Ref one = like(b, x, 1);
  Ref positive = b.op("Softplus", {b.op("Neg", {x})});
  if (Ref weight = c.maybe_tensor("pos_weight")) {
    weight = b.cast(weight, x->dtype);
    positive = b.mul(positive, b.add(b.mul(b.sub(weight, one), y), one));
  }
  return reduced(c, weighted(c, b.add(b.mul(b.sub(one, y), x), positive)));
}

Value poisson_nll_loss(Call& c) {
  Builder& b = c.onnx;
  auto [x, y] = operands(c, "input", "target");
  x = as_real(b, x), y = as_real(b, y);
  Ref loss = c.flag("log_input") ? b.sub(b.op("Exp", {x}), b.mul(y, x))
                                 : b.sub(x, b.mul(y, b.op("Log", {b.add(x, like(b, x, c.real("eps")))})));
  if (c.flag("full")) {
    // Stirling's approximation of log(target!)
    Ref log = b.op("Log", {y});
    Ref root = b.mul(b.add(log, like(b, y, std::log(2 * std::numbers::pi))), like(b, y, 0.5));
    Ref stirling = b.add(b.sub(b.mul(y, log), y), root);
    loss = b.add(loss, b.where(compare(b, "LessOrEqual", y, like(b, y, 1)), like(b, y, 0), stirling));
  }
  return reduced(c, loss);
}

Value hinge_embedding_loss(Call& c) {
  Builder& b = c.onnx;
  auto [x, y] = operands(c);
  Ref zero = like(b, x, 0);
  Ref margin = hinge(b, b.sub(like(b, x, c.real("margin")), x));
  auto unless = [&, y = y](double label, Ref v) { return b.where(b.op("Equal", {y, like(b, y, label)}), zero, v); };
  return reduced(c, b.add(unless(1, margin), unless(-1, x)));
}

// ---- of rows ------------------------------------------------------------------------------------------------------

Value margin_ranking_loss(Call& c) {
  Builder& b = c.onnx;
  DType t = c.result_type({"input1", "input2", "target"});
  Ref apart = b.sub(c.tensor_as("input2", t), c.tensor_as("input1", t));
  Ref loss = as_real(b, b.mul(c.tensor_as("target", t), apart));
  if (double margin = c.real("margin"); margin != 0) loss = b.add(loss, like(b, loss, margin));
  return reduced(c, hinge(b, loss));
}

Value cosine_embedding_loss(Call& c) {
  Builder& b = c.onnx;
  auto [x, y] = operands(c, "input1", "input2");
  Ref target = c.tensor("target");
  Vector<int64_t> axis{target->rank() == 1 ? 1 : 0};
  if (x->dtype == DType::Bool) x = b.cast(x, DType::Int64), y = b.cast(y, DType::Int64);
  auto sum = [&](Ref v) { return as_real(b, b.reduce("ReduceSum", v, axis, false)); };
  auto length = [&](Ref v) {
    Ref square = sum(squared(b, v));
    return b.add(square, like(b, square, 1e-12));
  };
  Ref cosine = b.div(sum(b.mul(x, y)), b.op("Sqrt", {b.mul(length(x), length(y))}));
  Ref zero = like(b, cosine, 0);
  Ref apart = hinge(b, b.sub(cosine, like(b, cosine, c.real("margin"))));
  auto of = [&](double label) { return b.op("Equal", {target, like(b, target, label)}); };
  return reduced(c, b.where(of(1), b.sub(like(b, cosine, 1), cosine), b.where(of(-1), apart, zero)));
}

Value triplet_margin_loss(Call& c) {
  Builder& b = c.onnx;
  auto apart = [&](const char* x, const char* y) {
    return call(c, "aten::pairwise_distance", {c.arg(x), c.arg(y), c.arg("p"), c.arg("eps")});
  };
  Ref near = apart("anchor", "positive"), far = apart("anchor", "negative");
  if (c.flag("swap")) far = minimum(b, far, apart("positive", "negative"));
  return reduced(c, hinge(b, b.sub(b.add(near, like(b, near, c.real("margin"))), far)));
}

// What each row loses, without the dimension that a single row did not have.
Value reduced_rows(Call& c, Ref loss, bool single) {
  Reduction r = reduction_of(c);
  return single && r == Reduction::None ? c.onnx.reshape(loss, {}) : reduced(c.onnx, loss, r);
}

// sum over j != y of max(0, margin - x[y] + x[j])^p, over the number of classes.
Value multi_margin_loss(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self"), label = b.cast(c.tensor("target"), DType::Int64);
  bool single = x->rank() < 2 && label->rank() == 0;
  if (x->rank() < 2) x = b.reshape(x, {b.dim(1), b.numel(x->shape)});
  label = b.reshape(label, {x->shape[0], b.dim(1)});
  Ref picked = b.op("GatherElements", {x, label}, {{"axis", int64_t{1}}});
  Ref loss = hinge(b, b.add(b.sub(like(b, x, c.real("margin")), picked), x));
  double p = c.real("p");
  if (p != 1 && p != 2) c.mismatch("p must be 1 or 2");
  if (p == 2) loss = squared(b, loss);
  if (Ref weight = c.maybe_tensor("weight")) loss = b.mul(loss, b.gather(weight, label, 0));
  loss = b.where(b.op("Equal", {arange(b, x->shape[1]), label}), like(b, x, 0), loss);
  return reduced_rows(c, b.reduce("ReduceMean", loss, {1}, false), single);
}

struct Multilabel {
  Ref loss;       // of each row
  Ref is_target;  // [rows, classes]
};

// The labels of a row end at the first that is negative. sum over labels y, and over the classes i that are none, of
// max(0, 1 - x[y] + x[i]), over the number of classes.
Multilabel multilabel_margin(Builder& b, Ref x, Ref labels) {
  Ref zero = b.scalar_int(DType::Int64, 0);
  Ref ended = b.cast(b.op("Less", {labels, zero}), DType::Int32);
  Ref valid = b.op("Equal", {b.op("CumSum", {ended, b.scalar_int(DType::Int64, 1)}), b.scalar_int(DType::Int32, 0)});
  Ref pairs = b.op("And", {b.unsqueeze(valid, {2}), b.op("Equal", {b.unsqueeze(labels, {2}), arange(b, x->shape[1])})});
  Ref is_target = b.cast(b.reduce("ReduceMax", b.cast(pairs, DType::Int32), {1}, false), DType::Bool);
  Ref picked = b.op("GatherElements", {x, b.where(valid, labels, zero)}, {{"axis", int64_t{1}}});
  Ref apart = hinge(b, b.add(b.sub(like(b, x, 1), b.unsqueeze(picked, {2})), b.unsqueeze(x, {1})));
  Ref counted = b.op("And", {b.unsqueeze(valid, {2}), b.unsqueeze(b.op("Not", {is_target}), {1})});
  Ref sums = b.reduce("ReduceSum", b.where(counted, apart, like(b, x, 0)), {1}, false);
  return {b.reduce("ReduceMean", sums, {1}, false), b.cast(is_target, x->dtype)};
}

Value multilabel_margin_loss(Call& c, bool with_target) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self"), labels = b.cast(c.tensor("target"), DType::Int64);
  bool single = x->rank() < 2;
  Shape target_shape = labels->shape;
  if (single) {
    x = b.reshape(x, {b.dim(1), b.numel(x->shape)});
    labels = b.reshape(labels, x->shape);
  }
  Multilabel m = multilabel_margin(b, x, labels);
  Value loss = reduced_rows(c, m.loss, single);
  return with_target ? Value::tuple({loss, b.reshape(m.is_target, target_shape)}) : loss;
}

// ---- classification -----------------------------------------------------------------------------------------------

/// The class of each position, some of which are left out; what the losses of classes have in common.
class Classes {
 public:
  /// The scores are [rows, classes, ...] or [classes]; the target is without the dimension of the classes.
  Classes(Call& c, Ref target, size_t score_rank)
      : b_(c.onnx), reduction_(reduction_of(c)), ignore_(c.integer("ignore_index")), weight_(c.maybe_tensor("weight")) {
    if (target->dtype != DType::Int32 && target->dtype != DType::Int64) target = b_.cast(target, DType::Int64);
    single_ = score_rank == 1;
    target_ = single_ ? b_.reshape(target, {b_.dim(1)}) : target;
  }

  /// Scores with a dimension of rows.
  Ref batched(Ref scores) { return single_ ? b_.unsqueeze(scores, {0}) : scores; }
  /// The loss without the dimension that a single row did not have.
  Ref result(Ref loss) { return single_ && reduction_ == Reduction::None ? b_.reshape(loss, {}) : loss; }

  /// -weight[target] * log_probabilities[target], reduced.
  Ref likelihood(Ref log_probabilities) {
    static const std::string names[] = {"none", "mean", "sum"};
    if (b_.opset() >= 12) {
      onnx::Inputs inputs{log_probabilities, target_};
      if (weight_) inputs.push_back(b_.cast(weight_, log_probabilities->dtype));
      return b_.op("NegativeLogLikelihoodLoss", inputs,
                   {{"ignore_index", ignore_}, {"reduction", names[static_cast<int>(reduction_)]}});
    }
    Ref picked = b_.op("GatherElements", {log_probabilities, b_.unsqueeze(index(), {1})}, {{"axis", int64_t{1}}});
    Ref loss = b_.op("Neg", {b_.squeeze(picked, {1})});
    return reduced(weight_ ? b_.mul(loss, b_.gather(b_.cast(weight_, loss->dtype), index(), 0)) : loss);
  }

  /// Losses of each position reduced: those left out are 0, and the mean is by weight.
  Ref reduced(Ref loss) {
    loss = kept(loss);
    if (reduction_ == Reduction::None) return loss;
    Ref sum = total(b_, loss);
    return reduction_ == Reduction::Sum ? sum : b_.div(sum, total_weight(loss->dtype));
  }

  /// The sum of the weights of all positions that are not left out.
  Ref total_weight(DType t) {
    return total(b_, weight_ ? kept(b_.gather(b_.cast(weight_, t), index(), 0)) : kept(b_.scalar(t, 1)));
  }

 private:
  Ref ignored() { return b_.op("Equal", {target_, b_.scalar_int(target_->dtype, ignore_)}); }
  Ref index() { return b_.where(ignored(), b_.scalar_int(target_->dtype, 0), target_); }
  Ref kept(Ref v) { return b_.where(ignored(), like(b_, v, 0), v); }

  Builder& b_;
  Reduction reduction_;
  int64_t ignore_;
  Ref weight_;
  Ref target_;
  bool single_;
};

Value nll_loss(Call& c) {
  Ref x = c.tensor("self");
  Classes classes(c, c.tensor("target"), x->rank());
  return classes.result(classes.likelihood(classes.batched(x)));
}

Value nll_loss_forward(Call& c) {
  Ref x = c.tensor("self");
  Classes classes(c, c.tensor("target"), x->rank());
  Ref weight =
      reduction_of(c) == Reduction::None && x->rank() > 1 ? like(c.onnx, x, 0) : classes.total_weight(x->dtype);
  return Value::tuple({classes.result(classes.likelihood(classes.batched(x))), weight});
}

// A weight for each class, along the dimension of the classes.
Ref class_weights(Builder& b, Ref weight, Ref scores, int64_t axis) {
  Shape shape(scores->rank() - static_cast<size_t>(axis), b.dim(1));
  shape[0] = weight->shape.at(0);
  return b.reshape(b.cast(weight, scores->dtype), shape);
}

Ref number_of(Builder& b, Dim n, DType t) {
  return n.is_constant() ? b.scalar(t, static_cast<double>(*n.constant())) : b.cast(b.symbolic(n), t);
}

// The target gives a probability of each class.
Value cross_entropy_of_probabilities(Call& c, Ref log_p, int64_t axis) {
  Builder& b = c.onnx;
  Ref target = c.tensor_as("target", log_p->dtype);
  Dim n = log_p->shape[static_cast<size_t>(axis)];
  if (double smoothing = c.real("label_smoothing"); smoothing > 0) {
    target = b.mul(target, like(b, target, 1 - smoothing));
    target = b.add(target, b.div(like(b, target, smoothing), number_of(b, n, target->dtype)));
  }
  Ref product = b.mul(log_p, target);
  if (Ref weight = c.maybe_tensor("weight")) product = b.mul(product, class_weights(b, weight, log_p, axis));
  Ref loss = b.op("Neg", {b.reduce("ReduceSum", product, {axis}, false)});
  return reduced(c, loss);
}

Value cross_entropy_loss(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self"), target = c.tensor("target");
  if (x->rank() == 0) c.mismatch("the scores need a dimension of classes");
  if (target->rank() == x->rank() && is_float(target->dtype)) {
    int64_t axis = x->rank() == 1 ? 0 : 1;
    return cross_entropy_of_probabilities(c, b.softmax("LogSoftmax", x, axis), axis);
  }
  Classes classes(c, target, x->rank());
  Ref log_p = b.softmax("LogSoftmax", classes.batched(x), 1);
  Ref loss = classes.likelihood(log_p);
  if (double smoothing = c.real("label_smoothing"); smoothing > 0) {
    Ref weight = c.maybe_tensor("weight");
    Ref even = weight ? b.mul(log_p, class_weights(b, weight, log_p, 1)) : log_p;
    even = classes.reduced(b.op("Neg", {b.reduce("ReduceSum", even, {1}, false)}));
    Ref share = b.div(like(b, loss, smoothing), number_of(b, log_p->shape[1], loss->dtype));
    loss = b.add(b.mul(loss, like(b, loss, 1 - smoothing)), b.mul(even, share));
  }
  return classes.result(loss);
}

// The loss of a last linear layer. The chunks that PyTorch computes it in, to save memory, are of no consequence; what
// it keeps for the backward pass is left out.
Value linear_cross_entropy(Call& c, int64_t reduction, const Value& smoothing) {
  Value logits = c.call("aten::linear", {c.arg("input"), c.arg("linear_weight"), c.arg("linear_bias")});
  return c.call("aten::cross_entropy_loss", {logits, c.arg("target"), c.arg("weight"), c.number_value(reduction),
                                             c.arg("ignore_index"), smoothing});
}

}  // namespace

void register_loss(eval::Registry& ops) {
  ops.add("aten::mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", [](Call& c) -> Value {
    auto [x, y] = operands(c);
    return reduced(c, squared(c.onnx, c.onnx.sub(x, y)));
  });
  ops.add("aten::l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
          [](Call& c) -> Value { return reduced(c, distance(c)); });
  ops.add("aten::smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.0) -> Tensor",
          smooth_l1_loss);
  ops.add("aten::huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.0) -> Tensor",
          [](Call& c) -> Value { return reduced(c, huber(c.onnx, distance(c), c.real("delta"))); });
  ops.add("aten::soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", [](Call& c) -> Value {
    auto [x, y] = operands(c);
    return reduced(c, c.onnx.op("Softplus", {c.onnx.mul(c.onnx.op("Neg", {y}), x)}));
  });
  ops.add("aten::kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor", kl_div);
  ops.add("aten::binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor",
          binary_cross_entropy);
  ops.add(
      "aten::binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, "
      "Tensor? pos_weight=None, int reduction=1) -> Tensor",
      binary_cross_entropy_with_logits);
  ops.add(
      "aten::poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction) -> "
      "Tensor",
      poisson_nll_loss);
  ops.add("aten::hinge_embedding_loss(Tensor self, Tensor target, float margin=1.0, int reduction=1) -> Tensor",
          hinge_embedding_loss);
  ops.add(
      "aten::margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=1) -> "
      "Tensor",
      margin_ranking_loss);
  ops.add(
      "aten::cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=1) -> "
      "Tensor",
      cosine_embedding_loss);
  ops.add(
      "aten::triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2.0, "
      "float eps=1e-06, bool swap=False, int reduction=1) -> Tensor",
      triplet_margin_loss);
  ops.add(
      "aten::multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, "
      "int reduction=1) -> Tensor",
      multi_margin_loss);
  ops.add("aten::multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
          [](Call& c) { return multilabel_margin_loss(c, false); });
  ops.add(
      "aten::multilabel_margin_loss_forward(Tensor self, Tensor target, int reduction) -> (Tensor output, Tensor "
      "is_target)",
      [](Call& c) { return multilabel_margin_loss(c, true); });

  for (std::string_view name : {"nll_loss", "nll_loss_nd", "nll_loss2d"})
    ops.add(fmt::format("aten::{}(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, "
                        "int ignore_index=-100) -> Tensor",
                        name),
            nll_loss);
  for (std::string_view name : {"nll_loss_forward", "nll_loss2d_forward"})
    ops.add(fmt::format("aten::{}(Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index) -> "
                        "(Tensor output, Tensor total_weight)",
                        name),
            nll_loss_forward);
  std::string linear = "(Tensor input, Tensor linear_weight, Tensor target, Tensor? linear_bias, Tensor? weight, ";
  ops.add("torch_nn::_linear_cross_entropy_batch_chunked" + linear +
              "str reduction, int ignore_index, float label_smoothing, int batch_chunk_size, str acc_policy, "
              "ScalarType acc_dtype, bool allow_retain_graph, bool compute_input_grad, bool "
              "compute_linear_weight_grad, bool compute_linear_bias_grad) -> (Tensor, Tensor, Tensor, Tensor)",
          [](Call& c) {
            int64_t reduction = c.text("reduction") == "mean" ? 1 : 2;
            return Value::tuple({linear_cross_entropy(c, reduction, c.arg("label_smoothing")), {}, {}, {}});
          });
  ops.add("torch_nn::_linear_cross_entropy_batch_chunked_no_reduction" + linear +
              "int ignore_index, int batch_chunk_size, str acc_policy, ScalarType acc_dtype) -> Tensor",
          [](Call& c) { return linear_cross_entropy(c, 0, 0.0); });
  ops.add(
      "aten::cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, "
      "int ignore_index=-100, float label_smoothing=0.0) -> Tensor",
      cross_entropy_loss);
}

}  // namespace lithify::ops
