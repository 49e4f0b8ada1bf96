#include "driver/input_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/diagnostic.hpp"
#include "base/text.hpp"

namespace lithify::driver {
namespace {

bool is_identifier(std::string_view s) {
  auto letter = [](unsigned char c) { return std::isalpha(c) || c == '_' || c >= 0x80; };
  return !s.empty() && letter(static_cast<unsigned char>(s[0])) &&
         std::all_of(s.begin(), s.end(), [&](unsigned char c) { return letter(c) || std::isdigit(c) || c == '.'; });
}

std::optional<int64_t> parse_number(std::string_view s) {
  int64_t v = 0;
  auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (error != std::errc() || end != s.data() + s.size()) return std::nullopt;
  return v;
}

[[noreturn]] void bad_spec(const std::string& text, const std::string& why) {
  throw Error(Code::BadOption, fmt::format("'{}' does not describe an input: {}", text, why),
              "write it as 'x:float32[batch,3,224,224]', with names for dynamic sizes");
}

/// "x:float32", "x:" or "x".
void parse_head(const std::string& text, std::string_view head, InputSpec& spec) {
  if (size_t colon = head.find(':'); colon != std::string_view::npos) {
    std::string_view type = trimmed(head.substr(colon + 1));
    spec.dtype = type.empty() ? std::nullopt : dtype_named(type);
    if (!type.empty() && !spec.dtype) bad_spec(text, fmt::format("there is no type '{}'", type));
    head = trimmed(head.substr(0, colon));
  }
  if (!is_identifier(head)) bad_spec(text, "the name of the input is missing");
  spec.name = head;
}

/// Whether it can be a formula of dimensions.
bool is_formula(std::string_view s) {
  constexpr std::string_view operators = "+-*/", others = "(). _";
  auto is_one_of = [](std::string_view set, unsigned char c) { return set.find(static_cast<char>(c)) != set.npos; };
  return std::ranges::any_of(s, [&](unsigned char c) { return is_one_of(operators, c); }) &&
         std::ranges::all_of(s, [&](unsigned char c) {
           return std::isalnum(c) || c >= 0x80 || is_one_of(operators, c) || is_one_of(others, c);
         });
}

/// "3", "batch", "batch=2", "2*batch" or "2*batch=4".
InputSpec::Size parse_size(const std::string& text, std::string_view item) {
  InputSpec::Size size;
  const size_t eq = item.find('=');
  if (eq != std::string_view::npos) {
    size.name = trimmed(item.substr(0, eq));
    size.value = parse_number(trimmed(item.substr(eq + 1)));
  } else if (!(size.value = parse_number(item))) {
    size.name = item;
  }
  const bool named = eq != std::string_view::npos || !size.value;
  if ((named && !is_identifier(size.name) && !is_formula(size.name)) || (eq != std::string_view::npos && !size.value))
    bad_spec(text, fmt::format("'{}' is not a size", item));
  if (size.value && *size.value < 0) bad_spec(text, "a size is negative");
  return size;
}

}  // namespace

InputSpec parse_input_spec(const std::string& text) {
  InputSpec spec;
  const size_t open = text.find('[');
  if (open == std::string::npos || text.back() != ']') bad_spec(text, "there is no list of sizes in brackets");
  parse_head(text, trimmed(std::string_view(text).substr(0, open)), spec);
  std::string_view rest = std::string_view(text).substr(open + 1, text.size() - open - 2);
  if (trimmed(rest).empty()) return spec;
  while (true) {
    const size_t comma = rest.find(',');
    spec.sizes.push_back(parse_size(text, trimmed(rest.substr(0, comma))));
    if (comma == std::string_view::npos) return spec;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace lithify::driver
