// Sizes that must agree, and do not agree at every size.
#pragma once

#include <string>
#include <vector>

#include "base/diagnostic.hpp"
#include "sym/expr.hpp"

namespace lithify::sym {

/// Two sizes that must agree.
struct Conflict {
  Expr a, b;
  size_t at = 0;                 ///< how many sizes of the same values agree before them
  std::vector<Expr> among = {};  ///< all sizes that were compared; those of a and b alone when it is empty
};

/// They agree at the sample's sizes only, or that cannot be known: a size that tracing hard-coded, most likely.
class Contradiction : public Error {
 public:
  Contradiction(Conflict conflict, std::string message)
      : Error(Code::HardCodedSize, std::move(message),
              "a size of the sample was hard-coded by tracing; compute it from the shape of its tensor in the model"),
        conflict(std::move(conflict)) {}
  Conflict conflict;
};

/// Throws ShapeMismatch where the sizes never agree, and else a Contradiction.
[[noreturn]] inline void disagree(bool never, Conflict conflict, std::string message) {
  if (never) throw Error(Code::ShapeMismatch, std::move(message));
  throw Contradiction(std::move(conflict), std::move(message));
}

}  // namespace lithify::sym
