// Help texts, the manual page, completion scripts, and what is wrong with a command line. All are made from the same
// definitions of commands and options.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "lithify/lithify.hpp"

namespace lithify::cli {

/// Writes --help: a column of names, descriptions wrapped beside it, and examples.
std::shared_ptr<CLI::Formatter> help_formatter();

/// What is wrong with the words that `app` failed to parse, with the name that may have been meant.
Message usage_message(const CLI::App& app, const CLI::ParseError& error);
/// A message about an argument.
Message usage_message(std::string text, std::string hint = {});

/// The manual page in the format of man(7).
std::string manual_page(const CLI::App& app);

/// The shells that completion_script knows.
inline const std::vector<std::string> shells = {"bash", "zsh", "fish"};
/// A script that completes commands, options, choices and files in a shell.
std::string completion_script(const CLI::App& app, const std::string& shell);

}  // namespace lithify::cli
