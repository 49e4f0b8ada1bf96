// Rewrites of a whole graph that make it smaller and change no result.
#pragma once

#include "onnx/builder.hpp"

namespace lithify::onnx {

/// Applies every rewrite but the next. The graph has its outputs and no unused nodes; afterwards it may have unused
/// nodes.
void rewrite(Builder& builder);

/// Large weights that are used in two orders or under two shapes become one, and a node that makes the other of it.
/// The graph has no unused nodes.
void share_weights(Builder& builder);

}  // namespace lithify::onnx
