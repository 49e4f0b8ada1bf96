// Traces of one model at different sizes, side by side.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "program/program.hpp"
#include "provenance/origin.hpp"

namespace lithify::provenance {

/// The numbers of the first program that the others have differently, with their values in all of them. The programs
/// are compared step by step, from the root's forward; where they differ in anything but such numbers, throws
/// TracesDiverge with the place.
std::map<Literal, std::vector<int64_t>> differing_numbers(std::span<const program::Program* const> traces);

/// Whether two traces differ in nothing else.
bool differ_in_numbers(const program::Program& a, const program::Program& b);

}  // namespace lithify::provenance
