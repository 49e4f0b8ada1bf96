#include "read/exported/guards.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "program/text.hpp"

namespace lithify::read {
namespace {

/// How functions are called in guards, and in formulas of sizes.
constexpr std::pair<std::string_view, std::string_view> kNames[] = {
    {"torch.sym_float", "float"}, {"torch.sym_int", "int"},   {"torch.sym_max", "max"},
    {"torch.sym_min", "min"},     {"torch.sym_sqrt", "sqrt"}, {"math.", ""},
};

bool take(std::string_view& text, std::string_view token) {
  if (!text.starts_with(token)) return false;
  text.remove_prefix(token.size());
  return true;
}

std::optional<size_t> take_index(std::string_view& text) {
  size_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return take(text, "]") ? std::optional(index) : std::nullopt;
}

/// A key between quotes, as it stands in the name of a parameter of the graph.
std::optional<std::string> take_key(std::string_view& text) {
  if (!take(text, "'")) return std::nullopt;
  const size_t end = text.find("']");
  if (end == std::string_view::npos) return std::nullopt;
  std::string key(text.substr(0, end));
  std::ranges::replace_if(
      key, [](char c) { return !program::is_word(c); }, '_');
  text.remove_prefix(end + 2);
  return key;
}

/// "L['pair'][0].size()[1]" at the start of a text: pair_0 and 1.
std::optional<std::pair<std::string, size_t>> take_size(std::string_view& text) {
  std::string_view rest = text;
  if (!take(rest, "L[")) return std::nullopt;
  std::optional<std::string> name = take_key(rest);
  while (name && take(rest, "[")) {
    std::optional<std::string> key = take_key(rest);
    if (const auto index = key ? std::nullopt : take_index(rest)) key = std::to_string(*index);
    name = key ? std::optional(*name + "_" + *key) : std::nullopt;
  }
  if (!name || !take(rest, ".size()[")) return std::nullopt;
  const std::optional<size_t> axis = take_index(rest);
  if (!axis) return std::nullopt;
  text = rest;
  return std::pair(*name, *axis);
}

}  // namespace

program::Guard parse_guard(std::string_view code, const std::vector<std::string>& parameters) {
  program::Guard out;
  while (!code.empty()) {
    std::string_view rest = code;
    const auto size = take_size(rest);
    if (size && std::ranges::find(parameters, size->first) != parameters.end()) {
      const auto found = std::ranges::find(out.sizes, *size);
      out.text += fmt::format("size_{}", found - out.sizes.begin());
      if (found == out.sizes.end()) out.sizes.push_back(*size);
      code = rest;
      continue;
    }
    const auto* name = std::ranges::find_if(kNames, [&](const auto& row) { return code.starts_with(row.first); });
    if (name != std::end(kNames)) {
      out.text += name->second;
      code.remove_prefix(name->first.size());
      continue;
    }
    out.text += code[0];
    code.remove_prefix(1);
  }
  return out;
}

}  // namespace lithify::read
