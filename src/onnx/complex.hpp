// What operators mean for complex numbers, in terms of operators on real ones.
#pragma once

#include "onnx/builder.hpp"

namespace lithify::onnx {

bool has_complex(std::span<Value* const> inputs);

/// An operator some of whose inputs are complex. Throws UnsupportedType when it is not known what it means for them.
Value* on_complex(Builder& b, std::string_view type, const Inputs& inputs, const Attributes& attributes);

/// A cast from or to a complex type. As in PyTorch, a real type keeps the real part, and bool is whether either is not
/// 0.
Value* cast_complex(Builder& b, Value* x, DType to);

/// A helper that gives a complex value other sizes, by way of its pairs.
Value* on_pairs(Builder& b, Value* z, Shape to, Value* (Builder::*helper)(Value*, const Shape&));

/// The same memory as real numbers, with a last axis of 2.
TensorView pairs_of(const TensorView& view);

}  // namespace lithify::onnx
