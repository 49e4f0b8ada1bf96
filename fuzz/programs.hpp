// Well-formed programs of random calls: operators by their registered schemas, with values at the edges, control flow,
// in-place writes and dynamic axes.
#pragma once

#include <string>

#include "fuzz/fuzz.hpp"

namespace lithify::fuzz {

/// The body of a forward that takes the tensor x and returns what it computes, of a module with the tensors w and b.
std::string make_program(Choices& choices);
/// The file of that module.
std::string model_of(const std::string& body);

}  // namespace lithify::fuzz
