// The claims of an ONNX file, from its metadata; the rest of the file is skipped.
#include <fmt/format.h>

#include <protozero/pbf_reader.hpp>

#include "archive/mapped_file.hpp"
#include "claims/claims.hpp"
#include "driver/guarded.hpp"

namespace lithify {
namespace {

using driver::guarded;

/// Fields of ONNX messages: ModelProto and StringStringEntryProto.
enum : protozero::pbf_tag_type { graph_field = 7, metadata_field = 14, key_field = 1, value_field = 2 };

/// The value of an entry, if it is that of the claims.
std::optional<std::string_view> claims_in(protozero::pbf_reader entry) {
  std::string_view key, value;
  while (entry.next()) {
    const bool is_text = entry.wire_type() == protozero::pbf_wire_type::length_delimited;
    if (!is_text || (entry.tag() != key_field && entry.tag() != value_field)) {
      entry.skip();
      continue;
    }
    const bool is_key = entry.tag() == key_field;
    const protozero::data_view text = entry.get_view();
    (is_key ? key : value) = {text.data(), text.size()};
  }
  return key == claims::metadata_key ? std::optional(value) : std::nullopt;
}

/// The text of the claims in a model; nothing when it has none. Throws NotAModel.
std::optional<std::string_view> find_claims(std::span<const std::byte> file, const std::string& name) {
  const auto fail = [&] { throw Error(Code::NotAModel, fmt::format("{} is not an ONNX model", name)); };
  std::optional<std::string_view> found;
  bool has_graph = false;
  try {
    protozero::pbf_reader model(reinterpret_cast<const char*>(file.data()), file.size());
    while (model.next()) {
      const bool is_message = model.wire_type() == protozero::pbf_wire_type::length_delimited;
      has_graph = has_graph || (is_message && model.tag() == graph_field);
      if (found || !is_message || model.tag() != metadata_field)
        model.skip();
      else
        found = claims_in(model.get_message());
    }
  } catch (const protozero::exception&) {
    fail();
  }
  if (!has_graph) fail();
  return found;
}

Claims claims_of(std::span<const std::byte> file, const std::string& name) {
  const std::optional<std::string_view> text = find_claims(file, name);
  if (!text)
    throw Error(Code::NotAModel, fmt::format("{} has no claims: it was not made by Lithify", name),
                "export the model with this release");
  return claims::parse(*text);
}

}  // namespace

Claims read_claims(const std::string& file) {
  return guarded(Interface::Cpp,
                 [&] { return claims_of(archive::MappedFile::open(file)->bytes(), fmt::format("'{}'", file)); });
}

Claims read_claims(Bytes file) {
  return guarded(Interface::Cpp, [&] { return claims_of(std::span(file.data, file.size), "the file"); });
}

ClaimAnswer Claims::ask(const Sizes& sizes) const {
  return guarded(Interface::Cpp, [&] { return claims::answer(*this, sizes); });
}

std::optional<bool> Claims::holds(const Sizes& sizes) const { return ask(sizes).holds; }

}  // namespace lithify
