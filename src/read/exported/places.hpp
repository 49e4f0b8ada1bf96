// From a node of an exported program to the line of Python that it came from.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "archive/zip.hpp"
#include "base/diagnostic.hpp"

namespace lithify::read {

/// Answers for the nodes of a program by their number; see GraphReader. The text is parsed again at the first question:
/// the stack traces are most of it, and mostly nobody asks.
std::function<Place(uint32_t node)> node_locator(archive::Record program, std::string name);

/// The innermost frame of a traceback that is not within PyTorch; the outermost when all are.
Place place_of(std::string_view stack_trace);

}  // namespace lithify::read
