// The sizes of inputs that a file leaves open. A file of torch.export gives them as formulas of its own symbols
// (s0, 2*s0 + 1); here they get the names that the user reads, and the symbols that the evaluator computes with.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "driver/inputs.hpp"

namespace lithify::driver {

/// Gives every open size a name. A symbol has one name on all axes: the first that the user gives to one of them, or
/// "x_dim0" after the first of them. Sizes that follow from symbols are called by their formulas. Returns warnings
/// about names of the user that give way.
std::vector<Diagnostic> name_open_sizes(std::vector<TensorInput>& inputs);

/// The symbols of the graph that sizes stand for.
class InputSizes {
 public:
  InputSizes(const program::Program& program, onnx::Builder& builder) : program_(program), builder_(builder) {}

  /// Makes the symbols that the sizes of all inputs are formulas of. To be called once, before `dim`.
  void define(const std::vector<TensorInput>& inputs);
  /// A size of an input. Throws MissingInputInfo where it does not follow from others, and BadOption where one name
  /// stands for two sizes.
  onnx::Dim dim(const TensorInput& in, const InputSpec::Size& size);
  /// The integer that an input is, of which `value` is the tensor.
  onnx::Dim integer(const TensorInput& in, onnx::Value* value);

  eval::SymbolTable symbols;  ///< by their names in the file
  SizeAssumptions assumed;    ///< of these symbols

 private:
  /// A dimension by its name, and the input that has it first.
  struct Dimension {
    onnx::Dim symbol;
    std::optional<int64_t> sample;
    std::string input;
  };

  void define(const TensorInput& in, const InputSpec::Size& size, bool derived);
  sym::SymbolInfo range_of(const std::string& symbol) const;
  onnx::Dim named(const TensorInput& in, const InputSpec::Size& size, sym::SymbolInfo info);

  const program::Program& program_;
  onnx::Builder& builder_;
  std::map<std::string, Dimension> dimensions_;
  std::map<const program::Expr*, onnx::Dim> known_;  // formulas that define a symbol
};

}  // namespace lithify::driver
