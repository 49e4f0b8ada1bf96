// Random numbers: other ones in every run, of the same distribution as PyTorch's.
#include "ops/random.hpp"

#include <fmt/format.h>

#include <cmath>

#include "ops/register.hpp"

namespace lithify::ops {
namespace {

Value random_like(Call& c, const std::string& kind) {
  Ref x = c.tensor("self");
  return random(c.onnx, kind, x->shape, c.maybe_dtype("dtype").value_or(x->dtype));
}

Ref random_integers(Call& c, const Shape& shape, DType t) {
  float low = c.schema.argument("low") ? static_cast<float>(c.integer("low")) : 0;
  onnx::Attributes range{{"low", low}, {"high", static_cast<float>(c.integer("high"))}};
  return c.onnx.cast(c.onnx.op("Floor", {random(c.onnx, "RandomUniform", shape, DType::Float, range)}), t);
}

// Not ONNX's Bernoulli, which is 1 with the probability 1 - p by the function that defines it.
Ref bernoulli(Builder& b, Ref p, DType t) {
  return b.cast(b.op("Less", {random(b, "RandomUniform", p->shape, p->dtype), p}), t);
}

Ref normal(Call& c, const Shape& shape, DType t) {
  Ref noise = random(c.onnx, "RandomNormal", shape, t);
  return c.onnx.add(c.onnx.mul(noise, c.tensor_as("std", t)), c.tensor_as("mean", t));
}

// A uniform number that is never 0, for a logarithm to be taken of.
Ref positive_uniform(Builder& b, const Shape& shape, DType t) {
  return b.sub(b.scalar(t, 1), random(b, "RandomUniform", shape, t));
}

Ref exponential(Builder& b, const Shape& shape, DType t, double rate) {
  return b.div(b.op("Neg", {b.op("Log", {positive_uniform(b, shape, t)})}), b.scalar(t, rate));
}

// The positions of random numbers in order are a random order.
Value permutation(Call& c) {
  Builder& b = c.onnx;
  Dim n = c.size("n");
  Ref keys = random(b, "RandomUniform", {n}, DType::Float);
  Vector<Ref> sorted = b.op_n("TopK", {keys, b.symbolic(Vector<Dim>{n})}, {{"axis", int64_t{0}}}, 2);
  return b.cast(sorted[1], c.maybe_dtype("dtype").value_or(DType::Int64));
}

// Samples without replacement are the first of a race: each class takes an exponential time of its probability.
Value multinomial(Call& c) {
  Builder& b = c.onnx;
  Ref p = c.tensor("self");
  Dim count = c.size("num_samples");
  int64_t axis = static_cast<int64_t>(p->rank()) - 1;
  if (!c.flag("replacement") || count.is(1)) {
    Ref speed = b.div(p, exponential(b, p->shape, p->dtype, 1));
    if (count.is(1)) return b.op("ArgMax", {speed}, {{"axis", axis}});
    return b.op_n("TopK", {speed, b.symbolic(Vector<Dim>{count})}, {{"axis", axis}}, 2)[1];
  }
  // The class in whose share of the whole a uniform number falls.
  Ref ends = b.op("CumSum", {p, b.scalar_int(DType::Int64, axis)});
  Shape shape(p->shape.begin(), p->shape.end() - 1);
  shape.push_back(count);
  Ref total = b.slice(ends, axis, b.dim(-1), b.dim(std::numeric_limits<int64_t>::max()));
  Ref drawn = b.mul(random(b, "RandomUniform", shape, p->dtype), total);
  Ref behind = compare(b, "GreaterOrEqual", b.unsqueeze(drawn, {axis + 1}), b.unsqueeze(ends, {axis}));
  return b.reduce("ReduceSum", b.cast(behind, DType::Int64), {axis + 1}, false);
}

// ---- dropout -----------------------------------------------------------------------------------------------------

// 1 with the probability 1 - p, else 0. Of whole features: one number for each.
Ref kept(Builder& b, Ref x, double p, bool features) {
  Shape shape = x->shape;
  for (size_t i = 2; features && i < shape.size(); ++i) shape[i] = b.dim(1);
  return bernoulli(b, b.full(shape, like(b, x, 1 - p)), x->dtype);
}

// What is dropped goes to the value that SELU has at minus infinity; then mean and variance are as before.
Ref alpha_dropped(Builder& b, Ref x, double p, bool features) {
  if (p == 1) return b.full(x->shape, like(b, x, 0));
  constexpr double alpha = 1.7580993408473766;
  double scale = 1 / std::sqrt((alpha * alpha * p + 1) * (1 - p));
  Ref keep = kept(b, x, p, features);
  Ref shift = b.add(b.mul(b.sub(keep, like(b, x, 1)), like(b, x, alpha * scale)), like(b, x, alpha * scale * p));
  return b.add(b.mul(x, b.mul(keep, like(b, x, scale))), shift);
}

struct Dropout {
  std::string_view name;
  Ref (*compute)(Builder& b, Ref x, double p, bool features);
  bool features;
};

constexpr Dropout dropouts[] = {
    {"dropout", dropped, false},
    {"feature_dropout", dropped, true},
    {"alpha_dropout", alpha_dropped, false},
    {"feature_alpha_dropout", alpha_dropped, true},
};

void register_dropout(eval::Registry& ops) {
  for (const Dropout& d : dropouts) {
    ops.add(fmt::format("aten::{}(Tensor input, float p, bool train) -> Tensor", d.name), [d](Call& c) -> Value {
      if (!c.flag("train") || c.real("p") == 0) return c.arg("input");
      return d.compute(c.onnx, c.tensor("input"), c.real("p"), d.features);
    });
    ops.add(fmt::format("aten::{}_(Tensor(a!) self, float p, bool train) -> Tensor(a!)", d.name), [d](Call& c) {
      if (c.flag("train") && c.real("p") != 0)
        c.tensor_ref("self")->write(c.onnx, d.compute(c.onnx, c.tensor("self"), c.real("p"), d.features));
      return c.arg("self");
    });
  }
  ops.add("aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)", [](Call& c) {
    Builder& b = c.onnx;
    Ref x = c.tensor("input");
    double p = c.real("p");
    if ((!c.none("train") && !c.flag("train")) || p == 0)
      return Value::tuple({c.arg("input"), b.full(x->shape, b.scalar(DType::Bool, 1))});
    Ref keep = kept(b, x, p, false);
    Ref out = p == 1 ? b.full(x->shape, like(b, x, 0)) : b.mul(x, b.div(keep, like(b, x, 1 - p)));
    return Value::tuple({out, b.cast(keep, DType::Bool)});
  });
}

void register_rand(eval::Registry& ops) {
  for (auto [name, kind] : std::initializer_list<std::pair<std::string_view, std::string>>{{"rand", "RandomUniform"},
                                                                                           {"randn", "RandomNormal"}}) {
    for (std::string_view form : {"aten::{}(int[] size, *, {}) -> Tensor",
                                  "aten::{}.generator(int[] size, *, Generator? generator, {}) -> Tensor"})
      ops.add(fmt::format(fmt::runtime(form), name, tensor_options),
              [kind = kind](Call& c) -> Value {
                return random(c.onnx, kind, c.sizes("size"), c.maybe_dtype("dtype").value_or(DType::Float));
              })
          .numbers({{"size", Role::Size}});
    for (std::string_view form :
         {"aten::{}_like(Tensor self, *, {}, MemoryFormat? memory_format=None) -> Tensor",
          "aten::{}_like.generator(Tensor self, *, Generator? generator, {}, MemoryFormat? memory_format=None) -> "
          "Tensor"})
      ops.add(fmt::format(fmt::runtime(form), name, tensor_options),
              [kind = kind](Call& c) { return random_like(c, kind); });
  }
  for (std::string_view form : {"aten::randint(int high, int[] size, *, {}) -> Tensor",
                                "aten::randint.low(int low, int high, int[] size, *, {}) -> Tensor"})
    ops.add(fmt::format(fmt::runtime(form), tensor_options), [](Call& c) -> Value {
      return random_integers(c, c.sizes("size"), c.maybe_dtype("dtype").value_or(DType::Int64));
    });
  for (std::string_view form :
       {"aten::randint_like(Tensor self, int high, *, {}, MemoryFormat? memory_format=None) -> Tensor",
        "aten::randint_like.low_dtype(Tensor self, int low, int high, *, {}, MemoryFormat? memory_format=None) -> "
        "Tensor"})
    ops.add(fmt::format(fmt::runtime(form), tensor_options), [](Call& c) -> Value {
      Ref x = c.tensor("self");
      return random_integers(c, x->shape, c.maybe_dtype("dtype").value_or(x->dtype));
    });
}

}  // namespace

Ref random(Builder& b, const std::string& kind, const Shape& shape, DType t, onnx::Attributes attributes) {
  if (t == DType::Half || t == DType::BFloat16) {
    const bool below_one = kind == "RandomUniform" && attributes.empty();
    Ref drawn = random(b, kind, shape, DType::Float, std::move(attributes));
    // A number below 1 stays below 1: one of the multiples of the last digit.
    const double digits = t == DType::Half ? 2048 : 256;
    if (below_one) drawn = b.mul(b.op("Floor", {b.mul(drawn, like(b, drawn, digits))}), like(b, drawn, 1 / digits));
    return b.cast(drawn, t);
  }
  attributes.push_back({"dtype", static_cast<int64_t>(t)});
  Vector<int64_t> sizes;
  for (Dim d : shape)
    if (d.is_constant()) sizes.push_back(*d.constant());
  if (sizes.size() == shape.size()) {
    attributes.push_back({"shape", sizes});
    return b.op(kind, {}, attributes);
  }
  return b.op(kind + "Like", {b.full(shape, b.scalar(t, 0))}, attributes);
}

Ref dropped(Builder& b, Ref x, double p, bool features) {
  if (p == 1) return b.full(x->shape, like(b, x, 0));
  // Not ONNX's Dropout: ONNX Runtime takes it out in front of another node, even with training_mode.
  return b.mul(x, b.div(kept(b, x, p, features), like(b, x, 1 - p)));
}

void register_random(eval::Registry& ops) {
  register_rand(ops);
  ops.add("aten::bernoulli(Tensor self, *, Generator? generator=None) -> Tensor", [](Call& c) -> Value {
    Ref p = c.tensor("self");
    return bernoulli(c.onnx, p, p->dtype);
  });
  for (std::string_view schema :
       {"aten::bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor",
        "aten::bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor"})
    ops.add(schema, [](Call& c) -> Value {
      Ref x = c.tensor("self"), p = c.tensor("p");
      return bernoulli(c.onnx, c.onnx.expand(is_float(p->dtype) ? p : c.tensor_as("p", DType::Float), x->shape),
                       x->dtype);
    });
  for (std::string_view schema :
       {"aten::normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor",
        "aten::normal.Tensor_float(Tensor mean, float std=1.0, *, Generator? generator=None) -> Tensor",
        "aten::normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor"})
    ops.add(schema, [](Call& c) -> Value {
      DType t = float_type(c.result_type({"mean", "std"}));
      return normal(c, c.onnx.broadcast(c.tensor("mean")->shape, c.tensor("std")->shape), t);
    });
  ops.add(
      fmt::format("aten::normal.float_float(float mean, float std, int[] size, *, Generator? generator=None, {}) -> "
                  "Tensor",
                  tensor_options),
      [](Call& c) -> Value { return normal(c, c.sizes("size"), c.maybe_dtype("dtype").value_or(DType::Float)); });
  ops.add("aten::normal_functional(Tensor self, float mean=0.0, float std=1.0, *, Generator? generator=None) -> Tensor",
          [](Call& c) -> Value {
            Ref x = c.tensor("self");
            return normal(c, x->shape, x->dtype);
          });
  ops.add("aten::normal_(Tensor(a!) self, float mean=0.0, float std=1.0, *, Generator? generator=None) -> Tensor(a!)",
          [](Call& c) {
            return c.call("aten::normal_functional_", {c.arg("self"), c.arg("mean"), c.arg("std")});
          });
  ops.add("aten::uniform(Tensor self, float from=0.0, float to=1.0, *, Generator? generator=None) -> Tensor",
          [](Call& c) -> Value {
            Ref x = c.tensor("self");
            return random(c.onnx, "RandomUniform", x->shape, x->dtype, {{"low", c.f32("from")}, {"high", c.f32("to")}});
          });
  for (std::string_view form : {"aten::randperm(int n, *, {}) -> Tensor",
                                "aten::randperm.generator(int n, *, Generator? generator, {}) -> Tensor"})
    ops.add(fmt::format(fmt::runtime(form), tensor_options), permutation);
  ops.add(
      "aten::multinomial(Tensor self, int num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor",
      multinomial);
  ops.add("aten::exponential(Tensor self, float lambd=1.0, *, Generator? generator=None) -> Tensor",
          [](Call& c) -> Value {
            Ref x = c.tensor("self");
            return exponential(c.onnx, x->shape, x->dtype, c.real("lambd"));
          });
  ops.add("aten::bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? generator=None) -> Tensor(a!)",
          [](Call& c) {
            Ref x = c.tensor("self"), p = c.onnx.full(x->shape, c.onnx.scalar(DType::Float, c.real("p")));
            c.tensor_ref("self")->write(c.onnx, bernoulli(c.onnx, p, x->dtype));
            return c.arg("self");
          });
  ops.add("aten::log_normal(Tensor self, float mean=1.0, float std=2.0, *, Generator? generator=None) -> Tensor",
          [](Call& c) -> Value {
            Ref x = c.tensor("self");
            return c.onnx.op("Exp", {normal(c, x->shape, x->dtype)});
          });
  register_dropout(ops);
}

}  // namespace lithify::ops
