// The text form of ONNX graphs.
#include "fuzz/fuzz.hpp"
#include "onnx/text.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lithify;
  fuzz::expect_no_fault([&] {
    sym::Context sym;
    onnx::parse(std::string(fuzz::Choices(data, size).rest()), sym);
  });
  return 0;
}
