// Text for people: labels and values in columns, tables and trees, within a width, colored where that is wanted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lithify {

enum class Color { Red, Green, Yellow, Cyan, Bold, Dim };

/// The text in a color, by escape codes of terminals; as it is unless `enabled`.
std::string painted(std::string_view text, Color color, bool enabled);

/// Columns that a text takes on a terminal: its code points, without escape codes.
size_t columns_of(std::string_view text);

/// Lines that are at most `width` columns wide, broken at spaces; all but the first are indented. A word that is wider
/// stays whole. Width 0 breaks nothing.
std::string wrapped(std::string_view text, size_t width, size_t indent = 0);

/// A text that grows line by line.
class Layout {
 public:
  explicit Layout(size_t width = 0, bool color = false) : width_(width), color_(color) {}

  std::string paint(std::string_view text, Color color) const { return painted(text, color, color_); }
  /// A line of its own, wrapped.
  Layout& line(std::string_view text = {});
  /// A label and its value beside it: "  input    x: float32[2, 3]".
  Layout& row(std::string_view label, std::string_view value);

  struct Column {
    std::string title;
    bool right = false;  ///< whether its cells are numbers, aligned at their ends
  };
  /// A table with a head. The last column takes the rest of the width.
  Layout& table(const std::vector<Column>& columns, const std::vector<std::vector<std::string>>& rows);

  const std::string& text() const { return text_; }

 private:
  size_t width_;
  bool color_;
  std::string text_;
};

/// 1234567 bytes as "1.2 MB".
std::string size_text(uint64_t bytes);

}  // namespace lithify
