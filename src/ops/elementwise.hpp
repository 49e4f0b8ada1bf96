// Elementwise building blocks that ONNX has only in part: not in every opset, not for every type, or not at all.
#pragma once

#include <limits>
#include <optional>
#include <string_view>

#include "ops/sizes.hpp"

namespace lithify::ops {

using eval::Call;
using eval::Value;
using onnx::Builder;
using onnx::Dim;
using onnx::Shape;
/// A value of the graph.
using Ref = onnx::Value*;

/// A number that is known at export: of the program, or the contents of a 0-d constant.
std::optional<double> known_number(Call& c, std::string_view name);
inline bool is_one(Call& c, std::string_view name) { return known_number(c, name) == 1; }
/// What another operator gives, which must be one tensor.
Ref call(Call& c, std::string_view name, Vector<Value> arguments, Vector<std::pair<std::string, Value>> keywords = {});
/// The type of a result that is floating whatever the operands: float32 for integers and bools.
DType float_type(DType t);
/// A 0-d constant of the type of x.
Ref like(Builder& b, Ref x, double v);
constexpr double infinity = std::numeric_limits<double>::infinity();

/// relation: "Equal", "NotEqual", "Less", "LessOrEqual", "Greater" or "GreaterOrEqual". Operands of one type.
Ref compare(Builder& b, std::string_view relation, Ref x, Ref y);
/// Whether each element is not zero.
Ref truth(Builder& b, Ref x);
Ref maximum(Builder& b, Ref x, Ref y);
Ref minimum(Builder& b, Ref x, Ref y);
/// x within bounds, either of which may be nullptr.
Ref clip(Builder& b, Ref x, Ref low, Ref high);
/// The sign bit of each element, as a bool.
Ref sign_bit(Builder& b, Ref x);
Ref is_finite(Builder& b, Ref x);
/// y with NaN where x has it, for operators of ONNX Runtime that drop NaN.
Ref with_nan_of(Builder& b, Ref x, Ref y);
Ref trunc(Builder& b, Ref x);
/// The quotient rounded toward minus infinity or toward zero, and the remainders that go with it: of the sign of y or
/// of x. Integers whose elements are known expressions stay so.
Ref floor_divide(Builder& b, Ref x, Ref y);
Ref trunc_divide(Builder& b, Ref x, Ref y);
Ref remainder(Builder& b, Ref x, Ref y);
Ref fmod(Builder& b, Ref x, Ref y);

/// 0, 1, ..., n - 1 as int64.
Ref arange(Builder& b, Dim n);
/// bool [rows, columns]: whether column - row <= diagonal (lower), or column - row >= diagonal.
Ref triangle(Builder& b, Dim rows, Dim columns, Dim diagonal, bool lower);

}  // namespace lithify::ops
