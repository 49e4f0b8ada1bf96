// One call of an operator, as its rule sees it: typed arguments by the names in the schema, the builder, and the
// helpers that most rules need.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "eval/schema.hpp"
#include "eval/value.hpp"

namespace lithify::eval {

class Evaluator;

using onnx::Dim;
using onnx::Shape;

class Call {
 public:
  Call(Evaluator& evaluator, onnx::Builder& builder, const Schema& schema, Vector<Value> arguments)
      : onnx(builder), sym(builder.sym), schema(schema), evaluator(evaluator), arguments_(std::move(arguments)) {}

  onnx::Builder& onnx;
  sym::Context& sym;
  const Schema& schema;
  Evaluator& evaluator;
  int opset() const { return onnx.opset(); }

  // ---- arguments, by name; a wrong kind or a number that is known only at run time is an error ----------------
  const Value& arg(std::string_view name) const;
  bool none(std::string_view name) const { return arg(name).is_none(); }
  /// The tensor's contents now. Numbers become 0-d tensors (int64, float32, bool).
  onnx::Value* tensor(std::string_view name);
  onnx::Value* maybe_tensor(std::string_view name);  ///< nullptr for None
  TensorPtr tensor_ref(std::string_view name) const;
  Vector<onnx::Value*> tensors(std::string_view name);
  Vector<onnx::Value*> maybe_tensors(std::string_view name);  ///< nullptr for None
  Dim size(std::string_view name);                            ///< an int, possibly symbolic
  std::optional<Dim> maybe_size(std::string_view name);
  Vector<Dim> sizes(std::string_view name);  ///< int[], possibly symbolic; int[n] repeats a single number
  /// An int known at export, of at most 2^31 either way: what rules compute with two of them fits into 64 bits.
  int64_t integer(std::string_view name);
  std::optional<int64_t> maybe_integer(std::string_view name);
  Vector<int64_t> integers(std::string_view name);
  double real(std::string_view name);  ///< float or Scalar known at export
  float f32(std::string_view name) { return static_cast<float>(real(name)); }
  std::optional<double> maybe_real(std::string_view name);
  Vector<double> reals(std::string_view name);
  bool flag(std::string_view name);
  std::string text(std::string_view name);
  std::optional<std::string> maybe_text(std::string_view name);
  std::optional<DType> maybe_dtype(std::string_view name);  ///< a ScalarType argument
  /// A dimension made non-negative. A 0-d tensor counts as rank 1.
  int64_t dim(std::string_view name, size_t rank);
  Vector<int64_t> dims(std::string_view name, size_t rank);
  /// A dimension of `rank + 1` dimensions, as unsqueeze and stack have it.
  int64_t new_dim(std::string_view name, size_t rank) { return dim(name, rank + 1); }
  /// A number (or a number known only at run time) as a 0-d value of a type.
  onnx::Value* number(std::string_view name, DType dtype);

  // ---- types ----------------------------------------------------------------------------------------------------
  /// The type that PyTorch computes in for these arguments (dimensioned tensors, 0-d tensors and numbers).
  DType result_type(std::initializer_list<std::string_view> names);
  DType result_type(const Vector<Value>& values);
  /// Argument as a tensor of a type.
  onnx::Value* tensor_as(std::string_view name, DType dtype);
  /// Any value that can stand for a tensor, as one. Numbers become 0-d tensors (int64, float32, bool).
  onnx::Value* as_tensor(const Value& v);
  onnx::Value* as_tensor(const Value& v, DType dtype);
  /// The argument with integers and bools made float32.
  onnx::Value* float_tensor(std::string_view name);

  // ---- results --------------------------------------------------------------------------------------------------
  /// A view of the tensor argument `name`: `forward` gives it from the contents, `inverse` puts a changed one back.
  /// `dense` means that a contiguous tensor's view is contiguous.
  Value view(std::string_view name, std::function<onnx::Value*(onnx::Builder&, onnx::Value*)> forward,
             std::function<onnx::Value*(onnx::Builder&, onnx::Value*, onnx::Value*)> inverse = {}, bool dense = false);
  /// Calls another operator's rule: c.call("aten::mul", {a, b}).
  Value call(std::string_view name, Vector<Value> positional, Vector<std::pair<std::string, Value>> keywords = {});
  Value number_value(int64_t v) { return Value(sym.constant(v)); }

  // ---- errors ---------------------------------------------------------------------------------------------------
  /// The operator is supported, but not like this.
  [[noreturn]] void unsupported(const std::string& what) const;
  [[noreturn]] void needs_opset(int opset) const;
  [[noreturn]] void mismatch(const std::string& what) const;

 private:
  size_t index(std::string_view name) const;
  Dim as_size(std::string_view name, const Value& v);
  int64_t as_integer(std::string_view name, Dim size) const;
  double as_real(std::string_view name, const Value& v);
  int64_t wrapped_dim(int64_t d, size_t rank) const;
  Vector<Value> arguments_;
  int views_ = 0;  // made so far: split makes several of the same arguments
};

/// The common type of two types in PyTorch's promotion lattice. Undefined is its lowest element.
DType promote(DType a, DType b);
/// The type that PyTorch computes in for these operands: tensors and numbers.
DType result_type(const Vector<Value>& operands);

}  // namespace lithify::eval
