// From what forward returns to the outputs of the graph.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "driver/inputs.hpp"
#include "eval/value.hpp"
#include "lithify/lithify.hpp"
#include "onnx/builder.hpp"

namespace lithify::driver {

/// Values of the graph with their names.
using Outputs = std::vector<std::pair<std::string, onnx::Value*>>;

/// The tensors and numbers of a result, with names by the way to them: "", "0", "logits", "cache_0_k". Throws
/// UnsupportedType for what ONNX cannot return. Quantized tensors leave the model as their dequantized values, which a
/// note reports.
Outputs collect_outputs(onnx::Builder& b, const eval::Value& result, std::vector<Diagnostic>& diagnostics);

/// Gives the outputs the names that the options have for them, else "output", "output_0", or their own. Throws
/// BadOption where names clash.
void name_outputs(const ExportOptions& options, const onnx::Graph& graph, Outputs& outputs);

/// Complex outputs leave the model as real numbers, which a warning reports.
void split_complex(onnx::Builder& b, Outputs& outputs, std::vector<Diagnostic>& diagnostics);

/// Every name in dynamic_axes is that of an input or output, or UnknownInput is thrown. An axis of an output that is
/// declared dynamic and cannot change is worth a warning.
void check_dynamic(const ExportOptions& options, const onnx::Graph& graph, const std::vector<TensorInput>& inputs,
                   std::vector<Diagnostic>& diagnostics);

}  // namespace lithify::driver
