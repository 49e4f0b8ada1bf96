// JSON of a file: typed access that names what is missing or of another kind.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lithify {

/// A value of a document, and for messages what the document is and the name of the field that the value was found in.
/// Every access throws BadCode when the value is not of the kind that is asked for. Valid as long as the document.
class Json {
 public:
  Json(simdjson::dom::element element, std::string_view field, std::string_view document)
      : element_(element), field_(field), document_(document) {}

  bool is_object() const { return element_.is_object(); }
  bool is_array() const { return element_.is_array(); }
  bool is_text() const { return element_.is_string(); }
  bool is_integer() const { return element_.is_int64(); }

  Json operator[](std::string_view key) const;           ///< a member that must be there
  std::optional<Json> find(std::string_view key) const;  ///< nothing when there is no such member, or it is null
  std::vector<Json> items() const;                       ///< of an array
  std::vector<std::pair<std::string_view, Json>> members() const;  ///< of an object
  /// The one member of a union: its key is the kind.
  std::pair<std::string_view, Json> only() const;

  int64_t integer() const;
  double real() const;  ///< also the texts "Infinity", "-Infinity" and "NaN"
  bool boolean() const;
  std::string_view text() const;

  /// For what is well-formed but makes no sense.
  [[noreturn]] void fail(std::string_view what) const;

 private:
  simdjson::dom::element element_;
  std::string_view field_;
  std::string_view document_;
};

/// A parsed text. Depth is limited, so a walk may recurse.
class JsonDocument {
 public:
  /// `name` is that of the record, `what` of its contents. Throws BadCode when `text` is not JSON. Releases of PyTorch
  /// before 2.7 wrote bare Infinity and NaN, which are taken as text.
  JsonDocument(std::string_view text, std::string name, std::string what = "the exported program");
  Json root() const { return {root_, name_, what_}; }

 private:
  std::string name_, what_;
  simdjson::dom::parser parser_;
  simdjson::dom::element root_;
};

}  // namespace lithify
