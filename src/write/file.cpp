#include "write/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>
#include <utility>

#include "base/diagnostic.hpp"

namespace lithify::write {
namespace fs = std::filesystem;
namespace {

/// One call writes at most this, as cp does: larger ones make the kernel look for larger free blocks, and the output
/// took up to twice the time.
constexpr size_t write_bytes = size_t{256} * 1024;

fs::path directory_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); }

/// Links such as /dev/stdout lead to an open file of the process, which may be a regular one, not to a name.
bool leads_to_descriptor(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_symlink(fs::symlink_status(path, ignored))) return false;
  const std::string absolute = fs::absolute(path, ignored).lexically_normal().string();
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
  return directory / fmt::format(".lithify-{}-{}.tmp", ::getpid(), counter++);
}

/// Whether a name is one that `unique_name` gave to a process that has ended.
bool is_abandoned(const std::string& name) {
  int pid = 0, number = 0, end = 0;
  if (std::sscanf(name.c_str(), ".lithify-%d-%d.tmp%n", &pid, &number, &end) != 2) return false;
  return end == static_cast<int>(name.size()) && pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH;
}

/// Removes what runs left in a directory that were killed there.
void remove_abandoned(const fs::path& directory) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored))
    if (is_abandoned(entry.path().filename().string())) fs::remove(entry.path(), ignored);
}

/// Tries `make(name)`, 0 or an error number, with new names until one is free.
template <typename Make>
int with_unique_name(const fs::path& directory, fs::path& name, Make make) {
  int error = EEXIST;
  for (int attempt = 0; attempt < 100 && error == EEXIST; ++attempt) {
    fs::path candidate = unique_name(directory);
    error = make(candidate);
    if (error == 0) name = std::move(candidate);
  }
  return error;
}

/// Whether an error of fsync is about what was written. Any other means that the file system has no such thing.
bool is_lost(int error) { return error == EIO || error == ENOSPC || error == EDQUOT; }

}  // namespace

OutputFile::OutputFile(const fs::path& path, uint64_t size, bool sync, const fs::path& like) : OutputFile(path) {
  sync_ = sync;
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_directory(status) || !path.has_filename())
    throw Error(Code::CannotWrite, fmt::format("the output '{}' is a directory", path.string()),
                "give the name of a file in it, such as model.onnx");
  if (leads_to_descriptor(path) || (fs::exists(status) && !fs::is_regular_file(status))) {
    open_directly();
    return;
  }
  target_ = followed(path);
  if (fs::is_symlink(fs::symlink_status(target_, ignored))) fail(ELOOP);
  const fs::path directory = directory_of(target_);
  if (!fs::is_directory(directory, ignored))
    throw Error(Code::CannotWrite, fmt::format("there is no directory '{}' for the output", directory.string()),
                "create it first");
  remove_abandoned(directory);
  open_temporary();
  struct stat replaced {};
  if (::stat(target_.c_str(), &replaced) == 0 || (!like.empty() && ::stat(like.c_str(), &replaced) == 0))
    ::fchmod(fd_, replaced.st_mode & 07777);
  reserve(size);
}

OutputFile::~OutputFile() { abandon(); }

void OutputFile::abandon() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

void OutputFile::open_directly() {
  // O_NONBLOCK: a named pipe that nobody reads must not make us wait.
  fd_ = ::open(path_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) fail(errno);
  ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) & ~O_NONBLOCK);
  seekable_ = false;
}

// A file without a name vanishes with the process, however that ends. Not every file system has them.
void OutputFile::open_temporary() {
  const fs::path directory = directory_of(target_);
#ifdef O_TMPFILE
  fd_ = ::open(directory.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
  if (fd_ >= 0 && ::access(descriptor_path().c_str(), F_OK) == 0) return;
  abandon();
#endif
  const int error = with_unique_name(directory, temporary_, [this](const fs::path& name) {
    fd_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return fd_ < 0 ? errno : 0;
  });
  if (error) fail(error);
}

std::string OutputFile::descriptor_path() const { return fmt::format("/proc/self/fd/{}", fd_); }

void OutputFile::reserve(uint64_t size) const {
#ifdef __linux__
  // Any other failure means that the file system has no such thing; writing will show.
  if (size > 0 && ::fallocate(fd_, 0, 0, static_cast<off_t>(size)) != 0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
    fail(errno);
#endif
}

void OutputFile::write(std::span<const std::byte> bytes, uint64_t offset) const {
  while (!bytes.empty()) {
    const size_t size = std::min(bytes.size(), write_bytes);
    const ssize_t written =
        seekable_ ? ::pwrite(fd_, bytes.data(), size, static_cast<off_t>(offset)) : ::write(fd_, bytes.data(), size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EFAULT)
      throw Error(Code::CannotOpen, "the model file became shorter while it was read");
    if (written <= 0) fail(written < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
}

void OutputFile::link_temporary() {
  const int error = with_unique_name(directory_of(target_), temporary_, [this](const fs::path& name) {
    return ::linkat(AT_FDCWD, descriptor_path().c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) ? errno : 0;
  });
  if (error) fail(error);
}

void OutputFile::close() {
  if (seekable_ && sync_ && ::fsync(fd_) != 0 && is_lost(errno)) fail(errno);
  if (seekable_ && temporary_.empty()) link_temporary();
  if (::close(std::exchange(fd_, -1)) != 0) fail(errno);
}

void OutputFile::commit() {
  if (!seekable_) return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail(errno);
  temporary_.clear();
  if (sync_) sync_directory();
}

// The file is whole under its name in any case: a directory that cannot be opened or has no such thing does not matter.
void OutputFile::sync_directory() const {
  const int directory = ::open(directory_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return;
  ::fsync(directory);
  ::close(directory);
}

void OutputFile::fail(int error) const {
  throw Error(
      Code::CannotWrite,
      fmt::format("the output '{}' cannot be written: {}", path_.string(), std::generic_category().message(error)),
      error == ENOSPC ? "make room on the disk, or write to another one" : "");
}

}  // namespace lithify::write
