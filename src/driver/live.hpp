// Which captures of a live model are made, and which of them is exported.
#pragma once

#include <string>
#include <vector>

#include "driver/claim.hpp"
#include "driver/convert.hpp"
#include "lithify/capture.hpp"

namespace lithify::driver {

/// A live model, converted.
struct LiveConverted {
  Converted converted;
  CaptureKind kind = CaptureKind::Trace;
  std::string reason;                      ///< why it was captured so
  double seconds = 0;                      ///< that captures took
  std::vector<Capture> captures;           ///< which own the memory of the weights
  std::optional<CaptureFacts> facts = {};  ///< what is known of the capture; nothing: what the program shows
};

/// Captures and converts the model. Throws Error with every reason why that cannot be.
LiveConverted convert_live(FrontEnd& model, CaptureStrategy strategy, const ExportOptions& options);

/// An exception of a front end, on its way to the caller.
struct FrontEndFailed {
  std::exception_ptr exception;
};

}  // namespace lithify::driver
