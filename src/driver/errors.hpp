// Which errors an attempt may have, so that another one is worth it.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "base/diagnostic.hpp"

namespace lithify::driver {

/// Whether every error among the diagnostics, if there is any, has one of these codes.
inline bool has_only_errors(const std::vector<Diagnostic>& diagnostics, std::initializer_list<Code> codes) {
  return std::ranges::all_of(diagnostics, [&](const Diagnostic& d) {
    return d.severity != Severity::Error || std::ranges::find(codes, d.code) != codes.end();
  });
}

/// Whether all that is wrong is sizes, of which another capture may show more.
inline bool is_about_sizes(const Error& error) {
  return has_only_errors(error.diagnostics(), {Code::HardCodedSize, Code::AmbiguousSize, Code::UnverifiedSize,
                                               Code::TracesDiverge, Code::SearchLimit, Code::CheckFailed});
}

}  // namespace lithify::driver
