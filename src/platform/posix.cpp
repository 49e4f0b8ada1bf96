// Linux, macOS, and what else has the functions of POSIX, such as WebAssembly with emscripten.
#include <fcntl.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "platform/file.hpp"
#include "platform/process.hpp"

#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif
#ifdef __EMSCRIPTEN__
#include <emscripten/stack.h>
#endif
#ifdef __linux__
#include <linux/fs.h>
#include <sys/syscall.h>
#endif

namespace lithify::platform {
namespace fs = std::filesystem;
namespace {

std::error_code code_of(int error) { return {error, std::generic_category()}; }
/// The reason of the last call that failed.
std::error_code last_error() { return code_of(errno); }
std::error_code result_of(int status) { return status == 0 ? std::error_code() : last_error(); }

int descriptor(intptr_t handle) { return static_cast<int>(handle); }

int64_t change_time(const struct stat& info) {
#ifdef __APPLE__
  const struct timespec& time = info.st_mtimespec;
#else
  const struct timespec& time = info.st_mtim;
#endif
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// Whether an error of fsync is about what was written. Any other means that the file system has no such thing.
bool is_lost(int error) { return error == EIO || error == ENOSPC || error == EDQUOT; }

/// Writes all bytes by `write(bytes)`, which returns how many it has written.
template <typename Write>
std::error_code write_all(std::span<const std::byte> bytes, Write write) {
  // One call writes at most this, as cp does: larger ones make the kernel look for larger free blocks, and the output
  // took up to twice the time.
  constexpr size_t most = size_t{256} * 1024;
  while (!bytes.empty()) {
    const ssize_t written = write(bytes.first(std::min(bytes.size(), most)));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return code_of(written < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

#ifdef __linux__
/// An open file, for when it has no name.
std::string path_of_descriptor(intptr_t handle) { return "/proc/self/fd/" + std::to_string(handle); }
#endif

}  // namespace

fs::path path_of(std::string_view text) { return {text}; }
std::string text_of(const fs::path& path) { return path.string(); }

FileMapping::~FileMapping() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  if (handle_ >= 0) ::close(descriptor(handle_));
}

std::error_code FileMapping::open(const fs::path& path) {
  // O_NONBLOCK: a named pipe must not make us wait for a writer.
  handle_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (handle_ < 0) return last_error();
  struct stat info {};
  if (::fstat(descriptor(handle_), &info) != 0) return last_error();
  changed_ = change_time(info);
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return {};
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor(handle_), 0);
  if (address == MAP_FAILED) return last_error();
#ifndef __EMSCRIPTEN__
  ::madvise(address, size, MADV_WILLNEED);
#endif
  bytes_ = {static_cast<const std::byte*>(address), size};
  return {};
}

bool FileMapping::unchanged() const {
  struct stat now {};
  return ::fstat(descriptor(handle_), &now) == 0 && static_cast<size_t>(now.st_size) == bytes_.size() &&
         change_time(now) == changed_;
}

std::error_code WritableFile::create(const fs::path& path) {
  handle_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  return is_open() ? std::error_code() : last_error();
}

std::error_code WritableFile::create_unnamed([[maybe_unused]] const fs::path& directory) {
#ifdef __linux__
  handle_ = ::open(directory.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
  if (is_open() && ::access(path_of_descriptor(handle_).c_str(), F_OK) == 0) return {};
  close();
#endif
  return std::make_error_code(std::errc::not_supported);
}

std::error_code WritableFile::open(const fs::path& path) {
  // O_NONBLOCK: a named pipe that nobody reads must not make us wait.
  handle_ = ::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC | O_NONBLOCK);
  if (!is_open()) return last_error();
  ::fcntl(descriptor(handle_), F_SETFL, ::fcntl(descriptor(handle_), F_GETFL) & ~O_NONBLOCK);
  return {};
}

std::error_code WritableFile::link([[maybe_unused]] const fs::path& path) const {
#ifdef __linux__
  return result_of(::linkat(AT_FDCWD, path_of_descriptor(handle_).c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW));
#else
  return std::make_error_code(std::errc::not_supported);
#endif
}

bool WritableFile::copy_permissions(const fs::path& from) const {
  struct stat info {};
  if (::stat(from.c_str(), &info) != 0) return false;
  ::fchmod(descriptor(handle_), info.st_mode & 07777);
  return true;
}

std::error_code WritableFile::reserve([[maybe_unused]] uint64_t size) const {
#ifdef __linux__
  // Any other failure means that the file system has no such thing; writing will show.
  if (size > 0 && ::fallocate(descriptor(handle_), 0, 0, static_cast<off_t>(size)) != 0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
    return last_error();
#endif
  return {};
}

std::error_code WritableFile::write_at(std::span<const std::byte> bytes, uint64_t offset) const {
  return write_all(bytes, [&](std::span<const std::byte> part) {
    const uint64_t at = offset + static_cast<uint64_t>(part.data() - bytes.data());
    return ::pwrite(descriptor(handle_), part.data(), part.size(), static_cast<off_t>(at));
  });
}

std::error_code WritableFile::write_next(std::span<const std::byte> bytes) const {
  return write_all(
      bytes, [&](std::span<const std::byte> part) { return ::write(descriptor(handle_), part.data(), part.size()); });
}

std::error_code WritableFile::sync() const {
#ifdef __APPLE__
  if (::fcntl(descriptor(handle_), F_FULLFSYNC) == 0) return {};  // fsync leaves it in the memory of the disk
#endif
  return ::fsync(descriptor(handle_)) != 0 && is_lost(errno) ? last_error() : std::error_code();
}

std::error_code WritableFile::close() {
  return is_open() ? result_of(::close(descriptor(std::exchange(handle_, -1)))) : std::error_code();
}

std::error_code replace(const fs::path& from, const fs::path& to, bool sync) {
#ifdef __linux__
  // ext4 writes the contents of a file that replaces another one at once, but not those of files that change names.
  if (!sync && ::syscall(SYS_renameat2, AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0)
    return result_of(::unlink(from.c_str()));
#else
  static_cast<void>(sync);
#endif
  std::error_code error;
  fs::rename(from, to, error);
  return error;
}

void sync_directory(const fs::path& directory) {
  const int opened = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return;
  ::fsync(opened);
  ::close(opened);
}

std::vector<std::string> arguments(int argc, char** argv) { return {argv + std::min(argc, 1), argv + argc}; }

void prepare_streams() {}

bool is_terminal(std::FILE* stream) { return ::isatty(::fileno(stream)) != 0; }

size_t terminal_width(std::FILE* stream) {
  winsize size{};
  return is_terminal(stream) && ::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

uintptr_t lowest_stack_address() {
#ifdef __APPLE__
  const pthread_t thread = ::pthread_self();
  return reinterpret_cast<uintptr_t>(::pthread_get_stackaddr_np(thread)) - ::pthread_get_stacksize_np(thread);
#elif defined(__EMSCRIPTEN__)
  return ::emscripten_stack_get_end();
#else
  pthread_attr_t attributes;
  if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return 0;
  void* lowest = nullptr;
  size_t size = 0;
  const bool known = ::pthread_attr_getstack(&attributes, &lowest, &size) == 0;
  ::pthread_attr_destroy(&attributes);
  return known ? reinterpret_cast<uintptr_t>(lowest) : 0;
#endif
}

namespace {

std::string_view lost_mapping_text;
int lost_mapping_code = 0;

}  // namespace

void on_lost_mapping(std::string_view text, int exit_code) {
  lost_mapping_text = text;
  lost_mapping_code = exit_code;
  std::signal(SIGBUS, [](int) {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, lost_mapping_text.data(), lost_mapping_text.size());
    ::_exit(lost_mapping_code);
  });
}

int process_id() { return ::getpid(); }

bool is_running(int id) { return ::kill(id, 0) == 0 || errno != ESRCH; }

fs::path program_file() {
  std::error_code unknown;
#ifdef __APPLE__
  uint32_t size = 0;
  ::_NSGetExecutablePath(nullptr, &size);
  std::string name(size, '\0');
  return ::_NSGetExecutablePath(name.data(), &size) == 0 ? fs::canonical(name.c_str(), unknown) : fs::path();
#else
  return fs::read_symlink("/proc/self/exe", unknown);
#endif
}

const std::string_view python = "python3";

std::error_code replace_by(const std::vector<std::string>& words) {
  std::vector<char*> list;
  for (const std::string& word : words) list.push_back(const_cast<char*>(word.c_str()));
  list.push_back(nullptr);
  ::execvp(list[0], list.data());
  return last_error();
}

}  // namespace lithify::platform
