// A small JSON writer.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace lithify {

/// Builds a JSON text front to back; the caller opens and closes what it nests.
class JsonWriter {
 public:
  JsonWriter& open(char bracket) { return raw(std::string(1, bracket), true); }
  JsonWriter& close(char bracket) {
    text_ += bracket;
    first_ = false;
    return *this;
  }
  JsonWriter& key(std::string_view name) {
    raw(quoted(name) + ": ", true);
    first_ = true;
    return *this;
  }
  JsonWriter& value(std::string_view text) { return raw(quoted(text), false); }
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(bool v) { return raw(v ? "true" : "false", false); }
  JsonWriter& value(double v) { return raw(fmt::format("{}", v), false); }
  template <class T>
  requires std::is_integral_v<T> JsonWriter& value(T v) { return raw(fmt::format("{}", v), false); }
  /// A value that is JSON already.
  JsonWriter& json(std::string_view text) { return raw(text, false); }
  template <class T>
  JsonWriter& field(std::string_view name, const T& v) {
    key(name);
    return value(v);
  }
  /// A list; `write_item` writes an item of it.
  template <class Items, class F>
  JsonWriter& list(std::string_view name, const Items& items, F write_item) {
    key(name).open('[');
    for (const auto& item : items) write_item(item);
    return close(']');
  }
  template <class Items>
  JsonWriter& list(std::string_view name, const Items& values) {
    return list(name, values, [this](const auto& v) { this->value(v); });
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
  JsonWriter& raw(std::string_view s, bool first_after) {
    if (!first_) text_ += ", ";
    text_ += s;
    first_ = first_after;
    return *this;
  }
  std::string text_;
  bool first_ = true;
};

}  // namespace lithify
