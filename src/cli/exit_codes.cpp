#include "cli/exit_codes.hpp"

#include <algorithm>

#include "base/diagnostic.hpp"

namespace lithify::cli {

ExitCode exit_code(const std::vector<Message>& messages) {
  const auto first = std::ranges::find(messages, "error", &Message::severity);
  if (first == messages.end()) return done;
  // The groups of base/codes.def.
  const auto in = [&](Code begin, Code end) {
    return first->code >= code_text(begin) && first->code <= code_text(end);
  };
  if (in(Code::CannotOpen, Code::UnsupportedVersion)) return bad_file;
  if (in(Code::BadOption, Code::BadOpset)) return usage;
  if (in(Code::CannotWrite, Code::TooLarge)) return cannot_write;
  return refused;
}

}  // namespace lithify::cli
