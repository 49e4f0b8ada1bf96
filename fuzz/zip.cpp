// The directory and the records of a zip archive.
#include "fuzz/fuzz.hpp"
#include "tests/unit/model_bytes.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lithify;
  fuzz::expect_no_fault([&] {
    const archive::Archive archive(test::record_of(fuzz::Choices(data, size).rest()));
    for (const archive::Archive::Entry& entry : archive.entries())
      fuzz::expect_no_fault([&] { archive.read(entry.name); });
  });
  return 0;
}
