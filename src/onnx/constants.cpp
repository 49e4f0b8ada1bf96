// The values of a graph that no node makes: inputs, constants, and integers that are formulas of sizes.
#include <cstring>
#include <limits>

#include "base/checked.hpp"
#include "base/diagnostic.hpp"
#include "base/half.hpp"
#include "onnx/builder.hpp"
#include "onnx/building.hpp"
#include "onnx/complex.hpp"
#include "onnx/opdef.hpp"
#include "onnx/whole.hpp"

namespace lithify::onnx {
namespace {

// Integer tensors up to this many elements have their contents tracked as expressions.
constexpr int64_t contents_limit = 1024;

template <class T>
void put(std::vector<std::byte>& out, T v) {
  size_t at = out.size();
  out.resize(at + sizeof(T));
  std::memcpy(out.data() + at, &v, sizeof(T));
}

void put_int(std::vector<std::byte>& out, DType t, int64_t v) {
  switch (byte_size(t)) {
    case 1:
      return put(out, static_cast<int8_t>(t == DType::Bool ? v != 0 : v));
    case 2:
      return put(out, static_cast<int16_t>(v));
    case 4:
      return put(out, static_cast<int32_t>(v));
    default:
      return put(out, v);
  }
}

void put_real(std::vector<std::byte>& out, DType t, double v) {
  switch (t) {
    case DType::Float:
      return put(out, static_cast<float>(v));
    case DType::Double:
      return put(out, v);
    case DType::Half:
      return put(out, half_from_float(static_cast<float>(v)));
    case DType::BFloat16:
      return put(out, bfloat16_from_float(static_cast<float>(v)));
    case DType::Bool:
      return put_int(out, t, v != 0);
    default:
      return put_int(out, t, truncated(v).value_or(std::numeric_limits<int64_t>::min()));
  }
}

template <class T>
TensorView vector_of(DType dtype, std::span<const T> v) {
  std::vector<std::byte> bytes(v.size_bytes());
  if (!v.empty()) std::memcpy(bytes.data(), v.data(), v.size_bytes());
  return TensorView::dense(dtype, {static_cast<int64_t>(v.size())}, std::move(bytes));
}

}  // namespace

Value* Builder::input(std::string name, DType dtype, Shape shape, Value::Form form) {
  if (is_complex(dtype)) {
    shape.push_back(dim(2));
    return from_pairs(input(std::move(name), part_type(dtype), std::move(shape)));
  }
  if (const int since = first_opset(dtype); opset_ < since) needs_opset(name_of(dtype), since);
  Value* v = graph().new_value();
  v->kind = Value::Kind::Input;
  v->name = std::move(name);
  v->dtype = dtype;
  v->shape = std::move(shape);
  v->form = form;
  own_sizes(v);
  graph().inputs.push_back(v);
  return v;
}

Value* Builder::new_constant(std::shared_ptr<const Tensor> tensor, std::string_view name) {
  Value* v = stack_.front()->graph->new_value();
  v->kind = Value::Kind::Constant;
  v->name = name;
  v->dtype = tensor->dtype;
  for (int64_t s : tensor->sizes) v->shape.push_back(sym.constant(s));
  if ((is_integer(v->dtype) || v->dtype == DType::Bool) && tensor->numel() <= contents_limit) {
    Vector<Dim> contents;
    for (int64_t e : tensor->integers()) contents.push_back(sym.constant(e));
    v->contents = std::move(contents);
  }
  v->constant = std::move(tensor);
  return v;
}

Value* Builder::shared_constant(const std::string& key, Tensor tensor, std::string_view name) {
  Value*& shared = shared_constants_[key];
  if (!shared) shared = new_constant(std::make_shared<Tensor>(std::move(tensor)), name);
  return shared;
}

Value* Builder::weight(const TensorView& view, std::string_view name) {
  if (is_complex(view.dtype)) return from_pairs(weight(pairs_of(view), name));
  std::string key = "weight";
  const void* storage = view.storage.get();
  append_key(key, &storage, sizeof(storage));
  append_key(key, &view.offset, sizeof(view.offset));
  key += static_cast<char>(view.dtype);
  append_key(key, view.sizes.data(), view.sizes.size() * sizeof(int64_t));
  append_key(key, view.strides.data(), view.strides.size() * sizeof(int64_t));
  return shared_constant(key, Tensor(view), name);
}

Value* Builder::constant(Tensor tensor, std::string_view name) {
  if (const TensorView* view = tensor.view(); view && is_complex(view->dtype))
    return from_pairs(constant(pairs_of(*view), name));
  if (const TensorView* view = tensor.view(); view && !name.empty()) return weight(*view, name);
  if (!tensor.view() || tensor.nbytes() > 4096) return new_constant(std::make_shared<Tensor>(std::move(tensor)), name);
  // Small constants are shared by their contents.
  std::vector<std::byte> bytes = tensor.view()->dense_bytes();
  std::string key = "constant";
  key += static_cast<char>(tensor.dtype);
  append_key(key, tensor.sizes.data(), tensor.sizes.size() * sizeof(int64_t));
  key += '\2';
  append_key(key, bytes.data(), bytes.size());
  return shared_constant(key, std::move(tensor), name);
}

Value* Builder::scalar(DType dtype, double v) {
  if (is_complex(dtype)) return complex(scalar(part_type(dtype), v), nullptr);
  std::vector<std::byte> bytes;
  put_real(bytes, dtype, v);
  return constant(TensorView::dense(dtype, {}, std::move(bytes)));
}

Value* Builder::scalar_int(DType dtype, int64_t v) {
  if (is_complex(dtype)) return complex(scalar_int(part_type(dtype), v), nullptr);
  std::vector<std::byte> bytes;
  if (is_float(dtype)) {
    put_real(bytes, dtype, static_cast<double>(v));
  } else {
    put_int(bytes, dtype, v);
  }
  return constant(TensorView::dense(dtype, {}, std::move(bytes)));
}

Value* Builder::ints(std::span<const int64_t> v) { return constant(vector_of(DType::Int64, v)); }

Value* Builder::floats(std::span<const float> v) { return constant(vector_of(DType::Float, v)); }

Value* Builder::reals(DType dtype, Vector<int64_t> sizes, std::span<const double> v) {
  if (is_complex(dtype)) return complex(reals(part_type(dtype), std::move(sizes), v), nullptr);
  std::vector<std::byte> bytes;
  for (double each : v) put_real(bytes, dtype, each);
  return constant(TensorView::dense(dtype, std::move(sizes), std::move(bytes)));
}

Value* Builder::symbolic(Dim e) { return symbolic(DType::Int64, {}, {e}); }

Value* Builder::symbolic(std::span<const Dim> e) {
  return symbolic(DType::Int64, {sym.constant(static_cast<int64_t>(e.size()))}, {e.begin(), e.end()});
}

Value* Builder::symbolic(DType dtype, Shape shape, Vector<Dim> contents) {
  if (all_constant(contents) && all_constant(shape)) {
    std::vector<std::byte> bytes;
    for (Dim d : contents) put_int(bytes, dtype, *d.constant());
    return constant(TensorView::dense(dtype, constants(shape), std::move(bytes)));
  }
  Value* v = graph().new_value();
  v->kind = Value::Kind::Symbolic;
  v->dtype = dtype;
  v->shape = std::move(shape);
  v->contents = std::move(contents);
  return v;
}

Value* Builder::full(const Shape& shape, Value* scalar) { return expand(scalar, shape); }

Dim Builder::symbol_of(Value* v, std::string_view name, std::optional<int64_t> lower) {
  return symbol_of(v, {.name = std::string(name), .lower = lower});
}

Dim Builder::symbol_of(Value* v, const sym::SymbolInfo& facts) {
  v = cast(v, DType::Int64);
  if (std::optional<Dim> known = whole_number(sym, v)) return *known;
  Dim s = sym.symbol(facts);
  bind(s, v);
  return s;
}

}  // namespace lithify::onnx
