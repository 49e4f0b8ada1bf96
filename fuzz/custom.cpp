// Declarations of custom operators.
#include "driver/custom.hpp"
#include "fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lithify;
  ExportOptions options;
  options.custom_ops = std::string(fuzz::Choices(data, size).rest());
  fuzz::expect_no_fault([&] { driver::Rules(options, program::Program()); });
  return 0;
}
