// What the exit code of the program means. docs/command-line.md documents the numbers.
#pragma once

#include <vector>

#include "lithify/lithify.hpp"

namespace lithify::cli {

enum ExitCode {
  done = 0,          ///< and for commands that answer a question: yes
  refused = 1,       ///< the model cannot be exported; files differ; a size is not claimed
  usage = 2,         ///< the command line is wrong
  bad_file = 3,      ///< the input is missing, damaged, or not a model
  cannot_write = 4,  ///< the output cannot be written
};

/// The one of the first error among the messages; `done` when there is none.
ExitCode exit_code(const std::vector<Message>& messages);

}  // namespace lithify::cli
