#include "base/diagnostic.hpp"

#include <fmt/format.h>

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

std::string Place::str() const {
  if (!known()) return "";
  return function.empty() ? fmt::format("{}:{}", file, line) : fmt::format("{}:{}, in {}", file, line, function);
}

std::string Diagnostic::str() const {
  constexpr const char* names[] = {"note", "warning", "error"};
  std::string out = fmt::format("{} {}: {}", names[static_cast<int>(severity)], code_text(code), printable(message));
  if (place.known()) out += fmt::format("\n  at {}", printable(place.str()));
  if (!place.text.empty()) out += fmt::format("\n     {}", printable(place.text));
  if (!hint.empty()) out += fmt::format("\n  hint: {}", printable(hint));
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

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (unsigned char c : text) {
    if (c == '\n' || c == '\t' || (c >= 0x20 && c != 0x7f)) {
      out += static_cast<char>(c);
    } else {
      out += fmt::format("\\x{:02x}", c);
    }
  }
  return out;
}

}  // namespace lithify
