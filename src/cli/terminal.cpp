#include "cli/terminal.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "base/layout.hpp"

namespace lithify::cli {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

size_t width_of(int descriptor, bool terminal) {
  constexpr size_t least = 40;
  winsize size{};
  if (!terminal || ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 0;
  return std::max<size_t>(size.ws_col, least);
}

}  // namespace

TextStyle style_of(std::FILE* stream) {
  const int descriptor = fileno(stream);
  const bool terminal = isatty(descriptor) != 0;
  const bool forced = !environment("CLICOLOR_FORCE").empty() && environment("CLICOLOR_FORCE") != "0";
  const bool refused = !environment("NO_COLOR").empty() || environment("TERM") == "dumb";
  TextStyle style;
  style.width = width_of(descriptor, terminal);
  style.color = !refused && (terminal || forced);
  return style;
}

Waiting::Waiting(std::string step, bool shown) : step_(std::move(step)) {
  if (!shown || !isatty(STDERR_FILENO)) return;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    // No thread to be had: nothing is shown.
  }
}

void Waiting::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Waiting::run() {
  std::unique_lock lock(mutex_);
  int seconds = 0;
  while (!changed_.wait_for(lock, std::chrono::seconds(1), [this] { return stopped_; })) {
    fmt::print(stderr, "\r  {} ... {} s", step_, ++seconds);
    std::fflush(stderr);
  }
  if (seconds > 0) fmt::print(stderr, "\r\033[K");
}

std::function<void(uint64_t done, uint64_t total)> progress_bar(Waiting& waiting) {
  if (!isatty(STDERR_FILENO)) return {};
  return [&waiting, last = -1](uint64_t done, uint64_t all) mutable {
    constexpr uint64_t quick = 64'000'000;
    if (all < quick) return;
    const int percent = static_cast<int>(done * 100 / all);
    if (percent == last) return;
    if (last == -1) waiting.stop();
    last = percent;
    fmt::print(stderr, "\r  writing [{:<40}] {:3}% of {}{}", std::string(static_cast<size_t>(percent) * 2 / 5, '#'),
               percent, size_text(all), done == all ? "\r\033[K" : "");
    std::fflush(stderr);
  };
}

}  // namespace lithify::cli
