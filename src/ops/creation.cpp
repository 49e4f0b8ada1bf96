// New tensors: filled, counted, from numbers of the program, and with a triangle kept.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "eval/evaluator.hpp"
#include "ops/elementwise.hpp"
#include "ops/register.hpp"

namespace lithify::ops {
namespace {

// ---- filled ------------------------------------------------------------------------------------------------------

Value filled(Call& c, DType otherwise, double v) {
  DType t = c.maybe_dtype("dtype").value_or(otherwise);
  return c.onnx.full(c.sizes("size"), c.onnx.scalar(t, v));
}

Value filled_like(Call& c, double v) {
  Ref x = c.tensor("self");
  return c.onnx.full(x->shape, c.onnx.scalar(c.maybe_dtype("dtype").value_or(x->dtype), v));
}

Value full(Call& c) {
  DType t = c.result_type({"fill_value"});
  // Files up to version 4 mean float32 whatever the number.
  if (c.evaluator.file_version() && c.evaluator.file_version() <= 4) t = DType::Float;
  return c.onnx.full(c.sizes("size"), c.tensor_as("fill_value", c.maybe_dtype("dtype").value_or(t)));
}

struct Filled {
  std::string_view name;
  double value;
};

// ---- counted -----------------------------------------------------------------------------------------------------

// A number without a fraction, where that is known.
std::optional<Dim> whole(Call& c, std::string_view name) {
  const Value& v = c.arg(name);
  if (const double* real = v.get_if<double>()) {
    if (*real != std::floor(*real) || std::abs(*real) > 0x1p53) return std::nullopt;
    return c.sym.constant(checked_integer(*real));
  }
  if (v.is_tensor() && is_float(v.tensor()->dtype())) return std::nullopt;
  return c.size(name);
}

Value arange_of(Call& c) {
  Builder& b = c.onnx;
  bool has_start = c.schema.argument("start"), has_step = c.schema.argument("step");
  Vector<Value> numbers{c.arg("end")};
  if (has_start) numbers.push_back(c.arg("start"));
  if (has_step) numbers.push_back(c.arg("step"));
  DType natural = c.result_type(numbers);
  DType t = c.maybe_dtype("dtype").value_or(is_float(natural) ? DType::Float : DType::Int64);

  std::optional<Dim> start = has_start ? whole(c, "start") : c.sym.constant(0), end = whole(c, "end");
  std::optional<Dim> step = has_step ? whole(c, "step") : c.sym.constant(1);
  if (start && end && step) return b.cast(b.op("Range", {b.symbolic(*start), b.symbolic(*end), b.symbolic(*step)}), t);

  auto known = [&](std::string_view name, bool given, double otherwise) {
    const std::optional<double> number = given ? known_number(c, name) : std::optional(otherwise);
    return number && t == DType::Int64 ? std::trunc(*number) : number;
  };
  std::optional<double> first = known("start", has_start, 0), limit = known("end", true, 0),
                        by = known("step", has_step, 1);
  if (first && limit && by && *by != 0) {
    const int64_t length = checked_integer(std::max(0.0, std::ceil((*limit - *first) / *by)));
    Vector<double> out = known_elements<double>(c.sym, length);
    for (size_t i = 0; i < out.size(); ++i) out[i] = *first + static_cast<double>(i) * *by;
    return b.reals(t, {static_cast<int64_t>(out.size())}, out);
  }
  auto bound = [&](std::string_view name, bool given, double otherwise, DType type) {
    return given ? c.tensor_as(name, type) : b.scalar(type, otherwise);
  };
  auto from = [&](DType type) { return bound("start", has_start, 0, type); };
  auto by_steps_of = [&](DType type) { return bound("step", has_step, 1, type); };
  if (t == DType::Int64) return b.op("Range", {from(t), bound("end", true, 0, t), by_steps_of(t)});
  // The number of elements and the elements are computed in double. Range computes both in the type of its operands,
  // where 7 / 0.7 is more than 10.
  Ref span = b.sub(bound("end", true, 0, DType::Double), from(DType::Double));
  Ref length = b.cast(b.op("Ceil", {b.div(span, by_steps_of(DType::Double))}), DType::Int64);
  const DType wide = is_float(t) ? DType::Double : DType::Int64;
  Ref count = b.cast(arange(b, c.sym.max(b.symbol_of(length, "range"), b.dim(0))), wide);
  return b.cast(b.add(b.mul(count, by_steps_of(wide)), from(wide)), t);
}

// Even steps from both ends, as PyTorch has them; integers step in double.
Vector<double> even_steps(Call& c, DType t, double start, double end, int64_t steps) {
  Vector<double> out = known_elements(c.sym, steps, start);
  auto rounded = [&](double v) { return t == DType::Float ? static_cast<double>(static_cast<float>(v)) : v; };
  double step = steps > 1 ? rounded((end - start) / static_cast<double>(steps - 1)) : 0;
  for (int64_t i = 0; i < steps; ++i)
    out[static_cast<size_t>(i)] = i < steps / 2 || steps == 1 ? start + static_cast<double>(i) * step
                                                              : end - static_cast<double>(steps - 1 - i) * step;
  return out;
}

Value linspace(Call& c, std::optional<double> base) {
  Builder& b = c.onnx;
  DType t = c.maybe_dtype("dtype").value_or(DType::Float);
  Dim steps = c.none("steps") ? c.sym.constant(100) : c.size("steps");
  std::optional<double> start = known_number(c, "start"), end = known_number(c, "end");
  if (start && end && steps.is_constant()) {
    Vector<double> out = even_steps(c, t, *start, *end, *steps.constant());
    if (base)
      for (double& v : out) v = std::pow(*base, v);
    return b.reals(t, {*steps.constant()}, out);
  }
  DType real = float_type(t);
  Ref first = c.tensor_as("start", real), last = c.tensor_as("end", real);
  Ref gaps = b.cast(b.symbolic(c.sym.max(c.sym.sub(steps, b.dim(1)), b.dim(1))), real);
  Ref out = b.add(b.mul(b.cast(arange(b, steps), real), b.div(b.sub(last, first), gaps)), first);
  if (base) out = b.op("Pow", {b.scalar(real, *base), out});
  return b.cast(out, t);
}

Value eye(Call& c) {
  Builder& b = c.onnx;
  Dim rows = c.size("n"), columns = c.schema.argument("m") ? c.size("m") : rows;
  DType t = c.maybe_dtype("dtype").value_or(DType::Float);
  if (rows.is_constant() && columns.is_constant()) {
    int64_t n = *rows.constant(), m = *columns.constant();
    Vector<double> out = known_elements<double>(c.sym, checked_mul(n, m));
    for (int64_t i = 0; i < std::min(n, m); ++i) out[static_cast<size_t>(i * m + i)] = 1;
    return b.reals(t, {n, m}, out);
  }
  Ref blank = b.full({rows, columns}, b.scalar(DType::Float, 0));
  return b.cast(b.op("EyeLike", {blank}), t);
}

// A sum of cosines: first - second * cos(t) + third * cos(2 t), where t goes once around. Those without have an own
// formula; of the Kaiser window, `second` is beta.
struct Window {
  std::string_view name;
  double first, second, third;
};

constexpr Window kinds_of_windows[] = {
    {"hann_window", 0.5, 0.5, 0}, {"hamming_window", 0.54, 0.46, 0}, {"blackman_window", 0.42, 0.5, 0.08},
    {"bartlett_window", 0, 0, 0}, {"kaiser_window", 0, 12, 0},
};

// The modified Bessel function of order 0, by its series; libc++ does not have std::cyl_bessel_i.
double bessel_i0(double x) {
  double sum = 1;
  for (double term = 1, n = 1; term > sum * std::numeric_limits<double>::epsilon() / 4; ++n)
    sum += term *= (x / (2 * n)) * (x / (2 * n));
  return sum;
}

// The window at t, which goes from 0 to 1.
double window_at(const Window& w, double t) {
  const double turn = 2 * std::numbers::pi * t, place = 2 * t - 1;
  if (w.name == "bartlett_window") return 1 - std::abs(place);
  if (w.name == "kaiser_window")
    return bessel_i0(w.second * std::sqrt(std::max(1 - place * place, 0.0))) / bessel_i0(w.second);
  return w.first - w.second * std::cos(turn) + w.third * std::cos(2 * turn);
}

// A window of a length that is known only at run time. One element alone is 1.
Ref window_of_size(Call& c, const Window& w, Dim n, bool periodic) {
  Builder& b = c.onnx;
  auto number = [&](double v) { return b.scalar(DType::Double, v); };
  const Dim length = periodic ? n : b.sym.max(b.sym.sub(n, b.dim(1)), b.dim(1));
  Ref t = b.div(b.cast(arange(b, n), DType::Double), b.cast(b.symbolic(length), DType::Double));
  auto cosine = [&](double times) { return b.op("Cos", {b.mul(t, number(times * 2 * std::numbers::pi))}); };
  Ref place = b.sub(b.mul(t, number(2)), number(1)), out;
  if (w.name == "bartlett_window") {
    out = b.sub(number(1), b.op("Abs", {place}));
  } else if (w.name == "kaiser_window") {
    Ref root = b.op("Sqrt", {b.op("Max", {b.sub(number(1), b.mul(place, place)), number(0)})});
    Value bessel = c.call("aten::special_i0", {b.mul(root, number(w.second))});
    out = b.div(bessel.tensor()->read(b), number(bessel_i0(w.second)));
  } else {
    out = b.sub(number(w.first), b.mul(cosine(1), number(w.second)));
    if (w.third != 0) out = b.add(out, b.mul(cosine(2), number(w.third)));
  }
  if (n.lower().value_or(0) > 1) return out;
  return b.where(b.op("Equal", {b.symbolic(n), b.scalar_int(DType::Int64, 1)}), number(1), out);
}

Value window(Call& c, Window w) {
  const Dim size = c.size("window_length");
  bool periodic = !c.schema.argument("periodic") || c.flag("periodic");
  if (c.schema.argument("alpha")) w.first = c.real("alpha");
  if (c.schema.argument("beta")) {
    constexpr double most = 700;  // beyond, the Bessel function is no number
    w.second = c.real("beta");
    if (!(std::abs(w.second) <= most)) c.unsupported(fmt::format("a beta of {}", w.second));
  }
  if (!size.is_constant())
    return c.onnx.cast(window_of_size(c, w, size, periodic), c.maybe_dtype("dtype").value_or(DType::Float));
  const int64_t n = *size.constant();
  Vector<double> out = known_elements(c.sym, n, 1.0);
  double length = static_cast<double>(periodic ? n : n - 1);
  for (size_t i = 0; i < out.size() && n > 1; ++i) out[i] = window_at(w, static_cast<double>(i) / length);
  return c.onnx.reals(c.maybe_dtype("dtype").value_or(DType::Float), {n}, out);
}

// ---- triangles ---------------------------------------------------------------------------------------------------

Value keep_triangle(Call& c, bool lower) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  Dim diagonal = c.size("diagonal");
  if (b.opset() >= 14) {
    onnx::Attributes attributes;
    if (lower) attributes.push_back({"upper", int64_t{0}});
    return b.op("Trilu", {x, diagonal.is(0) ? nullptr : b.symbolic(diagonal)}, attributes);
  }
  Ref mask = triangle(b, x->shape[x->rank() - 2], x->shape[x->rank() - 1], diagonal, lower);
  return x->dtype == DType::Bool ? b.op("And", {x, mask}) : b.where(mask, x, like(b, x, 0));
}

/// How many positions of a square of n by n are on and above the diagonal that is `offset` above the main one.
Dim size_of_triangle(sym::Context& sym, Dim n, int64_t offset) {
  // Beyond half of the square, what is not in the triangle is one, too.
  const bool is_most = offset < 0;
  const Dim side = sym.sub(n, sym.constant(is_most ? 1 - offset : offset));
  const Dim m = sym.less_equal(sym.constant(0), side) == true ? side : sym.max(side, sym.constant(0));
  const Dim half = sym.floor_div(sym.mul(m, sym.add(m, sym.constant(1))), sym.constant(2));
  return is_most ? sym.sub(sym.mul(n, n), half) : half;
}

Value triangle_indices(Call& c, bool lower) {
  const int64_t offset = c.integer("offset");
  if (const Dim n = c.size("row"), m = c.size("col"); !n.is_constant() || !m.is_constant()) {
    Ref found = c.onnx.op("NonZero", {triangle(c.onnx, n, m, c.sym.constant(offset), lower)});
    if (n == m) found->shape[1] = size_of_triangle(c.sym, n, lower ? -offset : offset);
    return c.onnx.cast(found, c.maybe_dtype("dtype").value_or(DType::Int64));
  }
  const int64_t rows = c.integer("row"), columns = c.integer("col");
  c.sym.budget.spend(Limit::Bytes,
                     static_cast<uint64_t>(checked_mul(std::max<int64_t>(rows, 0), columns < 0 ? 0 : columns)));
  Vector<double> row, column;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      if (lower ? j - i <= offset : j - i >= offset) {
        row.push_back(static_cast<double>(i));
        column.push_back(static_cast<double>(j));
      }
  int64_t n = static_cast<int64_t>(row.size());
  row.insert(row.end(), column.begin(), column.end());
  return c.onnx.reals(c.maybe_dtype("dtype").value_or(DType::Int64), {2, n}, row);
}

Value one_hot(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  Dim classes = c.size("num_classes");
  Ref depth = b.symbolic(classes);
  // As many classes as the largest index needs.
  if (classes.is(-1)) depth = b.add(b.reduce("ReduceMax", x, {}, false), b.scalar_int(DType::Int64, 1));
  // OneHot takes no 0-d indices.
  Ref out = b.op("OneHot", {x->rank() ? x : b.reshape(x, {b.dim(1)}), depth, b.ints({0, 1})});
  return x->rank() ? out : b.squeeze(out, {0});
}

// ---- from numbers ------------------------------------------------------------------------------------------------

void flatten(Call& c, const Value& v, size_t depth, Shape& shape, Vector<Value>& out) {
  const auto differs = [&] { c.mismatch("the lists of one dimension differ in length"); };
  if (!v.is_list()) {
    if (depth != shape.size()) differs();
    out.push_back(v);
    return;
  }
  const Vector<Value>& items = v.items();
  Dim n = c.sym.constant(static_cast<int64_t>(items.size()));
  if (depth == shape.size() && out.empty()) shape.push_back(n);
  if (depth >= shape.size() || shape[depth] != n) differs();
  for (const Value& item : items) flatten(c, item, depth + 1, shape, out);
}

Value from_numbers(Call& c, std::string_view name) {
  Builder& b = c.onnx;
  Shape shape;
  Vector<Value> items;
  flatten(c, c.arg(name), 0, shape, items);
  DType natural = items.empty() ? DType::Float : c.result_type(items);
  if (natural == DType::Double) natural = DType::Float;
  DType t = c.maybe_dtype("dtype").value_or(natural);

  auto all = [&](auto&& kind) { return std::all_of(items.begin(), items.end(), kind); };
  if (all([](const Value& v) { return v.is_int() || v.is<bool>(); })) {
    Vector<Dim> contents;
    for (const Value& v : items) contents.push_back(v.is_int() ? v.integer() : c.sym.constant(*v.get_if<bool>()));
    return b.cast(b.symbolic(natural == DType::Bool ? DType::Bool : DType::Int64, shape, contents), t);
  }
  auto real = [](const Value& v) -> std::optional<double> {
    if (const double* d = v.get_if<double>()) return *d;
    if (const bool* flag = v.get_if<bool>()) return *flag;
    if (v.is_int() && v.integer().is_constant()) return static_cast<double>(*v.integer().constant());
    return std::nullopt;
  };
  if (all([&](const Value& v) { return real(v).has_value(); })) {
    Vector<double> numbers;
    Vector<int64_t> sizes;
    for (const Value& v : items) numbers.push_back(*real(v));
    for (Dim d : shape) sizes.push_back(*d.constant());
    return b.reals(t, sizes, numbers);
  }
  Vector<Ref> parts;
  for (const Value& v : items) parts.push_back(b.reshape(c.as_tensor(v, t), {b.dim(1)}));
  return b.reshape(b.concat(parts, 0), shape);
}

void register_filled(eval::Registry& ops) {
  for (const Filled& f : {Filled{"zeros", 0}, Filled{"ones", 1}, Filled{"empty", 0}}) {
    auto plain = [v = f.value](Call& c) { return filled(c, DType::Float, v); };
    auto of_self = [v = f.value](Call& c) { return filled(c, c.tensor("self")->dtype, v); };
    if (f.name == "empty")
      ops.add(fmt::format("aten::empty.memory_format(int[] size, *, {}, MemoryFormat? memory_format=None) -> Tensor",
                          tensor_options),
              plain)
          .numbers({{"size", Role::Fill}});
    else
      ops.add(fmt::format("aten::{}(int[] size, *, {}) -> Tensor", f.name, tensor_options), plain)
          .numbers({{"size", Role::Fill}});
    ops.add(fmt::format("aten::new_{}(Tensor self, int[] size, *, {}) -> Tensor", f.name, tensor_options), of_self)
        .numbers({{"size", Role::Fill}});
    ops.add(fmt::format("aten::{}_like(Tensor self, *, {}, MemoryFormat? memory_format=None) -> Tensor", f.name,
                        tensor_options),
            [v = f.value](Call& c) { return filled_like(c, v); });
  }
  ops.add(fmt::format("aten::empty_strided(int[] size, int[] stride, *, {}) -> Tensor", tensor_options),
          [](Call& c) { return filled(c, DType::Float, 0); });
  ops.add(
      fmt::format("aten::new_empty_strided(Tensor self, int[] size, int[] stride, *, {}) -> Tensor", tensor_options),
      [](Call& c) { return filled(c, c.tensor("self")->dtype, 0); });
  ops.add(fmt::format("aten::full(int[] size, Scalar fill_value, *, {}) -> Tensor", tensor_options), full)
      .numbers({{"size", Role::Fill}, {"fill_value", Role::Operand}});
  ops.add(fmt::format("aten::new_full(Tensor self, int[] size, Scalar fill_value, *, {}) -> Tensor", tensor_options),
          [](Call& c) -> Value {
            DType t = c.maybe_dtype("dtype").value_or(c.tensor("self")->dtype);
            return c.onnx.full(c.sizes("size"), c.tensor_as("fill_value", t));
          })
      .numbers({{"size", Role::Fill}, {"fill_value", Role::Operand}});
  ops.add(fmt::format(
              "aten::full_like(Tensor self, Scalar fill_value, *, {}, MemoryFormat? memory_format=None) -> Tensor",
              tensor_options),
          [](Call& c) -> Value {
            Ref x = c.tensor("self");
            return c.onnx.full(x->shape, c.tensor_as("fill_value", c.maybe_dtype("dtype").value_or(x->dtype)));
          })
      .numbers({{"fill_value", Role::Operand}});
}

void register_ranges(eval::Registry& ops) {
  for (std::string_view form :
       {"aten::arange(Scalar end, *, {}) -> Tensor", "aten::arange.start(Scalar start, Scalar end, *, {}) -> Tensor",
        "aten::arange.start_step(Scalar start, Scalar end, Scalar step=1, *, {}) -> Tensor"})
    ops.add(fmt::format(fmt::runtime(form), tensor_options), arange_of)
        .numbers({{"start", Role::Size}, {"end", Role::Size}, {"step", Role::Size}});
  // Files up to version 7 and 8 may leave the steps out.
  ops.add(fmt::format("aten::linspace(Scalar start, Scalar end, int? steps=None, *, {}) -> Tensor", tensor_options),
          [](Call& c) { return linspace(c, std::nullopt); })
      .numbers({{"start", Role::Size}, {"end", Role::Size}, {"steps", Role::Size}});
  ops.add(fmt::format("aten::logspace(Scalar start, Scalar end, int? steps=None, float base=10.0, *, {}) -> Tensor",
                      tensor_options),
          [](Call& c) { return linspace(c, c.real("base")); });
  ops.add(fmt::format("aten::eye(int n, *, {}) -> Tensor", tensor_options), eye).numbers({{"n", Role::Size}});
  ops.add(fmt::format("aten::eye.m(int n, int m, *, {}) -> Tensor", tensor_options), eye)
      .numbers({{"n", Role::Size}, {"m", Role::Size}});
}

}  // namespace

void register_creation(eval::Registry& ops) {
  register_filled(ops);
  register_ranges(ops);
  for (const Window& w : kinds_of_windows)
    for (std::string_view form :
         {"aten::{}(int window_length, *, {}) -> Tensor",
          "aten::{}.periodic(int window_length, bool periodic, *, {}) -> Tensor",
          "aten::{}.beta(int window_length, bool periodic, float beta, *, {}) -> Tensor",
          "aten::{}.periodic_alpha(int window_length, bool periodic, float alpha, *, {}) -> Tensor",
          "aten::{}.periodic_alpha_beta(int window_length, bool periodic, float alpha, float beta, *, {}) -> Tensor"})
      if ((w.name == "hamming_window" || form.find("alpha") == form.npos) &&
          (w.name == "kaiser_window" || form.find(".beta") == form.npos))
        ops.add(fmt::format(fmt::runtime(form), w.name, tensor_options), [w](Call& c) { return window(c, w); });

  for (bool lower : {true, false}) {
    std::string_view name = lower ? "tril" : "triu";
    ops.add(fmt::format("aten::{}(Tensor self, int diagonal=0) -> Tensor", name),
            [lower](Call& c) { return keep_triangle(c, lower); })
        .varies();
    ops.add(fmt::format("aten::{}_indices(int row, int col, int offset=0, *, {}) -> Tensor", name, tensor_options),
            [lower](Call& c) { return triangle_indices(c, lower); });
  }
  ops.add("aten::one_hot(Tensor self, int num_classes=-1) -> Tensor", one_hot);

  ops.add(fmt::format("aten::scalar_tensor(Scalar s, *, {}) -> Tensor", tensor_options),
          [](Call& c) -> Value { return c.tensor_as("s", c.maybe_dtype("dtype").value_or(DType::Float)); });
  ops.add("aten::tensor(t[] data, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
          [](Call& c) { return from_numbers(c, "data"); });
  ops.add(
      "aten::tensor.number(Scalar t, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> "
      "Tensor",
      [](Call& c) { return from_numbers(c, "t"); });
  ops.add("aten::as_tensor.list(t[] data, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
          [](Call& c) { return from_numbers(c, "data"); });
  ops.add("aten::as_tensor.number(Scalar t, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
          [](Call& c) { return from_numbers(c, "t"); });
  ops.add("aten::_dim_arange(Tensor like, int dim) -> Tensor", [](Call& c) {
    Shape shape = c.tensor("like")->shape;
    return c.call("aten::arange", {shape.at(static_cast<size_t>(c.dim("dim", shape.size())))});
  });
}

}  // namespace lithify::ops
