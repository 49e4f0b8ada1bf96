#include "eval/call.hpp"

#include <fmt/format.h>

#include "base/checked.hpp"
#include "base/options.hpp"
#include "eval/evaluator.hpp"

namespace lithify::eval {
namespace {

[[noreturn]] void wrong_kind(const Schema& schema, std::string_view name, const Value& v, std::string_view wanted) {
  throw Error(Code::TypeMismatch, fmt::format("{}: argument '{}' is a {}, and {} is needed", schema.full_name(), name,
                                              v.kind_name(), wanted));
}

[[noreturn]] void run_time(const Schema& schema, std::string_view name) {
  throw Error(Code::UnsupportedArgument,
              fmt::format("{}: argument '{}' must be known at export, and is computed from the inputs",
                          schema.full_name(), name),
              "make it a constant of the model");
}

// Appends a text that is the same for the same number, string or list; false for other values.
bool append_key(std::string& key, const Value& v) {
  if (v.is_int()) {
    key += fmt::format("i{}", static_cast<const void*>(v.integer().node()));
  } else if (auto* d = v.get_if<double>()) {
    key += fmt::format("f{}", *d);
  } else if (auto* b = v.get_if<bool>()) {
    key += *b ? "t" : "f";
  } else if (v.is_none()) {
    key += "n";
  } else if (v.is_list() || v.is<Tuple>()) {
    key += "[";
    for (const Value& item : v.items())
      if (!append_key(key, item)) return false;
    key += "]";
  } else {
    return false;
  }
  key += ",";
  return true;
}

// The name of an element type of PyTorch by its number, of those that are not supported.
std::string_view unsupported_type(int64_t number) {
  static constexpr std::string_view names[] = {
      "uint1", "uint2", "uint3", "uint4", "uint5", "uint6", "uint7", "int1",
      "int2",  "int3",  "int4",  "int5",  "int6",  "int7",  "",      "float4_e2m1fn_x2"};
  constexpr int64_t first = 30;
  return number >= first && number < first + std::ssize(names) ? names[number - first] : std::string_view();
}

}  // namespace

size_t Call::index(std::string_view name) const {
  for (size_t i = 0; i < schema.arguments.size(); ++i)
    if (schema.arguments[i].name == name) return i;
  throw Error(Code::Internal, fmt::format("{} has no argument '{}'", schema.full_name(), name));
}

const Value& Call::arg(std::string_view name) const { return arguments_[index(name)]; }

onnx::Value* Call::as_tensor(const Value& v) {
  if (v.is_tensor()) return v.tensor()->read(onnx);
  if (v.is_int()) return onnx.symbolic(v.integer());
  if (auto* d = v.get_if<double>()) return onnx.scalar(DType::Float, *d);
  if (auto* b = v.get_if<bool>()) return onnx.scalar_int(DType::Bool, *b);
  if (v.is<std::complex<double>>()) return as_tensor(v, DType::ComplexFloat);
  throw Error(Code::TypeMismatch,
              fmt::format("{}: a {} stands where a tensor is needed", schema.full_name(), v.kind_name()));
}

onnx::Value* Call::as_tensor(const Value& v, DType dtype) {
  if (auto* d = v.get_if<double>()) return onnx.scalar(dtype, *d);
  if (v.is_int() && v.integer().is_constant()) return onnx.scalar_int(dtype, *v.integer().constant());
  if (auto* z = v.get_if<std::complex<double>>()) {
    DType part = part_type(complex_type(dtype));
    return onnx.cast(onnx.complex(onnx.scalar(part, z->real()), onnx.scalar(part, z->imag())), dtype);
  }
  return onnx.cast(as_tensor(v), dtype);
}

onnx::Value* Call::tensor(std::string_view name) { return as_tensor(arg(name)); }

onnx::Value* Call::maybe_tensor(std::string_view name) { return none(name) ? nullptr : tensor(name); }

TensorPtr Call::tensor_ref(std::string_view name) const {
  const Value& v = arg(name);
  if (!v.is_tensor()) wrong_kind(schema, name, v, "a tensor");
  return v.tensor();
}

Vector<onnx::Value*> Call::tensors(std::string_view name) {
  Vector<onnx::Value*> out;
  for (const Value& v : arg(name).items()) out.push_back(as_tensor(v));
  return out;
}

Vector<onnx::Value*> Call::maybe_tensors(std::string_view name) {
  Vector<onnx::Value*> out;
  for (const Value& v : arg(name).items()) out.push_back(v.is_none() ? nullptr : as_tensor(v));
  return out;
}

Dim Call::as_size(std::string_view name, const Value& v) {
  if (v.is_int()) return v.integer();
  if (auto* b = v.get_if<bool>()) return sym.constant(*b);
  if (auto* d = v.get_if<double>())
    if (const std::optional<int64_t> whole = exact_integer(*d)) return sym.constant(*whole);
  // A number known only at run time where an int is expected is a whole one: what math.floor gives.
  if (v.is_tensor() && v.tensor()->rank() == 0 && (v.tensor()->is_number || !is_float(v.tensor()->dtype())))
    return onnx.symbol_of(v.tensor()->read(onnx), "n");
  wrong_kind(schema, name, v, "an int");
}

Dim Call::size(std::string_view name) { return as_size(name, arg(name)); }

std::optional<Dim> Call::maybe_size(std::string_view name) {
  if (none(name)) return std::nullopt;
  return size(name);
}

Vector<Dim> Call::sizes(std::string_view name) {
  const Value& v = arg(name);
  Vector<Dim> out;
  if (v.is_list() || v.is<Tuple>()) {
    for (const Value& item : v.items()) out.push_back(as_size(name, item));
  } else {
    out.push_back(as_size(name, v));
  }
  if (int n = schema.argument(name)->fixed; n > 1 && out.size() == 1) out.resize(static_cast<size_t>(n), out[0]);
  return out;
}

int64_t Call::as_integer(std::string_view name, Dim size) const {
  constexpr int64_t most = int64_t{1} << 31;
  const std::optional<int64_t> v = size.constant();
  if (!v) run_time(schema, name);
  if (*v < -most || *v > most) unsupported(fmt::format("the argument '{}' is as large as {}", name, *v));
  return *v;
}

int64_t Call::integer(std::string_view name) { return as_integer(name, size(name)); }

std::optional<int64_t> Call::maybe_integer(std::string_view name) {
  if (none(name)) return std::nullopt;
  return integer(name);
}

Vector<int64_t> Call::integers(std::string_view name) {
  Vector<int64_t> out;
  for (Dim d : sizes(name)) out.push_back(as_integer(name, d));
  return out;
}

double Call::as_real(std::string_view name, const Value& v) {
  if (auto* d = v.get_if<double>()) return *d;
  if (auto* b = v.get_if<bool>()) return *b;
  if (v.is_int()) {
    if (!v.integer().is_constant()) run_time(schema, name);
    return static_cast<double>(*v.integer().constant());
  }
  if (v.is_tensor()) {
    onnx::Value* t = v.tensor()->read(onnx);
    if (!t->constant || t->constant->numel() != 1) run_time(schema, name);
    return t->constant->reals()[0];
  }
  wrong_kind(schema, name, v, "a number");
}

double Call::real(std::string_view name) { return as_real(name, arg(name)); }

std::optional<double> Call::maybe_real(std::string_view name) {
  if (none(name)) return std::nullopt;
  return real(name);
}

Vector<double> Call::reals(std::string_view name) {
  Vector<double> out;
  for (const Value& v : arg(name).items()) out.push_back(as_real(name, v));
  return out;
}

bool Call::flag(std::string_view name) {
  const Value& v = arg(name);
  if (auto* b = v.get_if<bool>()) return *b;
  return as_real(name, v) != 0;
}

std::string Call::text(std::string_view name) {
  const Value& v = arg(name);
  if (auto* s = v.get_if<std::string>()) return *s;
  wrong_kind(schema, name, v, "a string");
}

std::optional<std::string> Call::maybe_text(std::string_view name) {
  if (none(name)) return std::nullopt;
  return text(name);
}

std::optional<DType> Call::maybe_dtype(std::string_view name) {
  if (none(name)) return std::nullopt;
  int64_t number = integer(name);
  if (auto t = dtype_of_torch(number)) return t;
  throw Error(Code::UnsupportedType,
              unsupported_type(number).empty()
                  ? fmt::format("{}: there is no scalar type {}", schema.full_name(), number)
                  : fmt::format("{}: tensors of {} are not supported, in which ONNX Runtime does not compute",
                                schema.full_name(), unsupported_type(number)));
}

int64_t Call::wrapped_dim(int64_t d, size_t rank) const {
  int64_t n = std::max<int64_t>(1, static_cast<int64_t>(rank));
  if (d < -n || d >= n)
    throw Error(Code::ShapeMismatch, fmt::format("{}: there is no dimension {} of {}", schema.full_name(), d, rank));
  return d < 0 ? d + n : d;
}

int64_t Call::dim(std::string_view name, size_t rank) { return wrapped_dim(integer(name), rank); }

Vector<int64_t> Call::dims(std::string_view name, size_t rank) {
  Vector<int64_t> out = integers(name);
  for (int64_t& d : out) d = wrapped_dim(d, rank);
  return out;
}

onnx::Value* Call::number(std::string_view name, DType dtype) { return as_tensor(arg(name), dtype); }

onnx::Value* Call::tensor_as(std::string_view name, DType dtype) { return as_tensor(arg(name), dtype); }

onnx::Value* Call::float_tensor(std::string_view name) {
  onnx::Value* v = tensor(name);
  return is_float(v->dtype) || is_complex(v->dtype) ? v : onnx.cast(v, DType::Float);
}

DType Call::result_type(std::initializer_list<std::string_view> names) {
  Vector<Value> values;
  for (std::string_view n : names) values.push_back(arg(n));
  return result_type(values);
}

DType Call::result_type(const Vector<Value>& values) { return eval::result_type(values); }

Value Call::view(std::string_view name, std::function<onnx::Value*(onnx::Builder&, onnx::Value*)> forward,
                 std::function<onnx::Value*(onnx::Builder&, onnx::Value*, onnx::Value*)> inverse, bool dense) {
  const Value& v = arg(name);
  if (!v.is_tensor()) return forward(onnx, as_tensor(v));
  TensorPtr base = v.tensor();
  onnx::Value* now = forward(onnx, base->read(onnx));
  std::string key = fmt::format("{}#{},", schema.full_name(), views_++);
  for (size_t i = 0; i < arguments_.size(); ++i)
    if (i != index(name) && !key.empty() && !append_key(key, arguments_[i])) key.clear();
  return std::make_shared<Tensor>(now, base, View{std::move(forward), std::move(inverse), schema.name, dense, key});
}

Value Call::call(std::string_view name, Vector<Value> positional, Vector<std::pair<std::string, Value>> keywords) {
  return evaluator.apply(name, std::move(positional), std::move(keywords));
}

void Call::unsupported(const std::string& what) const {
  throw Error(Code::UnsupportedArgument, fmt::format("{}: {}", schema.full_name(), what));
}

void Call::needs_opset(int wanted) const {
  throw Error(Code::NeedsOpset, fmt::format("{} needs opset {}", schema.full_name(), wanted),
              fmt::format("export with {} or higher", option("opset", wanted)));
}

void Call::mismatch(const std::string& what) const {
  throw Error(Code::ShapeMismatch, fmt::format("{}: {}", schema.full_name(), what));
}

}  // namespace lithify::eval
