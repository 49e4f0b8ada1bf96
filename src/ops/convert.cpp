// Changes of type, device and layout; copies; and what fills a tensor.
#include <fmt/format.h>

#include "eval/evaluator.hpp"
#include "ops/elementwise.hpp"
#include "ops/register.hpp"

namespace lithify::ops {
namespace {

// The tensor itself where nothing changes, as in PyTorch: a later write to the result is then a write to the argument.
Value convert(Call& c, std::string_view name, std::optional<DType> dtype, bool copy) {
  const Value& x = c.arg(name);
  if (!x.is_tensor()) return c.tensor_as(name, dtype.value_or(c.tensor(name)->dtype));
  DType t = dtype.value_or(x.tensor()->dtype());
  if (!copy && x.tensor()->dtype() == t) return x;
  return c.tensor_as(name, t);
}

Value same(Call& c) { return c.arg("self"); }
Value copied(Call& c) { return c.tensor("self"); }

struct CastTo {
  std::string_view name;
  DType dtype;
};

constexpr CastTo casts[] = {
    {"Byte", DType::UInt8}, {"Char", DType::Int8}, {"Short", DType::Int16}, {"Int", DType::Int32},
    {"Long", DType::Int64}, {"Half", DType::Half}, {"Float", DType::Float}, {"Double", DType::Double},
};

Value filled(Call& c, std::string_view value) {
  Ref x = c.tensor("self");
  Ref number = c.tensor_as(value, x->dtype);
  return c.onnx.full(x->shape, number->rank() == 0 ? number : c.onnx.reshape(number, {}));
}

}  // namespace

void register_convert(eval::Registry& ops) {
  for (std::string_view schema :
       {"aten::to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, "
        "MemoryFormat? memory_format=None) -> Tensor(a)",
        "aten::to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, "
        "MemoryFormat? memory_format=None) -> Tensor(a)",
        "aten::to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> "
        "Tensor(a)",
        "aten::to.prim_Device(Tensor(a) self, Device? device, int? dtype=None, bool non_blocking=False, "
        "bool copy=False) -> Tensor(a)",
        "aten::type(Tensor(a) self, int dtype, bool non_blocking=False, bool copy=False) -> Tensor(a)",
        "aten::to.prim_dtype(Tensor(a) self, int? dtype=None, bool non_blocking=False, bool copy=False) -> "
        "Tensor(a)"})
    ops.add(schema, [](Call& c) { return convert(c, "self", c.maybe_dtype("dtype"), c.flag("copy")); });
  ops.add(
      "aten::to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, "
      "MemoryFormat? memory_format=None) -> Tensor(a)",
      [](Call& c) { return convert(c, "self", c.tensor("other")->dtype, c.flag("copy")); });
  ops.add("aten::to.prim_other(Tensor(a) self, bool non_blocking=False, bool copy=False) -> Tensor(a)",
          [](Call& c) { return convert(c, "self", std::nullopt, c.flag("copy")); });
  ops.add(
      "aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
      "bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
      [](Call& c) { return convert(c, "self", c.maybe_dtype("dtype"), true); });
  ops.add("aten::type_as(Tensor self, Tensor other) -> Tensor",
          [](Call& c) { return convert(c, "self", c.tensor("other")->dtype, false); });
  ops.add("aten::as_tensor(Tensor(a) data, *, ScalarType? dtype=None, Device? device=None) -> Tensor(a)",
          [](Call& c) { return convert(c, "data", c.maybe_dtype("dtype"), false); });
  for (const CastTo& to : casts)
    ops.add(fmt::format("aten::_cast_{}(Tensor self, bool non_blocking=False) -> Tensor", to.name),
            [t = to.dtype](Call& c) { return convert(c, "self", t, false); });

  for (std::string_view schema :
       {"aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)",
        "aten::detach(Tensor(a) self) -> Tensor(a)", "aten::alias(Tensor(a) self) -> Tensor(a)",
        "aten::lift(Tensor self) -> Tensor", "aten::lift_fresh(Tensor(a) self) -> Tensor(a)",
        "aten::cpu(Tensor(a) self) -> Tensor(a)", "aten::cuda(Tensor(a) self) -> Tensor(a)",
        "aten::real(Tensor(a) self) -> Tensor(a)", "aten::resolve_conj(Tensor(a) self) -> Tensor(a)",
        "aten::resolve_neg(Tensor(a) self) -> Tensor(a)", "aten::data(Tensor self) -> Tensor",
        "aten::requires_grad_(Tensor(a!) self, bool requires_grad=True) -> Tensor(a!)"})
    ops.add(schema, same);
  for (std::string_view schema :
       {"aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
        "aten::lift_fresh_copy(Tensor self) -> Tensor", "aten::detach_copy(Tensor self) -> Tensor",
        "aten::alias_copy(Tensor self) -> Tensor"})
    ops.add(schema, copied);

  ops.add("aten::copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", [](Call& c) -> Value {
    // x[i] += y writes to the view x[i], and then copies the view to itself.
    const Value& source = c.arg("src");
    if (source.is_tensor() && c.tensor_ref("self")->same_place(*source.tensor())) return c.arg("self");
    Ref x = c.tensor("self");
    return c.onnx.expand(c.tensor_as("src", x->dtype), x->shape);
  });
  for (std::string_view schema : {"aten::fill.Scalar(Tensor self, Scalar value) -> Tensor",
                                  "aten::fill.Tensor(Tensor self, Tensor value) -> Tensor"})
    ops.add(schema, [](Call& c) { return filled(c, "value"); });
  ops.add("aten::zero(Tensor self) -> Tensor", [](Call& c) -> Value {
    Ref x = c.tensor("self");
    return c.onnx.full(x->shape, like(c.onnx, x, 0));
  });
}

}  // namespace lithify::ops
