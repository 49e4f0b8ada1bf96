#include "base/layout.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lithify {
namespace {

constexpr std::string_view escape = "\033[";

/// Where the escape code that begins at `at` ends.
size_t end_of_escape(std::string_view text, size_t at) {
  const size_t end = text.find('m', at);
  return end == text.npos ? text.size() : end + 1;
}

std::string padded(std::string_view text, size_t width, bool right) {
  const std::string space(width - std::min(width, columns_of(text)), ' ');
  return right ? space + std::string(text) : std::string(text) + space;
}

}  // namespace

std::string painted(std::string_view text, Color color, bool enabled) {
  if (!enabled || text.empty()) return std::string(text);
  constexpr const char* codes[] = {"1;31", "32", "1;33", "36", "1", "2"};
  return fmt::format("{}{}m{}{}0m", escape, codes[static_cast<int>(color)], text, escape);
}

size_t columns_of(std::string_view text) {
  size_t columns = 0;
  for (size_t i = 0; i < text.size();) {
    if (text.substr(i).starts_with(escape)) {
      i = end_of_escape(text, i);
      continue;
    }
    columns += (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80;
    ++i;
  }
  return columns;
}

std::string wrapped(std::string_view text, size_t width, size_t indent) {
  if (width == 0) return std::string(text);
  std::string out;
  size_t column = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = std::min(text.find_first_not_of(' ', at), text.size());
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view spaces = text.substr(at, begin - at), word = text.substr(begin, end - begin);
    const size_t wide = columns_of(word);
    if (column > indent && column + spaces.size() + wide > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else {
      out += spaces;
      column += spaces.size();
    }
    out += word;
    column += wide;
    at = end;
  }
  return out;
}

Layout& Layout::line(std::string_view text) {
  text_ += wrapped(text, width_, 4) + "\n";
  return *this;
}

Layout& Layout::row(std::string_view label, std::string_view value) {
  constexpr size_t indent = 2, labels = 9;
  const std::string space(indent + labels, ' ');
  const std::string body = wrapped(space + std::string(value), width_, space.size());
  text_ +=
      std::string(indent, ' ') + padded(paint(label, Color::Cyan), labels, false) + body.substr(space.size()) + "\n";
  return *this;
}

Layout& Layout::table(const std::vector<Column>& columns, const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (size_t i = 0; i < columns.size(); ++i) {
    size_t widest = columns_of(columns[i].title);
    for (const auto& row : rows) widest = std::max(widest, columns_of(row[i]));
    widths.push_back(widest);
  }
  const auto add = [&](const auto& cell) {
    std::string begin;
    for (size_t i = 0; i + 1 < columns.size(); ++i) begin += padded(cell(i), widths[i], columns[i].right) + "  ";
    const size_t rest = columns.back().right ? widths.back() : 0;
    const std::string last = padded(cell(columns.size() - 1), rest, columns.back().right);
    const size_t indent = columns_of(begin);
    const std::string body = wrapped(std::string(indent, ' ') + last, width_ > indent + 20 ? width_ : 0, indent);
    text_ += begin + body.substr(indent);
    text_.erase(text_.find_last_not_of(' ') + 1);
    text_ += "\n";
  };
  add([&](size_t i) { return paint(columns[i].title, Color::Bold); });
  for (const auto& row : rows) add([&](size_t i) { return row[i]; });
  return *this;
}

std::string size_text(uint64_t bytes) {
  if (bytes >= 1'000'000'000) return fmt::format("{:.2f} GB", static_cast<double>(bytes) / 1e9);
  if (bytes >= 1'000'000) return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
  if (bytes >= 1'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{} bytes", bytes);
}

}  // namespace lithify
