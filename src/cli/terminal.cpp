#include "cli/terminal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "base/layout.hpp"
#include "platform/process.hpp"

namespace lithify::cli {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

size_t width_of(std::FILE* stream) {
  constexpr size_t least = 40;
  const size_t width = platform::terminal_width(stream);
  return width == 0 ? 0 : std::max(width, least);
}

}  // namespace

TextStyle style_of(std::FILE* stream) {
  const bool forced = !environment("CLICOLOR_FORCE").empty() && environment("CLICOLOR_FORCE") != "0";
  const bool refused = !environment("NO_COLOR").empty() || environment("TERM") == "dumb";
  TextStyle style;
  style.width = width_of(stream);
  style.color = !refused && (forced || platform::is_terminal(stream));
  return style;
}

Waiting::Waiting(std::string step, bool shown) : step_(std::move(step)) {
  if (!shown || !platform::is_terminal(stderr)) return;
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
  if (!platform::is_terminal(stderr)) return {};
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
