#include "onnx/fold.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <unordered_set>

#include "onnx/folding.hpp"

namespace lithify::onnx {
namespace {

using namespace folding;
using Values = Vector<Value*>;

// Results up to this many elements become constants; up to the second number, if an input has as many.
constexpr int64_t small = 4096;
constexpr int64_t medium = 65536;
// Inputs above this are not read at export, however small the result.
constexpr int64_t readable = int64_t{1} << 20;

// An integer tensor with a few unknown elements carries sizes; one with many is data that nodes compute better.
constexpr size_t most_symbolic_elements = 64;
constexpr size_t most_expressions = 16;

bool known_constant(const Value* v) { return !v || v->is_constant(); }
bool known_contents(const Value* v) { return !v || v->contents.has_value(); }

bool all_of_inputs(const Node& node, bool (*test)(const Value*)) {
  return std::all_of(node.inputs.begin(), node.inputs.end(), test);
}

/// The number of elements of all outputs; empty when it is not known.
std::optional<int64_t> result_elements(const Node& node) {
  int64_t n = 0;
  for (const Value* v : node.outputs) {
    const auto sizes = numbers(v->shape);
    if (!sizes) return std::nullopt;
    n += numel(*sizes);
  }
  return n;
}

size_t result_bytes(const Node& node) {
  size_t n = 0;
  for (const Value* v : node.outputs) n += static_cast<size_t>(numel(*numbers(v->shape))) * byte_size(v->dtype);
  return n;
}

bool small_enough(const Node& node, int64_t most) {
  const auto n = result_elements(node);
  if (!n || *n <= std::max(small, most)) return n.has_value();
  size_t largest = 0;
  for (const Value* v : node.inputs)
    if (v) largest = std::max(largest, v->constant->nbytes());
  return *n <= medium && result_bytes(node) <= largest;
}

// ---- views of constants -------------------------------------------------------------------------------------------

/// The range [start, start + length) of one axis that a Slice with step 1 takes; empty for any other Slice.
std::optional<TensorView> sliced(Inference& f, TensorView view) {
  for (size_t i = 1; i < f.inputs(); ++i)
    if (f.has(i) && !integers(f.in(i))) return std::nullopt;
  if (f.has(4)) {
    const Vector<int64_t> steps = integers(f.in(4)).value();
    if (std::any_of(steps.begin(), steps.end(), [](int64_t step) { return step != 1; })) return std::nullopt;
  }
  const auto starts = f.has(1) ? *integers(f.in(1)) : f.integers("starts");
  const auto axes = f.axes(3, view.sizes.size());
  const auto to = numbers(f.node.outputs[0]->shape);
  if (!to) return std::nullopt;
  for (size_t i = 0; i < starts.size(); ++i) {
    const size_t axis = axes ? static_cast<size_t>((*axes)[i]) : i;
    const int64_t n = view.sizes[axis], length = (*to)[axis];
    if (length > n) return std::nullopt;
    const int64_t start = std::clamp<int64_t>(starts[i] < 0 ? starts[i] + n : starts[i], 0, n - length);
    view = view.narrowed(axis, start, length);
  }
  return view;
}

/// A Gather of one position.
std::optional<TensorView> selected(Inference& f, TensorView view) {
  const auto index = integers(f.in(1));
  if (!index || index->size() != 1) return std::nullopt;
  const auto axis = static_cast<size_t>(f.axis(0, view.sizes.size()));
  const int64_t n = view.sizes[axis], i = (*index)[0] < 0 ? (*index)[0] + n : (*index)[0];
  if (i < 0 || i >= n) return std::nullopt;
  return view.narrowed(axis, i, 1).reshaped(*numbers(f.node.outputs[0]->shape));
}

/// Other sizes, orders and parts of a constant are views of the same memory, whatever its size.
Values as_views(Builder& builder, Inference& f) {
  const std::string& op = f.node.op_type;
  const Value& x = f.in(0);
  const TensorView* whole = x.constant->view();
  if (!whole || !result_elements(f.node)) return {};
  std::optional<TensorView> view;
  if (op == "Reshape" || op == "Flatten" || op == "Squeeze" || op == "Unsqueeze") {
    view = whole->reshaped(*numbers(f.node.outputs[0]->shape));
  } else if (op == "Transpose") {
    auto perm = f.integers("perm");
    if (!f.node.attribute("perm")) {
      perm.resize(x.rank());
      std::iota(perm.rbegin(), perm.rend(), 0);
    }
    view = whole->permuted(perm);
  } else if (op == "Slice") {
    view = sliced(f, *whole);
  } else if (op == "Gather") {
    view = selected(f, *whole);
  } else if (op == "Split") {
    const auto axis = static_cast<size_t>(f.axis(0, x.rank()));
    Values parts;
    int64_t start = 0;
    for (const Value* out : f.node.outputs) {
      const int64_t length = *out->shape[axis].constant();
      parts.push_back(builder.constant(whole->narrowed(axis, start, length), x.name));
      start += length;
    }
    return parts;
  }
  return view ? Values{builder.constant(std::move(*view), x.name)} : Values{};
}

/// Constants joined along their first dimension that is not 1 follow one another.
Values as_pieces(Builder& builder, Inference& f) {
  const auto sizes = numbers(f.node.outputs[0]->shape);
  const auto axis = f.axis(0, f.in(0).rank());
  if (!sizes || !std::all_of(sizes->begin(), sizes->begin() + axis, [](int64_t n) { return n == 1; })) return {};
  Vector<Tensor::Piece> pieces;
  for (const Value* v : f.node.inputs)
    pieces.insert(pieces.end(), v->constant->pieces.begin(), v->constant->pieces.end());
  return {builder.constant(Tensor(f.in(0).dtype, *sizes, std::move(pieces)))};
}

// ---- small constants ----------------------------------------------------------------------------------------------

/// Reads single elements of a constant without copying it.
class Elements {
 public:
  explicit Elements(const Tensor& tensor) : view_(*tensor.view()), strides_(row_major_strides(view_.sizes)) {}
  int64_t count() const { return view_.numel(); }
  const std::byte* at(int64_t number) const {
    int64_t offset = 0;
    for (size_t d = 0; d < strides_.size(); ++d) offset += number / strides_[d] % view_.sizes[d] * view_.strides[d];
    return view_.element(offset);
  }

 private:
  const TensorView& view_;
  Vector<int64_t> strides_;
};

Values moved_constants(Builder& builder, Inference& f) {
  const auto selection = select(f);
  if (!selection) return {};
  Vector<Elements> pool;
  for (size_t input : selection->data) {
    if (!f.in(input).constant->view()) return {};
    pool.emplace_back(*f.in(input).constant);
  }
  Values r;
  for (size_t i = 0; i < selection->outputs.size(); ++i) {
    const Value& out = *f.node.outputs[i];
    const size_t element = byte_size(out.dtype);
    std::vector<std::byte> bytes(selection->outputs[i].size() * element);
    std::byte* to = bytes.data();
    for (int64_t number : selection->outputs[i]) {
      if (number != Selection::zero) {
        auto from = pool.begin();
        // Updates may have fewer elements than there are positions for them.
        while (check_bounds(from != pool.end()), number >= from->count()) number -= (from++)->count();
        std::memcpy(to, from->at(number), element);
      }
      to += element;
    }
    r.push_back(builder.constant(TensorView::dense(out.dtype, *numbers(out.shape), std::move(bytes))));
  }
  return r;
}

/// The positions of the elements that are not 0: the one result whose size is known only by its evaluation.
Values non_zero(Builder& builder, Inference& f) {
  const Value& x = f.in(0);
  if (x.constant->numel() > medium || is_complex(x.dtype) || x.rank() == 0) return {};
  const auto strides = row_major_strides(x.constant->sizes);
  const auto elements = x.constant->reals();
  Vector<Vector<int64_t>> rows(x.rank());
  for (size_t e = 0; e < elements.size(); ++e)
    if (elements[e] != 0)
      for (size_t d = 0; d < rows.size(); ++d)
        rows[d].push_back(static_cast<int64_t>(e) / strides[d] % x.constant->sizes[d]);
  Vector<int64_t> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  if (static_cast<int64_t>(all.size()) > small) return {};
  const Array r{
      DType::Int64, {static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows[0].size())}, std::move(all)};
  return {builder.constant(stored(r))};
}

/// Whatever is taken from a tensor of equal elements has those elements.
Values from_uniform(Builder& builder, const Node& node) {
  static constexpr std::string_view takes[] = {"Gather", "GatherElements", "GatherND", "Slice"};
  const Value& x = *node.inputs[0];
  const bool taken = std::find(std::begin(takes), std::end(takes), node.op_type) != std::end(takes);
  if (!taken || !x.constant || !x.constant->view() || x.constant->numel() < 2 || x.constant->numel() > small) return {};
  const std::vector<std::byte> bytes = x.constant->view()->dense_bytes();
  const size_t element = byte_size(x.dtype);
  if (std::memcmp(bytes.data(), bytes.data() + element, bytes.size() - element) != 0) return {};
  Value* one = builder.constant(
      TensorView::dense(x.dtype, {}, {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(element)}));
  return {builder.full(node.outputs[0]->shape, one)};
}

Values constants(Builder& builder, Inference& f, int64_t most) {
  const std::string& op = f.node.op_type;
  if (Values views = as_views(builder, f); !views.empty()) return views;
  if (op == "NonZero") return non_zero(builder, f);
  if (op == "Where" && f.in(0).constant->numel() > std::max(medium, most)) return {};
  if (small_enough(f.node, most)) {
    if (moves(op) || computes(op)) builder.sym.budget.spend(Limit::Bytes, result_bytes(f.node));
    if (moves(op))
      if (Values r = moved_constants(builder, f); !r.empty()) return r;
    const bool read = std::all_of(f.node.inputs.begin(), f.node.inputs.end(),
                                  [](const Value* v) { return !v || v->constant->numel() <= readable; });
    if (computes(op) && read)
      if (auto r = compute(f)) return {builder.constant(stored(*r))};
  }
  if (op == "Concat") return as_pieces(builder, f);
  return {};
}

// ---- nodes that need only a shape ---------------------------------------------------------------------------------

/// A tensor of one repeated number.
Values filled(Builder& builder, const Node& node) {
  const Value& out = *node.outputs[0];
  const auto sizes = numbers(out.shape);
  if (!sizes || numel(*sizes) > small) return {};
  const size_t element = byte_size(out.dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(numel(*sizes)) * element);
  if (const Attribute* a = node.attribute("value")) {
    const auto one = std::get<std::shared_ptr<const Tensor>>(a->data)->view()->dense_bytes();
    for (size_t at = 0; at < bytes.size(); at += element) std::memcpy(bytes.data() + at, one.data(), element);
  }
  return {builder.constant(TensorView::dense(out.dtype, *sizes, std::move(bytes)))};
}

Values identity_matrix(Builder& builder, const Node& node) {
  const Value& out = *node.outputs[0];
  const auto sizes = numbers(out.shape);
  if (!sizes || numel(*sizes) > small) return {};
  const int64_t k = node.int_attribute("k", 0);
  Vector<int64_t> ones;
  const int64_t columns = (*sizes)[1];
  for (int64_t i = 0; i < numel(*sizes); ++i) ones.push_back(i % columns - i / columns == k);
  if (!is_float(out.dtype)) return {builder.constant(stored({out.dtype, *sizes, std::move(ones)}))};
  if (out.dtype == DType::Double)
    return {builder.constant(stored({out.dtype, *sizes, Vector<double>(ones.begin(), ones.end())}))};
  return {builder.constant(stored({out.dtype, *sizes, Vector<float>(ones.begin(), ones.end())}))};
}

// Tensors that have no element at any size have nothing to compute, and ONNX Runtime refuses some of them.
Values without_elements(Builder& builder, const Node& node) {
  Values out;
  for (const Value* v : node.outputs) {
    Vector<int64_t> sizes;
    for (Dim d : v->shape) sizes.push_back(d.constant().value_or(-1));
    const bool fixed = std::ranges::count(sizes, -1) == 0;
    if (!fixed || std::ranges::count(sizes, 0) == 0 || v->dtype == DType::Undefined) return {};
    out.push_back(builder.constant(TensorView::dense(v->dtype, std::move(sizes), {})));
  }
  return out;
}

Values from_shapes(Builder& builder, const Node& node) {
  const std::string& op = node.op_type;
  if (op == "Shape") {
    const Shape& s = node.inputs[0]->shape;
    const auto rank = static_cast<int64_t>(s.size());
    const int64_t start = node.int_attribute("start", 0);
    const auto first = std::clamp<int64_t>(start < 0 ? start + rank : start, 0, rank);
    const int64_t count = *node.outputs[0]->shape[0].constant();
    return {builder.symbolic(std::span(s).subspan(static_cast<size_t>(first), static_cast<size_t>(count)))};
  }
  if (op == "Size") return {builder.symbolic(builder.numel(node.inputs[0]->shape))};
  if (op == "ConstantOfShape") return filled(builder, node);
  if (op == "EyeLike") return identity_matrix(builder, node);
  // The mean of nothing is no number; ONNX Runtime finds it to be 0.
  if (op == "ReduceMean" && is_float(node.inputs[0]->dtype) && builder.numel(node.inputs[0]->shape).is(0))
    return {builder.full(node.outputs[0]->shape,
                         builder.scalar(node.outputs[0]->dtype, std::numeric_limits<double>::quiet_NaN()))};
  if (op == "Constant")
    if (const Attribute* a = node.attribute("value"))
      return {builder.constant(*std::get<std::shared_ptr<const Tensor>>(a->data))};
  return {};
}

// ---- expressions --------------------------------------------------------------------------------------------------

bool carries_sizes(const Vector<Dim>& contents) {
  std::unordered_set<Dim> distinct;
  size_t unknown = 0;
  for (Dim d : contents)
    if (!d.is_constant()) {
      ++unknown;
      distinct.insert(d);
    }
  return unknown == 0 || (contents.size() <= most_symbolic_elements && distinct.size() <= most_expressions);
}

bool holds_expressions(DType t) { return t == DType::Int64 || t == DType::Int32 || t == DType::Bool; }

Values expressions(Builder& builder, Inference& f) {
  const auto n = result_elements(f.node);
  if (!n || *n > 1024) return {};
  Vector<Vector<Dim>> results;
  if (moves(f.node.op_type)) {
    const auto selection = select(f);
    if (!selection) return {};
    Vector<Dim> pool;
    for (size_t input : selection->data)
      pool.insert(pool.end(), f.in(input).contents->begin(), f.in(input).contents->end());
    for (const auto& picked : selection->outputs) {
      auto& r = results.emplace_back();
      for (int64_t number : picked)
        r.push_back(number == Selection::zero ? f.sym.constant(0) : pool[static_cast<size_t>(number)]);
    }
  } else if (auto computed = compute_symbolic(f)) {
    results.push_back(std::move(*computed));
  }
  Values r;
  for (const auto& contents : results)
    if (!carries_sizes(contents)) return {};
  for (size_t i = 0; i < results.size(); ++i) {
    const Value& out = *f.node.outputs[i];
    if (!holds_expressions(out.dtype)) return {};
    r.push_back(builder.symbolic(out.dtype, out.shape, std::move(results[i])));
  }
  return r;
}

}  // namespace

Vector<Value*> fold(Builder& builder, const Node& node, int64_t most) {
  if (!node.domain.empty()) return {};
  if (Values r = without_elements(builder, node); !r.empty()) return r;
  if (Values r = from_shapes(builder, node); !r.empty()) return r;
  if (node.inputs.empty() || !node.inputs[0]) return {};
  if (Values r = from_uniform(builder, node); !r.empty()) return r;
  const bool constant = all_of_inputs(node, known_constant);
  if (!constant && !all_of_inputs(node, known_contents)) return {};
  Node copy = node;
  Inference f(builder.sym, builder.opset(), copy);
  return constant ? constants(builder, f, most) : expressions(builder, f);
}

}  // namespace lithify::onnx
