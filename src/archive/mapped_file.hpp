// A file's bytes, mapped read-only.
#pragma once

#include <cstddef>
#include <ctime>
#include <memory>
#include <span>
#include <string>

namespace lithify::archive {

/// The bytes stay valid for as long as somebody holds the pointer that open() returned. The file must not be truncated
/// meanwhile: the system answers a read past the new end with SIGBUS, and with zeros in the page of that end.
class MappedFile {
 public:
  /// Throws CannotOpen when `path` is missing, unreadable, empty, or not a regular file.
  static std::shared_ptr<const MappedFile> open(const std::string& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  /// Throws CannotOpen when the file was written to since: what was read may be neither the old nor the new contents.
  void check_unchanged() const;

 private:
  MappedFile() = default;

  int fd_ = -1;
  struct timespec written_ = {};
  std::span<const std::byte> bytes_;
};

}  // namespace lithify::archive
