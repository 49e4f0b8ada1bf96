// Zip archives as PyTorch and Python write them: stored and deflated records, zip64. Everything that a central
// directory claims is checked when the archive is opened, contents when they are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "archive/bytes.hpp"
#include "archive/mapped_file.hpp"

namespace lithify::archive {

/// The contents of a record: a part of the mapped file, or an inflated buffer. `owner` keeps the bytes alive.
struct Record {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;

  std::string_view text() const { return as_text(bytes); }
};

/// A handle: copies refer to the same open archive and keep it alive. Safe to use from several threads.
class Archive {
 public:
  struct Entry {
    std::string name;  ///< without the top folder
    uint64_t size;     ///< of the contents, inflated
    uint64_t stored_size;
    uint64_t offset;  ///< of the contents in the archive's bytes
    uint32_t crc;
    bool deflated;
  };

  /// When a stored record's checksum is compared. Deflated ones are always checked at once.
  enum class Check { Now, Later };

  /// Throws BadArchive when the bytes are not a well-formed zip.
  explicit Archive(const std::shared_ptr<const MappedFile>& file);
  /// An archive inside other bytes, which `contents.owner` keeps alive.
  explicit Archive(Record contents);

  /// The folder that all records are in, as PyTorch writes it; empty when there is no such folder.
  const std::string& top() const;
  /// All records sorted by name, folders left out.
  const std::vector<Entry>& entries() const;
  /// The records whose names begin with `prefix`: "code/".
  std::span<const Entry> entries_under(std::string_view prefix) const;

  /// The entry of that name (without the top folder), or nullptr.
  const Entry* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }

  /// Throws BadArchive when there is no such record or its data is damaged, BadChecksum when contents and checksum
  /// disagree, LimitExceeded when all that was inflated so far would be out of proportion to the archive.
  Record read(std::string_view name, Check check = Check::Now) const;
  std::optional<Record> read_if_present(std::string_view name) const;

  /// Checks the stored records among `entries` on up to `threads` threads. A record is never checked twice.
  void verify(std::span<const Entry> entries, unsigned threads = 2) const;
  /// The same while the caller goes on, or once the result is asked for where there is too little for a thread.
  std::future<void> verify_meanwhile(std::span<const Entry> entries) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace lithify::archive
