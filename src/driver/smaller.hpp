// Smaller weights and computation in 16 bits: the options for them, and the last step of an export, which does it.
#pragma once

#include "driver/evaluate.hpp"

namespace lithify::driver {

/// The target that stands for operators of ONNX Runtime, in any opset.
constexpr const char* onnxruntime_target = "ort";

/// Throws BadOption and NeedsOpset for options that nothing can be written for.
void check_smaller(const ExportOptions& options);
/// The first opset that has what the options ask for.
int first_opset_of_smaller(const ExportOptions& options);
/// Changes the graph as the options ask for, and reports how. Its results are no longer those of the model.
void make_smaller(Evaluated& evaluated, const ExportOptions& options);

}  // namespace lithify::driver
