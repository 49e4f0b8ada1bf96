// Operators that make one tensor of several.
#include <fmt/format.h>

#include <algorithm>

#include "ops/register.hpp"
#include "ops/slicing.hpp"

namespace lithify::ops {
namespace {

using onnx::Builder;
using OnnxValue = onnx::Value;

// The tensors in the type that they promote to.
Vector<OnnxValue*> promoted(Call& c) {
  const Vector<Value>& items = c.arg("tensors").items();
  if (items.empty()) c.mismatch("there is no tensor");
  DType type = c.result_type(items);
  Vector<OnnxValue*> out;
  for (const Value& v : items) out.push_back(c.as_tensor(v, type));
  return out;
}

Value cat(Call& c, Vector<OnnxValue*> parts, int64_t dim) {
  // By an old habit, an empty tensor of one dimension goes with tensors of any rank.
  auto skipped = [](OnnxValue* v) { return v->rank() == 1 && v->shape[0].is(0); };
  OnnxValue* first = parts[0];
  std::erase_if(parts, skipped);
  if (parts.empty()) return first;
  int64_t rank = static_cast<int64_t>(parts[0]->rank());
  if (rank == 0) c.mismatch("0-d tensors cannot be joined");
  if (dim < -rank || dim >= rank) c.mismatch(fmt::format("there is no dimension {} of {}", dim, rank));
  return c.onnx.concat(parts, dim < 0 ? dim + rank : dim);
}

// How many of the sizes behind an axis a Reshape would need at run time.
int64_t dynamic_from(const Shape& shape, size_t axis) {
  return std::count_if(shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end(),
                       [](Dim d) { return !d.is_constant(); });
}

OnnxValue* stack(Call& c, Vector<OnnxValue*> parts, int64_t dim) {
  Builder& b = c.onnx;
  size_t n = parts.size(), rank = parts[0]->rank(), axis = static_cast<size_t>(dim);
  for (OnnxValue* v : parts)
    if (v->rank() != rank) c.mismatch("the tensors have different numbers of dimensions");
  bool behind_all = axis == rank;
  // Joined along an axis and cut again: two nodes for any number of tensors. Behind the last axis, a third one.
  bool joins = rank > 0 && n > (behind_all ? 2 : 1) && dynamic_from(parts[0]->shape, behind_all ? rank - 1 : axis) <= 1;
  for (OnnxValue* v : parts) joins = joins && v->shape == parts[0]->shape && !v->contents;
  if (joins) {
    size_t along = behind_all ? rank - 1 : axis;
    Shape to = parts[0]->shape;
    to.insert(to.begin() + static_cast<std::ptrdiff_t>(along), c.sym.constant(static_cast<int64_t>(n)));
    OnnxValue* y = b.reshape(b.concat(parts, static_cast<int64_t>(along)), to);
    return behind_all ? b.swap_dims(y, -1, -2) : y;
  }
  for (OnnxValue*& v : parts) v = b.unsqueeze(v, {dim});
  return b.concat(parts, dim);
}

// Tensors of at least `rank` dimensions, joined along one of them (hstack: along the only one, if there is one only).
Value joined(Call& c, size_t rank, int64_t axis) {
  Vector<OnnxValue*> parts = promoted(c);
  for (OnnxValue*& v : parts) v = c.onnx.reshape(v, at_least(c.sym, v->shape, rank));
  return cat(c, parts, std::min<int64_t>(axis, static_cast<int64_t>(parts[0]->rank()) - 1));
}

Value column_stack(Call& c) {
  Vector<OnnxValue*> parts = promoted(c);
  for (OnnxValue*& v : parts) {
    Shape to = v->shape;
    while (to.size() < 2) to.push_back(c.sym.constant(1));
    v = c.onnx.reshape(v, to);
  }
  return cat(c, parts, 1);
}

Value block_diag(Call& c) {
  Vector<OnnxValue*> parts = promoted(c);
  Dim zero = c.sym.constant(0), before = zero, width = zero;
  for (OnnxValue*& v : parts) {
    if (v->rank() > 2) c.mismatch("a tensor has more than two dimensions");
    v = c.onnx.reshape(v, at_least(c.sym, v->shape, 2));
    width = c.sym.add(width, v->shape[1]);
  }
  for (OnnxValue*& v : parts) {
    Dim next = c.sym.add(before, v->shape[1]);
    Vector<std::pair<Dim, Dim>> pads{{zero, zero}, {before, c.sym.sub(width, next)}};
    v = c.onnx.pad(v, pads, "constant");
    before = next;
  }
  return c.onnx.concat(parts, 0);
}

Value cartesian_prod(Call& c) {
  Vector<OnnxValue*> parts = promoted(c);
  if (parts.size() == 1) return parts[0];
  Shape grid;
  for (OnnxValue* v : parts) {
    if (v->rank() != 1) c.mismatch("a tensor does not have one dimension");
    grid.push_back(v->shape[0]);
  }
  Dim rows = c.sym.product(grid);
  for (size_t i = 0; i < parts.size(); ++i) {
    Shape own(parts.size() - i, c.sym.constant(1));
    own[0] = grid[i];
    parts[i] = c.onnx.reshape(c.onnx.expand(c.onnx.reshape(parts[i], own), grid), {rows, c.sym.constant(1)});
  }
  return c.onnx.concat(parts, 1);
}

Value combinations(Call& c) {
  OnnxValue* x = c.tensor("self");
  int64_t r = c.integer("r");
  bool again = c.flag("with_replacement");
  if (x->rank() != 1 || r < 0) c.mismatch("a tensor of one dimension is needed");
  std::optional<int64_t> n = x->shape[0].constant();
  if (!n) {
    if (r != 2) c.unsupported(fmt::format("{} elements of a dynamic size", r));
    const Value pairs =
        c.call("aten::triu_indices", {x->shape[0], x->shape[0], c.number_value(again ? int64_t{0} : 1)});
    return c.onnx.gather(x, transposed(c.onnx, c.as_tensor(pairs)), 0);
  }
  constexpr size_t most = 1 << 20;
  // Index tuples in lexical order: each prefix is continued by every position that may follow its last one.
  Vector<Vector<int64_t>> rows{{}};
  for (int64_t k = 0; k < r; ++k) {
    Vector<Vector<int64_t>> next;
    for (const auto& row : rows)
      for (int64_t i = row.empty() ? 0 : row.back() + (again ? 0 : 1); i < *n; ++i) {
        if (next.size() > most) c.unsupported("more than a million combinations");
        next.push_back(row);
        next.back().push_back(i);
      }
    c.sym.budget.spend(Limit::Bytes, next.size() * static_cast<size_t>(k + 1) * sizeof(int64_t));
    rows = std::move(next);
  }
  if (r == 0) rows.clear();
  Vector<int64_t> indices;
  for (const auto& row : rows) indices.insert(indices.end(), row.begin(), row.end());
  if (r == 0) return c.onnx.slice(x, 0, c.sym.constant(0), c.sym.constant(0));
  return c.onnx.gather(x, int_array(c.onnx, indices, {static_cast<int64_t>(rows.size()), r}), 0);
}

// Each tensor, padded to a multiple of the number of chunks, as [..., chunks, rest]; side by side.
Value chunk_cat(Call& c) {
  onnx::Builder& b = c.onnx;
  onnx::Inputs parts;
  for (onnx::Value* x : c.tensors("tensors")) {
    int64_t axis = c.dim("dim", x->rank());
    auto at = static_cast<size_t>(axis);
    Dim chunks = c.size("num_chunks"), length = b.sym.ceil_div(x->shape[at], chunks);
    Vector<std::pair<Dim, Dim>> pads(x->rank(), {b.dim(0), b.dim(0)});
    pads[at].second = b.sym.sub(b.sym.mul(length, chunks), x->shape[at]);
    x = b.pad(x, pads, "constant");
    Shape shape(x->shape.begin(), x->shape.begin() + axis);
    shape.push_back(chunks);
    shape.push_back(b.sym.mul(length, b.numel(Shape(x->shape.begin() + axis + 1, x->shape.end()))));
    parts.push_back(b.reshape(x, shape));
  }
  return b.concat(parts, static_cast<int64_t>(parts.at(0)->rank()) - 1);
}

// Sequences of different lengths as one tensor, each filled up to the longest one.
Value pad_sequence(Call& c) {
  Builder& b = c.onnx;
  Vector<OnnxValue*> parts = c.tensors("sequences");
  if (parts.empty() || parts[0]->rank() == 0) c.mismatch("sequences have at least one dimension");
  bool left = c.text("padding_side") == "left";
  if (!left && c.text("padding_side") != "right") c.mismatch("the padding side is 'left' or 'right'");
  Dim longest = parts[0]->shape[0];
  for (OnnxValue* v : parts) longest = b.sym.max(longest, v->shape.at(0));
  OnnxValue* fill = c.number("padding_value", parts[0]->dtype);
  for (OnnxValue*& v : parts) {
    Dim zero = b.dim(0), missing = b.sym.sub(longest, v->shape[0]);
    Vector<std::pair<Dim, Dim>> pads(v->rank(), {zero, zero});
    pads[0] = left ? std::pair{missing, zero} : std::pair{zero, missing};
    v = b.pad(b.cast(v, parts[0]->dtype), pads, "constant", fill);
    v->shape[0] = longest;
  }
  return stack(c, parts, c.flag("batch_first") ? 0 : 1);
}

}  // namespace

void register_join(eval::Registry& ops) {
  for (const char* name : {"cat", "concat", "concatenate", "_cat"})
    ops.add(fmt::format("aten::{}(Tensor[] tensors, int dim=0) -> Tensor", name),
            [](Call& c) { return cat(c, promoted(c), c.integer("dim")); });
  for (const char* name : {"stack", "_stack"})
    ops.add(fmt::format("aten::{}(Tensor[] tensors, int dim=0) -> Tensor", name), [](Call& c) -> Value {
      Vector<OnnxValue*> parts = promoted(c);
      return stack(c, parts, c.new_dim("dim", parts[0]->rank()));
    });
  struct Row {
    const char* name;
    size_t rank;
    int64_t axis;
  };
  for (const Row& row : {Row{"hstack", 1, 1}, {"vstack", 2, 0}, {"row_stack", 2, 0}, {"dstack", 3, 2}})
    ops.add(fmt::format("aten::{}(Tensor[] tensors) -> Tensor", row.name),
            [row](Call& c) { return joined(c, row.rank, row.axis); });
  ops.add("aten::column_stack(Tensor[] tensors) -> Tensor", column_stack);
  ops.add("aten::block_diag(Tensor[] tensors) -> Tensor", block_diag);
  ops.add("aten::cartesian_prod(Tensor[] tensors) -> Tensor", cartesian_prod);
  ops.add("aten::combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor", combinations);
  ops.add(
      "aten::pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0.0, str "
      "padding_side=\"right\") -> Tensor",
      pad_sequence);
  ops.add("aten::_chunk_cat(Tensor[] tensors, int dim, int num_chunks) -> Tensor", chunk_cat);
}

}  // namespace lithify::ops
