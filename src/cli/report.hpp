// One page about an export, for a browser: no scripts but a search, and nothing from the network.
#pragma once

#include <string>

#include "lithify/lithify.hpp"

namespace lithify::cli {

/// The page, as HTML. `model` and `out` are the names of the files.
std::string html_report(const ExportResult& result, const std::string& model, const std::string& out);

}  // namespace lithify::cli
