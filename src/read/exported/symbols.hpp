// The texts of symbolic sizes: what sympy's srepr and str write, as expressions of the Program.
#pragma once

#include <string_view>

#include "program/program.hpp"

namespace lithify::read {

/// "Add(Symbol('s77', positive=True), Integer(1))" and "s77 + 1" both give aten::add(s77, 1). Symbols are names; a
/// function that is not known becomes an operator of the namespace sympy. Throws BadCode for what is neither form, and
/// LimitExceeded when it nests too deep.
program::Expr parse_symbolic(std::string_view text);

}  // namespace lithify::read
