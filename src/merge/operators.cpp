#include "merge/operators.hpp"

#include <algorithm>
#include <set>
#include <string_view>

namespace lithify::merge {
namespace {

using program::Expr;

/// "aten::add_.Tensor"; empty for what is not an operator.
std::string_view full_name(const Node& operation) {
  const bool named = !operation.value && operation.expr && operation.expr->kind == Expr::Kind::Operator;
  return named ? std::string_view(operation.expr->name) : std::string_view();
}

/// "add_" of "aten::add_.Tensor"; empty for other operators than those of ATen.
std::string_view aten_name(std::string_view name) {
  if (!name.starts_with("aten::")) return {};
  name.remove_prefix(6);
  return name.substr(0, name.find('.'));
}

std::string_view aten_name(const Node& operation) { return aten_name(full_name(operation)); }

/// Operators on lists that change them.
const std::set<std::string_view> list_writes = {"append", "extend",  "insert", "pop",       "clear",
                                                "remove", "reverse", "sort",   "_set_item", "Delete"};

const std::set<std::string_view> views = {"alias",        "as_strided", "chunk",     "contiguous", "detach",
                                          "diagonal",     "expand",     "expand_as", "flatten",    "hsplit",
                                          "imag",         "mT",         "moveaxis",  "movedim",    "narrow",
                                          "numpy_T",      "permute",    "ravel",     "real",       "reshape",
                                          "reshape_as",   "select",     "slice",     "split",      "split_with_sizes",
                                          "squeeze",      "swapaxes",   "swapdims",  "t",          "tensor_split",
                                          "to",           "transpose",  "type_as",   "unbind",     "unflatten",
                                          "unfold",       "unsqueeze",  "view",      "view_as",    "view_as_complex",
                                          "view_as_real", "vsplit"};

const std::set<std::string_view> on_sizes = {"Int", "IntImplicit", "Float", "ScalarImplicit", "dim", "numel", "size"};

const std::set<std::string_view> on_numbers = {
    "aten::add",   "aten::sub",     "aten::mul",  "aten::neg",         "aten::floordiv", "aten::remainder",
    "aten::div",   "aten::truediv", "aten::pow",  "aten::sqrt",        "aten::ceil",     "aten::floor",
    "prim::pow",   "prim::max",     "prim::min",  "prim::abs",         "aten::eq",       "aten::ne",
    "aten::lt",    "aten::le",      "aten::gt",   "aten::ge",          "aten::Int",      "aten::IntImplicit",
    "aten::Float", "aten::round",   "aten::log2", "prim::NumToTensor", "aten::__not__",  "aten::ScalarImplicit"};

const std::set<std::string_view> resizing = {"as_strided_", "resize_",   "resize_as_", "set_",       "squeeze_",
                                             "swapaxes_",   "swapdims_", "t_",         "transpose_", "unsqueeze_"};

const std::set<std::string_view> to_lists = {"unbind",           "split",        "chunk",
                                             "split_with_sizes", "tensor_split", "unsafe_split",
                                             "unsafe_chunk",     "hsplit",       "unsafe_split_with_sizes",
                                             "vsplit",           "dsplit",       "split_with_sizes_copy"};

/// Operands by position.
struct Operands {
  std::string_view name;
  size_t first, last;
  bool negative;  ///< numbers below 0 may be among them
};
constexpr Operands varying[] = {
    {"roll", 1, 1, true},
    {"slice", 2, 3, true},
    {"select", 2, 2, false},
    {"narrow", 2, 3, false},
    {"view", 1, 1, false},
    {"reshape", 1, 1, false},
    {"expand", 1, 1, false},
    {"zeros", 0, 0, false},
    {"ones", 0, 0, false},
    {"full", 0, 0, false},
    {"empty", 0, 0, false},
    {"new_zeros", 1, 1, false},
    {"new_ones", 1, 1, false},
    {"new_full", 1, 1, false},
    {"new_empty", 1, 1, false},
    {"arange", 0, 2, false},
    {"constant_pad_nd", 1, 1, false},
};

}  // namespace

std::optional<size_t> written_operand(const Node& operation) {
  const std::string_view name = aten_name(operation);
  if (name.empty() || operation.items.empty()) return std::nullopt;
  const std::vector<std::string>& keywords = operation.expr->keywords;
  if (const auto out = std::ranges::find(keywords, "out"); out != keywords.end())
    return operation.items.size() - keywords.size() + static_cast<size_t>(out - keywords.begin());
  const bool in_place = name.ends_with('_') && !name.ends_with("__");
  return in_place || list_writes.contains(name) ? std::optional<size_t>(0) : std::nullopt;
}

const Node* shares_memory_with(const Node& operation) {
  if (operation.value) return &operation;  // a list whose elements get names
  if (const std::optional<size_t> written = written_operand(operation)) return &operation.items[*written];
  return views.contains(aten_name(operation)) && !operation.items.empty() ? &operation.items[0] : nullptr;
}

bool is_on_sizes(const Node& operation) {
  if (operation.value) return false;
  const Expr& e = *operation.expr;
  return e.kind == Expr::Kind::List || e.name == "prim::NumToTensor" || on_sizes.contains(aten_name(operation));
}

bool reads_size(const Node& operation) { return full_name(operation) == "aten::size" && operation.items.size() == 2; }

bool is_on_numbers(const Node& operation) { return on_numbers.contains(full_name(operation)); }

bool is_on_numbers(const Expr& operation) {
  return on_numbers.contains(operation.name) || operation.name == "aten::size" || operation.name == "aten::len";
}

bool gives_list(const Expr& operation) {
  return operation.kind == Expr::Kind::Operator && to_lists.contains(aten_name(operation.name));
}

bool changes_sizes(const Node& operation) { return resizing.contains(aten_name(operation)); }

bool may_vary(const Node& operation, size_t operand, int64_t integer) {
  const std::string_view name = aten_name(operation);
  return std::ranges::any_of(varying, [&](const Operands& row) {
    return row.name == name && operand >= row.first && operand <= row.last && (integer >= 0 || row.negative);
  });
}

}  // namespace lithify::merge
