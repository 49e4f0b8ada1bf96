// Zip archives and pickles made in memory, honest or not, for the tests of the readers.
#pragma once

#include <libdeflate.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "archive/zip.hpp"
#include "base/diagnostic.hpp"

namespace lithify::test {

inline std::string le(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i, value >>= 8) out += static_cast<char>(value & 0xff);
  return out;
}

/// Bytes in a buffer of exactly their size, so that a sanitizer sees a read past the end.
inline archive::Record record_of(std::string_view bytes) {
  const auto source = std::as_bytes(std::span(bytes));
  auto owner = std::make_shared<std::vector<std::byte>>(source.begin(), source.end());
  return {*owner, owner};
}

/// The code of the error that `action` ends in; nothing when there is none.
template <class Action>
std::optional<Code> code_of(Action action) {
  try {
    action();
    return std::nullopt;
  } catch (const Error& e) {
    return e.first().code;
  }
}

/// One record, and the lies to tell about it.
struct ZipEntry {
  std::string name;
  std::string data;
  bool deflate = false;
  bool streamed = true;  ///< zeros in the local header, as PyTorch writes it
  std::optional<uint32_t> crc = {};
  std::optional<uint64_t> size = {};
  std::optional<uint64_t> stored_size = {};
  std::optional<uint64_t> header = {};  ///< where the directory says the local header is
  std::optional<std::string> local_name = {};
  uint16_t flags = 0;
  std::optional<uint16_t> method = {};
  bool zip64 = false;  ///< sizes and place in the extra field of the directory
};

inline std::string deflated(const std::string& data) {
  std::unique_ptr<libdeflate_compressor, decltype(&libdeflate_free_compressor)> c(libdeflate_alloc_compressor(6),
                                                                                  libdeflate_free_compressor);
  std::string out(libdeflate_deflate_compress_bound(c.get(), data.size()), '\0');
  out.resize(libdeflate_deflate_compress(c.get(), data.data(), data.size(), out.data(), out.size()));
  return out;
}

inline std::string zip_local(const ZipEntry& e, const std::string& stored, uint32_t crc) {
  const uint16_t flags = static_cast<uint16_t>(e.flags | 0x800 | (e.streamed ? 8 : 0));
  const std::string name = e.local_name.value_or(e.name);
  const std::string sizes =
      e.streamed ? std::string(12, '\0')
                 : le(crc, 4) + le(e.stored_size.value_or(stored.size()), 4) + le(e.size.value_or(e.data.size()), 4);
  return "PK\x03\x04" + le(0, 2) + le(flags, 2) + le(e.method.value_or(e.deflate ? 8 : 0), 2) + le(0, 4) + sizes +
         le(name.size(), 2) + le(0, 2) + name + stored;
}

/// `zip64_end` writes the two zip64 end records that PyTorch always writes.
inline std::string zip_of(const std::vector<ZipEntry>& entries, bool zip64_end = true) {
  std::string out, directory;
  for (const ZipEntry& e : entries) {
    const std::string stored = e.deflate ? deflated(e.data) : e.data;
    const uint32_t crc = e.crc.value_or(libdeflate_crc32(0, e.data.data(), e.data.size()));
    const uint64_t header = e.header.value_or(out.size());
    const uint64_t stored_size = e.stored_size.value_or(stored.size());
    const uint64_t size = e.size.value_or(e.data.size());
    out += zip_local(e, stored, crc);
    const std::string extra = e.zip64 ? le(1, 2) + le(24, 2) + le(size, 8) + le(stored_size, 8) + le(header, 8) : "";
    const auto field = [&](uint64_t value) { return le(e.zip64 ? 0xffffffff : value, 4); };
    directory += "PK\x01\x02" + le(0, 4) + le(e.flags | 0x800 | (e.streamed ? 8 : 0), 2) +
                 le(e.method.value_or(e.deflate ? 8 : 0), 2) + le(0, 4) + le(crc, 4) + field(stored_size) +
                 field(size) + le(e.name.size(), 2) + le(extra.size(), 2) + le(0, 10) + field(header) + e.name + extra;
  }
  const size_t begin = out.size();
  out += directory;
  if (zip64_end) {
    const size_t record = out.size();
    out += "PK\x06\x06" + le(44, 8) + le(0, 12) + le(entries.size(), 8) + le(entries.size(), 8) +
           le(directory.size(), 8) + le(begin, 8);
    out += "PK\x06\x07" + le(0, 4) + le(record, 8) + le(1, 4);
  }
  return out + "PK\x05\x06" + le(0, 4) + le(entries.size(), 2) + le(entries.size(), 2) + le(directory.size(), 4) +
         le(begin, 4) + le(0, 2);
}

/// Pieces of pickles; each pushes one value, so they are put together by concatenation.
namespace pickle {

inline std::string integer(int64_t v) { return "\x8a\x08" + le(static_cast<uint64_t>(v), 8); }
inline std::string text(std::string_view s) { return "X" + le(s.size(), 4) + std::string(s); }
inline std::string global(std::string_view module, std::string_view name) {
  return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}
inline std::string tuple(std::string_view items) { return "(" + std::string(items) + "t"; }
inline std::string list(std::string_view items) { return "](" + std::string(items) + "e"; }
inline std::string dict(std::string_view pairs) { return "}(" + std::string(pairs) + "u"; }
inline std::string call(std::string_view function, std::string_view args) {
  return std::string(function) + tuple(args) + "R";
}
inline std::string object(std::string_view module, std::string_view name, std::string_view state) {
  return global(module, name) + ")\x81" + std::string(state) + "b";
}
inline std::string integers(const std::vector<int64_t>& values) {
  std::string items;
  for (int64_t v : values) items += integer(v);
  return tuple(items);
}
inline std::string storage(std::string_view type, std::string_view key, int64_t numel) {
  return tuple(text("storage") + global("torch", type) + text(key) + text("cpu") + integer(numel)) + "Q";
}
inline std::string tensor(std::string_view storage, int64_t offset, const std::vector<int64_t>& sizes,
                          const std::vector<int64_t>& strides) {
  return call(global("torch._utils", "_rebuild_tensor_v2"), std::string(storage) + integer(offset) + integers(sizes) +
                                                                integers(strides) + "\x89" +
                                                                call(global("collections", "OrderedDict"), ""));
}
inline std::string whole(std::string_view value) { return "\x80\x02" + std::string(value) + "."; }

}  // namespace pickle

/// A traced model of float32[batch, seq, 4] that returns this, after some statements.
inline std::string traced(int64_t batch, int64_t seq, const std::string& returned, const std::string& before = "",
                          const std::string& type = "Tensor") {
  const std::string sample =
      pickle::tensor(pickle::storage("FloatStorage", "0", batch * seq * 4), 0, {batch, seq, 4}, {seq * 4, 4, 1});
  return zip_of({{.name = "net/version", .data = "3\n"},
                 {.name = "net/byteorder", .data = "little"},
                 {.name = "net/constants.pkl", .data = "\x80\x02)."},
                 {.name = "net/data.pkl", .data = pickle::whole(pickle::object("__torch__", "Net", pickle::dict("")))},
                 {.name = "net/traced_inputs/0", .data = ""},
                 {.name = "net/traced_inputs.pkl",
                  .data = pickle::whole(pickle::dict(pickle::text("forward") + pickle::list(sample)))},
                 {.name = "net/code/__torch__.py",
                  .data = "class Net(Module):\n"
                          "  __parameters__ = []\n"
                          "  __buffers__ = []\n"
                          "  def forward(self: __torch__.Net,\n"
                          "    x: Tensor) -> " +
                          type + ":\n" + before + "    return " + returned + "\n"}});
}

}  // namespace lithify::test
