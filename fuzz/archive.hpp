// Archives around records, as small as they can be.
#pragma once

#include <libdeflate.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace lithify::fuzz {

inline std::string little_endian(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i, value >>= 8) out += static_cast<char>(value & 0xff);
  return out;
}

/// A zip of stored records.
inline std::string stored_archive(std::initializer_list<std::pair<std::string_view, std::string_view>> records) {
  std::string out, directory;
  uint64_t count = 0;
  for (const auto& [name, contents] : records) {
    const uint32_t crc = libdeflate_crc32(0, contents.data(), contents.size());
    const std::string sizes = little_endian(crc, 4) + little_endian(contents.size(), 4) +
                              little_endian(contents.size(), 4) + little_endian(name.size(), 2);
    directory += std::string("PK\1\2\0\0\0\0\0\0\0\0\0\0\0\0", 16) + sizes + std::string(12, '\0') +
                 little_endian(out.size(), 4) + std::string(name);
    out += std::string("PK\3\4\0\0\0\0\0\0\0\0\0\0", 14) + sizes + std::string(2, '\0') + std::string(name) +
           std::string(contents);
    ++count;
  }
  return out + directory + std::string("PK\5\6\0\0\0\0", 8) + little_endian(count, 2) + little_endian(count, 2) +
         little_endian(directory.size(), 4) + little_endian(out.size(), 4) + std::string(2, '\0');
}

}  // namespace lithify::fuzz
