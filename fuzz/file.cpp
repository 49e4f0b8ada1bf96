// Whole files through the API: inspect, check, and an export with a dynamic axis.
#include "fuzz/fuzz.hpp"
#include "lithify/lithify.h"

namespace {

// An internal error is a finding; every other answer will do.
void expect_answer(lithify_status status, lithify_result* result) {
  if (status == LITHIFY_ERROR_INTERNAL) std::abort();
  for (size_t i = 0; i < lithify_result_message_count(result); ++i)
    if (std::string_view(lithify_result_message_code(result, i)) == "LTH099") std::abort();
  lithify_result_free(result);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lithify_options* options = lithify_options_new();
  lithify_options_add_dynamic_axis(options, "x", 0, "batch");
  lithify_result* result = nullptr;
  expect_answer(lithify_inspect_bytes(data, size, &result), result);
  result = nullptr;
  expect_answer(lithify_check_bytes(data, size, options, &result), result);
  lithify_options_free(options);
  return 0;
}
