// Smaller weights: large matrices as integers of 8 or 4 bits in blocks, each with a scale. Results change by that, so
// it is the last step of an export, after the graph was compared with the model.
#pragma once

#include "base/quantized.hpp"
#include "onnx/graph.hpp"

namespace lithify::rewrite {

struct WeightOptions {
  DType integers = DType::Undefined;  ///< Int4, UInt4, Int8, UInt8; Undefined leaves all weights as they are
  int64_t block = 32;                 ///< so many elements have one scale
  Vector<std::string> keep;           ///< weights and modules that stay as they are, by name; "*" stands for any text
  bool ort = false;                   ///< products become MatMulNBits, which only ONNX Runtime has
};

/// The first opset whose DequantizeLinear takes blocks.
constexpr int first_opset_of_blocks = 21;

struct Smaller {
  size_t quantized = 0;       ///< weights
  Vector<std::string> whole;  ///< large weights that stay as they are, because they have no whole blocks or no end
};

/// Quantizes the second operands of products of matrices (MatMul, Gemm), and large tables that Gather takes rows of.
/// Nodes take DequantizeLinear of what is stored, or are MatMulNBits; a table is taken rows of first. ONNX has no
/// Gather of 4 bits, so tables have 8. Values and nodes have names before and after.
Smaller quantize_weights(onnx::Model& model, sym::Context& sym, const WeightOptions& options);

}  // namespace lithify::rewrite
