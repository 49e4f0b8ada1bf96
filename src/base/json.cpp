#include "base/json.hpp"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <limits>

#include "base/diagnostic.hpp"

namespace lithify {
namespace {

constexpr size_t max_depth = 512;

/// An integer that does not fit into 64 bits at the start of a text: its digits, none otherwise.
std::string_view too_large(std::string_view text) {
  const size_t sign = text.starts_with('-') ? 1 : 0;
  const std::string_view all = text.substr(0, text.find_first_not_of("0123456789", sign));
  int64_t v = 0;
  const bool fits = std::from_chars(all.data(), all.data() + all.size(), v).ec != std::errc::result_out_of_range;
  return fits || text.substr(all.size()).find_first_of(".eE") == 0 ? std::string_view() : all;
}

/// The text with the bare words Infinity, -Infinity and NaN in quotes. Integers beyond 64 bits, which stand in bounds
/// of sizes only, become the largest that fits.
std::string with_known_numbers(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 64);
  bool quoted = false;
  for (size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    size_t length = 1;
    if (quoted) {
      length = rest[0] == '\\' ? std::min<size_t>(2, rest.size()) : 1;
    } else {
      for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
        if (!rest.starts_with(word)) continue;
        out += fmt::format("\"{}\"", word);
        i += word.size();
        length = 0;
        break;
      }
      const bool starts = i == 0 || !std::isdigit(static_cast<unsigned char>(text[i - 1]));
      if (const std::string_view digits = length && starts ? too_large(rest) : ""; !digits.empty()) {
        using Limits = std::numeric_limits<int64_t>;
        out += std::to_string(digits[0] == '-' ? Limits::min() : Limits::max());
        i += digits.size();
        length = 0;
      }
    }
    if (length == 1 && rest[0] == '"') quoted = !quoted;
    out += rest.substr(0, length);
    i += length;
  }
  return out;
}

}  // namespace

void Json::fail(std::string_view what) const {
  throw Error(Code::BadCode, fmt::format("{} is malformed: '{}' {}", document_, field_, what));
}

Json Json::operator[](std::string_view key) const {
  simdjson::dom::element found;
  if (!is_object()) fail("is not an object");
  if (element_[key].get(found)) fail(fmt::format("has no field '{}'", key));
  return {found, key, document_};
}

std::optional<Json> Json::find(std::string_view key) const {
  simdjson::dom::element found;
  if (!is_object()) fail("is not an object");
  if (element_[key].get(found) || found.is_null()) return std::nullopt;
  return Json(found, key, document_);
}

std::vector<Json> Json::items() const {
  simdjson::dom::array array;
  if (element_.get(array)) fail("is not an array");
  std::vector<Json> out;
  out.reserve(array.size());
  for (const simdjson::dom::element item : array) out.emplace_back(item, field_, document_);
  return out;
}

std::vector<std::pair<std::string_view, Json>> Json::members() const {
  simdjson::dom::object object;
  if (element_.get(object)) fail("is not an object");
  std::vector<std::pair<std::string_view, Json>> out;
  out.reserve(object.size());
  for (const auto field : object) out.emplace_back(field.key, Json(field.value, field.key, document_));
  return out;
}

std::pair<std::string_view, Json> Json::only() const {
  const auto all = members();
  if (all.size() != 1) fail("does not have exactly one field");
  return all[0];
}

int64_t Json::integer() const {
  int64_t v = 0;
  if (element_.get(v)) fail("is not an integer of 64 bits");
  return v;
}

double Json::real() const {
  if (is_text()) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (text() == "Infinity") return infinity;
    if (text() == "-Infinity") return -infinity;
    if (text() == "NaN") return std::numeric_limits<double>::quiet_NaN();
  }
  double v = 0;
  if (element_.get(v)) fail("is not a number");
  return v;
}

bool Json::boolean() const {
  bool v = false;
  if (element_.get(v)) fail("is neither true nor false");
  return v;
}

std::string_view Json::text() const {
  std::string_view v;
  if (element_.get(v)) fail("is not a text");
  return v;
}

JsonDocument::JsonDocument(std::string_view text, std::string name, std::string what)
    : name_(std::move(name)), what_(std::move(what)) {
  simdjson::error_code error = parser_.allocate(std::max<size_t>(text.size(), 1), max_depth);
  if (!error) error = parser_.parse(text.data(), text.size()).get(root_);
  if (error) {
    const std::string known = with_known_numbers(text);
    if (known != text) error = parser_.parse(known).get(root_);
  }
  if (error == simdjson::DEPTH_ERROR)
    throw Error(Code::LimitExceeded, fmt::format("'{}' is nested more than {} deep", name_, max_depth));
  if (error) throw Error(Code::BadCode, fmt::format("'{}' is not JSON: {}", name_, simdjson::error_message(error)));
}

}  // namespace lithify
