// What the files of the Builder share.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "onnx/graph.hpp"

namespace lithify::onnx {

inline bool all_constant(std::span<const Dim> dims) { return std::ranges::all_of(dims, &Dim::is_constant); }

inline Vector<int64_t> constants(std::span<const Dim> dims) {
  Vector<int64_t> out;
  for (const Dim d : dims) out.push_back(*d.constant());
  return out;
}

/// Appends bytes to the key by which equal nodes or constants are found.
inline void append_key(std::string& key, const void* bytes, size_t n) {
  key.append(static_cast<const char*>(bytes), n);
}

}  // namespace lithify::onnx
