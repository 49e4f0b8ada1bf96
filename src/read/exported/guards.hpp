// The guards of an exported program: conditions on the sizes of its inputs, as code of Python.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "program/program.hpp"

namespace lithify::read {

/// "L['pair'][0].size()[1] > 5" is the guard "size_0 > 5" about axis 1 of the parameter pair_0, which must be one of
/// `parameters`. What is not understood stays in the text as it is.
program::Guard parse_guard(std::string_view code, const std::vector<std::string>& parameters);

}  // namespace lithify::read
