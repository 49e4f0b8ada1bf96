// From a byte of serialized code to the line of Python that it came from.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "archive/zip.hpp"
#include "base/diagnostic.hpp"

namespace lithify::read {

/// Answers for the code record `record` ("code/__torch__/a.py"); empty when the archive has no debug information for
/// it. That is decoded at the first question. Damaged information is ignored: the place is then unknown.
std::function<Place(uint32_t offset)> source_locator(const archive::Archive& archive, const std::string& record);

/// Where the code of a record comes from.
enum class CodeOrigin {
  Unknown,  ///< there is no debug information, or it is damaged
  Script,   ///< source code of functions that were compiled
  Trace     ///< among it, calls of a run: the debug information has call stacks
};
CodeOrigin code_origin(const archive::Archive& archive, const std::string& record);

}  // namespace lithify::read
