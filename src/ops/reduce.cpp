// Reductions, cumulative operators, sorting and selection by rank.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/elementwise.hpp"
#include "ops/factor.hpp"
#include "ops/register.hpp"

namespace lithify::ops {
namespace {

using Axes = Vector<int64_t>;

Axes all_axes(Ref x) {
  Axes axes(x->rank());
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

// The dimensions that `dim` names: all of them for None and for an empty list; none of a 0-d tensor.
Axes axes_of(Call& c, Ref x) {
  if (x->rank() == 0) return {};
  if (!c.schema.argument("dim") || c.none("dim")) return all_axes(x);
  Axes axes = c.dims("dim", x->rank());
  return axes.empty() ? all_axes(x) : axes;
}

bool keepdim(Call& c) { return c.schema.argument("keepdim") && c.flag("keepdim"); }

std::optional<DType> dtype_argument(Call& c) {
  return c.schema.argument("dtype") ? c.maybe_dtype("dtype") : std::nullopt;
}

// Integers and bools are summed in int64.
DType sum_type(Call& c, DType t) { return dtype_argument(c).value_or(is_float(t) || is_complex(t) ? t : DType::Int64); }

Dim count(Builder& b, Ref x, const Axes& axes) {
  Dim n = b.dim(1);
  for (int64_t a : axes) n = b.sym.mul(n, x->shape[static_cast<size_t>(a)]);
  return n;
}

// A reduction that leaves a single element as it is.
Ref reduced(Builder& b, std::string_view op, Ref x, const Axes& axes, bool keep) {
  return x->rank() == 0 ? x : b.reduce(op, x, axes, keep);
}

Ref no_indices(Builder& b) { return b.scalar_int(DType::Int64, 0); }

// ---- sums and products -------------------------------------------------------------------------------------------

Value sum_like(Call& c, std::string_view op) {
  Ref x = c.tensor("self");
  return reduced(c.onnx, op, c.onnx.cast(x, sum_type(c, x->dtype)), axes_of(c, x), keepdim(c));
}

// The mean of no element is NaN, and ONNX Runtime's is 0: where there may be none, it is the sum over their number.
Ref mean_of(Builder& b, Ref x, const Axes& axes, bool keep) {
  const Dim n = count(b, x, axes);
  if (n.is(0) || n.lower().value_or(0) > 0) return reduced(b, "ReduceMean", x, axes, keep);
  return b.div(reduced(b, "ReduceSum", x, axes, keep), b.cast(b.symbolic(n), x->dtype));
}

Value mean(Call& c) {
  Ref x = c.tensor("self");
  x = c.onnx.cast(x, dtype_argument(c).value_or(x->dtype));
  return mean_of(c.onnx, x, axes_of(c, x), keepdim(c));
}

Ref without_nan(Builder& b, Ref x) { return is_float(x->dtype) ? b.where(b.op("IsNaN", {x}), like(b, x, 0), x) : x; }

Value nansum(Call& c) {
  Ref x = c.tensor("self");
  Ref present = c.onnx.cast(without_nan(c.onnx, x), sum_type(c, x->dtype));
  return reduced(c.onnx, "ReduceSum", present, axes_of(c, x), keepdim(c));
}

Value nanmean(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  Axes axes = axes_of(c, x);
  DType t = dtype_argument(c).value_or(x->dtype);
  Ref sum = reduced(b, "ReduceSum", b.cast(without_nan(b, x), t), axes, keepdim(c));
  Ref present = b.cast(b.op("Not", {b.op("IsNaN", {x})}), t);
  return b.div(sum, reduced(b, "ReduceSum", present, axes, keepdim(c)));
}

Value count_nonzero(Call& c) {
  Ref x = c.tensor("self");
  Ref flags = c.onnx.cast(truth(c.onnx, x), DType::Int64);
  return reduced(c.onnx, "ReduceSum", flags, axes_of(c, x), false);
}

// The dimensions that broadcasting to the shape of self would have given are summed.
Value sum_to_size(Call& c) {
  Ref x = c.tensor("self");
  Vector<Dim> size = c.sizes("size");
  if (size.size() > x->rank()) c.mismatch("self has fewer dimensions than the size");
  size_t lead = x->rank() - size.size();
  Axes axes;
  for (size_t i = 0; i < x->rank(); ++i)
    if (i < lead || (size[i - lead].is(1) && !x->shape[i].is(1))) axes.push_back(static_cast<int64_t>(i));
  if (axes.empty() && !size.empty()) return x;
  auto may_stay = [&](int64_t i) { return static_cast<size_t>(i) >= lead && !at(x->shape, i).is_constant(); };
  const DType type = sum_type(c, x->dtype);
  if (type != x->dtype && !axes.empty() && std::ranges::all_of(axes, may_stay))
    c.unsupported("the type of the result would depend on a dynamic size");
  x = c.onnx.cast(x, type);
  return axes.empty() ? x : c.onnx.reshape(c.onnx.reduce("ReduceSum", x, axes, true), size);
}

// ---- extrema -----------------------------------------------------------------------------------------------------

// Whether an element may be NaN. A number that was an integer never is.
bool may_be_nan(const onnx::Value* x) {
  if (!is_float(x->dtype)) return false;
  const onnx::Node* from = x->producer;
  return !(from && from->op_type == "Cast" && !is_float(from->inputs[0]->dtype));
}

// Numbers in the order of x, with NaN at one end and beyond infinity: ONNX Runtime compares as IEEE 754 does, where NaN
// has no place. Infinity is a finite number of float64 there; of float64 itself, its largest.
Ref ordered(Builder& b, Ref x, bool nan_is_largest) {
  if (!may_be_nan(x)) return x;
  const double end = nan_is_largest ? infinity : -infinity;
  Ref missing = b.op("IsNaN", {x});
  const double finite = std::copysign(x->dtype == DType::Double ? std::numeric_limits<double>::max() : 1e39, end);
  Ref wide = b.cast(x, DType::Double);
  wide = b.op(nan_is_largest ? "Min" : "Max", {wide, like(b, wide, finite)});
  return b.where(missing, like(b, wide, end), wide);
}

// With a NaN among the elements it is the extremum. The sum of absolute values is NaN then, and else no less than any
// of them; Max and Min keep NaN.
Ref extremum(Builder& b, std::string_view op, Ref x, const Axes& axes, bool keep) {
  if (x->dtype == DType::Bool && b.opset() < 20)
    return b.cast(reduced(b, op, b.cast(x, DType::Int32), axes, keep), DType::Bool);
  Ref found = reduced(b, op, x, axes, keep);
  if (x->rank() == 0 || !may_be_nan(x)) return found;
  Ref sizes = b.reduce("ReduceL1", x, axes, keep);
  return op == "ReduceMin" ? b.op("Min", {found, sizes}) : b.op("Max", {found, b.op("Neg", {sizes})});
}

Ref arg_extremum(Builder& b, std::string_view op, Ref x, int64_t axis, bool keep) {
  if (x->rank() == 0) return no_indices(b);
  if (x->dtype == DType::Bool) x = b.cast(x, DType::Int32);
  x = ordered(b, x, op == "ArgMax");
  onnx::Attributes attributes{{"axis", axis}};
  if (!keep) attributes.push_back({"keepdims", int64_t{0}});
  return b.op(op, {x}, attributes);
}

Value extremum_of(Call& c, std::string_view op) {
  Ref x = c.tensor("self");
  return extremum(c.onnx, op, x, axes_of(c, x), keepdim(c));
}

Value extremum_dim(Call& c, std::string_view op, std::string_view arg_op) {
  Ref x = c.tensor("self");
  int64_t axis = c.dim("dim", x->rank());
  bool keep = keepdim(c);
  return Value::tuple({extremum(c.onnx, op, x, {axis}, keep), arg_extremum(c.onnx, arg_op, x, axis, keep)});
}

Value arg_extremum_of(Call& c, std::string_view op) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  if (!c.none("dim")) return arg_extremum(b, op, x, c.dim("dim", x->rank()), keepdim(c));
  Ref index = arg_extremum(b, op, b.reshape(x, {b.numel(x->shape)}), 0, false);
  return keepdim(c) ? b.reshape(index, Shape(x->rank(), b.dim(1))) : index;
}

Value aminmax(Call& c) {
  Ref x = c.tensor("self");
  Axes axes = c.none("dim") ? all_axes(x) : Axes{c.dim("dim", x->rank())};
  return Value::tuple(
      {extremum(c.onnx, "ReduceMin", x, axes, keepdim(c)), extremum(c.onnx, "ReduceMax", x, axes, keepdim(c))});
}

// All or any; of uint8 the result is uint8, of all else it is bool. Where there may be no element, all is true and any
// is not: ONNX Runtime has no extremum of no bools, and its largest of no numbers is their lowest, so they are counted.
Value quantified(Call& c, bool all) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  Axes axes = axes_of(c, x);
  bool some = std::all_of(axes.begin(), axes.end(), [&](int64_t axis) {
    const Dim& size = x->shape[static_cast<size_t>(axis)];
    return size.is_constant() && !size.is(0);
  });
  Ref out = truth(b, x);
  if (some)
    out = extremum(b, all ? "ReduceMin" : "ReduceMax", out, axes, keepdim(c));
  else
    out = b.cast(reduced(b, all ? "ReduceMin" : "ReduceSum", b.cast(out, DType::Int32), axes, keepdim(c)), DType::Bool);
  return x->dtype == DType::UInt8 ? b.cast(out, DType::UInt8) : out;
}

// ---- spread ------------------------------------------------------------------------------------------------------

double correction(Call& c) {
  if (c.schema.argument("correction")) return c.none("correction") ? 1 : c.real("correction");
  return c.flag("unbiased") ? 1 : 0;
}

struct Spread {
  Ref spread;
  Ref mean;
};

Spread spread(Call& c, bool root) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  Axes axes = axes_of(c, x);
  bool keep = keepdim(c);
  double lost = correction(c);
  Ref mean = mean_of(b, x, axes, true);
  Ref apart = b.sub(x, mean);
  if (!keep) {
    Shape shape;
    for (size_t i = 0; i < x->rank(); ++i)
      if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) == axes.end()) shape.push_back(x->shape[i]);
    mean = b.reshape(mean, shape);
  }
  if (lost == 0) {
    Ref var = mean_of(b, b.mul(apart, apart), axes, keep);
    return {root ? b.op("Sqrt", {var}) : var, mean};
  }
  Dim n = count(b, x, axes);
  Ref divisor = nullptr;
  if (n.is_constant()) {
    double d = std::max(0.0, static_cast<double>(*n.constant()) - lost);
    divisor = like(b, x, root ? std::sqrt(d) : d);
  } else if (lost == std::floor(lost)) {
    divisor = b.cast(b.symbolic(b.sym.max(b.sym.sub(n, b.dim(static_cast<int64_t>(lost))), b.dim(0))), x->dtype);
    if (root) divisor = b.op("Sqrt", {divisor});
  } else {
    c.unsupported("a correction that is not a whole number, of a size known only at run time");
  }
  return {b.div(b.reduce(root ? "ReduceL2" : "ReduceSumSquare", apart, axes, keep), divisor), mean};
}

// ---- norms -------------------------------------------------------------------------------------------------------

Ref vector_norm(Builder& b, Ref x, double p, const Axes& axes, bool keep) {
  auto sizes = [&] { return b.op("Abs", {x}); };
  if (x->rank() == 0 && p != 0) return sizes();
  if (p == 2) return b.reduce("ReduceL2", x, axes, keep);
  if (p == 1) return b.reduce("ReduceL1", x, axes, keep);
  if (std::isinf(p)) return extremum(b, p > 0 ? "ReduceMax" : "ReduceMin", sizes(), axes, keep);
  if (p == 0) return reduced(b, "ReduceSum", b.cast(truth(b, x), x->dtype), axes, keep);
  Ref sum = b.reduce("ReduceSum", b.op("Pow", {sizes(), like(b, x, p)}), axes, keep);
  return b.op("Pow", {sum, like(b, x, 1 / p)});
}

// What scales parts, whose norms these are, down to a greatest norm.
Ref norm_limit(Builder& b, Ref norms, double limit) {
  Ref most = like(b, norms, limit), one = like(b, norms, 1);
  return b.where(b.op("Greater", {norms, most}), b.div(most, b.add(norms, like(b, norms, 1e-7))), one);
}

Value renorm(Call& c) {
  Ref x = c.tensor("self");
  Axes axes = all_axes(x);
  std::erase(axes, c.dim("dim", x->rank()));
  return c.onnx.mul(x, norm_limit(c.onnx, vector_norm(c.onnx, x, c.real("p"), axes, true), c.real("maxnorm")));
}

Value embedding_renorm(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self"), indices = b.cast(c.tensor("indices"), DType::Int64);
  indices = b.reshape(indices, {b.numel(indices->shape)});
  Ref rows = b.gather(x, indices, 0);
  Ref limited = b.mul(rows, norm_limit(b, vector_norm(b, rows, c.real("norm_type"), {1}, true), c.real("max_norm")));
  c.tensor_ref("self")->write(b, b.op("ScatterND", {x, b.unsqueeze(indices, {1}), limited}));
  return c.arg("self");
}

Ref norm_operand(Call& c) {
  std::optional<DType> dtype = dtype_argument(c);
  return dtype ? c.tensor_as("self", *dtype) : c.float_tensor("self");
}

Value norm(Call& c) {
  Ref x = norm_operand(c);
  return vector_norm(c.onnx, x, c.none("p") ? 2 : c.real("p"), axes_of(c, x), keepdim(c));
}

Value linalg_vector_norm(Call& c) {
  Ref x = norm_operand(c);
  return vector_norm(c.onnx, x, c.real("ord"), axes_of(c, x), keepdim(c));
}

// What is made of the singular values of the matrices in two dimensions.
Value singular_norm(Call& c, Ref x, const Axes& axes, std::string_view reduction) {
  Builder& b = c.onnx;
  if (axes.size() != 2) c.mismatch("a matrix is needed");
  Vector<int64_t> perm;
  for (int64_t i = 0; i < static_cast<int64_t>(x->rank()); ++i)
    if (i != axes[0] && i != axes[1]) perm.push_back(i);
  perm.insert(perm.end(), axes.begin(), axes.end());
  Ref values = singular(c, b.transpose(x, perm)).values;
  Ref out = b.cast(b.reduce(reduction, values, {static_cast<int64_t>(values->rank()) - 1}, false), x->dtype);
  if (!keepdim(c)) return out;
  Axes sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  return b.unsqueeze(out, sorted);
}

Value linalg_matrix_norm(Call& c, Ref x, const Axes& axes) {
  Builder& b = c.onnx;
  double p = c.real("ord");
  // The largest or smallest sum of a column (1) or of a row (inf).
  bool columns = std::abs(p) == 1;
  if (std::abs(p) == 2) return singular_norm(c, x, axes, p > 0 ? "ReduceMax" : "ReduceMin");
  if (!columns && !std::isinf(p)) c.mismatch(fmt::format("there is no norm of order {}", p));
  Ref sums = b.reduce("ReduceL1", x, {axes[columns ? 0 : 1]}, true);
  return b.reduce(p > 0 ? "ReduceMax" : "ReduceMin", sums, axes, keepdim(c));
}

Value linalg_norm(Call& c) {
  Ref x = norm_operand(c);
  Axes axes = axes_of(c, x);
  bool named = !c.none("dim") && !c.arg("dim").items().empty();
  if (c.none("ord")) return vector_norm(c.onnx, x, 2, axes, keepdim(c));
  if (axes.size() == 2 && (named || x->rank() == 2)) return linalg_matrix_norm(c, x, axes);
  return vector_norm(c.onnx, x, c.real("ord"), axes, keepdim(c));
}

Value frobenius_norm(Call& c) {
  Ref x = norm_operand(c);
  if (c.schema.argument("ord") && c.text("ord") == "nuc") return singular_norm(c, x, axes_of(c, x), "ReduceSum");
  return vector_norm(c.onnx, x, 2, axes_of(c, x), keepdim(c));
}

Value pairwise_distance(Call& c) {
  Builder& b = c.onnx;
  DType t = float_type(c.result_type({"x1", "x2"}));
  Ref apart = b.sub(c.tensor_as("x1", t), c.tensor_as("x2", t));
  if (c.real("eps") != 0) apart = b.add(apart, b.scalar(t, c.real("eps")));
  return vector_norm(b, apart, c.real("p"), {static_cast<int64_t>(apart->rank()) - 1}, keepdim(c));
}

Value diff(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  const int64_t axis = c.dim("dim", x->rank());
  if (c.integer("n") == 0) return x;
  Vector<Ref> parts{x};
  if (Ref before = c.maybe_tensor("prepend")) parts.insert(parts.begin(), before);
  if (Ref after = c.maybe_tensor("append")) parts.push_back(after);
  x = b.concat(parts, axis);
  const int64_t size = x->shape[static_cast<size_t>(axis)].constant().value_or(c.integer("n"));
  for (int64_t i = 0; i < std::min(c.integer("n"), size); ++i) {
    Ref later = b.slice(x, axis, b.dim(1), b.dim(std::numeric_limits<int64_t>::max()));
    Ref sooner = b.slice(x, axis, b.dim(0), b.dim(-1));
    x = x->dtype == DType::Bool ? b.op("Xor", {later, sooner}) : b.sub(later, sooner);
  }
  return x;
}

Value logsumexp(Call& c) {
  Ref x = c.float_tensor("self");
  return reduced(c.onnx, "ReduceLogSumExp", x, axes_of(c, x), keepdim(c));
}

// ---- order -------------------------------------------------------------------------------------------------------

struct Ranked {
  Ref values;
  Ref indices;
};

// The first k along an axis, in order.
Ranked top(Builder& b, Ref x, Dim k, int64_t axis, bool largest, bool sorted = true) {
  if (x->rank() == 0) return {x, no_indices(b)};
  Ref key = x->dtype == DType::Bool ? b.cast(x, DType::Int32) : ordered(b, x, true);
  onnx::Attributes attributes{{"axis", axis}, {"largest", int64_t{largest}}, {"sorted", int64_t{sorted}}};
  Vector<Ref> out = b.op_n("TopK", {key, b.symbolic(Vector<Dim>{k})}, attributes, 2);
  if (may_be_nan(x)) return {b.op("GatherElements", {x, out[1]}, {{"axis", axis}}), out[1]};
  return {b.cast(out[0], x->dtype), out[1]};
}

Ranked sorted(Call& c) {
  Ref x = c.tensor("self");
  int64_t axis = c.dim("dim", x->rank());
  Dim n = x->rank() == 0 ? c.onnx.dim(1) : x->shape[static_cast<size_t>(axis)];
  return top(c.onnx, x, n, axis, c.flag("descending"));
}

Value pair(const Ranked& r) { return Value::tuple({r.values, r.indices}); }

// The element with k - 1 smaller ones before it.
Ranked kth(Builder& b, Ref x, Dim k, int64_t axis, bool keep) {
  if (x->rank() == 0) return {x, no_indices(b)};
  Ranked first = top(b, x, k, axis, false);
  auto last = [&](Ref v) {
    Ref one = b.select(v, axis, b.sym.sub(k, b.dim(1)));
    return keep ? b.unsqueeze(one, {axis}) : one;
  };
  return {last(first.values), last(first.indices)};
}

// How many elements a median is the last of.
Dim median_rank(Builder& b, Dim n) { return b.sym.floor_div(b.sym.add(n, b.dim(1)), b.dim(2)); }

// With a NaN among the elements it is the median.
Ranked median_along(Builder& b, Ref x, int64_t axis, bool keep) {
  Dim n = x->rank() == 0 ? b.dim(1) : x->shape[static_cast<size_t>(axis)];
  const Ranked middle = kth(b, x, median_rank(b, n), axis, keep);
  if (x->rank() == 0 || !may_be_nan(x)) return middle;
  Ref missing = b.op("IsNaN", {b.reduce("ReduceL1", x, {axis}, keep)});
  return {b.where(missing, like(b, x, NAN), middle.values),
          b.where(missing, arg_extremum(b, "ArgMax", x, axis, keep), middle.indices)};
}

Value median(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  return median_along(b, b.reshape(x, {b.numel(x->shape)}), 0, false).values;
}

Value median_dim(Call& c) {
  Ref x = c.tensor("self");
  return pair(median_along(c.onnx, x, c.dim("dim", x->rank()), keepdim(c)));
}

Ranked median_of_present(Builder& b, Ref x, int64_t axis, bool keep) {
  if (!is_float(x->dtype)) return kth(b, x, median_rank(b, x->shape[static_cast<size_t>(axis)]), axis, keep);
  // NaN goes to the end; the median of the others is at half their number.
  Ref missing = b.op("IsNaN", {x});
  Ref filled = b.where(missing, like(b, x, infinity), x);
  Ranked all = top(b, filled, x->shape[static_cast<size_t>(axis)], axis, false);
  Ref present = b.reduce("ReduceSum", b.cast(b.op("Not", {missing}), DType::Int64), {axis}, true);
  Ref at = b.div(b.sub(present, b.scalar_int(DType::Int64, 1)), b.scalar_int(DType::Int64, 2));
  auto pick = [&](Ref v) { return b.op("GatherElements", {v, at}, {{"axis", axis}}); };
  Ref none = b.op("Equal", {present, b.scalar_int(DType::Int64, 0)});
  Ref value = b.where(none, like(b, x, NAN), pick(all.values)), index = pick(all.indices);
  return keep ? Ranked{value, index} : Ranked{b.squeeze(value, {axis}), b.squeeze(index, {axis})};
}

Value nanmedian(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  return median_of_present(b, b.reshape(x, {b.numel(x->shape)}), 0, false).values;
}

Value nanmedian_dim(Call& c) {
  Ref x = c.tensor("self");
  int64_t axis = c.dim("dim", x->rank());
  if (x->rank() == 0) return Value::tuple({x, no_indices(c.onnx)});
  return pair(median_of_present(c.onnx, x, axis, keepdim(c)));
}

// ---- cumulative operators ----------------------------------------------------------------------------------------

Value cumsum(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  x = b.cast(x, sum_type(c, x->dtype));
  if (x->rank() == 0) return x;
  return b.op("CumSum", {x, b.scalar_int(DType::Int64, c.dim("dim", x->rank()))});
}

// Element [.., i, j, ..] is x[.., j, ..] for j <= i, and `fill` for the others: what comes before each element, laid
// out so that a reduction of axis + 1 is cumulative.
Ref prefixes(Builder& b, Ref x, int64_t axis, Ref fill) {
  size_t at = static_cast<size_t>(axis);
  Dim n = x->shape[at];
  Ref mask = triangle(b, n, n, b.dim(0), true);
  Shape shape{n, n};
  shape.resize(x->rank() - at + 1, b.dim(1));
  return b.where(b.reshape(mask, shape), b.unsqueeze(x, {axis}), fill);
}

Value cumprod(Call& c) {
  Ref x = c.tensor("self");
  x = c.onnx.cast(x, sum_type(c, x->dtype));
  if (x->rank() == 0) return x;
  int64_t axis = c.dim("dim", x->rank());
  return c.onnx.reduce("ReduceProd", prefixes(c.onnx, x, axis, like(c.onnx, x, 1)), {axis + 1}, false);
}

Value logcumsumexp(Call& c) {
  Ref x = c.tensor("self");
  if (x->rank() == 0) return x;
  int64_t axis = c.dim("dim", x->rank());
  return c.onnx.reduce("ReduceLogSumExp", prefixes(c.onnx, x, axis, like(c.onnx, x, -infinity)), {axis + 1}, false);
}

// The end of a type's range: what loses against every element.
Ref end_of_range(Builder& b, DType t, bool upper) {
  if (is_float(t)) return b.scalar(t, upper ? infinity : -infinity);
  if (is_unsigned(t)) return b.scalar_int(t, upper ? -1 : 0);
  int64_t highest = std::numeric_limits<int64_t>::max() >> (64 - 8 * byte_size(t));
  return b.scalar_int(t, upper ? highest : -highest - 1);
}

Value cumulative_extremum(Call& c, bool max) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  if (x->rank() == 0) return Value::tuple({x, no_indices(b)});
  if (b.opset() < 12) c.needs_opset(12);
  DType t = x->dtype;
  if (t == DType::Bool) x = b.cast(x, DType::Int32);
  int64_t axis = c.dim("dim", x->rank());
  Ref key = ordered(b, x, max);
  Ref before = prefixes(b, key, axis, end_of_range(b, key->dtype, !max));
  // Of equal elements, the latest.
  Ref indices = b.op(max ? "ArgMax" : "ArgMin", {before},
                     {{"axis", axis + 1}, {"keepdims", int64_t{0}}, {"select_last_index", int64_t{1}}});
  // What stands for the elements behind is equal where all so far are the end of the range.
  Shape along(x->rank() - static_cast<size_t>(axis), b.dim(1));
  along[0] = x->shape[static_cast<size_t>(axis)];
  indices = minimum(b, indices, b.reshape(arange(b, along[0]), along));
  if (may_be_nan(x)) return Value::tuple({b.op("GatherElements", {x, indices}, {{"axis", axis}}), indices});
  Ref values = b.reduce(max ? "ReduceMax" : "ReduceMin", before, {axis + 1}, false);
  return Value::tuple({b.cast(values, t), indices});
}

// ---- the rules ---------------------------------------------------------------------------------------------------

void register_sums(eval::Registry& ops) {
  for (std::string_view schema :
       {"aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        "aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor"})
    ops.add(schema, [](Call& c) { return sum_like(c, "ReduceSum"); });
  for (std::string_view schema :
       {"aten::prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        "aten::prod(Tensor self, *, ScalarType? dtype=None) -> Tensor"})
    ops.add(schema, [](Call& c) { return sum_like(c, "ReduceProd"); });
  for (std::string_view schema :
       {"aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        "aten::mean(Tensor self, *, ScalarType? dtype=None) -> Tensor"})
    ops.add(schema, mean);
  ops.add("aten::sum_to_size(Tensor self, int[] size) -> Tensor", sum_to_size);
  ops.add("aten::renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor", renorm);
  ops.add("aten::embedding_renorm_(Tensor(a!) self, Tensor indices, float max_norm, float norm_type) -> Tensor(a!)",
          embedding_renorm);
  ops.add("aten::nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
          nansum);
  ops.add("aten::nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
          nanmean);
  for (std::string_view schema : {"aten::count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor",
                                  "aten::count_nonzero(Tensor self, int? dim=None) -> Tensor"})
    ops.add(schema, count_nonzero);
}

void register_extrema(eval::Registry& ops) {
  for (auto [name, op, arg_op] : std::initializer_list<std::array<std::string_view, 3>>{
           {"max", "ReduceMax", "ArgMax"}, {"min", "ReduceMin", "ArgMin"}}) {
    ops.add(
        fmt::format("aten::{}.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", name),
        [op = op, arg_op = arg_op](Call& c) { return extremum_dim(c, op, arg_op); });
    for (std::string_view form :
         {"aten::{}(Tensor self) -> Tensor", "aten::a{}(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor"})
      ops.add(fmt::format(fmt::runtime(form), name), [op = op](Call& c) { return extremum_of(c, op); });
    ops.add(fmt::format("aten::arg{}(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", name),
            [arg_op = arg_op](Call& c) { return arg_extremum_of(c, arg_op); });
  }
  ops.add("aten::aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)", aminmax);
  for (bool all : {false, true})
    for (std::string_view form :
         {"aten::{}(Tensor self) -> Tensor", "aten::{}.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
          "aten::{}.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
          "aten::_is_{}_true(Tensor self) -> Tensor"})
      ops.add(fmt::format(fmt::runtime(form), all ? "all" : "any"), [all](Call& c) { return quantified(c, all); });
}

void register_spreads(eval::Registry& ops) {
  for (bool root : {false, true})
    for (std::string_view form :
         {"aten::{}(Tensor self, bool unbiased=True) -> {}",
          "aten::{}.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> {}",
          "aten::{}.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> {}"}) {
      std::string name = root ? "std" : "var";
      ops.add(fmt::format(fmt::runtime(form), name, "Tensor"),
              [root](Call& c) -> Value { return spread(c, root).spread; });
      ops.add(fmt::format(fmt::runtime(form), name + "_mean", "(Tensor, Tensor)"), [root](Call& c) {
        Spread s = spread(c, root);
        return Value::tuple({s.spread, s.mean});
      });
    }
}

void register_norms(eval::Registry& ops) {
  for (std::string_view schema :
       {"aten::norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> "
        "Tensor",
        "aten::norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor",
        "aten::norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor",
        "aten::norm.Scalar(Tensor self, Scalar p=2) -> Tensor"})
    ops.add(schema, norm);
  ops.add(
      "aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, "
      "ScalarType? dtype=None) -> Tensor",
      linalg_vector_norm);
  ops.add(
      "aten::linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, "
      "ScalarType? dtype=None) -> Tensor",
      linalg_norm);
  for (std::string_view schema :
       {"aten::linalg_norm.ord_str(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, "
        "*, ScalarType? dtype=None) -> Tensor",
        "aten::linalg_matrix_norm.str_ord(Tensor self, str ord='fro', int[] dim=[-2, -1], "
        "bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        "aten::frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor"})
    ops.add(schema, frobenius_norm);
  ops.add(
      "aten::linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2, -1], bool keepdim=False, *, "
      "ScalarType? dtype=None) -> Tensor",
      [](Call& c) {
        Ref x = norm_operand(c);
        return linalg_matrix_norm(c, x, axes_of(c, x));
      });
  ops.add("aten::dist(Tensor self, Tensor other, Scalar p=2) -> Tensor", [](Call& c) -> Value {
    DType t = float_type(c.result_type({"self", "other"}));
    Ref apart = c.onnx.sub(c.tensor_as("self", t), c.tensor_as("other", t));
    return vector_norm(c.onnx, apart, c.real("p"), all_axes(apart), false);
  });
  ops.add("aten::pairwise_distance(Tensor x1, Tensor x2, float p=2.0, float eps=1e-06, bool keepdim=False) -> Tensor",
          pairwise_distance);
  ops.add("aten::diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor", diff);
  for (std::string_view name : {"logsumexp", "special_logsumexp"})
    ops.add(fmt::format("aten::{}(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", name), logsumexp);
}

void register_orders(eval::Registry& ops) {
  ops.add(
      "aten::topk(Tensor self, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor "
      "indices)",
      [](Call& c) {
        Ref x = c.tensor("self");
        return pair(top(c.onnx, x, c.size("k"), c.dim("dim", x->rank()), c.flag("largest"), c.flag("sorted")));
      });
  for (std::string_view schema :
       {"aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
        "aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor "
        "indices)"})
    ops.add(schema, [](Call& c) { return pair(sorted(c)); });
  for (std::string_view schema :
       {"aten::argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor",
        "aten::argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor"})
    ops.add(schema, [](Call& c) -> Value { return sorted(c).indices; });
  ops.add("aten::msort(Tensor self) -> Tensor", [](Call& c) -> Value {
    Ref x = c.tensor("self");
    return top(c.onnx, x, x->rank() == 0 ? c.onnx.dim(1) : x->shape[0], 0, false).values;
  });
  ops.add("aten::kthvalue(Tensor self, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
          [](Call& c) {
            Ref x = c.tensor("self");
            return pair(kth(c.onnx, x, c.size("k"), c.dim("dim", x->rank()), keepdim(c)));
          });
  ops.add("aten::median(Tensor self) -> Tensor", median);
  ops.add("aten::median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", median_dim);
  ops.add("aten::nanmedian(Tensor self) -> Tensor", nanmedian);
  ops.add("aten::nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
          nanmedian_dim);
}

void register_cumulative(eval::Registry& ops) {
  ops.add("aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", cumsum).varies();
  ops.add("aten::cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", cumprod);
  ops.add("aten::logcumsumexp(Tensor self, int dim) -> Tensor", logcumsumexp);
  ops.add("aten::cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)",
          [](Call& c) { return cumulative_extremum(c, true); });
  ops.add("aten::cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)",
          [](Call& c) { return cumulative_extremum(c, false); });
}

}  // namespace

void register_reduce(eval::Registry& ops) {
  register_sums(ops);
  register_extrema(ops);
  register_spreads(ops);
  register_norms(ops);
  register_orders(ops);
  register_cumulative(ops);
}

}  // namespace lithify::ops
