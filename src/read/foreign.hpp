// Files that are not models: diagnostics with their format, and how to get a model.
#pragma once

#include <cstddef>
#include <span>

#include "archive/zip.hpp"
#include "base/diagnostic.hpp"

namespace lithify::read {

/// The diagnostic for a file that is not a zip archive.
Error describe_foreign_file(std::span<const std::byte> bytes);

/// The diagnostic for an archive that holds neither a TorchScript nor an exported program.
Error describe_foreign_archive(const archive::Archive& archive);

}  // namespace lithify::read
