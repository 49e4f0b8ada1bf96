// The model's data: tensors, containers and objects of the file as values.
#include <fmt/format.h>

#include "base/stack.hpp"
#include "eval/evaluator.hpp"

namespace lithify::eval {

// Gives every tensor and object its name in the state dict: the first path that leads to it from the root.
void Evaluator::name_weights(const program::Data& data, const std::string& path, std::set<const void*>& seen) {
  check_stack();
  auto below = [&](const std::string& name) { return path.empty() ? name : path + "." + name; };
  if (data.tensor) paths_.try_emplace(data.tensor.get(), path);
  if (data.object && seen.insert(data.object.get()).second) {
    paths_.try_emplace(data.object.get(), path);
    for (auto& [name, value] : data.object->attributes) name_weights(value, below(name), seen);
    if (data.object->state) name_weights(*data.object->state, path, seen);
  }
  if (data.kind == program::Data::Kind::Quantized) {
    const char* parts[] = {"", "scale", "zero_point"};
    for (size_t i = 0; i < std::size(parts); ++i)
      name_weights(data.container->items.at(i), i == 0 ? path : below(parts[i]), seen);
    return;
  }
  if (data.container && seen.insert(data.container.get()).second)
    for (size_t i = 0; i < data.container->items.size(); ++i)
      name_weights(data.container->items[i], below(std::to_string(i)), seen);
}

Value Evaluator::from_data(const program::Data& data) {
  check_stack();
  using K = program::Data::Kind;
  auto shared = [&](const void* identity, auto make) -> Value {
    if (auto found = converted_.find(identity); found != converted_.end()) return found->second;
    Value v = make();
    converted_[identity] = v;
    return v;
  };
  switch (data.kind) {
    case K::None:
      return None{};
    case K::Bool:
      return data.integer != 0;
    case K::Int:
      return builder_.dim(data.integer);
    case K::Float:
      return data.real;
    case K::Complex:
      return std::complex<double>(data.real, data.imag);
    case K::String:
      return data.text;
    case K::Device:
      return Device{data.text};
    case K::Tensor:
      return shared(data.tensor.get(), [&]() -> Value { return contents_at_first(*data.tensor); });
    case K::List:
      return shared(data.container.get(), [&]() -> Value {
        Vector<Value> items;
        for (const program::Data& d : data.container->items) items.push_back(from_data(d));
        return Value::list(std::move(items));
      });
    case K::Tuple:
      return shared(data.container.get(), [&]() -> Value {
        Vector<Value> items;
        for (const program::Data& d : data.container->items) items.push_back(from_data(d));
        return Value::tuple(std::move(items));
      });
    case K::Dict:
      return shared(data.container.get(), [&]() -> Value {
        auto dict = std::make_shared<Dict>();
        const auto& items = data.container->items;
        for (size_t i = 0; i + 1 < items.size(); i += 2) dict->add(from_data(items[i]), from_data(items[i + 1]));
        return dict;
      });
    case K::Object:
      return from_object(data.object);
    case K::Enum: {
      const program::Class* type = program_.find_class(data.text);
      Value value = from_data(data.container->items.at(0));
      std::string name;
      Frame frame;
      for (size_t i = 0; type && i < type->constants.size(); ++i)
        if (equal(builder_.sym, evaluate(type->constants[i].second, frame), value) == true)
          name = type->constants[i].first;
      return Enum{type, name, std::make_shared<Value>(value)};
    }
    case K::Quantized:
      return shared(data.container.get(), [&]() -> Value {
        const auto& items = data.container->items;
        const bool channels = items.at(3).kind == K::Int;
        auto numbers = [&](const program::Data& d) { return from_data(d).tensor()->read(builder_); };
        auto zero_points = [&](onnx::Value* z) {
          return builder_.cast(z, is_float(z->dtype) ? DType::Double : DType::Int64);
        };
        return Quantized{
            from_data(items[0]).tensor(),
            channels ? builder_.cast(numbers(items[1]), DType::Double) : builder_.scalar(DType::Double, items[1].real),
            channels ? zero_points(numbers(items[2])) : builder_.scalar_int(DType::Int64, items[2].integer),
            channels ? std::optional(items[3].integer) : std::nullopt};
      });
  }
  return None{};
}

std::shared_ptr<Object> Evaluator::from_object(const std::shared_ptr<program::Object>& object) {
  if (auto found = converted_.find(object.get()); found != converted_.end())
    return *found->second.get_if<std::shared_ptr<Object>>();
  auto out = std::make_shared<Object>();
  converted_[object.get()] = out;
  out->class_name = object->class_name;
  out->type = program_.find_class(object->class_name);
  if (auto path = paths_.find(object.get()); path != paths_.end()) out->path = path->second;
  const std::string prefix = out->path.empty() ? "" : out->path + ".";
  for (auto& [name, data] : object->attributes)
    out->attributes.emplace_back(name, attribute_at_first(data, prefix + name));
  if (object->state) {
    const program::Function* set = out->type ? out->type->method("__setstate__") : nullptr;
    if (set) {
      call_function(*set, {{out, from_data(*object->state)}});
    } else {
      out->set("__state__", from_data(*object->state));
    }
  }
  return out;
}

Value Evaluator::constant(int64_t index) {
  if (index < 0 || static_cast<size_t>(index) >= program_.constants.size())
    throw Error(Code::BadProgram, fmt::format("the program has no constant {}", index));
  auto found = constants_.find(index);
  if (found == constants_.end())
    found = constants_.emplace(index, from_data(program_.constants[static_cast<size_t>(index)])).first;
  const Value& v = found->second;
  if (const auto* q = v.get_if<Quantized>()) {
    Quantized own = *q;
    own.integers = std::make_shared<Tensor>(q->integers->read(builder_));
    return own;
  }
  if (!v.is_tensor()) return v;
  // Every use is a tensor of its own: the program may write to it.
  auto tensor = std::make_shared<Tensor>(v.tensor()->read(builder_));
  // Tracing stores a Python number as a 0-d tensor.
  tensor->is_number = tensor->rank() == 0;
  return tensor;
}

}  // namespace lithify::eval
