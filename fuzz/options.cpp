// Values of options on the command line: --input, --dynamic, and sizes.
#include "cli/options.hpp"
#include "driver/input_spec.hpp"
#include "fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lithify;
  const std::string text(fuzz::Choices(data, size).rest());
  fuzz::expect_no_fault([&] { driver::parse_input_spec(text); });
  try {
    cli::parse_sizes(text);
  } catch (const cli::BadArgument&) {
  }
  try {
    CLI::App app;
    cli::ExportArguments arguments;
    arguments.add_shared_options(app);
    app.parse(std::vector<std::string>{text, "--dynamic"});
    arguments.complete();
  } catch (const cli::BadArgument&) {
  } catch (const CLI::Error&) {
  } catch (const ExportError&) {
  }
  return 0;
}
