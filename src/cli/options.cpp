#include "cli/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/options.hpp"
#include "platform/file.hpp"

namespace lithify::cli {
namespace {

std::string name_of(const char* option) { return std::string(find_option(option).command_line); }
std::string meaning_of(const char* option) { return std::string(find_option(option).meaning); }

/// An option that is given once for each value.
void add_repeated(CLI::App& command, const char* option, std::vector<std::string>& values, const char* form) {
  command.add_option(name_of(option), values, meaning_of(option))->allow_extra_args(false)->type_name(form);
}

/// An option with a list of values between commas.
void add_list(CLI::App& command, const char* option, std::vector<std::string>& values, const char* form) {
  command.add_option(name_of(option), values, meaning_of(option))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name(form);
}

void add_flag(CLI::App& command, const char* option, bool& flag) {
  command.add_flag(name_of(option), flag, meaning_of(option));
}

/// "name=7" as a pair; `bad` throws.
template <class Bad>
std::pair<std::string, std::string> key_and_value(const std::string& text, Bad bad) {
  const size_t eq = text.find('=');
  if (eq == std::string::npos || eq == 0 || eq + 1 == text.size()) bad();
  return {text.substr(0, eq), text.substr(eq + 1)};
}

template <class Bad>
int64_t number_of(const std::string& text, Bad bad) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) bad();
  return number;
}

/// "x:0=batch,1=seq", or "auto".
void parse_dynamic(const std::string& text, ExportOptions& options) {
  if (text == "auto") {
    options.discover = true;
    return;
  }
  auto bad = [&] { throw BadArgument(fmt::format("--dynamic '{}' is not of the form 'x:0=batch,1=seq'", text)); };
  const size_t colon = text.find(':');
  if (colon == std::string::npos || colon == 0) bad();
  auto& axes = options.dynamic_axes[text.substr(0, colon)];
  const std::string rest = text.substr(colon + 1);
  for (size_t at = 0; at <= rest.size();) {
    const size_t comma = std::min(rest.find(',', at), rest.size());
    const auto [axis, name] = key_and_value(rest.substr(at, comma - at), bad);
    if (!axes.emplace(number_of(axis, bad), name).second)
      throw BadArgument(fmt::format("--dynamic '{}' names axis {} twice", text, axis));
    at = comma + 1;
  }
}

/// "my.domain=2"
void parse_custom_opset(const std::string& text, ExportOptions& options) {
  auto bad = [&] { throw BadArgument(fmt::format("--custom-opset '{}' is not of the form 'my.domain=2'", text)); };
  const auto [domain, version] = key_and_value(text, bad);
  const int64_t number = number_of(version, bad);
  if (number < 1 || number > std::numeric_limits<int>::max()) bad();
  options.custom_opsets[domain] = static_cast<int>(number);
}

std::string read_text(const std::string& name) {
  const std::filesystem::path path = platform::path_of(name);
  // A pipe would make us wait, and a device has no end.
  std::error_code missing;
  if (std::filesystem::exists(path, missing) && !std::filesystem::is_regular_file(path, missing))
    throw BadArgument(fmt::format("'{}' is not a regular file", name));
  std::ifstream in(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (!in) throw BadArgument(fmt::format("'{}' cannot be read", name));
  return text;
}

}  // namespace

Sizes parse_sizes(const std::string& text) {
  const auto bad = [&] { throw BadArgument(fmt::format("'{}' is not of the form 'batch=3,seq=40'", text)); };
  Sizes out;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const auto [name, size] = key_and_value(text.substr(at, comma - at), bad);
    out.emplace_back(name, number_of(size, bad));
    at = comma + 1;
  }
  return out;
}

void ExportArguments::add_choice(CLI::App& command, const char* option, const char* standard) {
  command
      .add_option_function<std::string>(
          name_of(option), [this, option](const std::string& name) { set_choice(options, option, name); },
          meaning_of(option))
      ->check(CLI::IsMember(choices(option)))
      ->default_str(standard);
}

void ExportArguments::add_shared_options(CLI::App& command) {
  command.add_option(name_of("opset"), options.opset, meaning_of("opset") + ", or latest")
      ->transform([](const std::string& s) { return s == "latest" ? std::to_string(highest_opset) : s; }, "", "opset");
  command.add_option(name_of("target"), options.target, meaning_of("target"))->type_name("RUNTIME");
  add_repeated(command, "inputs", options.inputs, "INPUT");
  add_list(command, "input_names", options.input_names, "NAMES");
  add_list(command, "output_names", options.output_names, "NAMES");
  add_size_options(command);
  add_choice(command, "state", "error");
  command.add_option(name_of("unroll"), options.unroll, meaning_of("unroll"))
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option(name_of("budget"), options.budget, meaning_of("budget"))
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  add_custom_options(command);
  add_flag(command, "self_check", options.self_check);
}

void ExportArguments::add_size_options(CLI::App& command) {
  command
      .add_option(name_of("dynamic_axes"), dynamic_,
                  fmt::format("'x:0=batch,1=seq': {}; auto: {}", meaning_of("dynamic_axes"), meaning_of("discover")))
      ->allow_extra_args(false)
      ->type_name("AXES");
  add_repeated(command, "also", also_, "MODEL");
  add_choice(command, "recover", "decided");
  command.add_flag_callback(
      "--no-recover", [this] { set_choice(options, "recover", "never"); }, "the same as --recover never");
  add_flag(command, "strict", options.strict);
}

void ExportArguments::add_custom_options(CLI::App& command) {
  command.add_option(name_of("custom_ops"), custom_ops_, "a file of " + meaning_of("custom_ops"))->type_name("FILE");
  add_repeated(command, "custom_opsets", custom_opsets_, "DOMAIN=VERSION");
  add_flag(command, "allow_custom", options.allow_custom);
}

void ExportArguments::add_export_options(CLI::App& command) {
  add_choice(command, "external_data", "auto");
  add_choice(command, "weights", "unchanged");
  command.add_option(name_of("weights_block"), options.weights_block, meaning_of("weights_block"))
      ->capture_default_str();
  add_choice(command, "precision", "unchanged");
  add_repeated(command, "keep_weights", options.keep_weights, "NAME");
  add_flag(command, "skip_sync", options.skip_sync);
}

void ExportArguments::complete() {
  for (const std::string& text : dynamic_) parse_dynamic(text, options);
  for (const std::string& text : custom_opsets_) parse_custom_opset(text, options);
  if (!options.target.empty() && options.target != "ort") {
    resolved_ = target_for(options.target);
    if (options.opset) throw BadArgument(fmt::format("--opset excludes --target {}", options.target));
  }
  if (!custom_ops_.empty()) options.custom_ops = read_text(custom_ops_);
  options.also.assign(also_.begin(), also_.end());
}

}  // namespace lithify::cli
