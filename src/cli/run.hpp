// What each command does with its arguments. Each returns an exit code and throws ExportError and BadArgument.
#pragma once

#include <string>
#include <vector>

#include "cli/options.hpp"

namespace lithify::cli {

struct Arguments {
  std::string model;   ///< "-" is standard input
  std::string other;   ///< the second file of a command that takes two
  std::string out;     ///< "-" is standard output; empty for the model's name with another ending
  std::string report;  ///< the page to write about an export; empty for none
  ExportArguments exporting;
  bool verbose = false;
  bool quiet = false;
  bool json = false;
  bool code = false;
  bool markdown = false;
  bool discover = false;
  std::vector<std::string> at;
  std::string pattern;
};

int run_export(Arguments& a);
int run_inspect(const Arguments& a);
int run_check(const Arguments& a);
int run_ops(const Arguments& a);
int run_show(const Arguments& a);
int run_diff(const Arguments& a);

/// Prints the messages of a failure: as JSON to standard output, or for people to standard error.
void print_failure(const std::vector<Message>& messages, bool json);

}  // namespace lithify::cli
