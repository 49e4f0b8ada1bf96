// The fields of a protobuf message, each read as what it must be.
#pragma once

#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.hpp"

namespace lithify::onnxfile {

/// A message that is cut off, or has a field of another type than ONNX defines.
class Malformed : public Error {
 public:
  Malformed() : Error(Code::NotAModel, "the ONNX model is damaged") {}
};

/// Goes through the fields of a message once. Each must be read by one of the functions, or skipped. Throws Malformed.
class Fields {
 public:
  explicit Fields(std::string_view message) : reader_(message.data(), message.size()) {}

  bool next() {
    return checked([&] { return reader_.next(); });
  }
  uint32_t tag() const { return reader_.tag(); }
  void skip() {
    checked([&] { reader_.skip(); });
  }

  /// A text, or the bytes of a message.
  std::string_view bytes() {
    require(Type::length_delimited);
    const protozero::data_view view = checked([&] { return reader_.get_view(); });
    return {view.data(), view.size()};
  }
  int64_t integer() {
    require(Type::varint);
    return checked([&] { return reader_.get_int64(); });
  }
  /// The numbers of a repeated field, which are packed or not.
  void append_integers(std::vector<int64_t>& out) {
    if (reader_.wire_type() != Type::length_delimited) return out.push_back(integer());
    checked([&] {
      for (const int64_t i : reader_.get_packed_int64()) out.push_back(i);
    });
  }
  /// Numbers of a fixed width, packed or not, as their bytes.
  std::string fixed() {
    switch (reader_.wire_type()) {
      case Type::fixed32:
        return raw(checked([&] { return reader_.get_fixed32(); }));
      case Type::fixed64:
        return raw(checked([&] { return reader_.get_fixed64(); }));
      default:
        return std::string(bytes());
    }
  }

 private:
  using Type = protozero::pbf_wire_type;

  template <class Number>
  static std::string raw(Number n) {
    return {reinterpret_cast<const char*>(&n), sizeof n};
  }
  void require(Type type) const {
    if (reader_.wire_type() != type) throw Malformed();
  }
  template <class F>
  static auto checked(F f) -> decltype(f()) {
    try {
      return f();
    } catch (const protozero::exception&) {
      throw Malformed();
    }
  }

  protozero::pbf_reader reader_;
};

}  // namespace lithify::onnxfile
