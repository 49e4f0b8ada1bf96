// Which opset to write for a runtime, and what another one would change.
#pragma once

#include <string>

#include "lithify/lithify.hpp"

namespace lithify::cli {

/// `asked` is the name of the release as it was given.
std::string advice(const CheckResult& result, const Target& target, const std::string& asked);

}  // namespace lithify::cli
