// Protobuf messages that leave their weights out.
#pragma once

#include <cstdint>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/graph.hpp"

namespace lithify::write {

/// A protobuf message under construction. Its structure is in memory; the contents of a tensor are a gap between two of
/// its bytes that counts in every length around it and is filled when the message goes to a file.
class Message {
 public:
  struct Gap {
    size_t position;  ///< in bytes()
    const onnx::Tensor* tensor;
  };

  /// For fields that hold no weights.
  protozero::pbf_writer fields() { return protozero::pbf_writer(bytes_); }
  void add_message(protozero::pbf_tag_type tag, const Message& message) {
    add_length(tag, message.size());
    for (const Gap& gap : message.gaps_) gaps_.push_back({bytes_.size() + gap.position, gap.tensor});
    bytes_ += message.bytes_;
    weight_bytes_ += message.weight_bytes_;
  }
  /// A bytes field with the tensor's elements. The tensor outlives the message.
  void add_weights(protozero::pbf_tag_type tag, const onnx::Tensor& tensor) {
    add_length(tag, tensor.nbytes());
    gaps_.push_back({bytes_.size(), &tensor});
    weight_bytes_ += tensor.nbytes();
  }

  std::string_view bytes() const { return bytes_; }
  const std::vector<Gap>& gaps() const { return gaps_; }
  /// Of the whole message, gaps filled.
  uint64_t size() const { return bytes_.size() + weight_bytes_; }
  uint64_t weight_bytes() const { return weight_bytes_; }

 private:
  // Not pbf_writer's: lengths of a model that turns out to be too large for one file do not fit into its 32 bits.
  void add_length(protozero::pbf_tag_type tag, uint64_t length) {
    protozero::add_varint_to_buffer(&bytes_, (tag << 3U) | uint32_t(protozero::pbf_wire_type::length_delimited));
    protozero::add_varint_to_buffer(&bytes_, length);
  }

  std::string bytes_;
  std::vector<Gap> gaps_;
  uint64_t weight_bytes_ = 0;
};

}  // namespace lithify::write
