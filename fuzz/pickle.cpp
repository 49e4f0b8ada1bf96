// Pickles, whatever a reader makes of them.
#include "archive/pickle.hpp"
#include "fuzz/fuzz.hpp"
#include "tests/unit/model_bytes.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lithify;
  fuzz::expect_no_fault([&] { archive::Pickle(test::record_of(fuzz::Choices(data, size).rest())).root(); });
  return 0;
}
