// Questions about what an ONNX file claims.
#pragma once

#include <string>
#include <vector>

namespace lithify::cli {

/// Prints, for each of the texts "batch=3,seq=40", whether the file is claimed to be right at these sizes, and why.
/// Returns 0 if it is at all of them, else 1. Throws BadArgument and ExportError.
int answer(const std::string& model, const std::vector<std::string>& at, bool json);

}  // namespace lithify::cli
