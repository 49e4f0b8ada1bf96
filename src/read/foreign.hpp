// Files that are not models: saying what they are, and what to do to get one.
#pragma once

#include <cstddef>
#include <span>

#include "archive/zip.hpp"
#include "base/diagnostic.hpp"

namespace lithify::read {

/// What to say about a file that is not a zip archive.
Error describe_foreign_file(std::span<const std::byte> bytes);

/// What to say about an archive that holds neither a TorchScript nor an exported program.
Error describe_foreign_archive(const archive::Archive& archive);

}  // namespace lithify::read
