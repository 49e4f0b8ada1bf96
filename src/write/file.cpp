#include "write/file.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <utility>

#include "base/diagnostic.hpp"
#include "platform/process.hpp"

namespace lithify::write {
namespace fs = std::filesystem;
namespace {

fs::path directory_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); }

/// Links such as /dev/stdout lead to an open file of the process, which may be a regular one, not to a name.
bool leads_to_descriptor(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_symlink(fs::symlink_status(path, ignored))) return false;
  const std::string absolute = platform::text_of(fs::absolute(path, ignored).lexically_normal());
  return absolute.starts_with("/dev/") || absolute.starts_with("/proc/");
}

/// Where a path leads to. Of a file that is not there yet, links lead to its name.
fs::path followed(fs::path path) {
  constexpr int most_links = 40;
  std::error_code ignored;
  for (int i = 0; i < most_links && fs::is_symlink(fs::symlink_status(path, ignored)); ++i)
    path = directory_of(path) / fs::read_symlink(path, ignored);  // an absolute target stands for itself
  return path;
}

/// A name that no other file in the directory is likely to have. Short, since the output's own name may be as long as
/// names can be.
fs::path unique_name(const fs::path& directory) {
  static std::atomic<unsigned> counter{0};
  return directory / fmt::format(".lithify-{}-{}.tmp", platform::process_id(), counter++);
}

/// Whether a name is one that `unique_name` gave to a process that has ended.
bool is_abandoned(const std::string& name) {
  int pid = 0, number = 0, end = 0;
  if (std::sscanf(name.c_str(), ".lithify-%d-%d.tmp%n", &pid, &number, &end) != 2) return false;
  return end == static_cast<int>(name.size()) && pid > 0 && !platform::is_running(pid);
}

/// Removes what runs left in a directory that were killed there.
void remove_abandoned(const fs::path& directory) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored))
    if (is_abandoned(platform::text_of(entry.path().filename()))) fs::remove(entry.path(), ignored);
}

/// Tries `make(name)` with new names until one is free.
template <typename Make>
std::error_code with_unique_name(const fs::path& directory, fs::path& name, Make make) {
  std::error_code error = std::make_error_code(std::errc::file_exists);
  for (int attempt = 0; attempt < 100 && error == std::errc::file_exists; ++attempt) {
    fs::path candidate = unique_name(directory);
    error = make(candidate);
    if (!error) name = std::move(candidate);
  }
  return error;
}

}  // namespace

OutputFile::OutputFile(const fs::path& path, uint64_t size, bool sync, const fs::path& like) : OutputFile(path) {
  sync_ = sync;
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_directory(status) || !path.has_filename())
    throw Error(Code::CannotWrite, fmt::format("the output '{}' is a directory", platform::text_of(path)),
                "give the name of a file in it, such as model.onnx");
  if (leads_to_descriptor(path) || (fs::exists(status) && !fs::is_regular_file(status))) {
    check(file_.open(path));
    seekable_ = false;
    return;
  }
  target_ = followed(path);
  if (fs::is_symlink(fs::symlink_status(target_, ignored)))
    check(std::make_error_code(std::errc::too_many_symbolic_link_levels));
  const fs::path directory = directory_of(target_);
  if (!fs::is_directory(directory, ignored))
    throw Error(Code::CannotWrite,
                fmt::format("there is no directory '{}' for the output", platform::text_of(directory)),
                "create it first");
  remove_abandoned(directory);
  open_temporary();
  if (!file_.copy_permissions(target_) && !like.empty()) file_.copy_permissions(like);
  // For a small file, it costs more time than writing it.
  if (constexpr uint64_t large = 1 << 20; size >= large) check(file_.reserve(size));
}

void OutputFile::abandon() noexcept {
  file_.close();
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove(temporary_, ignored);
  temporary_.clear();
}

void OutputFile::open_temporary() {
  const fs::path directory = directory_of(target_);
  if (!file_.create_unnamed(directory)) return;
  check(with_unique_name(directory, temporary_, [this](const fs::path& name) { return file_.create(name); }));
}

void OutputFile::write(std::span<const std::byte> bytes, uint64_t offset) const {
  const std::error_code error = seekable_ ? file_.write_at(bytes, offset) : file_.write_next(bytes);
  if (error == std::errc::bad_address) throw Error(Code::CannotOpen, "the model file became shorter while it was read");
  check(error);
}

void OutputFile::close() {
  if (seekable_ && sync_) check(file_.sync());
  if (seekable_ && temporary_.empty())
    check(
        with_unique_name(directory_of(target_), temporary_, [this](const fs::path& name) { return file_.link(name); }));
  check(file_.close());
}

void OutputFile::commit() {
  if (!seekable_) return;
  check(platform::replace(temporary_, target_, sync_));
  temporary_.clear();
  if (sync_) platform::sync_directory(directory_of(target_));
}

void OutputFile::check(std::error_code error) const {
  if (!error) return;
  throw Error(Code::CannotWrite,
              fmt::format("the output '{}' cannot be written: {}", platform::text_of(path_), error.message()),
              error == std::errc::no_space_on_device ? "make room on the disk, or write to another one" : "");
}

}  // namespace lithify::write
