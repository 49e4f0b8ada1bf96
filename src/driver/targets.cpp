// The known runtimes, and the newest opset of each.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "lithify/lithify.hpp"

namespace lithify {
namespace {

/// The numbers of "ort-1.17" or "ort-1.17.3" by which releases follow each other.
std::optional<std::pair<int, int>> release_of(const std::string& name) {
  int major = 0, minor = 0, used = 0;
  if (std::sscanf(name.c_str(), "ort-%3d.%3d%n", &major, &minor, &used) != 2 || major < 0 || minor < 0)
    return std::nullopt;
  const bool whole = static_cast<size_t>(used) == name.size() || name[static_cast<size_t>(used)] == '.';
  return whole ? std::optional(std::pair(major, minor)) : std::nullopt;
}

}  // namespace

const std::vector<Runtime>& runtimes() {
  // From the releases' own tables of compatibility, as far as these are certain. A release loads every opset up to its
  // newest.
  static const std::vector<Runtime> table = {
      {"ort-0.3", 9},   {"ort-0.4", 10},  {"ort-0.5", 10},  {"ort-1.0", 11},  {"ort-1.1", 11},
      {"ort-1.2", 11},  {"ort-1.3", 12},  {"ort-1.4", 12},  {"ort-1.5", 12},  {"ort-1.6", 13},
      {"ort-1.7", 13},  {"ort-1.8", 14},  {"ort-1.9", 15},  {"ort-1.10", 15}, {"ort-1.11", 16},
      {"ort-1.12", 17}, {"ort-1.13", 17}, {"ort-1.14", 18}, {"ort-1.15", 19}, {"ort-1.16", 19},
      {"ort-1.17", 20}, {"ort-1.18", 21}, {"ort-1.19", 21}, {"ort-1.20", 21}, {"ort-1.31", 26},
  };
  return table;
}

int opset_for(const std::string& runtime) {
  const auto& all = runtimes();
  const auto asked = release_of(runtime);
  const auto later = std::find_if(all.begin(), all.end(), [&](const Runtime& r) { return release_of(r.name) > asked; });
  if (asked && later != all.begin()) return std::min(std::prev(later)->opset, highest_opset);
  std::string names;
  for (const Runtime& r : all) names += (names.empty() ? "" : ", ") + r.name;
  Message m;
  m.code = "LTH020";
  m.severity = "error";
  m.text = fmt::format("the runtime '{}' is not known", runtime);
  m.hint = "the known ones are " + names;
  m.pretty = fmt::format("error {}: {}\n  hint: {}", m.code, m.text, m.hint);
  throw ExportError({m});
}

}  // namespace lithify
