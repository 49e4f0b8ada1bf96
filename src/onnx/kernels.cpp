#include "onnx/kernels.hpp"

namespace lithify::onnx {

std::optional<Widening> widening(std::string_view, int, std::span<Value* const>) { return std::nullopt; }

}  // namespace lithify::onnx
