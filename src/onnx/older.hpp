// Operators as the opsets express them that came before the operator, or before it took its present form: bounds as
// attributes instead of inputs, positions counted out and gathered. Rules are written for opset 11 and later; what
// opsets 9 and 10 lack is expressed here, once.
#pragma once

#include "onnx/builder.hpp"

namespace lithify::onnx {

/// The outputs of a node that the builder's opset has not, or not in this form; empty when the node can stand as it is.
/// `node` has its inputs, attributes and the facts of its outputs. Throws NeedsOpset where an older opset cannot
/// express it.
Vector<Value*> in_older_opset(Builder& builder, const Node& node);

}  // namespace lithify::onnx
