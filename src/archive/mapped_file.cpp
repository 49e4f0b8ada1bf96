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

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

Error cannot_open(const std::string& path, const std::string& why) {
  return Error(Code::CannotOpen, fmt::format("cannot open '{}': {}", path, why));
}

std::string system_reason() { return std::generic_category().message(errno); }

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: a named pipe must not make us wait for a writer.
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) throw cannot_open(path, system_reason());
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) throw cannot_open(path, system_reason());
  if (S_ISDIR(info.st_mode)) throw cannot_open(path, "it is a directory");
  if (!S_ISREG(info.st_mode)) throw cannot_open(path, "it is not a regular file");
  if (info.st_size == 0) throw cannot_open(path, "the file is empty");

  const auto size = static_cast<size_t>(info.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (address == MAP_FAILED) throw cannot_open(path, system_reason());
  ::madvise(address, size, MADV_WILLNEED);
  return std::shared_ptr<const MappedFile>(new MappedFile({static_cast<const std::byte*>(address), size}));
}

MappedFile::~MappedFile() { ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size()); }

}  // namespace lithify::archive
