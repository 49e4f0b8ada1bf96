// Operators of neural networks: convolution, pooling, normalization, products of matrices, recurrence, attention,
// resampling, quantization and losses.
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "base/checked.hpp"
#include "onnx/infer.hpp"

namespace lithify::onnx {
namespace {

using namespace infer;

Dim number(Inference& f, int64_t v) { return f.sym.constant(v); }

/// All but the first `skip` sizes.
Shape tail(const Shape& s, size_t skip) { return Shape(s.begin() + static_cast<std::ptrdiff_t>(skip), s.end()); }

// ---- convolution and pooling --------------------------------------------------------------------------------------

/// The attributes of a window that slides over spatial dimensions.
struct Window {
  Shape kernel;
  Vector<int64_t> strides, dilations, pads;
  std::string auto_pad;
  bool ceil_mode = false;

  size_t rank() const { return kernel.size(); }
  int64_t pad(size_t i) const { return pads[i] + pads[rank() + i]; }
};

Window window(Inference& f, Shape kernel) {
  const size_t n = kernel.size();
  Window w;
  w.kernel = std::move(kernel);
  w.strides = each(f, "strides", n, 1);
  w.dilations = each(f, "dilations", n, 1);
  for (const auto* steps : {&w.strides, &w.dilations})
    if (std::any_of(steps->begin(), steps->end(), [](int64_t v) { return v < 1; }))
      f.fail("strides and dilations must be positive");
  w.pads = each(f, "pads", 2 * n, 0);
  w.auto_pad = f.text("auto_pad", "NOTSET");
  w.ceil_mode = f.integer("ceil_mode", 0) != 0;
  return w;
}

Shape kernel_attribute(Inference& f) {
  Shape r;
  for (int64_t k : f.integers("kernel_shape")) r.push_back(number(f, k));
  return r;
}

/// dilation*(kernel - 1) + 1.
Dim extent(Inference& f, const Window& w, size_t i) {
  return f.sym.add(f.sym.mul(number(f, w.dilations[i]), f.sym.sub(w.kernel[i], number(f, 1))), number(f, 1));
}

/// How many windows fit into a dimension.
Dim windows(Inference& f, const Window& w, size_t i, Dim in) {
  sym::Context& sym = f.sym;
  const Dim stride = number(f, w.strides[i]);
  if (w.auto_pad == "SAME_UPPER" || w.auto_pad == "SAME_LOWER") return sym.ceil_div(in, stride);
  const int64_t pad = w.auto_pad == "VALID" ? 0 : w.pad(i);
  const Dim room = sym.sub(sym.add(in, number(f, pad)), extent(f, w, i));
  if (const auto c = room.constant(); c && *c < 0 && !w.ceil_mode)
    f.fail(
        fmt::format("a window of {} does not fit into {} and its padding of {}", extent(f, w, i).str(), in.str(), pad));
  const int64_t beyond = w.ceil_mode ? w.strides[i] - 1 : 0;
  assume_at_least(f, in, sym.sub(extent(f, w, i), number(f, pad + beyond)));
  if (!w.ceil_mode) return sym.add(sym.floor_div(room, stride), number(f, 1));
  // The last window must start inside the input or its left padding. Both counts are ceil((in + c)/stride), so the
  // smaller one has the smaller c.
  const Dim all = sym.add(room, stride);
  const Dim inside = sym.add(in, number(f, w.auto_pad == "VALID" ? 0 : w.pads[i]));
  const auto difference = sym.sub(all, inside).constant();
  if (!difference) return sym.min(sym.ceil_div(all, stride), sym.ceil_div(inside, stride));
  return sym.ceil_div(*difference <= 0 ? all : inside, stride);
}

Shape slide(Inference& f, const Window& w, const Shape& x, Dim channels) {
  if (x.size() != w.rank() + 2)
    f.fail(fmt::format("{} spatial dimensions are expected, but the input is {}", w.rank(), print_shape(x)));
  Shape r{x[0], channels};
  for (size_t i = 0; i < w.rank(); ++i) r.push_back(windows(f, w, i, x[2 + i]));
  return r;
}

/// [batch, channels, spatial...] of a convolution of input number `x` by weight number `w`.
Shape convolved(Inference& f, size_t x, size_t w) {
  require_rank(f, w, 3);
  const Shape &data = f.in(x).shape, &weight = f.in(w).shape;
  if (data.size() != weight.size())
    f.fail(fmt::format("the weight is {}, but the input {}", print_shape(weight), print_shape(data)));
  same_size(f, data[1], f.sym.mul(weight[1], number(f, f.integer("group", 1))),
            "the input's channels and the weight's");
  return slide(f, window(f, tail(weight, 2)), data, weight[0]);
}

void conv(Inference& f) { f.set(0, f.in(0).dtype, convolved(f, 0, 1)); }
void conv_integer(Inference& f) { f.set(0, DType::Int32, convolved(f, 0, 1)); }
void qlinear_conv(Inference& f) { f.set(0, f.in(7).dtype, convolved(f, 0, 3)); }

void conv_transpose(Inference& f) {
  require_rank(f, 1, 3);
  const Shape &x = f.in(0).shape, &weight = f.in(1).shape;
  if (x.size() != weight.size())
    f.fail(fmt::format("the weight is {}, but the input {}", print_shape(weight), print_shape(x)));
  same_size(f, x[1], weight[0], "the input's channels and the weight's");
  const Window w = window(f, tail(weight, 2));
  const auto extra = each(f, "output_padding", w.rank(), 0);
  auto fixed = f.integers("output_shape");
  if (fixed.size() > w.rank()) fixed.erase(fixed.begin(), fixed.end() - static_cast<std::ptrdiff_t>(w.rank()));
  Shape r{x[0], f.sym.mul(weight[1], number(f, f.integer("group", 1)))};
  for (size_t i = 0; i < w.rank(); ++i) {
    const Dim stride = number(f, w.strides[i]), in = x[2 + i];
    if (!fixed.empty()) {
      r.push_back(number(f, fixed[i]));
    } else if (w.auto_pad == "SAME_UPPER" || w.auto_pad == "SAME_LOWER") {
      r.push_back(f.sym.mul(in, stride));
    } else {
      const int64_t pad = w.auto_pad == "VALID" ? 0 : w.pad(i);
      const Dim steps = f.sym.mul(stride, f.sym.sub(in, number(f, 1)));
      r.push_back(f.sym.add(steps, f.sym.add(extent(f, w, i), number(f, extra[i] - pad))));
    }
  }
  f.set(0, f.in(0).dtype, std::move(r));
}

void pool(Inference& f) {
  require_rank(f, 0, 3);
  const Value& x = f.in(0);
  const Shape r = slide(f, window(f, kernel_attribute(f)), x.shape, x.shape[1]);
  f.set(0, x.dtype, r);
  f.set(1, DType::Int64, r);
}

void global_pool(Inference& f) {
  require_rank(f, 0, 2);
  Shape r = f.in(0).shape;
  std::fill(r.begin() + 2, r.end(), number(f, 1));
  f.set(0, f.in(0).dtype, std::move(r));
}

void max_unpool(Inference& f) {
  const Value& x = f.in(0);
  if (f.has(2)) return f.set(0, x.dtype, sizes_from(f, 2, "size"));
  const Window w = window(f, kernel_attribute(f));
  if (x.rank() != w.rank() + 2) f.fail("the kernel does not have one size for each spatial dimension");
  Shape r{x.shape[0], x.shape[1]};
  for (size_t i = 0; i < w.rank(); ++i) {
    const Dim steps = f.sym.mul(number(f, w.strides[i]), f.sym.sub(x.shape[2 + i], number(f, 1)));
    r.push_back(f.sym.add(steps, f.sym.sub(w.kernel[i], number(f, w.pad(i)))));
  }
  f.set(0, x.dtype, std::move(r));
}

void col2im(Inference& f) {
  require_rank(f, 0, 3);
  const Shape& x = f.in(0).shape;
  const Dim block = f.sym.product(f.contents(2));
  const auto channels = f.sym.divide_exactly(x[1], block);
  Shape r{x[0], channels ? *channels : f.sym.floor_div(x[1], block)};
  append(r, sizes_from(f, 1, "size"));
  f.set(0, f.in(0).dtype, std::move(r));
}

void roi_align(Inference& f) {
  f.set(0, f.in(0).dtype,
        {f.in(1).shape.at(0), f.in(0).shape.at(1), number(f, f.integer("output_height", 1)),
         number(f, f.integer("output_width", 1))});
}

void max_roi_pool(Inference& f) {
  Shape r{f.in(1).shape.at(0), f.in(0).shape.at(1)};
  for (int64_t d : f.integers("pooled_shape")) r.push_back(number(f, d));
  f.set(0, f.in(0).dtype, std::move(r));
}

// ---- resampling ---------------------------------------------------------------------------------------------------

/// floor(size*scale). A symbolic size needs the scale as a fraction of small numbers; any other gives an unknown size.
Dim scaled(Inference& f, Dim size, float scale) {
  if (const auto n = size.constant()) return number(f, checked_integer(static_cast<float>(*n) * scale));
  for (int64_t q = 1; q <= 1024; ++q) {
    const double p = std::round(static_cast<double>(scale) * static_cast<double>(q));
    if (p > 0 && p < 1e6 && static_cast<float>(p / static_cast<double>(q)) == scale)
      return f.sym.floor_div(f.sym.mul(size, number(f, static_cast<int64_t>(p))), number(f, q));
  }
  return f.fresh("resized");
}

/// Inputs are (X, scales) up to opset 10, then (X, roi, scales, sizes).
void resize(Inference& f) {
  const Value& x = f.in(0);
  const size_t scales_at = f.inputs() <= 2 ? 1 : 2;
  Vector<int64_t> axes = f.integers("axes");
  if (axes.empty())
    for (size_t i = 0; i < x.rank(); ++i) axes.push_back(static_cast<int64_t>(i));
  for (int64_t& a : axes) a = a < 0 ? a + static_cast<int64_t>(x.rank()) : a;

  Vector<float> scales;
  if (const Attribute* a = f.node.attribute("scales")) scales = std::get<Vector<float>>(a->data);
  if (f.has(scales_at) && f.in(scales_at).is_constant())
    for (double s : f.in(scales_at).constant->reals()) scales.push_back(static_cast<float>(s));
  const bool stretch = f.text("keep_aspect_ratio_policy", "stretch") == "stretch";
  const Vector<Dim>* sizes = scales_at == 2 && stretch ? known(f, 3) : nullptr;
  if ((sizes && sizes->size() != axes.size()) || (!sizes && !scales.empty() && scales.size() != axes.size()))
    f.fail("one size or scale is needed for each dimension");

  Shape r = x.shape;
  for (size_t i = 0; i < axes.size(); ++i) {
    Dim& d = r.at(static_cast<size_t>(axes[i]));
    d = sizes ? (*sizes)[i] : !scales.empty() ? scaled(f, d, scales[i]) : f.fresh("resized");
  }
  f.set(0, x.dtype, std::move(r));
}

void grid_sample(Inference& f) {
  require_rank(f, 0, 3);
  require_rank(f, 1, 3);
  const Shape &x = f.in(0).shape, &grid = f.in(1).shape;
  Shape r{same_size(f, x[0], grid[0], "the batch sizes"), x[1]};
  r.insert(r.end(), grid.begin() + 1, grid.end() - 1);
  f.set(0, f.in(0).dtype, std::move(r));
}

void affine_grid(Inference& f) {
  const Shape size = sizes_from(f, 1, "size");
  if (size.size() != 4 && size.size() != 5) f.fail("the size must have 4 or 5 entries");
  Shape r{size[0]};
  append(r, tail(size, 2));
  r.push_back(number(f, static_cast<int64_t>(size.size()) - 2));
  f.set(0, f.in(0).dtype, std::move(r));
}

void non_max_suppression(Inference& f) { f.set(0, DType::Int64, {f.fresh("selected"), number(f, 3)}); }

// ---- normalization ------------------------------------------------------------------------------------------------

/// Further outputs, in training, are statistics of the channels.
void batch_normalization(Inference& f) {
  same(f);
  for (size_t i = 1; i < f.node.outputs.size(); ++i) f.set(i, f.in(3).dtype, f.in(3).shape);
}

void layer_normalization(Inference& f) {
  same(f);
  Shape statistics = f.in(0).shape;
  std::fill(statistics.begin() + f.axis(-1, statistics.size()), statistics.end(), number(f, 1));
  const DType dtype = dtype_attribute(f, "stash_type", DType::Float);
  f.set(1, dtype, statistics);
  f.set(2, dtype, statistics);
}

// ---- products -----------------------------------------------------------------------------------------------------

Shape multiplied(Inference& f, Shape a, Shape b) {
  if (a.empty() || b.empty()) f.fail("a scalar is not a matrix");
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), number(f, 1));
  if (column) b.push_back(number(f, 1));
  same_size(f, a.back(), b[b.size() - 2], "the inner sizes of the matrices");
  Shape r = broadcast_shapes(f.sym, Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  if (!row) r.push_back(a[a.size() - 2]);
  if (!column) r.push_back(b.back());
  return r;
}

void matmul(Inference& f) {
  if (f.in(0).dtype != f.in(1).dtype)
    throw Error(Code::TypeMismatch,
                fmt::format("MatMul is given {} and {}", name_of(f.in(0).dtype), name_of(f.in(1).dtype)));
  f.set(0, f.in(0).dtype, multiplied(f, f.in(0).shape, f.in(1).shape));
}
void matmul_integer(Inference& f) { f.set(0, DType::Int32, multiplied(f, f.in(0).shape, f.in(1).shape)); }
void qlinear_matmul(Inference& f) { f.set(0, f.in(7).dtype, multiplied(f, f.in(0).shape, f.in(3).shape)); }

void gemm(Inference& f) {
  const Shape &a = f.in(0).shape, &b = f.in(1).shape;
  if (a.size() != 2 || b.size() != 2) f.fail("both inputs must be matrices");
  const bool ta = f.integer("transA", 0) != 0, tb = f.integer("transB", 0) != 0;
  same_size(f, a[ta ? 0 : 1], b[tb ? 1 : 0], "the inner sizes of the matrices");
  f.set(0, f.in(0).dtype, {a[ta ? 1 : 0], b[tb ? 0 : 1]});
}

/// The labels of one term of an equation, without blanks; "..." is one label '.'.
Vector<std::string> einsum_terms(std::string_view side) {
  Vector<std::string> terms(1);
  for (size_t i = 0; i < side.size(); ++i) {
    if (side[i] == ',') {
      terms.emplace_back();
    } else if (side.substr(i, 3) == "...") {
      terms.back() += '.';
      i += 2;
    } else if (side[i] != ' ') {
      terms.back() += side[i];
    }
  }
  return terms;
}

void einsum(Inference& f) {
  const std::string equation = f.text("equation", "");
  const size_t arrow = equation.find("->");
  const auto terms = einsum_terms(std::string_view(equation).substr(0, arrow));
  if (terms.size() != f.inputs()) f.fail(fmt::format("'{}' does not have {} terms", equation, f.inputs()));

  std::map<char, Dim> size_of;
  std::map<char, int> uses;
  Shape ellipsis;
  for (size_t t = 0; t < terms.size(); ++t) {
    const Shape& s = f.in(t).shape;
    const bool dots = terms[t].find('.') != std::string::npos;
    const size_t labels = terms[t].size() - (dots ? 1 : 0);
    if (s.size() < labels || (!dots && s.size() != labels))
      f.fail(fmt::format("'{}' does not match the shape {}", terms[t], print_shape(s)));
    size_t at = 0;
    for (char label : terms[t]) {
      if (label == '.') {
        const auto from = s.begin() + static_cast<std::ptrdiff_t>(at);
        at += s.size() - labels;
        ellipsis = broadcast_shapes(f.sym, ellipsis, Shape(from, s.begin() + static_cast<std::ptrdiff_t>(at)));
        continue;
      }
      ++uses[label];
      const auto [it, first] = size_of.try_emplace(label, s[at]);
      if (!first) it->second = broadcast_shapes(f.sym, {it->second}, {s[at]})[0];
      ++at;
    }
  }

  std::string result;
  if (arrow != std::string::npos) {
    result = einsum_terms(std::string_view(equation).substr(arrow + 2)).front();
  } else {
    if (!ellipsis.empty()) result += '.';
    for (const auto& [label, count] : uses)
      if (count == 1) result += label;
  }
  Shape r;
  for (char label : result) {
    if (label == '.')
      append(r, ellipsis);
    else if (const auto it = size_of.find(label); it != size_of.end())
      r.push_back(it->second);
    else
      f.fail(fmt::format("'{}' has a result label that no term has", equation));
  }
  f.set(0, f.in(0).dtype, std::move(r));
}

void det(Inference& f) {
  require_rank(f, 0, 2);
  const Shape& s = f.in(0).shape;
  f.set(0, f.in(0).dtype, Shape(s.begin(), s.end() - 2));
}

// ---- recurrence and attention ---------------------------------------------------------------------------------------

/// RNN, LSTM, GRU: all states, the last state and, of an LSTM, the last cell.
void recurrent(Inference& f) {
  const Value& x = f.in(0);
  if (x.rank() != 3) f.fail(fmt::format("the input must have 3 dimensions, but is {}", print_shape(x.shape)));
  const bool batch_first = f.integer("layout", 0) != 0;
  const Dim steps = x.shape[batch_first ? 1 : 0], batch = x.shape[batch_first ? 0 : 1];
  same_size(f, x.shape[2], f.in(1).shape.at(2), "the input's features and the weight's");
  for (size_t state : {5, 6})
    if (f.has(state)) same_size(f, batch, f.in(state).shape.at(batch_first ? 0 : 1), "the batches of input and state");
  const Dim hidden = f.in(2).shape.at(2);
  const Dim directions = number(f, f.text("direction", "forward") == "bidirectional" ? 2 : 1);
  f.set(0, x.dtype, batch_first ? Shape{batch, steps, directions, hidden} : Shape{steps, directions, batch, hidden});
  for (size_t i = 1; i < 3; ++i)
    f.set(i, x.dtype, batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden});
}

/// Q, K, V with heads as their second dimension, or (3 dimensions) as a part of their last one.
void attention(Inference& f) {
  auto with_heads = [&](size_t input, std::string_view heads) {
    Shape s = f.in(input).shape;
    if (s.size() == 4) return s;
    if (s.size() != 3) f.fail(fmt::format("input {} must have 3 or 4 dimensions", input));
    const Dim n = number(f, f.integer(heads, 1));
    return Shape{s[0], n, s[1], f.sym.floor_div(s[2], n)};
  };
  const Shape q = with_heads(0, "q_num_heads"), k = with_heads(1, "kv_num_heads"), v = with_heads(2, "kv_num_heads");
  const Dim total = f.has(4) ? f.sym.add(f.in(4).shape.at(2), k[2]) : k[2];
  const DType dtype = f.in(0).dtype;
  f.set(0, dtype, f.in(0).rank() == 3 ? Shape{q[0], q[2], f.sym.mul(q[1], v[3])} : Shape{q[0], q[1], q[2], v[3]});
  f.set(1, f.in(1).dtype, {k[0], k[1], total, k[3]});
  f.set(2, f.in(2).dtype, {v[0], v[1], total, v[3]});
  f.set(3, dtype, {q[0], q[1], q[2], total});
}

// ---- quantization -------------------------------------------------------------------------------------------------

void quantize(Inference& f) {
  const DType otherwise = f.has(2) ? f.in(2).dtype : DType::UInt8;
  f.set(0, dtype_attribute(f, "output_dtype", otherwise), f.in(0).shape);
}

void dequantize(Inference& f) { f.set(0, dtype_attribute(f, "output_dtype", f.in(1).dtype), f.in(0).shape); }

void dynamic_quantize(Inference& f) {
  f.set(0, DType::UInt8, f.in(0).shape);
  f.set(1, DType::Float, {});
  f.set(2, DType::UInt8, {});
}

// ---- losses -------------------------------------------------------------------------------------------------------

void loss(Inference& f) {
  f.set(0, f.in(0).dtype, f.text("reduction", "mean") == "none" ? f.in(1).shape : Shape{});
  f.set(1, f.in(0).dtype, f.in(0).shape);
}

constexpr OpDef nn_table[] = {
    {"AffineGrid", 20, affine_grid},
    {"Attention", 23, attention},
    {"AveragePool", 1, pool},
    {"BatchNormalization", 1, batch_normalization},
    {"Col2Im", 18, col2im},
    {"Conv", 1, conv},
    {"ConvInteger", 10, conv_integer},
    {"ConvTranspose", 1, conv_transpose},
    {"DeformConv", 19, conv},
    {"DequantizeLinear", 10, dequantize},
    {"Det", 11, det},
    {"DynamicQuantizeLinear", 11, dynamic_quantize},
    {"Einsum", 12, einsum},
    {"GRU", 1, recurrent},
    {"Gemm", 1, gemm},
    {"GlobalAveragePool", 1, global_pool},
    {"GlobalLpPool", 1, global_pool},
    {"GlobalMaxPool", 1, global_pool},
    {"GridSample", 16, grid_sample},
    {"GroupNormalization", 18, same},
    {"Hardmax", 1, same},
    {"InstanceNormalization", 1, same},
    {"LRN", 1, same},
    {"LSTM", 1, recurrent},
    {"LayerNormalization", 17, layer_normalization},
    {"LogSoftmax", 1, same},
    {"LpNormalization", 1, same},
    {"LpPool", 1, pool},
    {"MatMul", 1, matmul},
    {"MatMulInteger", 10, matmul_integer},
    {"MaxPool", 1, pool},
    {"MaxRoiPool", 1, max_roi_pool},
    {"MaxUnpool", 9, max_unpool},
    {"MeanVarianceNormalization", 9, same},
    {"NegativeLogLikelihoodLoss", 12, loss},
    {"NonMaxSuppression", 10, non_max_suppression},
    {"QLinearConv", 10, qlinear_conv},
    {"QLinearMatMul", 10, qlinear_matmul},
    {"QuantizeLinear", 10, quantize},
    {"RMSNormalization", 23, same},
    {"RNN", 1, recurrent},
    {"Resize", 10, resize},
    {"RoiAlign", 10, roi_align},
    {"RotaryEmbedding", 23, same},
    {"Softmax", 1, same},
    {"SoftmaxCrossEntropyLoss", 12, loss},
    {"Upsample", 1, resize},
};

}  // namespace

std::span<const OpDef> nn_ops() { return nn_table; }

}  // namespace lithify::onnx
