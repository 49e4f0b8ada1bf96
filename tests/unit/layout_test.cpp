// Text for people: widths, wrapping, tables, colors.
#include <doctest/doctest.h>

#include "base/layout.hpp"

using namespace lithify;

TEST_CASE("layout: columns are code points without escape codes") {
  CHECK(columns_of("abc") == 3);
  CHECK(columns_of("\xc3\xa4\xe2\x82\xac") == 2);
  CHECK(columns_of(painted("abc", Color::Red, true)) == 3);
  CHECK(painted("abc", Color::Red, false) == "abc");
}

TEST_CASE("layout: lines are broken at spaces, and words stay whole") {
  CHECK(wrapped("one two three", 0) == "one two three");
  CHECK(wrapped("one two three", 7) == "one two\nthree");
  CHECK(wrapped("one two three", 7, 2) == "one two\n  three");
  CHECK(wrapped("incomprehensible x", 5) == "incomprehensible\nx");
  CHECK(wrapped("  indented", 80) == "  indented");
}

TEST_CASE("layout: values stand beside their labels") {
  CHECK(Layout(30).row("input", "x: float32[batch, 3, 224, 224]").text() ==
        "  input    x: float32[batch,\n           3, 224, 224]\n");
}

TEST_CASE("layout: columns of a table are aligned, the last one is wrapped") {
  const std::string text = Layout(40)
                               .table({{"name"}, {"count", true}, {"status"}},
                                      {{"a", "1", "fine"}, {"longer", "20", "not so fine at all, in many words"}})
                               .text();
  CHECK(text ==
        "name    count  status\n"
        "a           1  fine\n"
        "longer     20  not so fine at all, in\n"
        "               many words\n");
}

TEST_CASE("layout: sizes") {
  CHECK(size_text(12) == "12 bytes");
  CHECK(size_text(1'234'567) == "1.2 MB");
}
