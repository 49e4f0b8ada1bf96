// A program of torch.export: the record with its graph, in an archive that has nothing else wrong.
#include "fuzz/fuzz.hpp"
#include "read/open.hpp"
#include "tests/unit/model_bytes.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lithify;
  const std::string archive =
      test::zip_of({{.name = "m/models/model.json", .data = std::string(fuzz::Choices(data, size).rest())},
                    {.name = "m/archive_format", .data = "pt2"},
                    {.name = "m/archive_version", .data = "0"},
                    {.name = "m/byteorder", .data = "little"}});
  fuzz::expect_no_fault([&] { read::open_model(test::record_of(archive)); });
  return 0;
}
