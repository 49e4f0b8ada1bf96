// The elements of a list whose length is known only at run time, as one value of the graph: the rows of a tensor where
// they have one shape, and else a sequence.
#pragma once

#include <functional>

#include "onnx/builder.hpp"

namespace lithify::eval {

/// All of these one after the other, in front of them those of `head` (which may be nullptr). Throws
/// UnsupportedControlFlow where they differ in type or in the number of dimensions.
onnx::Value* gathered(onnx::Builder& b, onnx::Value* head, const onnx::Inputs& items);
/// The elements of two lists, one after the other.
onnx::Value* chained(onnx::Builder& b, onnx::Value* first, onnx::Value* second);

onnx::Value* as_sequence(onnx::Builder& b, onnx::Value* elements);
onnx::Value* empty_sequence(onnx::Builder& b, DType dtype, onnx::Shape element);

/// The sizes of every element; one in which they may differ is empty.
onnx::Shape element_shape(const onnx::Value* elements);
/// The sizes that elements of both shapes have, and that can be computed here.
onnx::Shape common_element_shape(onnx::Builder& b, const onnx::Shape& first, const onnx::Shape& second);

onnx::Dim length_of(onnx::Builder& b, onnx::Value* elements);
/// A place counts from the end where it is negative.
onnx::Value* element_at(onnx::Builder& b, onnx::Value* elements, onnx::Dim place);
onnx::Value* with_element(onnx::Builder& b, onnx::Value* elements, onnx::Dim place, onnx::Value* inserted);
onnx::Value* with_replaced(onnx::Builder& b, onnx::Value* elements, onnx::Dim place, onnx::Value* by);
onnx::Value* without_element(onnx::Builder& b, onnx::Value* elements, onnx::Dim place);
/// `count` of them: the i-th is that at `start + i * step`, where these are not negative.
onnx::Value* chosen_elements(onnx::Builder& b, onnx::Value* elements, onnx::Dim start, onnx::Dim count, int64_t step);
/// What is made of each of them, which has this shape, along a new first axis.
onnx::Value* made_of_each(onnx::Builder& b, onnx::Value* elements, const onnx::Shape& shape,
                          const std::function<onnx::Value*(onnx::Value* element)>& make);

}  // namespace lithify::eval
