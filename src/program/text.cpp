#include "program/text.hpp"

#include <fmt/format.h>

namespace lithify::program {

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
