// What the fuzz targets share: bytes as choices, and what may come of an input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "base/diagnostic.hpp"
#include "lithify/lithify.h"

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

/// A fault of the exporter.
[[noreturn]] inline void finding(const char* message) {
  std::fprintf(stderr, "%s\n", message);
  std::abort();
}

/// Runs what may end in a diagnostic. One that reports a fault of the exporter is a finding.
template <class Action>
void expect_no_fault(Action action) {
  try {
    action();
  } catch (const Error& e) {
    for (const Diagnostic& d : e.diagnostics())
      if (d.code == Code::Internal) finding(d.message.c_str());
  }
}

/// What a call of the C ABI has returned. An internal error is a finding; every other answer will do.
inline void expect_answer(lithify_status status, lithify_result* result) {
  for (size_t i = 0; i < lithify_result_message_count(result); ++i)
    if (std::string_view(lithify_result_message_code(result, i)) == "LTH099")
      finding(lithify_result_message(result, i));
  if (status == LITHIFY_ERROR_INTERNAL) finding("an internal error without a message");
  lithify_result_free(result);
}

/// Inspects, checks and exports a file.
inline void expect_answers(std::string_view file, const lithify_options* options) {
  lithify_result* result = nullptr;
  expect_answer(lithify_inspect_bytes(file.data(), file.size(), &result), result);
  expect_answer(lithify_check_bytes(file.data(), file.size(), options, &result), result);
  expect_answer(lithify_export_bytes(file.data(), file.size(), nullptr, options, &result), result);
}

}  // namespace lithify::fuzz
