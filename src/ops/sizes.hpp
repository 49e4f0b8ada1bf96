// What every family asks of a value and its sizes.
#pragma once

#include <limits>

#include "base/checked.hpp"
#include "eval/call.hpp"

namespace lithify::ops {

/// The end of a slice that has none.
inline constexpr int64_t to_the_end = std::numeric_limits<int64_t>::max();

inline int64_t rank_of(const onnx::Value* v) { return static_cast<int64_t>(v->rank()); }
inline onnx::Dim& at(onnx::Shape& s, int64_t i) { return s[static_cast<size_t>(i)]; }
inline onnx::Dim at(const onnx::Shape& s, int64_t i) { return s[static_cast<size_t>(i)]; }
/// 1 for the last dimension.
inline onnx::Dim size_from_end(const onnx::Value* v, size_t i) { return v->shape[v->rank() - i]; }

/// `n` elements that are known at export, of which the budget is asked first.
template <class T>
Vector<T> known_elements(sym::Context& sym, int64_t n, const T& each = {}) {
  if (n < 0) throw Error(Code::ShapeMismatch, "a size is negative");
  sym.budget.spend(Limit::Bytes, static_cast<uint64_t>(checked_mul(n, sizeof(T))));
  return Vector<T>(static_cast<size_t>(n), each);
}
/// Asks the budget for the elements of a list.
inline void make_elements(eval::Call& c, size_t n) { c.sym.budget.spend(Limit::Elements, n); }

/// All elements in one dimension.
inline onnx::Value* flat(onnx::Builder& b, onnx::Value* x) { return b.reshape(x, {b.numel(x->shape)}); }
/// The last two dimensions exchanged.
inline onnx::Value* transposed(onnx::Builder& b, onnx::Value* x) { return b.swap_dims(x, -1, -2); }

}  // namespace lithify::ops
