// Captures of one model at different sizes, side by side.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "eval/origin.hpp"
#include "program/program.hpp"

namespace lithify::driver {

/// The numbers of the first program that the others have differently, with their values in all of them. The programs
/// are compared step by step, from the root's forward; where they differ in anything but such numbers, throws
/// TracesDiverge with the place.
std::map<eval::Literal, std::vector<int64_t>> differing_numbers(std::span<const program::Program* const> captures);

}  // namespace lithify::driver
