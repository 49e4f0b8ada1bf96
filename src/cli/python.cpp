#include "cli/python.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "cli/options.hpp"
#include "platform/file.hpp"
#include "platform/process.hpp"

namespace lithify::cli {
namespace {

/// Calls the package, or reports that the interpreter does not have it.
constexpr std::string_view script = R"(import sys
sys.path[:] = [folder for folder in sys.path if folder]
try:
    from lithify.__main__ import main
except ImportError as error:
    print(f'error LTH020: lithify {sys.argv[1]} needs the Python package lithify, with torch, onnx and onnxruntime; '
          f'{sys.executable} does not have it ({error}): pip install lithify[verify] torch', file=sys.stderr)
    sys.exit(2)
sys.exit(main())
)";

}  // namespace

void run_in_python(const std::string& command, const std::vector<std::string>& arguments) {
  std::error_code ignored;
  const auto beside = platform::program_file().parent_path() / platform::python;
  const std::string python =
      std::filesystem::exists(beside, ignored) ? platform::text_of(beside) : std::string(platform::python);
  std::vector<std::string> words = {python, "-c", std::string(script), command};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const std::error_code error = platform::replace_by(words);
  throw BadArgument(
      fmt::format("'{}' cannot be run: {}; {} needs the Python package lithify, with torch, onnx and onnxruntime",
                  python, error.message(), command));
}

}  // namespace lithify::cli
