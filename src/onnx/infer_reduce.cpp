// Operators that combine the elements along axes.
#include "onnx/infer.hpp"

namespace lithify::onnx {
namespace {

using namespace infer;

/// The shape without `axes`, or with them of size 1.
Shape reduced(Inference& f, const Shape& shape, const Vector<int64_t>& axes) {
  const bool keep = f.integer("keepdims", 1) != 0;
  Shape r;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) == axes.end())
      r.push_back(shape[i]);
    else if (keep)
      r.push_back(f.sym.constant(1));
  }
  return r;
}

void reduce(Inference& f) {
  const Value& x = f.in(0);
  auto axes = f.axes(1, x.rank());
  if (!axes || axes->empty()) {
    if (f.integer("noop_with_empty_axes", 0) != 0) return same(f);
    axes.emplace(x.rank());
    for (size_t i = 0; i < x.rank(); ++i) (*axes)[i] = static_cast<int64_t>(i);
  }
  f.set(0, x.dtype, reduced(f, x.shape, *axes));
}

void arg_reduce(Inference& f) {
  require_rank(f, 0, 1);
  f.set(0, DType::Int64, reduced(f, f.in(0).shape, {f.axis(0, f.in(0).rank())}));
}

constexpr OpDef reduce_table[] = {
    {"ArgMax", 1, arg_reduce},   {"ArgMin", 1, arg_reduce},      {"CumProd", 26, same},
    {"CumSum", 11, same},        {"ReduceL1", 1, reduce},        {"ReduceL2", 1, reduce},
    {"ReduceLogSum", 1, reduce}, {"ReduceLogSumExp", 1, reduce}, {"ReduceMax", 1, reduce},
    {"ReduceMean", 1, reduce},   {"ReduceMin", 1, reduce},       {"ReduceProd", 1, reduce},
    {"ReduceSum", 1, reduce},    {"ReduceSumSquare", 1, reduce},
};

}  // namespace

std::span<const OpDef> reduce_ops() { return reduce_table; }

}  // namespace lithify::onnx
