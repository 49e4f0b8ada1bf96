// Files with generated programs: checked and exported, in all opsets, with static and dynamic sizes.
#include <cstdio>

#include "fuzz/programs.hpp"

namespace lithify::fuzz {
namespace {

void run(Choices& choices) {
  static constexpr const char* inputs[] = {"x:float32[2,3,8,8]", "x:float32[batch=2,3,8,8]",
                                           "x:float32[n=4,3]",   "x:int64[n=3]",
                                           "x:float32[]",        "x:bool[2,n=5]"};
  const char* input = choices.of(inputs);
  const int opset = 9 + static_cast<int>(choices.below(18));
  lithify_options* options = lithify_options_new();
  lithify_options_add_input(options, input);
  lithify_options_set_opset(options, opset);
  lithify_options_set_state(options, static_cast<int>(choices.below(3)));
  const std::string text = make_program(choices);
  if (std::getenv("SHOW")) std::fprintf(stderr, "%s %d\n%s", input, opset, text.c_str());
  expect_answers(model_of(text), options);
  lithify_options_free(options);
}

}  // namespace
}  // namespace lithify::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lithify::fuzz::Choices choices(data, size);
  lithify::fuzz::run(choices);
  return 0;
}
