// Operators that work element by element: the result has the shape that the inputs broadcast to.
#include <fmt/format.h>

#include "onnx/infer.hpp"

namespace lithify::onnx {
namespace {

using namespace infer;

Shape broadcast_all(Inference& f) {
  Shape r = f.in(0).shape;
  for (size_t i = 1; i < f.inputs(); ++i) r = broadcast_shapes(f.sym, r, f.in(i).shape);
  return r;
}

void require_dtypes(const Inference& f, size_t a, size_t b) {
  if (f.in(a).dtype != f.in(b).dtype)
    throw Error(Code::TypeMismatch,
                fmt::format("{} is given {} and {}", f.node.op_type, name_of(f.in(a).dtype), name_of(f.in(b).dtype)));
}

/// All inputs of one type, which is the result's.
void arithmetic(Inference& f) {
  for (size_t i = 1; i < f.inputs(); ++i) require_dtypes(f, 0, i);
  f.set(0, f.in(0).dtype, broadcast_all(f));
}

void comparison(Inference& f) {
  require_dtypes(f, 0, 1);
  f.set(0, DType::Bool, broadcast_all(f));
}

void pow(Inference& f) { f.set(0, f.in(0).dtype, broadcast_all(f)); }

void predicate(Inference& f) { f.set(0, DType::Bool, f.in(0).shape); }

/// The optional bounds are of the type of the first input.
void clip(Inference& f) {
  for (size_t i = 1; i < f.inputs(); ++i)
    if (f.has(i)) require_dtypes(f, 0, i);
  same(f);
}

void where(Inference& f) {
  require_dtypes(f, 1, 2);
  if (f.in(0).dtype != DType::Bool)
    throw Error(Code::TypeMismatch, fmt::format("Where needs a bool condition, not {}", name_of(f.in(0).dtype)));
  f.set(0, f.in(1).dtype, broadcast_all(f));
}

void cast(Inference& f) { f.set(0, dtype_attribute(f, "to", DType::Undefined), f.in(0).shape); }
void cast_like(Inference& f) { f.set(0, f.in(1).dtype, f.in(0).shape); }

void bit_cast(Inference& f) {
  const DType to = dtype_attribute(f, "to", DType::Undefined);
  if (byte_size(to) != byte_size(f.in(0).dtype)) f.fail("the element types differ in size");
  f.set(0, to, f.in(0).shape);
}

void random_like(Inference& f) { f.set(0, dtype_attribute(f, "dtype", f.in(0).dtype), f.in(0).shape); }

void dropout(Inference& f) {
  same(f);
  f.set(1, DType::Bool, f.in(0).shape);
}

constexpr OpDef elementwise_table[] = {
    {"Abs", 1, same},
    {"Acos", 7, same},
    {"Acosh", 9, same},
    {"Add", 1, arithmetic},
    {"And", 1, comparison},
    {"Asin", 7, same},
    {"Asinh", 9, same},
    {"Atan", 7, same},
    {"Atanh", 9, same},
    {"Bernoulli", 15, random_like, false},
    {"BitCast", 26, bit_cast},
    {"BitShift", 11, arithmetic},
    {"BitwiseAnd", 18, arithmetic},
    {"BitwiseNot", 18, same},
    {"BitwiseOr", 18, arithmetic},
    {"BitwiseXor", 18, arithmetic},
    {"Cast", 1, cast},
    {"CastLike", 15, cast_like},
    {"Ceil", 1, same},
    {"Celu", 12, same},
    {"Clip", 1, clip},
    {"Cos", 7, same},
    {"Cosh", 9, same},
    {"Div", 1, arithmetic},
    {"Dropout", 1, dropout, false},
    {"Elu", 1, same},
    {"Equal", 1, comparison},
    {"Erf", 9, same},
    {"Exp", 1, same},
    {"Floor", 1, same},
    {"Gelu", 20, same},
    {"Greater", 1, comparison},
    {"GreaterOrEqual", 12, comparison},
    {"HardSigmoid", 1, same},
    {"HardSwish", 14, same},
    {"Identity", 1, same, false},  // a copy under another name
    {"IsInf", 10, predicate},
    {"IsNaN", 9, predicate},
    {"LeakyRelu", 1, same},
    {"Less", 1, comparison},
    {"LessOrEqual", 12, comparison},
    {"Log", 1, same},
    {"Max", 1, arithmetic},
    {"Mean", 1, arithmetic},
    {"Min", 1, arithmetic},
    {"Mish", 18, same},
    {"Mod", 10, arithmetic},
    {"Mul", 1, arithmetic},
    {"Neg", 1, same},
    {"Not", 1, predicate},
    {"Or", 1, comparison},
    {"PRelu", 1, same},
    {"Pow", 1, pow},
    {"RandomNormalLike", 1, random_like, false},
    {"RandomUniformLike", 1, random_like, false},
    {"Reciprocal", 1, same},
    {"Relu", 1, same},
    {"Round", 11, same},
    {"Selu", 1, same},
    {"Shrink", 9, same},
    {"Sigmoid", 1, same},
    {"Sign", 9, same},
    {"Sin", 7, same},
    {"Sinh", 9, same},
    {"Softplus", 1, same},
    {"Softsign", 1, same},
    {"Sqrt", 1, same},
    {"Sub", 1, arithmetic},
    {"Sum", 1, arithmetic},
    {"Swish", 24, same},
    {"Tan", 7, same},
    {"Tanh", 1, same},
    {"ThresholdedRelu", 10, same},
    {"Where", 9, where},
    {"Xor", 1, comparison},
};

}  // namespace

std::span<const OpDef> elementwise_ops() { return elementwise_table; }

}  // namespace lithify::onnx
