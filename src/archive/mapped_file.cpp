#include "archive/mapped_file.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "base/diagnostic.hpp"

namespace lithify::archive {
namespace {

Error cannot_open(const std::string& path, const std::string& why) {
  return Error(Code::CannotOpen, fmt::format("cannot open '{}': {}", path, why));
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  const std::filesystem::path file_path = platform::path_of(path);
  std::error_code unknown;
  const std::filesystem::file_status status = std::filesystem::status(file_path, unknown);
  if (is_directory(status)) throw cannot_open(path, "it is a directory");
  if (exists(status) && !is_regular_file(status)) throw cannot_open(path, "it is not a regular file");
  const std::shared_ptr<MappedFile> file(new MappedFile);
  if (const std::error_code error = file->mapping_.open(file_path)) throw cannot_open(path, error.message());
  if (file->bytes().empty()) throw cannot_open(path, "the file is empty");
  return file;
}

void MappedFile::check_unchanged() const {
  if (!mapping_.unchanged()) throw Error(Code::CannotOpen, "the model file was written to while it was read");
}

}  // namespace lithify::archive
