#include "base/diagnostic.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/options.hpp"
#include "lithify/lithify.hpp"

namespace lithify {

std::string code_text(Code code) { return fmt::format("LTH{:03}", static_cast<int>(code)); }

std::string_view code_meaning(Code code) {
  switch (code) {
#define CODE(number, name, meaning) \
  case Code::name:                  \
    return meaning;
#include "base/codes.def"
#undef CODE
  }
  return "";
}

std::string Place::brief() const {
  if (!known()) return "";
  return fmt::format("{}:{}", std::string_view(file).substr(file.find_last_of("/\\") + 1), line);
}

std::string Place::str() const {
  if (!known()) return "";
  return function.empty() ? fmt::format("{}:{}", file, line) : fmt::format("{}:{}, in {}", file, line, function);
}

std::string Diagnostic::str() const { return str(Interface::Cpp); }

std::string Diagnostic::str(Interface interface) const {
  constexpr const char* names[] = {"note", "warning", "error"};
  std::string out =
      fmt::format("{} {}: {}", names[static_cast<int>(severity)], code_text(code), spelled(message, interface));
  if (place.known()) out += fmt::format("\n  at {}", printable(place.str()));
  if (!place.text.empty()) out += fmt::format("\n     {}", printable(place.text));
  if (!hint.empty()) out += fmt::format("\n  hint: {}", spelled(hint, interface));
  return out;
}

Error::Error(Code code, std::string message, std::string hint)
    : Error(Diagnostic{code, Severity::Error, std::move(message), {}, std::move(hint), {}}) {}

Error::Error(std::vector<Diagnostic> all) : all_(std::move(all)) {
  if (all_.empty()) all_.push_back({});
  text_ = all_.front().str();
}

void Error::locate(const Place& place) {
  if (all_.front().place.known() || !place.known()) return;
  all_.front().place = place;
  text_ = all_.front().str();
}

namespace {

/// Bytes of the UTF-8 sequence that the text begins with; 0 when it begins with none.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t n = byte(0) < 0x80                      ? 1
                   : byte(0) >= 0xc2 && byte(0) < 0xe0 ? 2
                   : (byte(0) & 0xf0) == 0xe0          ? 3
                   : byte(0) >= 0xf0 && byte(0) < 0xf5 ? 4
                                                       : 0;
  if (n == 0 || n > text.size()) return 0;
  for (size_t i = 1; i < n; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // Overlong forms, surrogates and numbers above the last code point.
  if ((byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xed && byte(1) > 0x9f)) return 0;
  if ((byte(0) == 0xf0 && byte(1) < 0x90) || (byte(0) == 0xf4 && byte(1) > 0x8f)) return 0;
  return n;
}

/// Control characters, also those of the second block (U+0080 to U+009F).
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 2) return first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
  return character.size() == 1 && (first < 0x20 || first == 0x7f) && first != '\n' && first != '\t';
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t n = utf8_length(text);
    if (n > 0 && !is_control(text.substr(0, n))) {
      out += text.substr(0, n);
    } else {
      for (size_t i = 0; i < std::max<size_t>(n, 1); ++i)
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i]));
    }
    text.remove_prefix(std::max<size_t>(n, 1));
  }
  return out;
}

}  // namespace lithify
