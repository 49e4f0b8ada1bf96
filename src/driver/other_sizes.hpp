// Sizes other than the sample's, at which a model is captured again.
#pragma once

#include <vector>

#include "claims/claims.hpp"
#include "lithify/capture.hpp"

namespace lithify::driver {

/// What sizes like this one are multiples of: the largest power of two that divides it, but at most a quarter of it,
/// for sizes of 4 and more.
int64_t aligned_step(int64_t size);

/// Sizes at which a model may run that runs at the sample's, the likeliest first. They differ from the sample's, and
/// from each other, by different amounts, so that a number of the program shows which size it is. What powers of two
/// divide a size divides its step, as windows and strides want it. Sizes that are equal in the sample, or the sum of
/// two others, stay so at first: the model may need it, or do something else where it does not hold.
std::vector<Sizes> aligned_sizes(const Sizes& sample);

/// More of them, all different: what a formula has to explain at all of them is hardly explained by a wrong one.
std::vector<Sizes> many_sizes(const Sizes& sample);

/// Where dimensions are bound to one another, or one of them to what inputs hold: one moves alone, or all are
/// multiples.
std::vector<Sizes> bound_sizes(const Sizes& sample);

using claims::text_of;

/// Other sizes of one dimension, the `index`-th, the best first: for programs in which every size is a number, which
/// must show what it is computed from. `round` is 1 for the second capture and 2 for the third.
///
/// A step is as large as the strides and windows that sizes may be divided by, so that what comes out of them changes;
/// beyond it, the sizes of different dimensions are in no simple relation, and leave other remainders. The rest is for
/// models that do not run at these: multiples, and smaller sizes for those that have a largest one.
std::vector<int64_t> distinguishing_sizes(int64_t size, size_t index, int round);

/// Other sizes of one dimension at which code often decides something: the smallest, those around the given one, odd
/// and even, and far larger ones, unless that would be much work.
std::vector<int64_t> telling_sizes(int64_t size);

}  // namespace lithify::driver
