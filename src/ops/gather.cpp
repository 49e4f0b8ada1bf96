// Operators with positions along one dimension: index_select, gather, scatter and their reductions; take and put.
#include <fmt/format.h>

#include <limits>

#include "ops/elementwise.hpp"
#include "ops/positions.hpp"
#include "ops/slicing.hpp"

namespace lithify::ops {
namespace {

using onnx::Builder;
using OnnxValue = onnx::Value;

/// The operands of operators that have a tensor of positions for one dimension. A 0-d tensor counts as 1-D.
struct Along {
  OnnxValue* x;
  int64_t dim;
  OnnxValue* index;
};

Along along(Call& c) {
  OnnxValue* x = at_least_1d(c.onnx, c.tensor("self"));
  return {x, c.dim("dim", x->rank()), at_least_1d(c.onnx, as_index(c.onnx, c.tensor("index")))};
}

// The same where the index has a position for each row.
Along along_rows(Call& c) {
  const Along a = along(c);
  if (a.index->rank() != 1) c.mismatch("the index must have one dimension");
  return a;
}

Value like_self(Call& c, OnnxValue* y) { return c.onnx.reshape(y, c.tensor("self")->shape); }

Value index_select(Call& c) {
  OnnxValue *x = at_least_1d(c.onnx, c.tensor("self")), *index = at_least_1d(c.onnx, c.tensor("index"));
  if (index->rank() != 1) c.mismatch("the index must have one dimension");
  OnnxValue* y = gathered(c.onnx, x, index, c.dim("dim", x->rank()));
  return c.tensor("self")->rank() == 0 ? like_self(c, y) : Value(y);
}

// The rows of `source`, made to fit where rows of self are replaced.
OnnxValue* rows_of(Call& c, const Along& a, std::string_view source) {
  OnnxValue* rows = c.tensor_as(source, a.x->dtype);
  Shape to = a.x->shape;
  at(to, a.dim) = a.index->shape[0];
  return rows->rank() == 0 ? c.onnx.expand(rows, to) : rows;
}

Value index_add(Call& c) {
  Along a = along_rows(c);
  OnnxValue* rows = rows_of(c, a, "source");
  rows = c.onnx.mul(rows, c.number("alpha", rows->dtype));
  return like_self(c, scatter_rows(c, a.x, a.dim, a.index, rows, "add"));
}

Value index_copy(Call& c) {
  Along a = along_rows(c);
  return like_self(c, scatter_rows(c, a.x, a.dim, a.index, rows_of(c, a, "source"), ""));
}

Value index_fill(Call& c) {
  Along a = along_rows(c);
  OnnxValue* value = c.number("value", a.x->dtype);
  std::optional<int64_t> size = at(a.x->shape, a.dim).constant();
  if (auto positions = known_contents(a.index); positions && size) {
    c.sym.budget.spend(Limit::Bytes, static_cast<uint64_t>(*size));
    std::vector<bool> mask(static_cast<size_t>(*size));
    for (int64_t p : *positions) {
      if (p < -*size || p >= *size) c.mismatch(fmt::format("there is no position {} of {}", p, *size));
      mask[static_cast<size_t>(p < 0 ? p + *size : p)] = true;
    }
    Vector<int64_t> sizes(a.x->rank() - static_cast<size_t>(a.dim), 1);
    sizes[0] = *size;
    return like_self(c, c.onnx.where(bools(c.onnx, mask, sizes), value, a.x));
  }
  Shape to = a.x->shape;
  at(to, a.dim) = a.index->shape[0];
  return like_self(c, scatter_rows(c, a.x, a.dim, a.index, c.onnx.expand(value, to), ""));
}

Value gather(Call& c) {
  Along a = along(c);
  OnnxValue* y = c.onnx.op("GatherElements", {a.x, a.index}, {{"axis", a.dim}});
  return c.onnx.reshape(y, c.tensor("index")->shape);
}

OnnxValue* scatter_elements(Call& c, const Along& a, OnnxValue* x, OnnxValue* updates, std::string_view reduce) {
  if (x->dtype == DType::Bool && (reduce == "max" || reduce == "min")) {
    auto number = [&](OnnxValue* v) { return c.onnx.cast(v, DType::Int32); };
    return c.onnx.cast(scatter_elements(c, a, number(x), number(updates), reduce), DType::Bool);
  }
  onnx::Attributes attributes = scatter_reduction(c, reduce);
  attributes.insert(attributes.begin(), {"axis", a.dim});
  return c.onnx.op("ScatterElements", {x, a.index, updates}, attributes);
}

OnnxValue* updates_of(Call& c, const Along& a) {
  OnnxValue* source = at_least_1d(c.onnx, c.tensor_as("src", a.x->dtype));
  if (source->rank() != a.index->rank()) c.mismatch("index and src differ in their numbers of dimensions");
  return cut_to(c.onnx, source, a.index->shape);
}

// What leaves every number as it is when it is reduced with it.
OnnxValue* neutral(Call& c, std::string_view reduce, DType dtype) {
  if (reduce == "add" || reduce == "mean") return c.onnx.scalar_int(dtype, 0);
  if (reduce == "mul") return c.onnx.scalar_int(dtype, 1);
  bool max = reduce == "max";
  if (is_float(dtype)) return c.onnx.scalar(dtype, max ? -infinity : infinity);
  int64_t bits = static_cast<int64_t>(byte_size(dtype)) * 8;
  if (is_unsigned(dtype) || dtype == DType::Bool)
    return c.onnx.scalar_int(dtype, max ? 0 : dtype == DType::Bool ? 1 : -1);
  int64_t highest = std::numeric_limits<int64_t>::max() >> (64 - bits);
  return c.onnx.scalar_int(dtype, max ? -highest - 1 : highest);
}

// `put` scatters updates into a tensor by a reduction; `fill` scatters one number.
template <class Put, class Fill>
OnnxValue* reduced(Call& c, OnnxValue* x, std::string_view reduce, bool include_self, Put put, Fill fill) {
  Builder& b = c.onnx;
  if (!include_self) x = fill(x, neutral(c, reduce, x->dtype));
  if (reduce != "mean") return put(x, reduce);
  OnnxValue* sum = put(x, "add");
  OnnxValue* one = b.scalar_int(x->dtype, 1);
  OnnxValue* ones = b.expand(one, x->shape);
  if (!include_self) ones = fill(ones, neutral(c, "add", x->dtype));
  // Counts are the sums of ones; positions that nothing was scattered to have a count of 1.
  OnnxValue* count = put(ones, "count");
  if (is_float(x->dtype)) return b.div(sum, count);
  return c.as_tensor(c.call("aten::floor_divide", {Value(sum), Value(count)}), x->dtype);
}

std::string onnx_reduction(Call& c, const std::string& name) {
  static const std::pair<const char*, const char*> names[] = {{"sum", "add"},      {"add", "add"},  {"prod", "mul"},
                                                              {"multiply", "mul"}, {"amax", "max"}, {"amin", "min"},
                                                              {"mean", "mean"}};
  for (auto [torch, onnx] : names)
    if (name == torch) return onnx;
  c.unsupported(fmt::format("the reduction '{}'", name));
}

Value scatter_reduce(Call& c, OnnxValue* updates, const std::string& reduce, bool include_self) {
  Along a = along(c);
  auto put = [&](OnnxValue* x, std::string_view how) {
    if (how != "count") return scatter_elements(c, a, x, updates, how);
    return scatter_elements(c, a, x, c.onnx.expand(c.onnx.scalar_int(x->dtype, 1), a.index->shape), "add");
  };
  auto fill = [&](OnnxValue* x, OnnxValue* number) {
    return scatter_elements(c, a, x, c.onnx.expand(number, a.index->shape), "");
  };
  return like_self(c, reduced(c, a.x, onnx_reduction(c, reduce), include_self, put, fill));
}

Value index_reduce(Call& c) {
  Along a = along(c);
  OnnxValue* rows = rows_of(c, a, "source");
  auto put = [&](OnnxValue* x, std::string_view how) {
    if (how != "count") return scatter_rows(c, x, a.dim, a.index, rows, how);
    return scatter_rows(c, x, a.dim, a.index, c.onnx.expand(c.onnx.scalar_int(x->dtype, 1), rows->shape), "add");
  };
  auto fill = [&](OnnxValue* x, OnnxValue* number) {
    return scatter_rows(c, x, a.dim, a.index, c.onnx.expand(number, rows->shape), "");
  };
  return like_self(c, reduced(c, a.x, onnx_reduction(c, c.text("reduce")), c.flag("include_self"), put, fill));
}

Value take_along_dim(Call& c) {
  Builder& b = c.onnx;
  OnnxValue *x = c.tensor("self"), *index = as_index(b, c.tensor("indices"));
  if (c.none("dim")) return b.op("GatherElements", {flat(b, x), flat(b, index)}, {{"axis", int64_t{0}}});
  if (x->rank() != index->rank()) c.mismatch("self and indices differ in their numbers of dimensions");
  int64_t dim = c.dim("dim", x->rank());
  Shape to_x = x->shape, to_index = index->shape;
  at(to_x, dim) = at(to_index, dim) = c.sym.constant(1);
  to_x = to_index = b.broadcast(to_x, to_index);
  at(to_x, dim) = at(x->shape, dim);
  at(to_index, dim) = at(index->shape, dim);
  return b.op("GatherElements", {b.expand(x, to_x), b.expand(index, to_index)}, {{"axis", dim}});
}

Value put(Call& c) {
  Builder& b = c.onnx;
  OnnxValue* x = c.tensor("self");
  OnnxValue* index = flat(b, as_index(b, c.tensor("index")));
  OnnxValue* source = flat(b, c.tensor_as("source", x->dtype));
  return like_self(c, scatter_rows(c, flat(b, x), 0, index, source, c.flag("accumulate") ? "add" : ""));
}

}  // namespace

void register_gather(eval::Registry& ops) {
  ops.add("aten::take(Tensor self, Tensor index) -> Tensor", [](Call& c) -> Value {
    return c.onnx.gather(flat(c.onnx, c.tensor("self")), as_index(c.onnx, c.tensor("index")), 0);
  });
  ops.add("aten::put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor", put);
  ops.add("aten::index_select(Tensor self, int dim, Tensor index) -> Tensor", index_select);
  ops.add("aten::index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor", index_add);
  ops.add("aten::index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor", index_copy);
  add_each(ops,
           {"aten::index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
            "aten::index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor"},
           index_fill);
  ops.add(
      "aten::index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> "
      "Tensor",
      index_reduce);
  ops.add("aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", gather);
  ops.add("aten::scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", [](Call& c) {
    Along a = along(c);
    return like_self(c, scatter_elements(c, a, a.x, updates_of(c, a), ""));
  });
  ops.add("aten::scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", [](Call& c) {
    Along a = along(c);
    return like_self(c, scatter_elements(c, a, a.x, c.onnx.expand(c.number("value", a.x->dtype), a.index->shape), ""));
  });
  ops.add("aten::scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
          [](Call& c) { return scatter_reduce(c, updates_of(c, along(c)), c.text("reduce"), true); });
  ops.add("aten::scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor",
          [](Call& c) {
            Along a = along(c);
            OnnxValue* updates = c.onnx.expand(c.number("value", a.x->dtype), a.index->shape);
            return scatter_reduce(c, updates, c.text("reduce"), true);
          });
  ops.add("aten::scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
          [](Call& c) { return scatter_reduce(c, updates_of(c, along(c)), "sum", true); });
  ops.add(
      "aten::scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) "
      "-> Tensor",
      [](Call& c) { return scatter_reduce(c, updates_of(c, along(c)), c.text("reduce"), c.flag("include_self")); });
  ops.add("aten::take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor", take_along_dim);
}

}  // namespace lithify::ops
