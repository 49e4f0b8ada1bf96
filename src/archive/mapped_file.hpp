// A file's bytes, mapped read-only.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "platform/file.hpp"

namespace lithify::archive {

/// The bytes stay valid for as long as somebody holds the pointer that open() returned. The file must not be truncated
/// meanwhile; see platform::FileMapping.
class MappedFile {
 public:
  /// Throws CannotOpen when `path` is missing, unreadable, empty, or not a regular file.
  static std::shared_ptr<const MappedFile> open(const std::string& path);

  std::span<const std::byte> bytes() const { return mapping_.bytes(); }
  /// Throws CannotOpen when the file was written to since: what was read may be neither the old nor the new contents.
  void check_unchanged() const;

 private:
  MappedFile() = default;

  platform::FileMapping mapping_;
};

}  // namespace lithify::archive
