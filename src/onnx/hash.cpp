#include "onnx/hash.hpp"

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <unordered_map>

namespace lithify::onnx {
namespace {

// Larger constants are known by where they are in memory. What is computed at export is mostly smaller than this.
constexpr size_t small_bytes = size_t{1} << 20;

class Hash {
 public:
  void add(std::unsigned_integral auto v) {
    state_ = (state_ ^ uint64_t{v}) * 0x9e3779b97f4a7c15;  // the golden ratio: odd, and its bits follow no pattern
    state_ ^= state_ >> 32;
  }
  void add(std::string_view text) { add_bytes(std::as_bytes(std::span<const char>(text))); }
  void add_bytes(std::span<const std::byte> bytes) {
    add(bytes.size());
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), sizeof(uint64_t)))) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data(), std::min(bytes.size(), sizeof word));
      add(word);
    }
  }
  void add(float v) { add(uint64_t{std::bit_cast<uint32_t>(v)}); }
  template <class T>
  void add_all(const Vector<T>& items) {
    add(items.size());
    for (const T& item : items)
      if constexpr (std::is_integral_v<T>)
        add(static_cast<uint64_t>(item));
      else
        add(item);
  }
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0;
};

uint64_t hash_of(const Tensor& tensor) {
  Hash h;
  h.add(static_cast<uint64_t>(tensor.dtype));
  h.add_all(tensor.sizes);
  for (const Tensor::Piece& piece : tensor.pieces) {
    if (tensor.nbytes() <= small_bytes) {
      h.add_bytes(piece.view.dense_bytes());
    } else {
      h.add(std::bit_cast<uintptr_t>(piece.view.storage->bytes.data()));
      h.add(static_cast<uint64_t>(piece.view.offset));
      h.add_all(piece.view.sizes);
      h.add_all(piece.view.strides);
    }
    if (piece.scale) h.add_all(*piece.scale);
  }
  return h.value();
}

class Hasher {
 public:
  /// The order of nodes says nothing: a value is known by what it is computed from.
  uint64_t of(const Graph& graph) {
    ++depth_;
    for (size_t i = 0; i < graph.inputs.size(); ++i) know(graph.inputs[i], depth_, i);
    uint64_t sum = 0;
    for (const Node* n : graph.nodes) {
      const uint64_t node = of(*n);
      for (size_t i = 0; i < n->outputs.size(); ++i) know(n->outputs[i], node, i);
      sum += node;
    }
    --depth_;
    Hash h;
    h.add(graph.inputs.size());
    h.add(graph.nodes.size());
    h.add(sum);
    h.add(graph.outputs.size());
    for (const Value* v : graph.outputs) h.add(of(v));
    return h.value();
  }

 private:
  uint64_t of(const Node& node) {
    Hash h;
    h.add(node.domain);
    h.add(node.op_type);
    h.add(node.attributes.size());
    for (const Attribute& a : node.attributes) {
      h.add(a.name);
      h.add(a.data.index());
      std::visit([&](const auto& data) { add(data, h); }, a.data);
    }
    h.add(node.inputs.size());
    for (const Value* v : node.inputs) h.add(of(v));
    h.add(node.outputs.size());
    return h.value();
  }

  static void add(int64_t v, Hash& h) { h.add(static_cast<uint64_t>(v)); }
  static void add(float v, Hash& h) { h.add(v); }
  static void add(const std::string& v, Hash& h) { h.add(v); }
  template <class T>
  static void add(const Vector<T>& v, Hash& h) {
    h.add_all(v);
  }
  static void add(const std::shared_ptr<const Tensor>& v, Hash& h) { h.add(hash_of(*v)); }
  void add(const std::shared_ptr<Graph>& v, Hash& h) { h.add(of(*v)); }
  static void add(const std::shared_ptr<const Value>& type, Hash& h) {
    h.add(static_cast<uint64_t>(type->dtype));
    h.add(static_cast<uint64_t>(type->form));
    h.add(size_t{type->rank()});
  }

  void know(const Value* v, uint64_t made_by, size_t result) {
    if (!v) return;
    Hash h;
    h.add(made_by);
    h.add(result);
    values_[v] = h.value();
  }

  /// Of nothing, where an operand is left out.
  uint64_t of(const Value* v) {
    if (!v) return 0;
    const auto [known, is_new] = values_.try_emplace(v, 0);
    if (is_new && v->constant) known->second = hash_of(*v->constant);
    return known->second;
  }

  uint64_t depth_ = 0;
  std::unordered_map<const Value*, uint64_t> values_;
};

}  // namespace

uint64_t structural_hash(const Graph& graph) { return Hasher().of(graph); }

}  // namespace lithify::onnx
