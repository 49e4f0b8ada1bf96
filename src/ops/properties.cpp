// Properties of a tensor that a program asks for: sizes, strides, type, device. Computed at export, without nodes.
#include <fmt/format.h>

#include "ops/register.hpp"

namespace lithify::ops {
namespace {

using eval::Device;

Value dtype_value(Call& c, DType t) { return c.sym.constant(torch_number(t)); }

}  // namespace

void register_properties(eval::Registry& ops) {
  ops.add("aten::size(Tensor self) -> int[]", [](Call& c) -> Value {
    Vector<Value> sizes;
    for (Dim d : c.tensor("self")->shape) sizes.push_back(d);
    return Value::list(std::move(sizes));
  });
  ops.add("aten::size.int(Tensor self, int dim) -> int", [](Call& c) -> Value {
    onnx::Value* t = c.tensor("self");
    if (t->rank() == 0) c.mismatch("of a dimension of a 0-d tensor");
    return t->shape[static_cast<size_t>(c.dim("dim", t->rank()))];
  });
  ops.add("prim::shape(Tensor self) -> int[]", [](Call& c) { return c.call("aten::size", {c.arg("self")}); });
  for (std::string_view what : {"size", "stride"}) {
    ops.add(fmt::format("aten::sym_{}(Tensor self) -> int[]", what),
            [name = fmt::format("aten::{}", what)](Call& c) { return c.call(name, {c.arg("self")}); });
    ops.add(fmt::format("aten::sym_{}.int(Tensor self, int dim) -> int", what),
            [name = fmt::format("aten::{}", what)](Call& c) {
              return c.call(name, {c.arg("self"), c.arg("dim")});
            });
  }
  ops.add("aten::_shape_as_tensor(Tensor self) -> Tensor",
          [](Call& c) -> Value { return c.onnx.shape_of(c.tensor("self")); });
  for (const char* schema : {"aten::numel(Tensor self) -> int", "aten::sym_numel(Tensor self) -> int"})
    ops.add(schema, [](Call& c) -> Value { return c.onnx.numel(c.tensor("self")->shape); });
  for (const char* schema : {"aten::dim(Tensor self) -> int", "prim::ndim(Tensor self) -> int"})
    ops.add(schema, [](Call& c) -> Value { return c.sym.constant(static_cast<int64_t>(c.tensor("self")->rank())); });
  ops.add("prim::dtype(Tensor a) -> int", [](Call& c) { return dtype_value(c, c.tensor("a")->dtype); });
  ops.add("prim::device(Tensor a) -> Device", [](Call&) -> Value { return Device{"cpu"}; });
  ops.add("prim::layout(Tensor a) -> int", [](Call& c) -> Value { return c.sym.constant(0); });
  ops.add("prim::itemsize(Tensor a) -> int",
          [](Call& c) -> Value { return c.sym.constant(static_cast<int64_t>(byte_size(c.tensor("a")->dtype))); });
  for (const char* name : {"prim::is_cuda", "prim::is_quantized", "prim::is_sparse", "prim::is_mkldnn", "prim::is_mps",
                           "prim::is_meta", "prim::requires_grad", "prim::is_nested", "aten::is_inference",
                           "prim::is_vulkan", "prim::is_xpu", "prim::is_sparse_csr", "aten::is_conj", "aten::is_neg"})
    ops.add(std::string(name) + "(Tensor a) -> bool", [](Call&) -> Value { return false; });
  ops.add("aten::is_floating_point(Tensor self) -> bool",
          [](Call& c) -> Value { return is_float(c.tensor("self")->dtype); });
  ops.add("aten::is_complex(Tensor self) -> bool",
          [](Call& c) -> Value { return is_complex(c.tensor("self")->dtype); });
  ops.add("aten::is_signed(Tensor self) -> bool", [](Call& c) -> Value {
    DType t = c.tensor("self")->dtype;
    return !is_unsigned(t) && t != DType::Bool;
  });
  ops.add("aten::is_contiguous(Tensor self) -> bool", [](Call&) -> Value { return true; });
  ops.add("aten::storage_offset(Tensor self) -> int", [](Call& c) -> Value {
    if (!c.tensor_ref("self")->dense()) c.unsupported("of a tensor that is not contiguous");
    return c.sym.constant(0);
  });
  // torch.export asserts that it is not negative, of data-dependent parts, and computes nothing from it.
  ops.add("aten::sym_storage_offset(Tensor self) -> int", [](Call& c) -> Value { return c.sym.constant(0); });
  ops.add("aten::stride(Tensor self) -> int[]", [](Call& c) -> Value {
    if (!c.tensor_ref("self")->dense()) c.unsupported("of a tensor that is not contiguous");
    const Shape& shape = c.tensor("self")->shape;
    Vector<Value> out(shape.size());
    Dim stride = c.sym.constant(1);
    for (size_t i = shape.size(); i-- > 0;) {
      out[i] = stride;
      stride = c.sym.mul(stride, shape[i]);
    }
    return Value::list(std::move(out));
  });
  ops.add("aten::stride.int(Tensor self, int dim) -> int", [](Call& c) -> Value {
    Value all = c.call("aten::stride", {c.arg("self")});
    return all.items()[static_cast<size_t>(c.dim("dim", c.tensor("self")->rank()))];
  });
  ops.add("aten::get_device(Tensor self) -> int", [](Call& c) -> Value { return c.sym.constant(-1); });
  for (const char* schema : {"prim::data(Tensor(a) a) -> Tensor(a)",
                             "aten::requires_grad_(Tensor(a) a, bool requires_grad=True) -> Tensor(a)"})
    ops.add(schema, [](Call& c) { return c.arg("a"); });
  ops.add("aten::device(str a) -> Device", [](Call& c) -> Value { return Device{c.text("a")}; });
  ops.add("prim::type(Device self) -> str", [](Call& c) -> Value {
    const std::string& name = c.arg("self").get_if<Device>()->name;
    return name.substr(0, name.find(':'));
  });
  ops.add("prim::index(Device self) -> int?", [](Call&) -> Value { return eval::None{}; });
}

}  // namespace lithify::ops
