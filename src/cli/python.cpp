#include "cli/python.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cli/options.hpp"

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
  const auto beside = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / "python3";
  const std::string python = std::filesystem::exists(beside, ignored) ? beside.string() : "python3";
  std::vector<std::string> words = {python, "-c", std::string(script), command};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  execvp(list[0], list.data());
  throw BadArgument(
      fmt::format("'{}' cannot be run: {}; {} needs the Python package lithify, with torch, onnx and onnxruntime",
                  python, std::strerror(errno), command));
}

}  // namespace lithify::cli
