// Operators with graphs inside. Who builds the bodies knows more of the outputs than the bodies show, so an output that
// already has a type keeps its facts.
#include "onnx/infer.hpp"

namespace lithify::onnx {
namespace {

using namespace infer;

const Graph& body(const Inference& f, std::string_view attribute) {
  if (const auto* g = f.node.attribute_as<std::shared_ptr<Graph>>(attribute)) return **g;
  throw Error(Code::Internal, f.node.op_type + " has no " + std::string(attribute));
}

bool given(const Inference& f, size_t output) {
  return f.node.outputs[output] && f.node.outputs[output]->dtype != DType::Undefined;
}

/// The sizes that hold for both: those that differ become new symbols.
Shape joined(Inference& f, const Shape& a, const Shape& b) {
  if (a.size() != b.size())
    throw Error(Code::UnsupportedControlFlow, f.node.op_type + ": a value has " + std::to_string(a.size()) +
                                                  " dimensions on one path and " + std::to_string(b.size()) +
                                                  " on the other");
  Shape r = a;
  for (size_t i = 0; i < r.size(); ++i)
    if (!(a[i] == b[i])) r[i] = f.fresh("either");
  return r;
}

void if_op(Inference& f) {
  const Graph& then_branch = body(f, "then_branch");
  const Graph& else_branch = body(f, "else_branch");
  for (size_t i = 0; i < f.node.outputs.size(); ++i) {
    if (given(f, i)) continue;
    const Value& a = *then_branch.outputs.at(i);
    f.set(i, a.dtype, joined(f, a.shape, else_branch.outputs.at(i)->shape));
  }
}

void loop(Inference& f) {
  const Graph& b = body(f, "body");
  const size_t carried = f.inputs() - 2;
  const bool any_scan = f.node.outputs.size() > carried;
  const Dim trips = any_scan ? f.fresh("trips") : Dim();
  for (size_t i = 0; i < f.node.outputs.size(); ++i) {
    if (given(f, i)) continue;
    const Value& v = *b.outputs.at(1 + i);
    Shape shape = i < carried ? joined(f, f.in(2 + i).shape, v.shape) : v.shape;
    if (i >= carried) shape.insert(shape.begin(), trips);
    f.set(i, v.dtype, std::move(shape));
  }
}

void scan(Inference& f) {
  const Graph& b = body(f, "body");
  const auto scanned = static_cast<size_t>(f.integer("num_scan_inputs", 1));
  const size_t state = f.inputs() - scanned;
  for (size_t i = 0; i < f.node.outputs.size(); ++i) {
    if (given(f, i)) continue;
    const Value& v = *b.outputs.at(i);
    Shape shape = v.shape;
    if (i >= state) shape.insert(shape.begin(), f.in(state).shape.at(0));
    f.set(i, v.dtype, std::move(shape));
  }
}

constexpr OpDef control_table[] = {
    {"If", 1, if_op, false},
    {"Loop", 1, loop, false},
    {"Scan", 8, scan, false},
};

}  // namespace

std::span<const OpDef> control_ops() { return control_table; }

}  // namespace lithify::onnx
