// A small JSON writer.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace lithify::driver {

/// Builds a JSON text front to back; the caller opens and closes what it nests.
class Json {
 public:
  Json& open(char bracket) { return raw(std::string(1, bracket), true); }
  Json& close(char bracket) {
    text_ += bracket;
    first_ = false;
    return *this;
  }
  Json& key(std::string_view name) {
    raw(quoted(name) + ": ", true);
    first_ = true;
    return *this;
  }
  Json& value(std::string_view text) { return raw(quoted(text), false); }
  Json& value(const char* text) { return value(std::string_view(text)); }
  Json& value(bool v) { return raw(v ? "true" : "false", false); }
  Json& value(double v) { return raw(fmt::format("{}", v), false); }
  template <class T>
  requires std::is_integral_v<T> Json& value(T v) { return raw(fmt::format("{}", v), false); }
  template <class T>
  Json& field(std::string_view name, const T& v) {
    key(name);
    return value(v);
  }
  const std::string& text() const { return text_; }

 private:
  static std::string quoted(std::string_view s) {
    std::string out = "\"";
    for (unsigned char c : s) {
      if (c == '"' || c == '\\') {
        out += '\\';
        out += static_cast<char>(c);
      } else if (c < 0x20) {
        out += fmt::format("\\u{:04x}", c);
      } else {
        out += static_cast<char>(c);
      }
    }
    return out + "\"";
  }
  Json& raw(std::string_view s, bool first_after) {
    if (!first_) text_ += ", ";
    text_ += s;
    first_ = first_after;
    return *this;
  }
  std::string text_;
  bool first_ = true;
};

}  // namespace lithify::driver
