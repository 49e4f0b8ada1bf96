// A program of torch.export: the record with its graph, in an archive that has nothing else wrong.
#include "fuzz/archive.hpp"
#include "read/open.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lithify;
  const std::string archive = fuzz::stored_archive({{"m/models/model.json", fuzz::Choices(data, size).rest()},
                                                    {"m/archive_format", "pt2"},
                                                    {"m/archive_version", "0"},
                                                    {"m/byteorder", "little"}});
  fuzz::expect_no_fault([&] { read::open_model(fuzz::record_of(archive)); });
  return 0;
}
