// Sequences of tensors, and optional tensors. A size in which the elements of a sequence may differ is empty.
#include "onnx/infer.hpp"

namespace lithify::onnx {
namespace {

using namespace infer;

void set(Inference& f, Value::Form form, DType dtype, Shape shape) {
  f.set(0, dtype, std::move(shape));
  f.node.outputs[0]->form = form;
}

/// The sizes that all elements have.
Shape common(Inference& f, const Value& a, const Value& b) {
  if (a.dtype != b.dtype || a.rank() != b.rank()) f.fail("the elements are " + print_type(a) + " and " + print_type(b));
  Shape out = a.shape;
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i] != b.shape[i]) out[i] = Dim();
  return out;
}

/// The sizes of one element: those that are not known are its own.
Shape of_one(Inference& f, const Value& sequence) {
  Shape out = sequence.shape;
  for (Dim& size : out)
    if (!size) size = f.fresh("element");
  return out;
}

/// Nobody knows the shape of elements that there are none of.
void empty(Inference& f) { set(f, Value::Form::Sequence, dtype_attribute(f, "dtype", DType::Float), {}); }

void construct(Inference& f) {
  Value all = f.in(0);
  for (size_t i = 1; i < f.inputs(); ++i) all.shape = common(f, all, f.in(i));
  set(f, Value::Form::Sequence, all.dtype, all.shape);
}

void insert(Inference& f) { set(f, Value::Form::Sequence, f.in(0).dtype, common(f, f.in(0), f.in(1))); }

void at(Inference& f) { f.set(0, f.in(0).dtype, of_one(f, f.in(0))); }

void length(Inference& f) { f.set(0, DType::Int64, {}); }

void concat_sequence(Inference& f) {
  Shape shape = of_one(f, f.in(0));
  const bool stacks = f.integer("new_axis", 0) != 0;
  const auto axis = f.axis(0, shape.size() + (stacks ? 1 : 0));
  if (stacks) shape.insert(shape.begin() + axis, Dim());
  shape[static_cast<size_t>(axis)] = f.fresh("length");
  f.set(0, f.in(0).dtype, std::move(shape));
}

void split_to_sequence(Inference& f) {
  Shape shape = f.in(0).shape;
  shape.erase(shape.begin() + f.axis(0, shape.size()));
  set(f, Value::Form::Sequence, f.in(0).dtype, std::move(shape));
}

void optional(Inference& f) {
  const Attribute* type = f.node.attribute("type");
  const Value& element = type ? *std::get<std::shared_ptr<const Value>>(type->data) : f.in(0);
  set(f, Value::Form::Optional, element.dtype, element.shape);
}

constexpr OpDef sequence_table[] = {
    {"ConcatFromSequence", 11, concat_sequence},
    {"Optional", 15, optional, false},
    {"SequenceAt", 11, at},
    {"SequenceConstruct", 11, construct},
    {"SequenceEmpty", 11, empty, false},  // who makes it knows what its elements
                                          // would be
    {"SequenceErase", 11, same},
    {"SequenceInsert", 11, insert},
    {"SequenceLength", 11, length},
    {"SplitToSequence", 11, split_to_sequence},
};

}  // namespace

std::span<const OpDef> sequence_ops() { return sequence_table; }

}  // namespace lithify::onnx
