#include "write/external.hpp"

namespace lithify::write {
namespace {

/// Equal for two tensors only if their bytes are: it has the memory that the pieces are made of. Views of contiguous
/// memory are equal whatever their sizes.
std::string identity(const onnx::Tensor& tensor) {
  std::string key;
  const auto add = [&key](auto number) { key.append(reinterpret_cast<const char*>(&number), sizeof number); };
  for (const onnx::Tensor::Piece& piece : tensor.pieces) {
    const TensorView& view = piece.view;
    const bool plain = !piece.scale && !piece.quantized && piece.dtype() == tensor.dtype && view.contiguous();
    add(plain);
    add(view.element(0));
    add(view.nbytes());
    if (plain) continue;
    add(view.dtype);
    add(tensor.dtype);
    add(static_cast<const void*>(piece.scale.get()));
    const Quantized quantized = piece.quantized.value_or(Quantized{.integers = DType::Undefined});
    add(quantized.integers);
    add(quantized.axis);
    add(quantized.block);
    add(quantized.part);
    add(quantized.packed);
    add(view.sizes.size());
    for (const int64_t size : view.sizes) add(size);
    for (const int64_t stride : view.strides) add(stride);
  }
  return key;
}

}  // namespace

uint64_t ExternalData::place(const onnx::Tensor& tensor) {
  const uint64_t length = tensor.nbytes();
  const uint64_t alignment = length >= (uint64_t{1} << 20) ? uint64_t{1} << 16 : uint64_t{1} << 12;
  const uint64_t offset = (size_ + alignment - 1) / alignment * alignment;
  const auto [at, is_new] = placed_.emplace(identity(tensor), offset);
  if (is_new) {
    regions_.push_back({offset, &tensor});
    size_ = offset + length;
    weight_bytes_ += length;
  }
  return at->second;
}

}  // namespace lithify::write
