// What a diagnostic code means: its section of docs/codes.md.
#pragma once

#include <string>

#include "lithify/lithify.hpp"

namespace lithify::cli {

/// The section of a code ("LTH064", "lth064", "64") for people. Throws ExportError when there is no such code.
std::string explanation(const std::string& code, const TextStyle& style);

}  // namespace lithify::cli
