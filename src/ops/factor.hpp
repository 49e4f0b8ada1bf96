// Factors of matrices that are found step by step.
#pragma once

#include "ops/elementwise.hpp"

namespace lithify::ops {

/// A floating argument of two dimensions or more.
Ref matrix(Call& c, std::string_view name);

/// A = U S V^T of matrices in the last two dimensions, with the singular values from the greatest down. `rows` are
/// [.., k, m + n] with m >= n = k (else of the transposed matrix): each is S u and v of one singular value.
struct Singular {
  Ref rows;
  Ref values;  ///< [.., k]
  bool transposed;
};

/// In float64. The sizes of the matrices must be known.
Singular singular(Call& c, Ref a);

}  // namespace lithify::ops
