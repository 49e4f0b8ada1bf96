// Files, where standard C++ has too little: mappings, files without a name, writes at an offset, names in UTF-8.
// Failures are error codes of the generic category, so that their messages are the same on every system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

namespace lithify::platform {

/// A path from text in UTF-8, and back. The conversions of std::filesystem use another encoding on Windows.
std::filesystem::path path_of(std::string_view text);
std::string text_of(const std::filesystem::path& path);

/// The bytes of a file, mapped read-only for as long as the object lives. The file must not be truncated meanwhile:
/// systems that allow it signal a read past the new end (`on_lost_mapping`), and give zeros in the page of that end.
class FileMapping {
 public:
  FileMapping() = default;
  ~FileMapping();
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;

  /// Maps a regular file; once for each object. An empty file has no bytes.
  std::error_code open(const std::filesystem::path& path);
  std::span<const std::byte> bytes() const { return bytes_; }
  /// Whether the file still has the size and the time of its last change that it had when it was opened.
  bool unchanged() const;

 private:
  intptr_t handle_ = -1;
  int64_t changed_ = 0;
  std::span<const std::byte> bytes_;
};

/// A file that is written to. It is closed with the object.
class WritableFile {
 public:
  WritableFile() = default;
  ~WritableFile() { close(); }
  WritableFile(const WritableFile&) = delete;
  WritableFile& operator=(const WritableFile&) = delete;

  /// Creates a file; file_exists where there is one.
  std::error_code create(const std::filesystem::path& path);
  /// Creates a file without a name, which vanishes with the process, however that ends. not_supported where the system
  /// or the directory's file system has no such thing.
  std::error_code create_unnamed(const std::filesystem::path& directory);
  /// Opens a pipe, a device, or another file that is there, and empties it. Does not wait for a reader.
  std::error_code open(const std::filesystem::path& path);

  bool is_open() const { return handle_ != -1; }
  /// Gives a file without a name one; file_exists where there is one.
  std::error_code link(const std::filesystem::path& path) const;
  /// Gives it the permissions of the file `from`, and returns whether there is one. Permissions that cannot be changed
  /// stay.
  bool copy_permissions(const std::filesystem::path& from) const;
  /// Reserves room on the disk. Fails only where there is too little of it.
  std::error_code reserve(uint64_t size) const;
  /// Writes at an offset, for several threads at once.
  std::error_code write_at(std::span<const std::byte> bytes, uint64_t offset) const;
  /// Writes behind what was written before. bad_address: the bytes are of a mapped file that became shorter.
  std::error_code write_next(std::span<const std::byte> bytes) const;
  /// Waits until the contents are on the disk. Fails only where some of them may be lost.
  std::error_code sync() const;
  std::error_code close();

 private:
  intptr_t handle_ = -1;
};

/// Gives a file another name, in the place of the file that has it. With `sync`, the system may first write the
/// contents to the disk, so that a crash cannot leave an empty file; without, it need not.
std::error_code replace(const std::filesystem::path& from, const std::filesystem::path& to, bool sync);

/// Waits until the names in a directory are on the disk, where the system can do so.
void sync_directory(const std::filesystem::path& directory);

}  // namespace lithify::platform
