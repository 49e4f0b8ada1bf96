#include "rewrite/kept.hpp"

#include <algorithm>

namespace lithify::rewrite {
namespace {

bool matches(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty() || name.front() == '.';
  if (pattern.front() == '*') {
    for (size_t i = 0; i <= name.size(); ++i)
      if (matches(pattern.substr(1), name.substr(i))) return true;
    return false;
  }
  return !name.empty() && name.front() == pattern.front() && matches(pattern.substr(1), name.substr(1));
}

}  // namespace

bool is_kept(const Vector<std::string>& patterns, std::string_view name) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return matches(pattern, name); });
}

}  // namespace lithify::rewrite
