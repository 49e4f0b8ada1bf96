// Where the program prints: what a terminal can show, and signs of life while something takes long.
#pragma once

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

#include "lithify/lithify.hpp"

namespace lithify::cli {

/// How to write to a stream: with colors on a terminal, unless the environment has NO_COLOR or TERM=dumb, or anywhere
/// with CLICOLOR_FORCE; as wide as the terminal. Elsewhere lines are not wrapped.
TextStyle style_of(std::FILE* stream);

/// While it lives, and from the first second on, a line of standard error counts the seconds of a step. Nothing is
/// shown where standard error is not a terminal.
class Waiting {
 public:
  explicit Waiting(std::string step, bool shown = true);
  ~Waiting() { stop(); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  /// Removes the line; to be called before other lines are printed.
  void stop();

 private:
  void run();

  std::string step_;
  bool stopped_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
};

/// A function for ExportOptions::progress that draws a bar, for files that take a while.
std::function<void(uint64_t done, uint64_t total)> progress_bar(Waiting& waiting);

}  // namespace lithify::cli
