// What a file claims of its dynamic dimensions: the answers to questions about it, and its form in the metadata.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_writer.hpp"
#include "claims/formula.hpp"
#include "lithify/lithify.hpp"

namespace lithify::claims {

/// The key of the claims in the metadata of an ONNX file.
constexpr std::string_view metadata_key = "lithify.claims";

/// See Claims::ask. Throws BadOption for names that are not those of the dimensions.
ClaimAnswer answer(const Claims& claims, const Sizes& sizes);

/// What holds wherever a path was recorded, as far as the paths are one side of a condition only: "seq > 5", or
/// "batch != 1 or seq > 5" for a condition that is asked where batch is 1. Empty when both sides of every condition
/// were recorded. A formula that cannot be parsed is left as it is.
std::vector<Constraint> recorded_sides(const Claims& claims);

/// "batch=3, seq=5".
std::string text_of(const Sizes& sizes);

/// The value of a formula at some sizes; nothing for one that cannot be parsed, too.
std::optional<Value> value_at(const std::string& formula, const Sizes& sizes);

// ---- JSON ----

void write(JsonWriter& json, const DimensionClaim& dimension);
void write(JsonWriter& json, const Claims& claims);
/// Reads what `write` wrote. Keys that are not known are ignored. Throws BadCode for values of another type,
/// UnsupportedVersion for the claims of a later release, and LimitExceeded.
Claims parse(std::string_view json);

}  // namespace lithify::claims
