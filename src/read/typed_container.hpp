// Type tags that TorchScript puts around containers in its pickles.
#pragma once

#include "archive/pickle.hpp"

namespace lithify::read {

/// The container inside a type tag (build_intlist, restore_type_tag, ...); any other value as it is.
inline const archive::PickleValue& untagged(const archive::PickleValue& value) {
  using Kind = archive::PickleValue::Kind;
  const bool tagged = value.is(Kind::Reduce) && value.head().module() == "torch.jit._pickle" &&
                      value.args().is(Kind::Tuple) && !value.args().items().empty();
  return tagged ? value.args().items()[0] : value;
}

}  // namespace lithify::read
