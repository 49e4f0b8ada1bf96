// The options of an export on the command line. Their names and help texts are those of base/options.def.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "lithify/lithify.hpp"

namespace lithify::cli {

/// An argument that is not of the form it should have.
class BadArgument : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Options as they are parsed: those that are values already, and the texts that `complete` turns into the others.
class ExportArguments {
 public:
  ExportArguments() { options.interface = Interface::CommandLine; }

  /// Adds the options that apply to check as well as to export.
  void add_shared_options(CLI::App& command);
  /// Adds those that apply to export only.
  void add_export_options(CLI::App& command);
  /// To be called once, after parsing. Throws BadArgument and ExportError.
  void complete();

  /// The runtime that was given instead of an opset.
  std::optional<Target> target() const { return resolved_; }
  const std::string& target_name() const { return options.target; }

  ExportOptions options;

 private:
  void add_size_options(CLI::App& command);
  void add_custom_options(CLI::App& command);
  void add_choice(CLI::App& command, const char* option, const char* standard);

  std::optional<Target> resolved_;
  std::string custom_ops_;
  std::vector<std::string> custom_opsets_;
  std::vector<std::string> dynamic_;
  std::vector<std::string> also_;
};

/// "batch=3,seq=40". Throws BadArgument.
Sizes parse_sizes(const std::string& text);

}  // namespace lithify::cli
