// Whole files through the API: inspect, check, and an export with a dynamic axis.
#include "fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lithify::fuzz;
  lithify_options* options = lithify_options_new();
  lithify_options_add_dynamic_axis(options, "x", 0, "batch");
  expect_answers(Choices(data, size).rest(), options);
  lithify_options_free(options);
  return 0;
}
