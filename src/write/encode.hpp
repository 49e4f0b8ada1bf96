// The model as protobuf, in the words of onnx.proto.
#pragma once

#include "onnx/graph.hpp"
#include "write/external.hpp"
#include "write/wire.hpp"

namespace lithify::write {

/// The ModelProto, its fields in ascending order as the official libraries write them. With `external`, the
/// initializers that are large enough get their place there, and the message refers to it. The model outlives the
/// message. Throws Error(UnsupportedType) for an element type that ONNX does not have.
Message encode(const onnx::Model& model, ExternalData* external);

}  // namespace lithify::write
