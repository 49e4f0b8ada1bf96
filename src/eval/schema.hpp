// Operator schemas, as PyTorch writes them: "aten::celu(Tensor self, Scalar alpha=1.0) -> Tensor".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eval/value.hpp"

namespace lithify::eval {

struct SchemaArgument {
  enum class Kind { Tensor, Int, Float, Bool, Scalar, Str, Device, Any };
  std::string name;
  Kind kind = Kind::Any;
  bool list = false;           ///< Tensor[], int[2], ...
  bool optional = false;       ///< T?
  bool item_optional = false;  ///< Tensor?[]
  int fixed = 0;               ///< of int[2]: a single number is taken for that many
  bool keyword_only = false;
  bool mutated = false;  ///< Tensor(a!)
  std::optional<std::string> default_text;
};

/// ScalarType, Layout and MemoryFormat are Kind::Int, as in TorchScript; Generator, Dict(...), t and others are Any.
struct Schema {
  std::string name;      ///< "aten::celu"
  std::string overload;  ///< "Tensor", may be empty
  Vector<SchemaArgument> arguments;
  Vector<std::string> returns;  ///< types, one per result
  std::string text;

  /// Throws Internal for text that is not a schema: a fault in the registration.
  static Schema parse(std::string_view text);
  const SchemaArgument* argument(std::string_view name) const;
  std::string full_name() const { return overload.empty() ? name : name + "." + overload; }
};

/// The arguments of a call put in the order of the schema, defaults filled in; empty when they do not fit. With
/// `convert`, the implicit conversions are allowed as well (numbers for tensors, 0-d tensors for numbers, bool for
/// int, ...).
std::optional<Vector<Value>> bind_arguments(sym::Context& sym, const Schema& schema, const Vector<Value>& positional,
                                            const Vector<std::pair<std::string, Value>>& keywords, bool convert);

}  // namespace lithify::eval
