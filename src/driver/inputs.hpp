// The inputs of a model: which tensors forward takes, with which types, sizes and names.
//
// Three sources describe them: the parameters of forward, the sample that a traced or exported file holds, and the
// user's options. `find_inputs` (inputs.cpp) puts them together without a graph; `make_inputs` (make_inputs.cpp) makes
// the inputs of a graph and the arguments of forward from that. A parameter that is a tuple, list or dict becomes one
// input for each tensor in it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "driver/input_spec.hpp"
#include "eval/formula.hpp"
#include "eval/value.hpp"
#include "lithify/lithify.hpp"
#include "onnx/builder.hpp"
#include "program/program.hpp"

namespace lithify::driver {

/// A tensor input as it is known before evaluation.
struct TensorInput {
  std::string path;                 ///< "x", "pair_0", "table_k": the parameter and the way into it
  std::string name;                 ///< in the ONNX file
  std::optional<DType> dtype = {};  ///< empty when it is not known
  std::optional<std::vector<InputSpec::Size>> sizes = {};  ///< empty when they are not known
  bool settled = false;                                    ///< whether the file decides which of its sizes are open
  const program::Expr* integer = nullptr;  ///< of an integer that the program calls by this name: the input is 0-d
  bool number = false;                     ///< whether forward takes a number of Python: the input is 0-d
};

/// The tensor inputs, in order, with the options applied. Names that cannot be given to a dimension are reported in
/// `warnings`. Throws BadOption, UnknownInput, MissingInputInfo where the rank of an input with dynamic axes is not
/// known, and HardCodedSize where a dynamic axis has a fixed size in the file.
std::vector<TensorInput> find_inputs(const program::Program& program, const ExportOptions& options,
                                     std::vector<Diagnostic>* warnings = nullptr);

/// That the type or the sizes of an input are not known, and how to specify them.
Error missing_info(const TensorInput& in);

/// What a file of torch.export assumes of the sizes of inputs.
struct SizeAssumptions {
  std::vector<sym::Assumption> required;     ///< that formulas of sizes are whole numbers
  std::vector<sym::Assumption> specialized;  ///< that sizes are not 0 or 1: it does not record what it decides by that
};

/// What evaluation starts from.
struct ModelInputs {
  std::vector<eval::Value> arguments;  ///< of forward, without self
  eval::SymbolTable symbols;           ///< of the file's formulas
  SizeAssumptions assumed;
};

/// Makes the graph's inputs. Throws MissingInputInfo with every input whose type or rank is not known.
ModelInputs make_inputs(const program::Program& program, const std::vector<TensorInput>& inputs,
                        onnx::Builder& builder);

/// The path of an item of a list or tuple, or of a value of a dict.
std::string path_below(const std::string& path, size_t index);
std::string path_below(const std::string& path, const program::Data& key);

/// The sample of parameter `index` of forward, where self is 0; nullptr when the file has none.
const program::SampleInput* sample_of(const program::Program& program, size_t index);

}  // namespace lithify::driver
