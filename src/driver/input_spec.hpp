// The text by which a user describes an input: "x:float32[batch=2,3]".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "program/program.hpp"

namespace lithify::driver {

/// A described input. The type may be left out: "x:[2,3]" or "x[2,3]".
struct InputSpec {
  /// One size: 3, `batch`, `batch=2`, or a formula of others: `past+sequence`, `past+sequence=8`.
  struct Size {
    std::string name = {};                   ///< of the dimension; empty for a plain number
    std::optional<int64_t> value = {};       ///< the number, or the size in the sample
    const program::Expr* formula = nullptr;  ///< of a size that the file leaves open; not part of the text
    bool given = false;                      ///< whether the user describes it; else the file does
    /// What the name is, where it is a formula of other dimensions by their names; not part of the text.
    std::optional<program::Expr> tied = {};
  };
  std::string name;
  std::optional<DType> dtype;
  std::vector<Size> sizes;
};

/// Throws BadOption with what is wrong with the text.
InputSpec parse_input_spec(const std::string& text);

}  // namespace lithify::driver
