// The page docs/codes.md, which the build compiles in.
#pragma once

#include <string_view>

namespace lithify::cli {

extern const std::string_view codes_page;

}  // namespace lithify::cli
