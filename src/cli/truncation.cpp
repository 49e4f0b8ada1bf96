#include "cli/truncation.hpp"

#include <unistd.h>

#include <csignal>
#include <string_view>

#include "cli/exit_codes.hpp"

namespace lithify::cli {

void refuse_truncated_models() {
  std::signal(SIGBUS, [](int) {
    constexpr std::string_view text = "error LTH001: the model file became shorter while it was read\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    ::_exit(bad_file);
  });
}

void ignore_truncated_models() {
  std::signal(SIGBUS, [](int) { ::_exit(done); });
}

}  // namespace lithify::cli
