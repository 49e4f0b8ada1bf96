// Numbers and text out of bytes from a file. The caller has checked that the bytes are there.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

namespace lithify::archive {

/// The little-endian number at `offset`.
template <std::unsigned_integral T>
T load_le(std::span<const std::byte> bytes, size_t offset) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | static_cast<T>(static_cast<T>(bytes[offset + i]) << (8 * i)));
  return value;
}

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace lithify::archive
