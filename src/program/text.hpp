// What the parser, the printer and the verifier share about the serialized TorchScript text.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "base/diagnostic.hpp"

namespace lithify::program {

/// How deep blocks, expressions and types may nest in one another.
inline constexpr int kMaxNesting = 200;

/// Calls whose spelling does not follow from the operator's name: text, operator. Every other operator is written
/// torch.NAME for aten::NAME and ops.NS.NAME for NS::NAME; a known overload follows as .OVERLOAD.
inline constexpr std::pair<std::string_view, std::string_view> kSpellings[] = {
    {"int", "aten::Int"},
    {"float", "aten::Float"},
    {"bool", "aten::Bool"},
    {"str", "aten::str"},
    {"sorted", "aten::sorted"},
    {"print", "prim::Print"},
    {"fork", "prim::fork"},
    {"awaitable", "prim::awaitable"},
    {"torch.autograd.grad", "aten::grad"},
    {"torch.autograd.backward", "aten::backward"},
};

/// Written as a method of its first argument: x.tolist().
inline constexpr std::string_view kToList = "prim::tolist";

/// Qualified names of the program's own classes and functions begin so, and those of C++ classes with the second.
inline constexpr std::string_view kOwnPrefix = "__torch__.";
inline constexpr std::string_view kNativeClassPrefix = "__torch__.torch.classes.";

constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_word(char c) { return is_letter(c) || is_digit(c); }
/// Whether an attribute can be written as .name.
constexpr bool is_identifier(std::string_view s) {
  return !s.empty() && is_letter(s[0]) && std::ranges::all_of(s, is_word);
}

/// The row of a table of pairs whose first member is `key`; nullptr when there is none.
template <class Row, size_t N, class Key>
constexpr const Row* find_row(const Row (&table)[N], const Key& key) {
  const Row* row = std::ranges::find(table, key, &Row::first);
  return row == std::end(table) ? nullptr : row;
}

/// Without the parts that make names of classes unique within one process: "__torch__.___torch_mangle_3.Net".
std::string unmangled(std::string_view name);

/// A diagnostic about a byte of a record's text: "code/a.py, line 3, column 5: what".
Diagnostic text_diagnostic(Code code, std::string_view record, std::string_view text, size_t pos,
                           std::string_view what);

}  // namespace lithify::program
