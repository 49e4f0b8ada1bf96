// What a user may have meant.
#pragma once

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lithify {

/// How many letters have to be added, removed or replaced to make one word of the other.
inline size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, diagonal + 1, replaced});
    }
  }
  return row.back();
}

/// The known name that is most like a given one; nothing when none is.
inline std::optional<std::string> nearest(std::string_view given, const std::vector<std::string>& known) {
  constexpr size_t longest = 100;
  std::optional<std::string> best;
  size_t least = std::max<size_t>(given.size() / 2, 1) + 1;
  for (const std::string& name : known) {
    if (name.size() > longest || given.size() > longest) continue;
    const bool begins = !given.empty() && (name.starts_with(given) || given.starts_with(name));
    const size_t distance = begins ? 1 : edit_distance(given, name);
    if (distance < least) best = name, least = distance;
  }
  return best;
}

/// "did you mean 'batch'? ", or nothing when no known name is like the given one.
inline std::string did_you_mean(std::string_view given, const std::vector<std::string>& known) {
  const std::optional<std::string> meant = nearest(given, known);
  return meant ? "did you mean '" + *meant + "'? " : "";
}

}  // namespace lithify
