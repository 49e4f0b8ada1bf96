// The three ways in which `fold` evaluates a node, one file each: moving elements (fold_move.cpp), computing numbers
// (fold_numbers.cpp), computing expressions (fold_symbolic.cpp). All sizes that they see are constants.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "base/diagnostic.hpp"
#include "onnx/opdef.hpp"

namespace lithify::onnx::folding {

using Sizes = Vector<int64_t>;

/// The sizes as numbers; empty when one is not.
std::optional<Sizes> numbers(std::span<const Dim> shape);
int64_t numel(const Sizes& sizes);
/// The sizes of output 0.
inline Sizes result_sizes(const Inference& f) { return numbers(f.node.outputs[0]->shape).value(); }
/// All elements of an integer or bool value, when they are known numbers.
std::optional<Vector<int64_t>> integers(const Value& v);

/// offset + sum of index*stride for each index of `sizes`, in row-major order.
Vector<int64_t> strided(const Sizes& sizes, const Sizes& strides, int64_t offset = 0);
/// The strides with which a row-major tensor of sizes `from` is read as if it had been broadcast to `to`.
Sizes broadcast_strides(const Sizes& from, const Sizes& to);
/// For each element of `from`, the number of the element of the result that it is reduced into; `axes` not negative.
Vector<int64_t> reduction_targets(const Sizes& from, const Vector<int64_t>& axes);
/// The axes of a Reduce* node.
Vector<int64_t> reduction_axes(const Inference& f);

/// The row of a table for an operator; nullptr when there is none.
template <class Table>
auto find(const Table& table, std::string_view op) {
  const auto row = std::find_if(std::begin(table), std::end(table), [&](const auto& r) { return r.op == op; });
  return row == std::end(table) ? nullptr : &*row;
}

// ---- moving ---------------------------------------------------------------------------------------------------------

/// A node that only moves elements: the pool is the elements of the inputs `data`, one input after the other; each
/// output is a list of their numbers in it. `zero` stands for an element that is 0.
struct Selection {
  static constexpr int64_t zero = -1;
  Vector<size_t> data;
  Vector<Vector<int64_t>> outputs;
};

bool moves(std::string_view op);
/// Empty when the node's other inputs (indices, bounds, ...) are not known numbers.
std::optional<Selection> select(Inference& f);

// ---- computing numbers ----------------------------------------------------------------------------------------------

/// A constant as it is computed with: integers and bool as int64, half and bfloat16 as float32.
struct Array {
  DType dtype = DType::Undefined;
  Sizes sizes;
  std::variant<Vector<int64_t>, Vector<float>, Vector<double>> data;
};

bool computes(std::string_view op);
/// The single output of a node whose inputs are all constants; empty when the result is not defined (division by 0).
std::optional<Array> compute(Inference& f);
/// The elements as they are stored: integers wrapped and reals rounded to the type.
TensorView stored(const Array& array);

// ---- computing expressions ------------------------------------------------------------------------------------------

/// The elements of the single output of a node whose inputs all have contents; empty when they depend on the symbols
/// in a way that no expression can state.
std::optional<Vector<Dim>> compute_symbolic(Inference& f);

}  // namespace lithify::onnx::folding
