// Where a model is written to: files that appear under their name only when they are whole, and memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <system_error>

#include "platform/file.hpp"

namespace lithify::write {

class Output {
 public:
  virtual ~Output() = default;
  /// False for a pipe or a device: writes then come in order and without gaps.
  virtual bool seekable() const = 0;
  /// Writes all bytes at the offset. Several threads may write to different places.
  virtual void write(std::span<const std::byte> bytes, uint64_t offset) const = 0;
};

/// Memory of the output's size. What is not written stays as it is.
class OutputBuffer : public Output {
 public:
  explicit OutputBuffer(std::span<std::byte> memory) : memory_(memory) {}
  bool seekable() const override { return true; }
  void write(std::span<const std::byte> bytes, uint64_t offset) const override {
    if (!bytes.empty()) std::memcpy(memory_.subspan(offset, bytes.size()).data(), bytes.data(), bytes.size());
  }

 private:
  std::span<std::byte> memory_;
};

/// An output file. Until `commit` it has no name, or a temporary one beside its own; without `commit` it leaves nothing
/// behind; what a run that was killed left there is removed. A file that is replaced keeps its permissions. Symbolic
/// links are followed, to a name that is free as well. What exists and is not a regular file is opened as it is and
/// written to directly; a named pipe that nobody reads is refused. All functions throw Error(CannotWrite) with the
/// reason of the system.
class OutputFile : public Output {
 public:
  /// `size` bytes are reserved where the file system can do so, so that a full disk is noticed before the work. With
  /// `sync`, the file is on the disk before it gets its name, and has its name there before `commit` returns. Where
  /// there is no file at `path` yet, the permissions are those of the file `like`, if there is one.
  OutputFile(const std::filesystem::path& path, uint64_t size, bool sync, const std::filesystem::path& like = {});
  ~OutputFile() override { abandon(); }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  bool seekable() const override { return seekable_; }
  void write(std::span<const std::byte> bytes, uint64_t offset) const override;
  /// Closes the file: after this everything that can fail about its contents has been reported.
  void close();
  /// Gives the closed file its name. What was written to a pipe or a device stays in any case.
  void commit();

 private:
  explicit OutputFile(const std::filesystem::path& path) : path_(path), target_(path) {}
  void open_temporary();
  void abandon() noexcept;
  /// Throws where there is an error.
  void check(std::error_code error) const;

  std::filesystem::path path_;       ///< as the user wrote it, for messages
  std::filesystem::path target_;     ///< with symbolic links followed
  std::filesystem::path temporary_;  ///< empty when there is no such file
  platform::WritableFile file_;
  bool seekable_ = true, sync_ = false;
};

}  // namespace lithify::write
