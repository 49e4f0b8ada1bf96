// The border of the API: what goes wrong inside leaves as an ExportError.
#pragma once

#include <vector>

#include "base/diagnostic.hpp"
#include "lithify/lithify.hpp"

namespace lithify::driver {

/// Diagnostics in the terms of the interface that was called.
std::vector<Message> to_messages(const std::vector<Diagnostic>& all, Interface interface);

/// Throws the exception that is being handled as an ExportError; one of a front end as it is.
[[noreturn]] void rethrow_as_export_error(Interface interface);

/// Runs `f`, and turns every failure into an ExportError.
template <class F>
auto guarded(Interface interface, F f) -> decltype(f()) {
  try {
    return f();
  } catch (...) {
    rethrow_as_export_error(interface);
  }
}

}  // namespace lithify::driver
