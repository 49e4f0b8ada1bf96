#include "archive/mapped_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/diagnostic.hpp"

namespace lithify::archive {
namespace {

Error cannot_open(const std::string& path, const std::string& why) {
  return Error(Code::CannotOpen, fmt::format("cannot open '{}': {}", path, why));
}

std::string system_reason() { return std::generic_category().message(errno); }

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  const std::shared_ptr<MappedFile> file(new MappedFile);
  // O_NONBLOCK: a named pipe must not make us wait for a writer.
  file->fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file->fd_ < 0) throw cannot_open(path, system_reason());
  struct stat info {};
  if (::fstat(file->fd_, &info) != 0) throw cannot_open(path, system_reason());
  if (S_ISDIR(info.st_mode)) throw cannot_open(path, "it is a directory");
  if (!S_ISREG(info.st_mode)) throw cannot_open(path, "it is not a regular file");
  if (info.st_size == 0) throw cannot_open(path, "the file is empty");

  const auto size = static_cast<size_t>(info.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file->fd_, 0);
  if (address == MAP_FAILED) throw cannot_open(path, system_reason());
  ::madvise(address, size, MADV_WILLNEED);
  file->bytes_ = {static_cast<const std::byte*>(address), size};
  file->written_ = info.st_mtim;
  return file;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  if (fd_ >= 0) ::close(fd_);
}

void MappedFile::check_unchanged() const {
  struct stat now {};
  const bool same = ::fstat(fd_, &now) == 0 && static_cast<size_t>(now.st_size) == bytes_.size() &&
                    now.st_mtim.tv_sec == written_.tv_sec && now.st_mtim.tv_nsec == written_.tv_nsec;
  if (!same) throw Error(Code::CannotOpen, "the model file was written to while it was read");
}

}  // namespace lithify::archive
