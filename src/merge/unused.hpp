// Numbers that nothing uses.
#pragma once

#include <vector>

#include "program/program.hpp"

namespace lithify::merge {

/// Removes the statements, also of loops, that compute numbers which nothing uses, and lists that nothing reads.
void remove_unused_numbers(std::vector<program::Stmt>& body);

}  // namespace lithify::merge
