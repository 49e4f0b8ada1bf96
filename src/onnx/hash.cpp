#include "onnx/hash.hpp"

#include <bit>
#include <concepts>
#include <span>
#include <string_view>
#include <type_traits>
#include <unordered_map>

namespace lithify::onnx {
namespace {

// Larger constants are known by where they are in memory.
constexpr size_t small_bytes = 4096;

class Hash {
 public:
  void add(std::unsigned_integral auto v) {
    state_ = (state_ ^ uint64_t{v}) * 0x9e3779b97f4a7c15;  // the golden ratio: odd, and its bits follow no pattern
    state_ ^= state_ >> 32;
  }
  void add(std::string_view bytes) {
    add(bytes.size());
    for (const char c : bytes) add(uint64_t{static_cast<unsigned char>(c)});
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
      for (const std::byte b : piece.view.dense_bytes()) h.add(static_cast<uint64_t>(b));
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
  void add(const Graph& graph) {
    hash_.add(graph.inputs.size());
    for (const Value* v : graph.inputs) number(v);
    hash_.add(graph.nodes.size());
    for (const Node* n : graph.nodes) add(*n);
    hash_.add(graph.outputs.size());
    for (const Value* v : graph.outputs) add_use(v);
  }
  uint64_t value() const { return hash_.value(); }

 private:
  void add(const Node& node) {
    hash_.add(node.domain);
    hash_.add(node.op_type);
    hash_.add(node.attributes.size());
    for (const Attribute& a : node.attributes) {
      hash_.add(a.name);
      hash_.add(a.data.index());
      std::visit([&](const auto& data) { add_data(data); }, a.data);
    }
    hash_.add(node.inputs.size());
    for (const Value* v : node.inputs) add_use(v);
    hash_.add(node.outputs.size());
    for (const Value* v : node.outputs) number(v);
  }

  void add_data(int64_t v) { hash_.add(static_cast<uint64_t>(v)); }
  void add_data(float v) { hash_.add(v); }
  void add_data(const std::string& v) { hash_.add(v); }
  template <class T>
  void add_data(const Vector<T>& v) {
    hash_.add_all(v);
  }
  void add_data(const std::shared_ptr<const Tensor>& v) { hash_.add(hash_of(*v)); }
  void add_data(const std::shared_ptr<Graph>& v) { add(*v); }
  void add_data(const std::shared_ptr<const Value>& type) {
    hash_.add(static_cast<uint64_t>(type->dtype));
    hash_.add(static_cast<uint64_t>(type->form));
    hash_.add(size_t{type->rank()});
  }

  /// A value is known by the place where it is made.
  void number(const Value* v) {
    if (v) numbers_.emplace(v, numbers_.size() + 2);
  }

  void add_use(const Value* v) {
    constexpr uint64_t left_out = 0, is_constant = 1;
    if (!v) return hash_.add(left_out);
    if (!v->constant) return hash_.add(numbers_[v]);
    auto [known, is_new] = constants_.try_emplace(v, 0);
    if (is_new) known->second = hash_of(*v->constant);
    hash_.add(is_constant);
    hash_.add(known->second);
  }

  Hash hash_;
  std::unordered_map<const Value*, uint64_t> numbers_;
  std::unordered_map<const Value*, uint64_t> constants_;
};

}  // namespace

uint64_t structural_hash(const Graph& graph) {
  Hasher hasher;
  hasher.add(graph);
  return hasher.value();
}

}  // namespace lithify::onnx
