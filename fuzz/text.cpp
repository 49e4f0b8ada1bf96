// The text of a program: what the parser takes, the printer writes so that the parser takes it again.
#include "fuzz/fuzz.hpp"
#include "program/parse.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lithify;
  const std::string text(fuzz::Choices(data, size).rest());
  fuzz::expect_no_fault([&] {
    program::Program program;
    program::parse_file(program, "code/__torch__.py", text, {});
  });
  fuzz::expect_no_fault([&] { program::parse_type(text); });
  return 0;
}
