// The definitions of commands and options, as help texts, the manual page and completion list them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lithify::cli {

/// The commands, without hidden ones.
std::vector<const CLI::App*> commands_of(const CLI::App& app);
/// The options of a command that have names, without hidden ones.
std::vector<const CLI::Option*> options_of(const CLI::App& command);
/// "-o", "--output".
std::vector<std::string> option_names(const CLI::Option& option);
/// What follows the name of an option: "FILE", "{auto,always,never}"; empty for a flag.
std::string value_form(const CLI::Option& option);
/// The choices of an option; empty when it takes any value.
std::vector<std::string> choices_of(const CLI::Option& option);

}  // namespace lithify::cli
