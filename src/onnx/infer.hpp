// What the rules of the ONNX operators share. Each file of rules gives its table by a function; `find_op` joins them.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

#include "base/diagnostic.hpp"
#include "onnx/opdef.hpp"

namespace lithify::onnx {

std::span<const OpDef> control_ops();
std::span<const OpDef> elementwise_ops();
std::span<const OpDef> nn_ops();
std::span<const OpDef> reduce_ops();
std::span<const OpDef> sequence_ops();
std::span<const OpDef> shape_ops();
std::span<const OpDef> signal_ops();

namespace infer {

/// Output 0 has the facts of input 0.
void same(Inference& f);

/// The element type that an integer attribute names, `otherwise` when it is not there (or 0).
DType dtype_attribute(const Inference& f, std::string_view attribute, DType otherwise);

/// The contents of an integer input, nullptr when they are not known or the input is not there.
const Vector<Dim>* known(const Inference& f, size_t input);

/// The number of elements of a 1-D input that has one entry for each dimension of the result. A result whose rank is
/// known only at run time cannot be exported: throws UnsupportedArgument.
size_t rank_from(const Inference& f, size_t input);

/// The contents of a 1-D input of sizes, or as many fresh ones named `name` when they are not known.
Shape sizes_from(Inference& f, size_t input, std::string_view name);

/// The single element of an integer input, or a fresh size named `name`.
Dim size_from(Inference& f, size_t input, std::string_view name);

/// The size that two sizes which must agree have: the constant one, if one is. Throws ShapeMismatch when they never
/// agree, HardCodedSize when they agree at the sample only. `what` names the sizes in the message: "the channels".
Dim same_size(Inference& f, Dim a, Dim b, std::string_view what);

/// A dimension has at least as many elements as are needed; nothing is assumed that does not hold in the sample.
void assume_at_least(Inference& f, Dim size, Dim needed);

/// Integers of an attribute that has one for each of `n` spatial dimensions, all `otherwise` when it is not there.
Vector<int64_t> each(const Inference& f, std::string_view attribute, size_t n, int64_t otherwise);

inline void append(Shape& to, const Shape& from) { to.insert(to.end(), from.begin(), from.end()); }
void require_rank(const Inference& f, size_t input, size_t at_least);

}  // namespace infer
}  // namespace lithify::onnx
