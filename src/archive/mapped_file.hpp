// A file's bytes, mapped read-only.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace lithify::archive {

/// The bytes stay valid for as long as somebody holds the pointer that open() returned. The file must not be truncated
/// meanwhile: the system answers a read past the new end with SIGBUS.
class MappedFile {
 public:
  /// Throws CannotOpen when `path` is missing, unreadable, empty, or not a regular file.
  static std::shared_ptr<const MappedFile> open(const std::string& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace lithify::archive
