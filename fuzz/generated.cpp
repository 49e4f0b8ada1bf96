// Generated programs through evaluation, rewrites and the verifier, in all opsets.
#include <cstdio>

#include "fuzz/programs.hpp"
#include "tests/unit/module.hpp"

namespace lithify::fuzz {
namespace {

void run(Choices& choices) {
  static constexpr std::string_view inputs[] = {"x:float32[2,3,8,8]", "x:float32[batch=2,3,8,8]",
                                                "x:float32[n=4,3]",   "x:int64[n=3]",
                                                "x:float32[]",        "x:bool[2,n=5]"};
  ExportOptions options;
  options.inputs = {std::string(choices.of(inputs))};
  options.opset = 9 + static_cast<int>(choices.below(18));
  const std::string text = make_program(choices);
  if (std::getenv("SHOW")) std::fprintf(stderr, "%s %d\n%s", options.inputs[0].c_str(), options.opset, text.c_str());
  for (const Diagnostic& d : test::diagnostics_of(text, options))
    if (d.code == Code::Internal) std::abort();
}

}  // namespace
}  // namespace lithify::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lithify::fuzz::Choices choices(data, size);
  lithify::fuzz::run(choices);
  return 0;
}
