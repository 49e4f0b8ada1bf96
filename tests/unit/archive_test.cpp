#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "archive/mapped_file.hpp"
#include "archive/zip.hpp"
#include "model_bytes.hpp"

using namespace lithify;
using namespace lithify::test;
using archive::Archive;
using archive::MappedFile;

namespace {

Archive open(const std::string& bytes) { return Archive(record_of(bytes)); }
std::optional<Code> code_of_opening(const std::string& bytes) {
  return code_of([&] { open(bytes); });
}
std::optional<Code> code_of_reading(const std::string& bytes, std::string_view name) {
  return code_of([&] { open(bytes).read(name); });
}

const std::string long_text(5000, 'x');

}  // namespace

TEST_CASE("a mapped file must be a regular file with contents") {
  const std::string path = (std::filesystem::temp_directory_path() / "lithify_mapped_file_test").string();
  std::ofstream(path).close();
  CHECK(code_of([&] { MappedFile::open(path); }) == Code::CannotOpen);
  std::ofstream(path) << "abc";
  CHECK(archive::as_text(MappedFile::open(path)->bytes()) == "abc");
  std::filesystem::remove(path);
  CHECK(code_of([&] { MappedFile::open(path); }) == Code::CannotOpen);
  CHECK(code_of([&] { MappedFile::open("/"); }) == Code::CannotOpen);
  CHECK(code_of([&] { MappedFile::open("/dev/null"); }) == Code::CannotOpen);
}

TEST_CASE("records are read by name, stored or deflated") {
  for (bool zip64_end : {false, true})
    for (bool zip64 : {false, true}) {
      const Archive a = open(zip_of({{.name = "top/b", .data = "stored", .zip64 = zip64},
                                     {.name = "top/a/c", .data = long_text, .deflate = true, .zip64 = zip64},
                                     {.name = "top/empty", .data = "", .streamed = false, .zip64 = zip64}},
                                    zip64_end));
      CHECK(a.top() == "top");
      CHECK(a.entries().size() == 3);
      CHECK(a.read("b").text() == "stored");
      CHECK(a.read("a/c").text() == long_text);
      CHECK(a.read("empty").text() == "");
      CHECK(a.entries_under("a/").size() == 1);
      CHECK_FALSE(a.has("top/b"));
      CHECK_FALSE(a.read_if_present("c"));
      CHECK(code_of([&] { a.read("c"); }) == Code::BadArchive);
    }
}

TEST_CASE("a stored record is a view of the archive, and outlives the handle") {
  const archive::Record bytes = record_of(zip_of({{.name = "t/a", .data = "weights"}}));
  archive::Record record;
  {
    const Archive a(bytes);
    record = a.read("a");
  }
  CHECK(record.bytes.data() > bytes.bytes.data());
  CHECK(record.bytes.data() < bytes.bytes.data() + bytes.bytes.size());
  CHECK(record.text() == "weights");
}

TEST_CASE("an archive without a common folder is flat; folders are no records") {
  const Archive flat = open(zip_of({{.name = "version", .data = "1"}, {.name = "a/b", .data = "2"}}));
  CHECK(flat.top() == "");
  CHECK(flat.read("a/b").text() == "2");
  const Archive zipped_again = open(zip_of({{.name = "m/", .data = ""}, {.name = "m/a", .data = "1"}}));
  CHECK(zipped_again.top() == "m");
  CHECK(zipped_again.entries().size() == 1);
}

TEST_CASE("an archive inside an archive") {
  const Archive outer = open(zip_of({{.name = "t/inner.pt", .data = zip_of({{.name = "u/x", .data = "deep"}})}}));
  CHECK(Archive(outer.read("inner.pt")).read("x").text() == "deep");
}

TEST_CASE("checksums are compared, zero means none") {
  CHECK(code_of_reading(zip_of({{.name = "t/a", .data = "abc", .crc = 1}}), "a") == Code::BadChecksum);
  CHECK(code_of_reading(zip_of({{.name = "t/a", .data = "abc", .crc = 0}}), "a") == std::nullopt);
  CHECK(code_of_reading(zip_of({{.name = "t/a", .data = long_text, .deflate = true, .crc = 1}}), "a") ==
        Code::BadChecksum);

  std::vector<ZipEntry> entries;
  for (int i = 0; i < 40; ++i) entries.push_back({.name = "t/" + std::to_string(i), .data = std::string(1 << 18, 'a')});
  const Archive good = open(zip_of(entries));
  good.verify(good.entries(), 4);
  entries[37].crc = 5;
  const Archive damaged = open(zip_of(entries));
  CHECK(code_of([&] { damaged.verify(damaged.entries(), 4); }) == Code::BadChecksum);
  CHECK(code_of([&] { damaged.read("37", Archive::Check::Later); }) == std::nullopt);
}

TEST_CASE("a flipped bit of stored data is noticed") {
  const std::string data = "some weights that matter";
  std::string bytes = zip_of({{.name = "t/a", .data = data}});
  const size_t begin = bytes.find(data);
  for (size_t bit = 0; bit < 8 * data.size(); ++bit) {
    std::string damaged = bytes;
    damaged[begin + bit / 8] = static_cast<char>(damaged[begin + bit / 8] ^ (1 << bit % 8));
    CHECK(code_of_reading(damaged, "a") == Code::BadChecksum);
  }
}

TEST_CASE("every prefix of an archive is refused") {
  for (bool zip64_end : {false, true}) {
    const std::string bytes =
        zip_of({{.name = "t/a", .data = "abc"}, {.name = "t/b", .data = long_text, .deflate = true, .zip64 = true}},
               zip64_end);
    for (size_t n = 0; n < bytes.size(); ++n) CHECK(code_of_opening(bytes.substr(0, n)) == Code::BadArchive);
  }
}

TEST_CASE("any flipped bit ends in a diagnostic or in the same contents") {
  const std::string bytes =
      zip_of({{.name = "t/a", .data = "abc"}, {.name = "t/b", .data = long_text, .deflate = true, .zip64 = true}});
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    code_of([&] {
      const Archive a = open(damaged);
      for (const Archive::Entry& e : a.entries()) {
        const archive::Record record = a.read(e.name);
        CHECK(record.bytes.size() == e.size);
      }
    });
  }
}

TEST_CASE("records may not overlap") {
  // Two entries for one local header.
  CHECK(code_of_opening(zip_of({{.name = "t/a", .data = "abc"}, {.name = "t/a", .data = "abc", .header = 0}})) ==
        Code::BadArchive);
  // A whole record quoted in the data of another.
  const ZipEntry inner{.name = "t/b", .data = "inner"};
  const std::string quoted = zip_local(inner, inner.data, 0);
  const uint64_t at = 30 + 3;
  CHECK(code_of_opening(zip_of({{.name = "t/a", .data = quoted}, {.name = "t/b", .data = "inner", .header = at}})) ==
        Code::BadArchive);
  // Data that runs on into the next record.
  CHECK(code_of_opening(zip_of({{.name = "t/a", .data = "abc", .size = 40, .stored_size = 40},
                                {.name = "t/b", .data = long_text}})) == Code::BadArchive);
}

TEST_CASE("sizes that lie are refused") {
  const auto one = [](ZipEntry e) { return zip_of({std::move(e)}); };
  CHECK(code_of_opening(one({.name = "t/a", .data = "abc", .size = 4})) == Code::BadArchive);
  CHECK(code_of_opening(one({.name = "t/a", .data = "abc", .size = 4, .stored_size = 4})) == Code::BadArchive);
  for (uint64_t size : {uint64_t{1} << 40, ~uint64_t{0}, ~uint64_t{0} - 30})
    CHECK(code_of_opening(one({.name = "t/a", .data = "abc", .size = size, .stored_size = size, .zip64 = true})) ==
          Code::BadArchive);
  CHECK(code_of_opening(one({.name = "t/a", .data = "abc", .header = ~uint64_t{0} - 10, .zip64 = true})) ==
        Code::BadArchive);
  CHECK(code_of_reading(one({.name = "t/a", .data = long_text, .deflate = true, .size = 4999}), "a") ==
        Code::BadArchive);
  CHECK(code_of_reading(one({.name = "t/a", .data = long_text, .deflate = true, .size = 5001}), "a") ==
        Code::BadArchive);
  CHECK(code_of_opening(one({.name = "t/a", .data = long_text, .deflate = true, .size = 1 << 20})) == Code::BadArchive);
  CHECK(code_of_reading(one({.name = "t/a", .data = "not deflated", .size = 100, .method = 8}), "a") ==
        Code::BadArchive);
}

TEST_CASE("inflating stops at a budget") {
  const std::string junk(1 << 20, 'j');
  std::vector<ZipEntry> entries;
  for (const char* name : {"t/a", "t/b", "t/c"})
    entries.push_back(
        {.name = name, .data = junk, .size = uint64_t{600} << 20, .stored_size = junk.size(), .method = 8});
  const Archive a = open(zip_of(entries));
  CHECK(code_of([&] { a.read("a"); }) == Code::BadArchive);
  CHECK(code_of([&] { a.read("b"); }) == Code::LimitExceeded);
}

TEST_CASE("what no model file has is refused") {
  const auto one = [](ZipEntry e) { return code_of_opening(zip_of({std::move(e)})); };
  CHECK(one({.name = "t/a", .data = "abc", .flags = 1}) == Code::BadArchive);
  CHECK(one({.name = "t/a", .data = "abc", .method = 12}) == Code::BadArchive);
  CHECK(one({.name = "t/a", .data = "abc", .local_name = "t/b"}) == Code::BadArchive);
  CHECK(one({.name = "", .data = "abc"}) == Code::BadArchive);
  CHECK(one({.name = "/etc/passwd", .data = "abc"}) == Code::BadArchive);
  CHECK(one({.name = "t/../a", .data = "abc"}) == Code::BadArchive);
  CHECK(one({.name = "t/..", .data = "abc"}) == Code::BadArchive);
  CHECK(one({.name = "t/a\n", .data = "abc"}) == Code::BadArchive);
  CHECK(one({.name = std::string("t/a\0b", 5), .data = "abc"}) == Code::BadArchive);
  CHECK(code_of_opening(zip_of({{.name = "t/a", .data = "1"}, {.name = "t/a", .data = "2"}})) == Code::BadArchive);
  CHECK(code_of_opening("junk" + zip_of({{.name = "t/a", .data = "1"}})) == Code::BadArchive);
  CHECK(code_of_opening(zip_of({})) == Code::BadArchive);
}
