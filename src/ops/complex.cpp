// Complex numbers: taking them apart, putting them together, and which operators take them.
#include <fmt/format.h>

#include "base/checked.hpp"
#include "ops/complex.hpp"
#include "ops/register.hpp"

namespace lithify::ops {

Ref conjugate(Builder& b, Ref z) {
  if (!is_complex(z->dtype)) return z;
  return b.complex(b.real_part(z), b.op("Neg", {b.imag_part(z)}));
}

namespace {

// A tensor whose conjugate is written to is written to.
Value conjugate_view(Call& c) {
  return c.view("self", conjugate, [](Builder& b, Ref, Ref changed) { return conjugate(b, changed); });
}

Value real_view(Call& c) {
  return c.view(
      "self", [](Builder& b, Ref z) { return b.real_part(z); },
      [](Builder& b, Ref z, Ref changed) { return b.complex(changed, b.imag_part(z)); });
}

Value imag_view(Call& c) {
  return c.view(
      "self", [](Builder& b, Ref z) { return b.imag_part(z); },
      [](Builder& b, Ref z, Ref changed) { return b.complex(b.real_part(z), changed); });
}

Value view_as_real(Call& c) {
  return c.view(
      "self", [](Builder& b, Ref z) { return b.pairs(z); },
      [](Builder& b, Ref, Ref changed) { return b.from_pairs(changed); }, true);
}

Value view_as_complex(Call& c) {
  Ref x = c.tensor("self");
  if (x->rank() == 0 || !x->shape.back().is(2)) c.mismatch("the last dimension must have the size 2");
  return c.view(
      "self", [](Builder& b, Ref pairs) { return b.from_pairs(pairs); },
      [](Builder& b, Ref, Ref changed) { return b.pairs(changed); }, true);
}

Value polar(Call& c) {
  Ref size = c.tensor("abs"), angle = c.tensor("angle");
  return c.onnx.complex(c.onnx.mul(size, c.onnx.op("Cos", {angle})), c.onnx.mul(size, c.onnx.op("Sin", {angle})));
}

Value power(Call& c) {
  Builder& b = c.onnx;
  DType t = c.result_type({"self", "exponent"});
  Ref z = c.tensor_as("self", t);
  std::optional<double> e = known_number(c, "exponent");
  if (e == 0) return b.full(z->shape, like(b, z, 1));
  if (e == 0.5) return b.op("Sqrt", {z});
  if (e && exact_integer(*e) && std::abs(*e) <= 8) {
    Ref out = z;
    for (int64_t i = 1; i < static_cast<int64_t>(std::abs(*e)); ++i) out = b.mul(out, z);
    return *e < 0 ? b.op("Reciprocal", {out}) : out;
  }
  return b.op("Pow", {z, c.tensor_as("exponent", t)});
}

// The number of size 1 in the same direction; 0 of 0.
Value direction(Call& c) {
  Builder& b = c.onnx;
  Ref z = c.tensor("self"), size = b.op("Abs", {z}), zero = like(b, size, 0);
  return b.div(z, b.complex(b.where(b.op("Equal", {size, zero}), like(b, size, 1), size), nullptr));
}

Value finite(Call& c) {
  Ref z = c.tensor("self");
  return c.onnx.op("And", {is_finite(c.onnx, c.onnx.real_part(z)), is_finite(c.onnx, c.onnx.imag_part(z))});
}

Value conjugate_product(Call& c) {
  DType t = c.result_type({"self", "other"});
  return c.onnx.matmul(conjugate(c.onnx, c.tensor_as("self", t)), c.tensor_as("other", t));
}

Value conjugate_transpose(Call& c) {
  Ref z = c.tensor("self");
  if (z->rank() < 2) c.mismatch("a matrix is needed");
  return c.view(
      "self", [](Builder& b, Ref v) { return conjugate(b, b.swap_dims(v, -1, -2)); },
      [](Builder& b, Ref, Ref changed) { return conjugate(b, b.swap_dims(changed, -1, -2)); });
}

// A norm is that of the sizes of the numbers.
void norm_of_sizes(eval::Registry& ops, std::string_view schema) {
  ops.add_complex(schema, [](Call& c) {
    Vector<Value> positional;
    Vector<std::pair<std::string, Value>> keywords;
    for (const eval::SchemaArgument& a : c.schema.arguments) {
      Value v = a.name == "self" ? Value(c.onnx.op("Abs", {c.tensor("self")})) : c.arg(a.name);
      if (a.keyword_only)
        keywords.emplace_back(a.name, std::move(v));
      else
        positional.push_back(std::move(v));
    }
    return c.call(c.schema.full_name(), std::move(positional), std::move(keywords));
  });
}

// Operators whose rules compute on complex tensors as they do on real ones.
constexpr std::string_view also_complex[] = {
    // what is known of a tensor
    "aten::size",
    "aten::sym_size",
    "aten::numel",
    "aten::sym_numel",
    "aten::dim",
    "prim::dtype",
    "prim::device",
    "prim::layout",
    "prim::itemsize",
    "prim::shape",
    "prim::ndim",
    "aten::is_complex",
    "aten::is_floating_point",
    "aten::len",
    "aten::is_contiguous",
    // the same elements
    "aten::to",
    "aten::type_as",
    "aten::_to_copy",
    "aten::contiguous",
    "aten::detach",
    "aten::alias",
    "aten::clone",
    "aten::resolve_conj",
    "aten::resolve_neg",
    "aten::copy",
    "aten::fill",
    "aten::zero",
    "aten::lift_fresh_copy",
    "aten::cpu",
    "aten::positive",
    // other shapes
    "aten::view",
    "aten::_unsafe_view",
    "aten::reshape",
    "aten::view_as",
    "aten::reshape_as",
    "aten::flatten",
    "aten::ravel",
    "aten::unflatten",
    "aten::squeeze",
    "aten::unsqueeze",
    "aten::transpose",
    "aten::swapdims",
    "aten::swapaxes",
    "aten::t",
    "aten::numpy_T",
    "aten::mT",
    "aten::permute",
    "aten::movedim",
    "aten::moveaxis",
    "aten::expand",
    "aten::broadcast_to",
    "aten::expand_as",
    "aten::repeat",
    "aten::tile",
    "aten::meshgrid",
    "aten::broadcast_tensors",
    "aten::unbind",
    "aten::split",
    "aten::split_with_sizes",
    "aten::chunk",
    "aten::tensor_split",
    "aten::narrow",
    "aten::unfold",
    "aten::diagonal",
    "aten::diag",
    "aten::diag_embed",
    "aten::select",
    "aten::slice",
    "aten::index",
    "aten::index_select",
    "aten::gather",
    "aten::index_put",
    "aten::flip",
    "aten::roll",
    "aten::cat",
    "aten::concat",
    "aten::stack",
    "aten::tril",
    "aten::triu",
    "aten::pad",
    "aten::constant_pad_nd",
    "aten::repeat_interleave",
    "aten::masked_fill",
    "aten::where",
    "aten::zeros_like",
    "aten::ones_like",
    "aten::full_like",
    "aten::full",
    "aten::new_zeros",
    "aten::new_ones",
    "aten::new_full",
    "aten::empty_like",
    // arithmetic
    "aten::add",
    "aten::sub",
    "aten::subtract",
    "aten::rsub",
    "aten::mul",
    "aten::multiply",
    "aten::div",
    "aten::divide",
    "aten::true_divide",
    "aten::neg",
    "aten::negative",
    "aten::reciprocal",
    "aten::square",
    "aten::addcmul",
    "aten::addcdiv",
    "aten::lerp",
    "aten::eq",
    "aten::ne",
    "aten::not_equal",
    "aten::logical_not",
    "aten::abs",
    "aten::absolute",
    "aten::exp",
    "aten::log",
    "aten::sqrt",
    "aten::rsqrt",
    "aten::sin",
    "aten::cos",
    "aten::tan",
    "aten::sinh",
    "aten::cosh",
    "aten::tanh",
    "aten::sigmoid",
    "aten::log2",
    "aten::log10",
    // sums and products
    "aten::sum",
    "aten::mean",
    "aten::cumsum",
    "aten::diff",
    "aten::matmul",
    "aten::mm",
    "aten::bmm",
    "aten::mv",
    "aten::dot",
    "aten::inner",
    "aten::outer",
    "aten::einsum",
    "aten::tensordot",
    "aten::linear",
    "aten::addmm",
    "aten::baddbmm",
    "aten::chain_matmul",
    "aten::linalg_multi_dot",
};

}  // namespace

void register_complex(eval::Registry& ops) {
  ops.add("aten::complex(Tensor real, Tensor imag) -> Tensor",
          [](Call& c) -> Value { return c.onnx.complex(c.tensor("real"), c.tensor("imag")); });
  ops.add("aten::polar(Tensor abs, Tensor angle) -> Tensor", polar);
  ops.add_complex("aten::view_as_real(Tensor(a) self) -> Tensor(a)", view_as_real);
  ops.add("aten::view_as_complex(Tensor(a) self) -> Tensor(a)", view_as_complex);
  ops.add_complex("aten::real(Tensor(a) self) -> Tensor(a)", real_view);
  ops.add_complex("aten::imag(Tensor(a) self) -> Tensor(a)", imag_view);
  for (std::string_view schema :
       {"aten::conj(Tensor(a) self) -> Tensor(a)", "aten::_conj(Tensor(a) self) -> Tensor(a)"}) {
    ops.add(schema, [](Call& c) { return c.arg("self"); });
    ops.add_complex(schema, conjugate_view);
  }
  for (std::string_view schema :
       {"aten::conj_physical(Tensor self) -> Tensor", "aten::_conj_physical(Tensor self) -> Tensor"}) {
    ops.add(schema, [](Call& c) { return c.arg("self"); });
    ops.add_complex(schema, [](Call& c) -> Value { return conjugate(c.onnx, c.tensor("self")); });
  }
  ops.add_complex("aten::angle(Tensor self) -> Tensor",
                  [](Call& c) -> Value { return c.onnx.imag_part(c.onnx.op("Log", {c.tensor("self")})); });
  ops.add_complex("aten::sgn(Tensor self) -> Tensor", direction);
  ops.add_complex("aten::isnan(Tensor self) -> Tensor",
                  [](Call& c) -> Value { return c.onnx.op("IsNaN", {c.tensor("self")}); });
  ops.add_complex("aten::isinf(Tensor self) -> Tensor",
                  [](Call& c) -> Value { return c.onnx.op("IsInf", {c.tensor("self")}); });
  ops.add_complex("aten::isfinite(Tensor self) -> Tensor", finite);
  ops.add_complex("aten::isreal(Tensor self) -> Tensor", [](Call& c) -> Value {
    Ref imag = c.onnx.imag_part(c.tensor("self"));
    return c.onnx.op("Equal", {imag, like(c.onnx, imag, 0)});
  });
  for (std::string_view schema : {"aten::pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
                                  "aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
                                  "aten::pow.Scalar(Scalar self, Tensor exponent) -> Tensor"})
    ops.add_complex(schema, power);
  ops.add_complex("aten::vdot(Tensor self, Tensor other) -> Tensor", conjugate_product);
  for (std::string_view name : {"mH", "matrix_H", "adjoint"})
    ops.add_complex(fmt::format("aten::{}(Tensor(a) self) -> Tensor(a)", name), conjugate_transpose);
  norm_of_sizes(ops, "aten::norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor");
  norm_of_sizes(ops, "aten::norm.Scalar(Tensor self, Scalar p=2) -> Tensor");
  norm_of_sizes(ops,
                "aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, "
                "ScalarType? dtype=None) -> Tensor");
  for (std::string_view name : also_complex) ops.allow_complex({name});
}

}  // namespace lithify::ops
