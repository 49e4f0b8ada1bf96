// Weights and computation in 16 bits. Results change by that, so it is a last step of an export, after the graph was
// compared with the model.
#pragma once

#include <map>
#include <string>

#include "onnx/graph.hpp"

namespace lithify::rewrite {

struct PrecisionOptions {
  DType type = DType::Undefined;  ///< Half or BFloat16
  Vector<std::string> keep;       ///< weights and modules that stay float32, by name; "*" stands for any text
};

struct Lowered {
  size_t weights = 0;               ///< constants that are stored in the type
  size_t nodes = 0;                 ///< that compute in it
  size_t widened = 0;               ///< that compute in float32, because ONNX Runtime has no kernel for the type
  std::map<std::string, int> left;  ///< operators that compute in float32, because their values need it
  Vector<std::string> beyond;       ///< weights that stay float32, because they have elements beyond the type's range
};

/// Lets nodes compute in a type of 16 bits, and stores their weights in it. Inputs and outputs of graphs stay as they
/// are. So do, in float32:
///
/// - sums, squares, powers, exponentials and what else may leave the range of the type, up to where such a value meets
///   one of 16 bits in anything but a product with a weight;
/// - constants beyond the range, and those close to 0 that would lose digits, such as the epsilon of a norm; what has
///   values beyond the range, such as a mask with -1e9, until a node bounds them (Softmax);
/// - what is computed from integers and small constants alone: positions, masks; and the arguments of sin and cos;
/// - nodes of modules, and with weights, that are kept; bodies' inputs and outputs; operators of other domains.
///
/// Values and nodes have names before and after.
Lowered lower_precision(onnx::Model& model, const PrecisionOptions& options);

}  // namespace lithify::rewrite
