#include "program/text.hpp"

#include <fmt/format.h>

namespace lithify::program {

std::string unmangled(std::string_view name) {
  constexpr std::string_view mark = "___torch_mangle_";
  std::string out(name);
  for (size_t at = out.find(mark); at != std::string::npos; at = out.find(mark, at)) {
    const size_t end = out.find_first_not_of("0123456789", at + mark.size());
    out.erase(at, end == std::string::npos || out[end] != '.' ? end - at : end + 1 - at);
  }
  return out;
}

Diagnostic text_diagnostic(Code code, std::string_view record, std::string_view text, size_t pos,
                           std::string_view what) {
  const std::string_view before = text.substr(0, std::min(pos, text.size()));
  Diagnostic d;
  d.code = code;
  d.message = fmt::format("{}, line {}, column {}: {}", record, std::ranges::count(before, '\n') + 1,
                          before.size() - (before.rfind('\n') + 1) + 1, what);
  d.subject = record;
  return d;
}

}  // namespace lithify::program
