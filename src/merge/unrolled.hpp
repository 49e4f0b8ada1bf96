// What statements with loops run.
#pragma once

#include <string>
#include <vector>

#include "program/program.hpp"

namespace lithify::merge {

/// The operations that statements run, one after the other, as texts: loops unrolled, numbers computed, lists taken
/// apart, values called by the operation that makes them.
std::vector<std::string> unrolled(const program::Program& program, const std::vector<program::Stmt>& body);

}  // namespace lithify::merge
