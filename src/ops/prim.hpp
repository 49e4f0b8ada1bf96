// What the operators on values of a program share: numbers, strings, lists. They are computed at export, without nodes.
#pragma once

#include "ops/register.hpp"

namespace lithify::ops {

/// A number or bool that is known at export, as a real number.
std::optional<double> known_real(const Value& v);

/// The arguments of functions that take any number of them, as many as programs use: ", Any? a=None", ... to p.
std::string any_arguments();

/// A position in a list or string of a size; negative ones count from the end.
size_t list_index(Call& c, size_t size, int64_t i);
/// The items that the arguments start, end and step choose.
Vector<Value> sliced(Call& c, const Vector<Value>& items);

}  // namespace lithify::ops
