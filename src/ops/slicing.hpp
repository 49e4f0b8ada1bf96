// Parts of tensors by position: taking them as views, and writing them back.
#pragma once

#include "ops/sizes.hpp"

namespace lithify::ops {

/// A bound of a Python slice as a position in [0, size]: negative ones count from the end, then it is clamped. A
/// symbolic one that is not negative is assumed to lie inside, which is reported: pos[:seq] has the size seq. One that
/// changes between iterations of a loop is clamped where it may be outside.
onnx::Dim clamped_bound(sym::Context& sym, onnx::Dim bound, onnx::Dim size);
/// A bound "size - 3" is written -3, which needs no arithmetic at run time, where that is the same for every size.
onnx::Dim from_the_end(sym::Context& sym, onnx::Dim bound, onnx::Dim size);

/// Positions start, start + step, ... below end of an axis, as x[start:end:step] has them. `length` is set where it is
/// known better than from the bounds (narrow never clamps).
struct Slice {
  int64_t axis = 0;
  onnx::Dim start;
  onnx::Dim end;
  int64_t step = 1;
  onnx::Dim length = {};

  onnx::Value* take(onnx::Builder& b, onnx::Value* x) const;
  /// x with `changed` in place of what `take` gives.
  onnx::Value* put(onnx::Builder& b, onnx::Value* x, onnx::Value* changed) const;
};

/// A slice whose step is known only at run time; the bounds are positions in [0, size], in this order.
struct Steps {
  int64_t axis = 0;
  onnx::Dim start;
  onnx::Dim end;
  onnx::Dim step;
  onnx::Dim length;

  onnx::Value* take(onnx::Builder& b, onnx::Value* x) const;
  onnx::Value* put(onnx::Builder& b, onnx::Value* x, onnx::Value* changed) const;
};

/// x[start:end:step] of an axis of a size.
Slice python_slice(sym::Context& sym, int64_t axis, onnx::Dim size, onnx::Dim start, onnx::Dim end, int64_t step);

/// One position of an axis, which goes away.
struct Select {
  int64_t axis = 0;
  onnx::Dim index;

  onnx::Value* take(onnx::Builder& b, onnx::Value* x) const { return b.select(x, axis, index); }
  onnx::Value* put(onnx::Builder& b, onnx::Value* x, onnx::Value* changed) const;
};

/// One of several pieces that follow one another on an axis.
struct Piece {
  int64_t axis = 0;
  std::shared_ptr<const Vector<onnx::Dim>> lengths;
  size_t index = 0;

  onnx::Value* take(onnx::Builder& b, onnx::Value* x) const { return all(b, x)[index]; }
  onnx::Value* put(onnx::Builder& b, onnx::Value* x, onnx::Value* changed) const;

 private:
  Vector<onnx::Value*> all(onnx::Builder& b, onnx::Value* x) const;
};

/// The diagonal of two dimensions; it becomes the last dimension.
struct Diagonal {
  int64_t offset = 0;
  int64_t dim1 = 0;
  int64_t dim2 = 1;

  onnx::Value* take(onnx::Builder& b, onnx::Value* x) const;
  onnx::Value* put(onnx::Builder& b, onnx::Value* x, onnx::Value* changed) const;
  /// Zeros of one more dimension than `values`, with them on the diagonal.
  onnx::Value* embed(onnx::Builder& b, onnx::Value* values) const;

 private:
  onnx::Value* merge(onnx::Builder& b, onnx::Value* values, onnx::Dim rows, onnx::Dim columns, size_t rank,
                     onnx::Value* elsewhere) const;
};

/// By the arguments offset, dim1 and dim2.
Diagonal diagonal_of(eval::Call& c, size_t rank);

/// A view of a tensor argument that takes and puts.
template <class Part>
eval::Value part_view(eval::Call& c, Part part, std::string_view argument = "self") {
  return c.view(
      argument, [part](onnx::Builder& b, onnx::Value* x) { return part.take(b, x); },
      [part](onnx::Builder& b, onnx::Value* x, onnx::Value* changed) { return part.put(b, x, changed); });
}

/// int64 values start, start + step, ... below end; there are `length` of them.
onnx::Value* range(onnx::Builder& b, onnx::Dim start, onnx::Dim end, onnx::Dim step, onnx::Dim length);
/// A constant of bool.
onnx::Value* bools(onnx::Builder& b, const std::vector<bool>& values, Vector<int64_t> sizes);
/// A constant of int64 and any rank.
onnx::Value* int_array(onnx::Builder& b, const Vector<int64_t>& values, Vector<int64_t> sizes);
/// A shape of at least `rank` (1 to 3) dimensions, as atleast_1d, atleast_2d and atleast_3d have it.
onnx::Shape at_least(sym::Context& sym, onnx::Shape shape, size_t rank);
/// 0, 1, ..., rank - 1: the permutation that changes nothing.
Vector<int64_t> identity_permutation(size_t rank);
/// The permutation that undoes one.
Vector<int64_t> inverse_permutation(const Vector<int64_t>& perm);
/// The numbers, if all are known.
std::optional<Vector<int64_t>> known(std::span<const onnx::Dim> dims);

}  // namespace lithify::ops
