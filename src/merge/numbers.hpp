// Numbers that nothing uses, or that are there already.
#pragma once

#include <vector>

#include "program/program.hpp"

namespace lithify::merge {

/// Removes the statements, also of loops, that compute numbers which nothing uses, and lists that nothing reads.
void remove_unused_numbers(std::vector<program::Stmt>& body);

/// In straight-line code, uses the integers that are there where it computes them again: a trace does so each time that
/// Python code uses one.
void share_numbers(std::vector<program::Stmt>& body);

}  // namespace lithify::merge
