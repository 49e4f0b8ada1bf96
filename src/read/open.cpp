#include "read/open.hpp"

#include <algorithm>

#include "archive/mapped_file.hpp"
#include "archive/zip.hpp"
#include "base/diagnostic.hpp"
#include "read/exported/reader.hpp"
#include "read/foreign.hpp"
#include "read/torchscript/reader.hpp"

namespace lithify::read {
namespace {

using archive::Archive;

bool is_zip(std::span<const std::byte> bytes) { return archive::as_text(bytes).starts_with("PK\x03\x04"); }

/// Compiled packages are marked as pt2, too, but have no graph.
bool is_exported(const Archive& archive) {
  if (archive.has("serialized_exported_program.json")) return true;
  const auto format = archive.read_if_present("archive_format");
  return format && format->text() == "pt2" &&
         std::ranges::any_of(archive.entries_under("models/"),
                             [](const Archive::Entry& e) { return e.name.ends_with(".json"); });
}

/// PyTorch's own test is the record of constants. Without code only the bytecode of the mobile interpreter is left.
bool is_torchscript(const Archive& archive) {
  return archive.has("constants.pkl") && !archive.entries_under("code/").empty();
}

}  // namespace

Opened open_model(const std::string& path) {
  const auto file = archive::MappedFile::open(path);
  Opened opened = open_model(archive::Record{file->bytes(), file});
  opened.file = file;
  return opened;
}

Opened open_model(const archive::Record& contents, const LiveTensors& live) {
  if (!is_zip(contents.bytes)) throw describe_foreign_file(contents.bytes);
  const Archive archive(contents);
  if (is_torchscript(archive)) return {Opened::Kind::TorchScript, read_torchscript(archive, live)};
  if (is_exported(archive)) return {Opened::Kind::Exported, read_exported(archive, live)};
  throw describe_foreign_archive(archive);
}

}  // namespace lithify::read
