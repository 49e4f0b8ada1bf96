#include "cli/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "base/layout.hpp"
#include "base/nearest.hpp"
#include "cli/codes_page.hpp"
#include "cli/help.hpp"

namespace lithify::cli {
namespace {

constexpr std::string_view heading = "\n## ";

/// "64" and "lth064" as "LTH064".
std::string canonical(std::string code) {
  std::ranges::transform(code, code.begin(), [](char c) { return c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c; });
  int number = 0;
  const auto [end, error] = std::from_chars(code.data(), code.data() + code.size(), number);
  const bool whole = error == std::errc() && end == code.data() + code.size() && number >= 0;
  return whole ? fmt::format("LTH{:03}", number) : code;
}

/// The text between a heading and the next one, with its title.
std::string_view section_of(std::string_view title) {
  const std::string line = fmt::format("{}{}\n", heading, title);
  const size_t at = codes_page.find(line);
  if (at == codes_page.npos) return {};
  const size_t begin = at + heading.size();
  return codes_page.substr(begin, codes_page.find(heading, begin) - begin);
}

std::vector<std::string> known_codes() {
  std::vector<std::string> out;
  for (size_t at = codes_page.find(heading); at != codes_page.npos; at = codes_page.find(heading, at + 1)) {
    const size_t begin = at + heading.size();
    out.emplace_back(codes_page.substr(begin, codes_page.find('\n', begin) - begin));
  }
  return out;
}

/// A line of Markdown as a terminal shows it.
std::string plain_line(std::string_view line, const TextStyle& style) {
  if (!line.starts_with("**")) return std::string(line);
  const size_t end = line.find("**", 2);
  return painted(line.substr(2, end - 2), Color::Bold, style.color) + std::string(line.substr(end + 2));
}

}  // namespace

std::string explanation(const std::string& code, const TextStyle& style) {
  const std::string title = canonical(code);
  const std::string_view text = section_of(title);
  if (text.empty())
    throw ExportError(
        {usage_message(fmt::format("there is no code '{}'", code),
                       did_you_mean(title, known_codes()) + "codes are those of messages, such as LTH064")});
  std::string out;
  bool fenced = false;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("```")) {
      fenced = !fenced;
      continue;
    }
    out += (fenced && !line.empty() ? "    " : "") + (fenced ? std::string(line) : plain_line(line, style)) + "\n";
  }
  return out;
}

}  // namespace lithify::cli
