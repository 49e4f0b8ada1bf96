// Commands that need PyTorch: the Python package runs them.
#pragma once

#include <string>
#include <vector>

namespace lithify::cli {

/// Replaces this process by the command of that name of the Python package, in the interpreter beside this program or
/// on the path. Returns only by throwing BadArgument, when there is no interpreter.
[[noreturn]] void run_in_python(const std::string& command, const std::vector<std::string>& arguments);

}  // namespace lithify::cli
