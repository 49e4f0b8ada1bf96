// What the fuzz targets share: bytes as choices, and what may come of an input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "archive/zip.hpp"
#include "base/diagnostic.hpp"

namespace lithify::fuzz {

/// The bytes of an input, consumed as choices. Behind their end, all of them are 0.
class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : bytes_(data, size) {}

  bool empty() const { return bytes_.empty(); }
  uint8_t byte() {
    if (bytes_.empty()) return 0;
    const uint8_t b = bytes_[0];
    bytes_ = bytes_.subspan(1);
    return b;
  }
  /// A number below `n`.
  size_t below(size_t n) { return (size_t{byte()} << 8 | byte()) % n; }
  bool one_in(size_t n) { return below(n) == 0; }
  template <class Range>
  const auto& of(const Range& range) {
    return range[below(std::size(range))];
  }
  std::string_view rest() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

 private:
  std::span<const uint8_t> bytes_;
};

/// Bytes in a buffer of exactly their size, so that a sanitizer sees a read past the end.
inline archive::Record record_of(std::string_view bytes) {
  const auto source = std::as_bytes(std::span(bytes));
  auto owner = std::make_shared<std::vector<std::byte>>(source.begin(), source.end());
  return {*owner, owner};
}

/// Runs what may end in a diagnostic. One that reports a fault of the exporter is a finding.
template <class Action>
void expect_no_fault(Action action) {
  try {
    action();
  } catch (const Error& e) {
    for (const Diagnostic& d : e.diagnostics())
      if (d.code == Code::Internal) std::abort();
  }
}

}  // namespace lithify::fuzz
