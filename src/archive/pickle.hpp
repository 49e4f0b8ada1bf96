// Pickles read without running anything: every value is inert. A class is a name, a call is a record of its callable
// and arguments, and what they mean is left to the reader of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "archive/zip.hpp"

namespace lithify::archive {

struct PickleNode;

/// A value of a pickle. Copies of a container refer to the same node: a node's address is the identity of the value.
/// Valid as long as the Pickle that it came from.
class PickleValue {
 public:
  enum class Kind : uint8_t {
    None,
    Bool,
    Int,
    Float,
    String,      ///< UTF-8, not checked
    Bytes,       ///<
    Long,        ///< an integer beyond 64 bits: little-endian two's complement bytes
    Global,      ///< the name of a class or function
    Tuple,       ///< items
    List,        ///< items
    Dict,        ///< items: key, value, ...
    Object,      ///< head is the class, args its arguments; state when it was built
    Reduce,      ///< head is what would be called, args the arguments; items and state when filled afterwards
    Persistent,  ///< args is the persistent id
  };

  PickleValue() : PickleValue(Kind::None) {}

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_container() const { return kind_ >= Kind::Tuple; }

  // Each asks for a value of its kind.
  bool boolean() const { return integer_ != 0; }
  int64_t integer() const { return integer_; }
  double real() const { return real_; }
  std::string_view text() const { return {chars_, length_}; }  ///< String, Bytes, Long

  /// Global: "torch._utils" and "_rebuild_tensor_v2", or both joined by a dot.
  std::string_view module() const;
  std::string_view name() const;
  std::string qualified_name() const;
  bool is_global(std::string_view module, std::string_view name) const;

  // Containers.
  const PickleNode* node() const { return node_; }
  std::span<const PickleValue> items() const;
  const PickleValue& head() const;
  const PickleValue& args() const;
  const PickleValue& state() const;  ///< None when there is none
  /// A Reduce whose callable is that global.
  bool calls(std::string_view module, std::string_view name) const;

 private:
  friend class Unpickler;
  explicit PickleValue(Kind kind) : kind_(kind) {}

  Kind kind_;
  uint32_t length_ = 0;
  union {
    int64_t integer_ = 0;
    double real_;
    const char* chars_;
    PickleNode* node_;
  };
};

struct PickleNode {
  std::vector<PickleValue> items;
  PickleValue head;
  PickleValue args;
  PickleValue state;
};

struct PickleLimits {
  size_t depth = 2500;  ///< containers inside each other; a module is two
  size_t containers = size_t{1} << 22;
};

/// One pickle: the root value, everything below it, and the bytes that its strings point into.
class Pickle {
 public:
  /// Takes the opcodes that PyTorch writes, up to protocol 3; any other is BadPickle with its offset. Values that
  /// contain themselves are refused and depth is limited, so a walk may recurse; it must visit a node once, because a
  /// node may be shared many times over.
  explicit Pickle(Record source, PickleLimits limits = {});
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  const PickleValue& root() const { return root_; }
  /// Bytes of the source up to and with the STOP opcode.
  size_t size() const { return size_; }

 private:
  Record source_;
  std::deque<PickleNode> nodes_;
  PickleValue root_;
  size_t size_ = 0;
};

/// The classes and functions that a pickle of any protocol names ("collections.OrderedDict"), in order of appearance,
/// each once. Builds nothing; ends quietly where the bytes are no longer a pickle.
std::vector<std::string> pickled_globals(std::span<const std::byte> bytes, size_t at_most = 100);

}  // namespace lithify::archive
