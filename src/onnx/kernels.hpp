// Which element types ONNX Runtime's CPU kernels take, operator by operator, and what to compute in instead.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

#include "onnx/graph.hpp"

namespace lithify::onnx {

/// The inputs and outputs of an operator that have the type by which a kernel is chosen.
struct TypedOperands {
  uint64_t inputs;   ///< bit i: input i has the type
  uint64_t outputs;  ///< bit i: output i has the type
  bool input(size_t i) const { return inputs >> std::min<size_t>(i, 63) & 1; }
  bool output(size_t i) const { return outputs >> std::min<size_t>(i, 63) & 1; }
};

/// Those of an operator; empty where it is not known.
std::optional<TypedOperands> typed_operands(std::string_view op, int opset);
/// Whether there is a kernel of an operator for a type.
bool has_kernel(std::string_view op, int opset, DType type);

/// A node whose inputs must be cast `to` a type that has a kernel, and whose outputs are cast back `from` it.
struct Widening : TypedOperands {
  DType from;
  DType to;
};

/// Empty when there is a kernel for the inputs' type, or nothing is known that would do instead. Widening is exact:
/// the wider type holds every value of the narrower, and the operator's result cast back is the operator's result. Only
/// float64 has no wider type: it is computed in float32 where there is no kernel and no exact form (float64.hpp), since
/// ONNX Runtime would not load the file.
std::optional<Widening> widening(std::string_view op, int opset, std::span<Value* const> inputs);

/// The lowest later opset in which there is a kernel for the inputs' type, where the opset itself has none; else 0.
int opset_with_type(std::string_view op, int opset, std::span<Value* const> inputs);

}  // namespace lithify::onnx
