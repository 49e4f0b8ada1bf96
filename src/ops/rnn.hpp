// One step of a recurrent cell, from its gates.
#pragma once

#include "ops/elementwise.hpp"

namespace lithify::ops {

struct LstmState {
  Ref hidden;
  Ref cell;
};

/// `gates`: [..., 4 * hidden], in PyTorch's order.
LstmState lstm_step(Builder& b, Ref gates, Ref cell);
/// `of_input`, `of_hidden`: [..., 3 * hidden], in PyTorch's order.
Ref gru_step(Builder& b, Ref of_input, Ref of_hidden, Ref hidden);

}  // namespace lithify::ops
