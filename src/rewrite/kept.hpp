// Which weights and modules stay as they are where others become smaller.
#pragma once

#include <string>
#include <string_view>

#include "base/vector.hpp"

namespace lithify::rewrite {

/// Whether a pattern is a name, or that of a module around it: "lm_head" keeps "lm_head.weight". "*" stands for any
/// text.
bool is_kept(const Vector<std::string>& patterns, std::string_view name);

}  // namespace lithify::rewrite
