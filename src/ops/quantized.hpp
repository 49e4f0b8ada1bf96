// Quantized tensors, and packed parameters of quantized layers.
#pragma once

#include "eval/registry.hpp"
#include "ops/elementwise.hpp"

namespace lithify::ops {

/// The values that a quantized tensor stands for, as float32.
Ref dequantized(Builder& b, const eval::Quantized& q);

/// The rules for tables of quantized rows.
void register_quantized_embedding(eval::Registry& ops);

/// An object of a native class, with what a file would hold of it.
Value native(std::string_view class_name, Vector<Value> state);

/// What the file holds of an object of a native class; refuses any other value.
const Vector<Value>& native_state(Call& c, const Value& object);

/// What a layer rounds its input to, which is not quantized yet.
enum class Rounding {
  None,       ///< it is quantized already
  Range,      ///< 256 steps over its range
  HalfRange,  ///< 128 steps over its range
  Half,       ///< nothing; the weights are of half precision
};

/// x times the matrix of packed parameters and plus their bias, and the ReLU of it where the operator has one.
Ref packed_product(Call& c, Ref x, const Value& packed, Rounding rounding);

}  // namespace lithify::ops
