#include "onnx/finite.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

namespace lithify::onnx {
namespace {

constexpr int64_t most_scanned = int64_t{1} << 22;

}  // namespace

bool may_be_infinite(const Value* v, double from) {
  if (v->is_constant()) {
    if (v->constant->numel() > most_scanned) return true;
    Vector<double> all = v->constant->reals();
    return std::any_of(all.begin(), all.end(), [&](double e) { return std::abs(e) >= from; });
  }
  if (!v->producer) return v->kind == Value::Kind::Input;
  static const std::set<std::string_view> moves{"Cast",      "Reshape", "Expand",  "Unsqueeze", "Squeeze",
                                                "Transpose", "Slice",   "Gather",  "Identity",  "Split",
                                                "Pad",       "Trilu",   "CastLike"};
  const Node& node = *v->producer;
  if (moves.contains(node.op_type)) return may_be_infinite(node.inputs[0], from);
  size_t first = node.op_type == "Where" ? 1 : 0;
  if (first == 0 && node.op_type != "Add" && node.op_type != "Mul" && node.op_type != "Concat") return false;
  return std::any_of(node.inputs.begin() + static_cast<std::ptrdiff_t>(first), node.inputs.end(),
                     [&](const Value* input) { return may_be_infinite(input, from); });
}

}  // namespace lithify::onnx
