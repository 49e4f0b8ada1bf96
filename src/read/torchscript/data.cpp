#include "read/torchscript/data.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unordered_set>

#include "base/diagnostic.hpp"
#include "base/stack.hpp"
#include "program/parse.hpp"

namespace lithify::read {
namespace {

using archive::PickleValue;
using program::Data;
using PickleKind = PickleValue::Kind;

// A value that a pickle writes once and refers to in two bytes is copied here: what copies may add up to.
constexpr size_t max_values = size_t{1} << 23;
constexpr size_t max_text_bytes = size_t{1} << 28;

Data integer(Data::Kind kind, int64_t value) {
  Data d;
  d.kind = kind;
  d.integer = value;
  return d;
}

bool is_native_class(std::string_view name) { return name.starts_with("__torch__.torch.classes."); }
bool is_program_name(const PickleValue& global) {
  return global.module() == "__torch__" || global.module().starts_with("__torch__.");
}

/// Sets the path's last part for as long as it lives.
class Step {
 public:
  Step(std::vector<std::string>& path, std::string_view part) : path_(path) { path_.emplace_back(part); }
  ~Step() { path_.pop_back(); }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

 private:
  std::vector<std::string>& path_;
};

}  // namespace

Data DataReader::read(const PickleValue& value, std::string_view name) {
  path_.clear();
  if (name.empty()) return convert(value);
  const Step step(path_, name);
  return convert(value);
}

std::string DataReader::path() const { return fmt::format("{}", fmt::join(path_, ".")); }

Error DataReader::bad(std::string_view what) const {
  return Error(Code::BadPickle,
               path_.empty() ? fmt::format("the model {}", what) : fmt::format("'{}' in the model {}", path(), what));
}

void DataReader::spend_text(size_t bytes) {
  text_bytes_ += bytes;
  if (text_bytes_ > max_text_bytes)
    throw Error(Code::LimitExceeded,
                fmt::format("the model's attributes have more than {} bytes of text", max_text_bytes));
}

Data DataReader::text(Data::Kind kind, std::string_view text) {
  spend_text(text.size());
  Data d;
  d.kind = kind;
  d.text = text;
  return d;
}

Data DataReader::convert(const PickleValue& value) {
  check_stack();
  if (++values_ > max_values)
    throw Error(Code::LimitExceeded, fmt::format("the model's attributes have more than {} values", max_values));
  switch (value.kind()) {
    case PickleKind::None:
      return {};
    case PickleKind::Bool:
      return integer(Data::Kind::Bool, value.boolean());
    case PickleKind::Int:
      return integer(Data::Kind::Int, value.integer());
    case PickleKind::Float: {
      Data d;
      d.kind = Data::Kind::Float;
      d.real = value.real();
      return d;
    }
    case PickleKind::String:
      return text(Data::Kind::String, value.text());
    case PickleKind::Bytes:
      throw bad("is a bytes object, which TorchScript does not have");
    case PickleKind::Long:
      throw bad("is an integer beyond 64 bits");
    case PickleKind::Global:
      throw bad(fmt::format("is the bare name {}", value.qualified_name()));
    default:
      break;
  }
  const auto found = known_.find(value.node());
  if (found != known_.end()) return found->second;
  Data result = convert_node(value);
  known_.emplace(value.node(), result);
  return result;
}

Data DataReader::convert_node(const PickleValue& value) {
  switch (value.kind()) {
    case PickleKind::Tuple:
      return sequence(Data::Kind::Tuple, value);
    case PickleKind::List:
      return sequence(Data::Kind::List, value);
    case PickleKind::Dict:
      return sequence(Data::Kind::Dict, value);
    case PickleKind::Object:
      return object(value);
    case PickleKind::Reduce:
      return call(value);
    default:
      throw bad("is a bare storage");
  }
}

Data DataReader::sequence(Data::Kind kind, const PickleValue& value) {
  Data d;
  d.kind = kind;
  d.container = std::make_shared<Data::Container>();
  d.container->items.reserve(value.items().size());
  const bool dict = kind == Data::Kind::Dict;
  for (size_t i = 0; i < value.items().size(); ++i) {
    const Step step(path_, std::to_string(dict ? i / 2 : i));
    d.container->items.push_back(convert(value.items()[i]));
  }
  return d;
}

Data DataReader::call(const PickleValue& value) {
  if (TensorReader::is_quantized(value)) return quantized(value);
  if (TensorReader::is_tensor(value)) {
    Data d;
    d.kind = Data::Kind::Tensor;
    d.tensor = tensors_.read(value, path());
    return d;
  }
  const PickleValue& function = value.head();
  if (is_program_name(function)) return enumerator(value);
  if (!value.state().is(PickleKind::None) || !value.items().empty() || !value.args().is(PickleKind::Tuple))
    throw bad(fmt::format("is made by an unusual call of {}", function.qualified_name()));

  const auto args = value.args().items();
  if (function.module() == "torch.jit._pickle") {
    if (function.name() == "restore_type_tag") return tagged(value);
    if (function.name() == "build_intlist") return typed_list(value, "int");
    if (function.name() == "build_doublelist") return typed_list(value, "float");
    if (function.name() == "build_boollist") return typed_list(value, "bool");
    if (function.name() == "build_tensorlist") return typed_list(value, "Tensor");
  }
  if (function.is_global("torch", "device") && args.size() == 1 && args[0].is(PickleKind::String))
    return text(Data::Kind::Device, args[0].text());
  if ((function.is_global("builtins", "complex") || function.is_global("__builtin__", "complex")) && args.size() == 2 &&
      args[0].is(PickleKind::Float) && args[1].is(PickleKind::Float)) {
    Data d;
    d.kind = Data::Kind::Complex;
    d.real = args[0].real();
    d.imag = args[1].real();
    return d;
  }
  if (function.is_global("collections", "OrderedDict") && args.empty()) return sequence(Data::Kind::Dict, value);
  throw bad(fmt::format("is made by calling {}, which no TorchScript file does", function.qualified_name()));
}

Data DataReader::typed_list(const PickleValue& call, std::string_view element) {
  const auto args = call.args().items();
  if (args.size() != 1 || !args[0].is(PickleKind::List)) throw bad("is a typed list without its items");
  Data d = convert(args[0]);
  d.container->type = program::Type{"List", {program::Type{std::string(element), {}}}};
  return d;
}

Data DataReader::tagged(const PickleValue& call) {
  const auto args = call.args().items();
  if (args.size() != 2 || !args[1].is(PickleKind::String)) throw bad("has a malformed type tag");
  Data d = convert(args[0]);
  if (d.kind != Data::Kind::List && d.kind != Data::Kind::Dict && d.kind != Data::Kind::Tuple)
    throw bad("has a type tag, but is not a container");
  spend_text(args[1].text().size());
  d.container->type = program::parse_type(args[1].text());
  return d;
}

Data DataReader::quantized(const PickleValue& call) {
  const auto [integers, scheme] = tensors_.read_quantized(call, path());
  const auto parts = scheme->is(PickleKind::Tuple) ? scheme->items() : std::span<const PickleValue>();
  const bool named = !parts.empty() && parts[0].is(PickleKind::Global) && parts[0].module() == "torch";
  const std::string_view name = named ? parts[0].name() : "";
  Data d;
  d.kind = Data::Kind::Quantized;
  d.container = std::make_shared<Data::Container>();
  std::vector<Data>& items = d.container->items;
  items.emplace_back();
  items.back().kind = Data::Kind::Tensor;
  items.back().tensor = integers;
  if (name == "per_tensor_affine" && parts.size() == 3 && parts[1].is(PickleKind::Float) &&
      parts[2].is(PickleKind::Int)) {
    for (size_t i : {1, 2}) items.push_back(convert(parts[i]));
    items.emplace_back();
    return d;
  }
  const bool whole = name == "per_channel_affine";
  if ((!whole && name != "per_channel_affine_float_qparams") || parts.size() != 4 ||
      !TensorReader::is_tensor(parts[1]) || !TensorReader::is_tensor(parts[2]) || !parts[3].is(PickleKind::Int))
    throw bad("is a quantized tensor without a scheme that is known");
  for (size_t i : {1, 2, 3}) items.push_back(convert(parts[i]));
  const int64_t axis = items[3].integer, rank = static_cast<int64_t>(integers->sizes.size());
  const TensorView *scales = items[1].tensor.get(), *zeros = items[2].tensor.get();
  const bool fits = axis >= 0 && axis < rank && scales && zeros && is_float(scales->dtype) &&
                    (whole ? is_integer(zeros->dtype) : is_float(zeros->dtype)) && scales->sizes == zeros->sizes &&
                    scales->sizes == std::vector{integers->sizes[static_cast<size_t>(axis)]};
  if (!fits) throw bad("is quantized by channels, and has not one scale and zero point for each");
  return d;
}

Data DataReader::enumerator(const PickleValue& call) {
  Data d = text(Data::Kind::Enum, call.head().qualified_name());
  const program::Class* type = program_.find_class(d.text);
  if (!type || type->kind != program::Class::Kind::Enum)
    throw Error(
        Code::BadProgram,
        fmt::format("'{}' is a value of the enumeration {}, which the program does not define", path(), d.text));
  d.container = std::make_shared<Data::Container>();
  d.container->items.push_back(convert(call.args()));
  return d;
}

Data DataReader::object(const PickleValue& value) {
  const std::string class_name = value.head().qualified_name();
  if (!is_program_name(value.head()))
    throw bad(fmt::format("is an object of the Python class {}, which no TorchScript file holds", class_name));
  if (!value.args().items().empty() || !value.items().empty()) throw bad("is an object with arguments");
  spend_text(class_name.size());
  const bool native = is_native_class(class_name);
  const program::Class* type = program_.find_class(class_name);
  if (!type && !native)
    throw Error(Code::BadProgram, fmt::format("'{}' is an object of the class {}, which the program does not define",
                                              path(), class_name));

  Data d;
  d.kind = Data::Kind::Object;
  d.object = std::make_shared<program::Object>();
  d.object->class_name = class_name;
  const PickleValue& state = value.state();
  if (native || type->method("__setstate__")) {
    d.object->state = convert(state);
    return d;
  }
  if (state.is(PickleKind::None)) return d;
  if (!state.is(PickleKind::Dict)) throw bad("is an object whose state is not a dictionary");
  std::unordered_set<std::string_view> names;
  for (size_t i = 0; i < state.items().size(); i += 2) {
    const PickleValue& key = state.items()[i];
    if (!key.is(PickleKind::String)) throw bad("is an object with an attribute that has no name");
    if (!names.insert(key.text()).second) throw bad(fmt::format("has the attribute '{}' twice", key.text()));
    spend_text(key.text().size());
    const Step step(path_, key.text());
    d.object->attributes.emplace_back(key.text(), convert(state.items()[i + 1]));
  }
  return d;
}

}  // namespace lithify::read
