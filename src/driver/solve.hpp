// Sizes at which conditions on the dynamic dimensions have other outcomes than at the sample's sizes.
#pragma once

#include <span>
#include <vector>

#include "claims/formula.hpp"
#include "lithify/capture.hpp"

namespace lithify::driver {

/// A condition on the dynamic dimensions, and the outcome that it is to have.
struct Wanted {
  const claims::Formula* condition = nullptr;
  bool outcome = false;
};

/// The outcome of a condition; nothing where it has none at these sizes.
std::optional<bool> outcome_at(const claims::Formula& condition, const Sizes& sizes);

/// How far some sizes are from others: what a user would call a similar input is near.
double distance(const Sizes& from, const Sizes& to);

/// Sizes at which all conditions have the wanted outcomes, the nearest to `from` first, at most `most` of them. They
/// are found by trying: small sizes, sizes near and aligned like those of `from`, and those around the place where an
/// outcome changes. Sizes far larger than the sample's are not tried: the model is to be run at them.
std::vector<Sizes> sizes_where(std::span<const Wanted> wanted, const Sizes& from, const Sizes& sample, size_t most);

}  // namespace lithify::driver
