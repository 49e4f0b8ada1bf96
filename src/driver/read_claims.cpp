// The claims of an ONNX file, from its metadata; the rest of the file is skipped.
#include <fmt/format.h>

#include <algorithm>

#include "archive/bytes.hpp"
#include "archive/mapped_file.hpp"
#include "claims/claims.hpp"
#include "driver/guarded.hpp"
#include "onnxfile/model.hpp"

namespace lithify {
namespace {

using driver::guarded;

Claims claims_of(std::span<const std::byte> file, const std::string& name) {
  const onnxfile::Model model = onnxfile::parse_model(archive::as_text(file), name);
  const auto entry =
      std::ranges::find(model.metadata, std::string_view(claims::metadata_key), &onnxfile::Texts::value_type::first);
  if (entry == model.metadata.end())
    throw Error(Code::NotAModel, fmt::format("{} has no claims: it was not made by Lithify", name),
                "export the model with this release");
  return claims::parse(entry->second);
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
