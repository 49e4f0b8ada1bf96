// From the inputs that were found to the inputs of a graph, and to the arguments of forward.
#include <fmt/format.h>

#include <map>

#include "driver/input_sizes.hpp"

namespace lithify::driver {
namespace {

using eval::Value;
using program::Data;
using program::Type;

/// Puts the graph's inputs back into the containers that forward takes.
class Arguments {
 public:
  /// `inputs` are by path.
  Arguments(std::map<std::string, Value> inputs, onnx::Builder& builder)
      : inputs_(std::move(inputs)), builder_(builder) {}

  /// The argument for a parameter; empty when neither an input nor the sample nor the type gives one.
  std::optional<Value> make(const std::string& path, const Type& type, const Data* sample) const {
    if (const Value* input = find(path)) return *input;
    return sample ? from_sample(path, *sample) : from_type(path, type);
  }

 private:
  const Value* find(const std::string& path) const {
    const auto found = inputs_.find(path);
    return found == inputs_.end() ? nullptr : &found->second;
  }

  Value from_sample(const std::string& path, const Data& sample) const {
    switch (sample.kind) {
      case Data::Kind::Int:
        return builder_.dim(sample.integer);
      case Data::Kind::Bool:
        return sample.integer != 0;
      case Data::Kind::Float:
        return sample.real;
      case Data::Kind::String:
        return sample.text;
      case Data::Kind::Dict:
        return dict_of(path, sample.container->items);
      case Data::Kind::List:
        return Value::list(items_of(path, sample.container->items));
      case Data::Kind::Tuple:
        return Value::tuple(items_of(path, sample.container->items));
      default:
        return eval::None{};
    }
  }

  Value item(const std::string& path, const Data& sample) const {
    const Value* input = find(path);
    return input ? *input : from_sample(path, sample);
  }

  std::vector<Value> items_of(const std::string& path, const std::vector<Data>& samples) const {
    std::vector<Value> out;
    for (size_t i = 0; i < samples.size(); ++i) out.push_back(item(path_below(path, i), samples[i]));
    return out;
  }

  /// `items` has each key followed by its value.
  Value dict_of(const std::string& path, const std::vector<Data>& items) const {
    auto dict = std::make_shared<eval::Dict>();
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      const Data& key = items[i];
      dict->set(key.kind == Data::Kind::String ? Value(key.text) : Value(builder_.dim(key.integer)),
                item(path_below(path, key), items[i + 1]));
    }
    return dict;
  }

  std::optional<Value> from_type(const std::string& path, const Type& type) const {
    if (type.name == "Tuple") {
      std::vector<Value> items;
      for (size_t i = 0; i < type.args.size(); ++i)
        items.push_back(make(path_below(path, i), type.args[i], nullptr).value_or(eval::None{}));
      return Value::tuple(std::move(items));
    }
    if (type.name == "List") {
      std::vector<Value> items;
      while (const Value* input = find(path_below(path, items.size()))) items.push_back(*input);
      return Value::list(std::move(items));
    }
    if (type.name == "Dict") {
      auto dict = std::make_shared<eval::Dict>();
      for (const auto& [name, value] : inputs_)
        if (name.starts_with(path + "_")) dict->set(name.substr(path.size() + 1), value);
      return dict;
    }
    if (type.name == "Optional") return eval::None{};
    return std::nullopt;
  }

  std::map<std::string, Value> inputs_;
  onnx::Builder& builder_;
};

/// The value of an expression without names or operators, as defaults are written.
std::optional<Value> literal(const program::Expr& e, onnx::Builder& builder) {
  using Kind = program::Expr::Kind;
  switch (e.kind) {
    case Kind::Int:
      return builder.dim(e.integer);
    case Kind::Float:
      return e.real;
    case Kind::Bool:
      return e.integer != 0;
    case Kind::None:
      return eval::None{};
    case Kind::String:
      return e.name;
    case Kind::Tuple: {
      std::vector<Value> items;
      for (const program::Expr& item : e.items) {
        std::optional<Value> v = literal(item, builder);
        if (!v) return std::nullopt;
        items.push_back(std::move(*v));
      }
      return Value::tuple(std::move(items));
    }
    default:
      return std::nullopt;
  }
}

/// Appends an input to the graph, and returns what the program sees of it.
Value make_input(const TensorInput& in, InputSizes& sizes, onnx::Builder& builder) {
  onnx::Shape shape;
  for (const InputSpec::Size& s : *in.sizes) shape.push_back(sizes.dim(in, s));
  onnx::Value* value = builder.input(in.name, *in.dtype, std::move(shape));
  if (in.integer) return sizes.integer(in, value);
  if (!in.number) return value;
  return in.dtype == DType::Int64 ? Value(builder.symbol_of(value, in.name)) : eval::run_time_number(value);
}

std::map<std::string, Value> make_all(const std::vector<TensorInput>& inputs, InputSizes& sizes,
                                      onnx::Builder& builder) {
  std::map<std::string, Value> out;
  std::vector<Diagnostic> missing;
  for (const TensorInput& in : inputs) {
    if (in.dtype && in.sizes) {
      out[in.path] = make_input(in, sizes, builder);
    } else {
      missing.push_back(missing_info(in).first());
    }
  }
  if (!missing.empty()) throw Error(std::move(missing));
  return out;
}

}  // namespace

ModelInputs make_inputs(const program::Program& program, const std::vector<TensorInput>& inputs,
                        onnx::Builder& builder) {
  ModelInputs out;
  InputSizes sizes(program, builder);
  sizes.define(inputs);
  const Arguments arguments(make_all(inputs, sizes, builder), builder);
  const program::Function& forward = program.forward();
  for (size_t i = 1; i < forward.parameters.size(); ++i) {
    const program::Parameter& p = forward.parameters[i];
    const program::SampleInput* sample = sample_of(program, i);
    std::optional<Value> v = arguments.make(p.name, p.type, sample ? &sample->value : nullptr);
    if (!v && p.default_value) {
      v = literal(*p.default_value, builder);
      if (!v && i + 1 == forward.parameters.size()) break;  // the evaluator knows it
    }
    if (!v)
      throw Error(Code::MissingInputInfo,
                  fmt::format("forward takes '{}' of type {}, which is not a tensor", p.name, p.type.str()),
                  "give the argument a default value in the model, or trace the model with it");
    out.arguments.push_back(*v);
  }
  out.symbols = std::move(sizes.symbols);
  out.assumed = std::move(sizes.assumed);
  return out;
}

}  // namespace lithify::driver
