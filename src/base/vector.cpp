#include "base/vector.hpp"

#include "base/diagnostic.hpp"

namespace lithify {

void out_of_bounds() {
  throw Error(Code::ShapeMismatch, "an operator is given fewer dimensions or elements than it needs");
}

}  // namespace lithify
