#include "onnx/kernels.hpp"

#include <array>
#include <initializer_list>

namespace lithify::onnx {
namespace {

struct Kernel {
  std::string_view op;
  int first, last;
  uint32_t types;
  uint64_t inputs, outputs;
  bool takes(DType t) const {  // beyond the bits are types of PyTorch alone
    return static_cast<int>(t) < 32 && (types >> static_cast<int>(t) & 1);
  }
};

constexpr Kernel kernels[] = {
#define KERNEL(op, first, last, types, inputs, outputs) {op, first, last, types, inputs, outputs},
#include "onnx/kernels.def"
#undef KERNEL
};

const Kernel* find_kernel(std::string_view op, int opset) {
  auto [begin, end] = std::equal_range(std::begin(kernels), std::end(kernels), Kernel{op, 0, 0, 0, 0, 0},
                                       [](const Kernel& a, const Kernel& b) { return a.op < b.op; });
  for (auto k = begin; k != end; ++k)
    if (k->first <= opset && opset <= k->last) return k;
  return nullptr;
}

// Types that hold every value of a type, the cheapest first; of float64, the most exact one there is.
std::initializer_list<DType> wider(DType t) {
  static constexpr std::initializer_list<DType> bits{DType::UInt8, DType::Int32, DType::Int64, DType::Float},
      bytes{DType::Int32, DType::Int16, DType::Int64, DType::Float}, words{DType::Int64, DType::Double},
      singles{DType::Float}, none{};
  switch (t) {
    case DType::Bool:
      return bits;
    case DType::Int8:
    case DType::UInt8:
    case DType::Int16:
    case DType::UInt16:
      return bytes;
    case DType::Int32:
    case DType::UInt32:
      return words;
    case DType::BFloat16:
    case DType::Float8E4M3FN:
    case DType::Float8E4M3FNUZ:
    case DType::Float8E5M2:
    case DType::Float8E5M2FNUZ:
    case DType::Float8E8M0FNU:
    case DType::Half:
    case DType::Double:
      return singles;
    default:
      return none;
  }
}

/// The input that decides which kernel is taken.
const Value* deciding(const Kernel& kernel, std::span<Value* const> inputs) {
  for (size_t i = 0; i < inputs.size() && i < 64; ++i)
    if (inputs[i] && kernel.inputs >> i & 1) return inputs[i];
  return nullptr;
}

}  // namespace

std::optional<TypedOperands> typed_operands(std::string_view op, int opset) {
  const Kernel* kernel = find_kernel(op, opset);
  if (!kernel) return std::nullopt;
  return TypedOperands{kernel->inputs, kernel->outputs};
}

bool has_kernel(std::string_view op, int opset, DType type) {
  const Kernel* kernel = find_kernel(op, opset);
  return kernel && kernel->takes(type);
}

int opset_with_type(std::string_view op, int opset, std::span<Value* const> inputs) {
  const Kernel* kernel = find_kernel(op, opset);
  const Value* v = kernel ? deciding(*kernel, inputs) : nullptr;
  auto computes = [&](const Kernel& k) {
    const auto types = wider(v->dtype);
    return k.takes(v->dtype) || std::any_of(types.begin(), types.end(), [&](DType t) { return k.takes(t); });
  };
  if (!v || static_cast<int>(v->dtype) > 16 || computes(*kernel)) return 0;
  for (const Kernel& k : kernels)
    if (k.op == op && k.first > opset && computes(k)) return k.first;
  return 0;
}

std::optional<Widening> widening(std::string_view op, int opset, std::span<Value* const> inputs) {
  const Kernel* kernel = find_kernel(op, opset);
  if (!kernel) return std::nullopt;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Widening w{{kernel->inputs, kernel->outputs}, DType::Undefined, DType::Undefined};
    if (!inputs[i] || !w.input(i)) continue;
    w.from = inputs[i]->dtype;
    if (kernel->takes(w.from)) return std::nullopt;
    for (DType to : wider(w.from))
      if (kernel->takes(to)) {
        w.to = to;
        return w;
      }
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace lithify::onnx
