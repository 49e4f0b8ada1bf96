// What the model's inputs are: from the program's parameters, the samples in the file, and what the user says.
#pragma once

#include <string>
#include <vector>

#include "eval/formula.hpp"
#include "eval/value.hpp"
#include "lithify/lithify.hpp"
#include "onnx/builder.hpp"
#include "program/program.hpp"

namespace lithify::driver {

/// "x:float32[batch=2,3]": dtype may be left out ("x:[...]" or "x[...]").
struct InputSpec {
  struct Size {
    std::string name = {};                   ///< empty for a plain number
    std::optional<int64_t> value = {};       ///< the number, or the sample size
    const program::Expr* formula = nullptr;  ///< of a size that the file leaves open
    bool given = false;                      ///< by the user
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
  bool settled = false;                    ///< the file says which of its sizes are open
  const program::Expr* integer = nullptr;  ///< of an input that is an integer: a 0-d tensor, which stands for this
  bool number = false;                     ///< forward takes a number of Python, which a 0-d tensor stands for
};

/// The tensor inputs, in order; options applied. Names that cannot be given are told in `warnings`. Throws BadOption,
/// UnknownInput, and HardCodedSize where a size is fixed in the file and declared dynamic.
std::vector<TensorInput> find_inputs(const program::Program& program, const ExportOptions& options,
                                     std::vector<Diagnostic>* warnings = nullptr);

struct ModelInputs {
  std::vector<eval::Value> arguments;      ///< of forward, without self
  eval::SymbolTable symbols;               ///< of the file's formulas
  std::vector<std::string> preconditions;  ///< what the program assumes of sizes: "seq >= 4"
};

/// Makes the graph's inputs. Throws MissingInputInfo where a type or rank is not known.
ModelInputs make_inputs(const program::Program& program, const std::vector<TensorInput>& inputs,
                        onnx::Builder& builder);

}  // namespace lithify::driver
