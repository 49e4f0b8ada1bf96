// Rewrites of a whole graph that make it smaller and change no result.
#pragma once

#include "onnx/builder.hpp"

namespace lithify::onnx {

/// Applies every rewrite. The graph has its outputs and no unused nodes; afterwards it may have unused nodes.
void rewrite(Builder& builder);

}  // namespace lithify::onnx
