// Operators that reorder the dimensions of a tensor.
#include <fmt/format.h>

#include <algorithm>

#include "ops/reshape.hpp"
#include "ops/slicing.hpp"

namespace lithify::ops {
namespace {

using onnx::Builder;
using OnnxValue = onnx::Value;

Value permuted(Call& c, Vector<int64_t> perm) {
  Vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != static_cast<int64_t>(i)) c.mismatch("a dimension is given twice");
  if (std::is_sorted(perm.begin(), perm.end())) return reshaped(c, c.tensor("self")->shape);
  return c.view(
      "self", [perm](Builder& b, OnnxValue* x) { return b.transpose(x, perm); },
      [back = inverse_permutation(perm)](Builder& b, OnnxValue*, OnnxValue* changed) {
        return b.transpose(changed, back);
      });
}

Value swapped(Call& c, int64_t a, int64_t b) {
  Vector<int64_t> perm = identity_permutation(c.tensor("self")->rank());
  if (!perm.empty()) std::swap(perm[static_cast<size_t>(a)], perm[static_cast<size_t>(b)]);
  return permuted(c, perm);
}

Value swap_named(Call& c, std::string_view first, std::string_view second) {
  size_t rank = c.tensor("self")->rank();
  return swapped(c, c.dim(first, rank), c.dim(second, rank));
}

Value swap_last_two(Call& c) {
  int64_t rank = rank_of(c.tensor("self"));
  if (rank < 2) c.mismatch("a matrix is needed");
  return swapped(c, rank - 2, rank - 1);
}

Value moved(Call& c) {
  OnnxValue* x = c.tensor("self");
  Vector<int64_t> from = c.dims("source", x->rank()), to = c.dims("destination", x->rank());
  if (from.size() != to.size()) c.mismatch("source and destination differ in length");
  Vector<int64_t> perm(x->rank(), -1), rest;
  for (int64_t d : identity_permutation(x->rank()))
    if (std::find(from.begin(), from.end(), d) == from.end()) rest.push_back(d);
  if (perm.empty()) return permuted(c, perm);
  for (size_t i = 0; i < from.size(); ++i) perm[static_cast<size_t>(to[i])] = from[i];
  auto next = rest.begin();
  for (int64_t& p : perm)
    if (p < 0 && next != rest.end()) p = *next++;
  return permuted(c, perm);
}

}  // namespace

void register_permute(eval::Registry& ops) {
  ops.add("aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
          [](Call& c) { return swap_named(c, "dim0", "dim1"); });
  ops.add("aten::swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
          [](Call& c) { return swap_named(c, "dim0", "dim1"); });
  ops.add("aten::swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)",
          [](Call& c) { return swap_named(c, "axis0", "axis1"); });
  ops.add("aten::t(Tensor(a) self) -> Tensor(a)", [](Call& c) {
    size_t rank = c.tensor("self")->rank();
    if (rank > 2) c.mismatch(fmt::format("a tensor of {} dimensions is not a matrix", rank));
    return swapped(c, 0, rank == 2 ? 1 : 0);
  });
  ops.add("aten::numpy_T(Tensor(a) self) -> Tensor(a)", [](Call& c) {
    Vector<int64_t> perm = identity_permutation(c.tensor("self")->rank());
    std::reverse(perm.begin(), perm.end());
    return permuted(c, perm);
  });
  add_each(ops,
           {"aten::mT(Tensor(a) self) -> Tensor(a)", "aten::mH(Tensor(a) self) -> Tensor(a)",
            "aten::matrix_H(Tensor(a) self) -> Tensor(a)", "aten::adjoint(Tensor(a) self) -> Tensor(a)"},
           swap_last_two);
  ops.add("aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)", [](Call& c) {
    size_t rank = c.tensor("self")->rank();
    Vector<int64_t> perm = c.dims("dims", rank);
    if (perm.size() != rank) c.mismatch(fmt::format("{} dimensions are given for a tensor of {}", perm.size(), rank));
    return permuted(c, perm);
  });
  add_each(ops,
           {"aten::movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
            "aten::movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)",
            "aten::moveaxis.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
            "aten::moveaxis.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)"},
           moved);
}

}  // namespace lithify::ops
