// What the model's inputs are: from the program's parameters, the samples in the file, and what the user says.
#pragma once

#include <string>
#include <vector>

#include "eval/value.hpp"
#include "lithify/lithify.hpp"
#include "onnx/builder.hpp"
#include "program/program.hpp"

namespace lithify::driver {

/// "x:float32[batch=2,3]": dtype may be left out ("x:[...]" or "x[...]").
struct InputSpec {
  struct Size {
    std::string name;              ///< empty for a plain number
    std::optional<int64_t> value;  ///< the number, or the sample size
  };
  std::string name;
  std::optional<DType> dtype;
  std::vector<Size> sizes;
};
InputSpec parse_input_spec(const std::string& text);

/// A tensor input as it is known before evaluation.
struct TensorInput {
  std::string path;  ///< "x", "pair_0", "table_k": the parameter's name and the way into it
  std::string name;  ///< in the ONNX file
  std::optional<DType> dtype;
  std::optional<std::vector<InputSpec::Size>> sizes;
};

/// The tensor inputs, in order; options applied. Throws BadOption and UnknownInput.
std::vector<TensorInput> find_inputs(const program::Program& program, const ExportOptions& options);

/// Makes the graph's inputs, and the arguments of forward (without self). Throws MissingInputInfo where a type or rank
/// is not known.
std::vector<eval::Value> make_inputs(const program::Program& program, const ExportOptions& options,
                                     onnx::Builder& builder);

}  // namespace lithify::driver
