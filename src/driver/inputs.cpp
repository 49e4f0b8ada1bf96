#include "driver/inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

namespace lithify::driver {
namespace {

using program::Data;

bool is_identifier(std::string_view s) {
  auto letter = [](unsigned char c) { return std::isalpha(c) || c == '_' || c >= 0x80; };
  return !s.empty() && letter(static_cast<unsigned char>(s[0])) &&
         std::all_of(s.begin(), s.end(), [&](unsigned char c) { return letter(c) || std::isdigit(c) || c == '.'; });
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

std::optional<int64_t> parse_number(std::string_view s) {
  int64_t v = 0;
  auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (error != std::errc() || end != s.data() + s.size()) return std::nullopt;
  return v;
}

[[noreturn]] void bad_spec(const std::string& text, const std::string& why) {
  throw Error(Code::BadOption, fmt::format("'{}' does not describe an input: {}", text, why),
              "write it as 'x:float32[batch,3,224,224]', with names for dynamic sizes");
}

/// Walks a parameter in parallel with its sample, calling `leaf` for each tensor.
class Inputs {
 public:
  Inputs(const program::Program& program, const ExportOptions& options) : program_(program) {
    for (const std::string& text : options.inputs) specs_.push_back(parse_input_spec(text));
  }

  std::vector<TensorInput> list(const ExportOptions& options) {
    const program::Function& forward = program_.forward();
    for (size_t i = 1; i < forward.parameters.size(); ++i) {
      const program::Parameter& p = forward.parameters[i];
      const Data* sample = nullptr;
      if (program_.samples && i - 1 < program_.samples->size()) sample = &(*program_.samples)[i - 1].value;
      visit(p.name, p.type, sample, p.default_value.has_value());
    }
    rename(options);
    apply_dynamic(options);
    return std::move(found_);
  }

 private:
  void visit(const std::string& path, const program::Type& type, const Data* sample, bool has_default) {
    if (sample && sample->container && sample->kind != Data::Kind::Enum) {
      const std::vector<Data>& items = sample->container->items;
      if (sample->kind == Data::Kind::Dict) {
        for (size_t i = 0; i + 1 < items.size(); i += 2)
          visit(path + "_" + key_text(items[i]), {"Tensor", {}}, &items[i + 1], false);
      } else {
        for (size_t i = 0; i < items.size(); ++i)
          visit(path + "_" + std::to_string(i), {"Tensor", {}}, &items[i], false);
      }
      return;
    }
    if (sample && sample->kind != Data::Kind::Tensor) return;
    if (type.name == "Tuple" && !sample) {
      for (size_t i = 0; i < type.args.size(); ++i) visit(path + "_" + std::to_string(i), type.args[i], nullptr, false);
      return;
    }
    if (!sample && (type.name == "List" || type.name == "Dict")) {
      visit_described(path);
      return;
    }
    bool optional = type.name == "Optional" || has_default;
    if (!sample && type.name != "Tensor" &&
        !(type.name == "Optional" && type.args.size() == 1 && type.args[0].name == "Tensor"))
      return;
    if (!sample && optional && !described(path)) return;
    TensorInput in;
    in.path = in.name = path;
    if (sample) {
      in.dtype = sample->tensor->dtype;
      in.sizes.emplace();
      for (int64_t s : sample->tensor->sizes) in.sizes->push_back({"", s});
    }
    if (const InputSpec* spec = described(path)) {
      if (spec->dtype) in.dtype = spec->dtype;
      if (in.sizes && in.sizes->size() != spec->sizes.size())
        throw Error(Code::BadOption, fmt::format("--input gives {} {} dimensions, and the sample in the file has {}",
                                                 path, spec->sizes.size(), in.sizes->size()));
      std::vector<InputSpec::Size> sizes = spec->sizes;
      for (size_t i = 0; in.sizes && i < sizes.size(); ++i)
        if (!sizes[i].value) sizes[i].value = (*in.sizes)[i].value;
      in.sizes = std::move(sizes);
    }
    found_.push_back(std::move(in));
  }

  // A list or dict without a sample has the elements that the user describes: x_0, x_1, ...
  void visit_described(const std::string& path) {
    for (const InputSpec& spec : specs_)
      if (spec.name.starts_with(path + "_")) visit(spec.name, {"Tensor", {}}, nullptr, false);
  }

  const InputSpec* described(const std::string& path) {
    for (const InputSpec& spec : specs_)
      if (spec.name == path) {
        used_.insert(&spec);
        return &spec;
      }
    return nullptr;
  }

  static std::string key_text(const Data& key) {
    return key.kind == Data::Kind::String ? key.text : std::to_string(key.integer);
  }

  std::string names() const {
    std::string out;
    for (const TensorInput& in : found_) out += (out.empty() ? "" : ", ") + in.path;
    return out;
  }

  void rename(const ExportOptions& options) {
    for (const InputSpec& spec : specs_)
      if (!used_.contains(&spec))
        throw Error(Code::UnknownInput,
                    fmt::format("--input names '{}', and the model's inputs are {}", spec.name, names()));
    if (options.input_names.empty()) return;
    if (options.input_names.size() > found_.size())
      throw Error(Code::BadOption, fmt::format("{} input names are given, and the model has {} tensor inputs ({})",
                                               options.input_names.size(), found_.size(), names()));
    for (size_t i = 0; i < options.input_names.size(); ++i) found_[i].name = options.input_names[i];
    std::set<std::string> distinct;
    for (const TensorInput& in : found_)
      if (!distinct.insert(in.name).second)
        throw Error(Code::BadOption, fmt::format("two inputs are called '{}'", in.name));
  }

  void apply_dynamic(const ExportOptions& options) {
    for (const auto& [name, axes] : options.dynamic_axes) {
      auto in = std::find_if(found_.begin(), found_.end(),
                             [&](const TensorInput& t) { return t.name == name || t.path == name; });
      if (in == found_.end()) continue;  // an output, which is checked once the outputs are known
      if (!in->sizes) throw missing(*in);
      int64_t rank = static_cast<int64_t>(in->sizes->size());
      for (const auto& [axis, dim] : axes) {
        int64_t at = axis < 0 ? axis + rank : axis;
        if (at < 0 || at >= rank)
          throw Error(Code::BadOption,
                      fmt::format("input '{}' has {} dimensions, and axis {} is declared dynamic", name, rank, axis));
        (*in->sizes)[static_cast<size_t>(at)].name = dim;
      }
    }
  }

 public:
  static Error missing(const TensorInput& in) {
    return Error(Code::MissingInputInfo,
                 fmt::format("the file does not say the type and sizes of the input '{}'", in.path),
                 fmt::format("say it: --input '{}:float32[batch,3,224,224]'", in.path));
  }

 private:
  const program::Program& program_;
  std::vector<InputSpec> specs_;
  std::set<const InputSpec*> used_;
  std::vector<TensorInput> found_;
};

/// The symbols that the names of sizes stand for.
class Sizes {
 public:
  explicit Sizes(onnx::Builder& builder) : builder_(builder) {}

  onnx::Dim dim(const TensorInput& in, const InputSpec::Size& size) {
    if (size.name.empty()) return builder_.dim(*size.value);
    Known& known = symbols_[size.name];
    if (!known.symbol) {
      known = {builder_.sym.symbol({.name = size.name, .lower = 1, .upper = {}, .sample = size.value, .divisor = 1}),
               size.value, in.name};
    } else if (known.sample && size.value && *known.sample != *size.value) {
      throw Error(Code::BadOption,
                  fmt::format("the dimension '{}' is {} in the sample of '{}' and {} in that of '{}'", size.name,
                              *known.sample, known.input, *size.value, in.name),
                  "sizes that differ need different names");
    }
    return known.symbol;
  }

 private:
  struct Known {
    onnx::Dim symbol;
    std::optional<int64_t> sample;
    std::string input;
  };
  onnx::Builder& builder_;
  std::map<std::string, Known> symbols_;
};

}  // namespace

InputSpec parse_input_spec(const std::string& text) {
  InputSpec spec;
  size_t open = text.find('[');
  if (open == std::string::npos || text.back() != ']') bad_spec(text, "there is no list of sizes in brackets");
  std::string_view head = trim(std::string_view(text).substr(0, open));
  if (size_t colon = head.find(':'); colon != std::string_view::npos) {
    std::string_view type = trim(head.substr(colon + 1));
    if (!type.empty()) {
      spec.dtype = dtype_named(type);
      if (!spec.dtype) bad_spec(text, fmt::format("there is no type '{}'", type));
    }
    head = trim(head.substr(0, colon));
  }
  if (!is_identifier(head)) bad_spec(text, "the name of the input is missing");
  spec.name = head;
  std::string_view rest = std::string_view(text).substr(open + 1, text.size() - open - 2);
  if (trim(rest).empty()) return spec;
  while (true) {
    size_t comma = rest.find(',');
    std::string_view item = trim(rest.substr(0, comma));
    InputSpec::Size size;
    if (size_t eq = item.find('='); eq != std::string_view::npos) {
      size.value = parse_number(trim(item.substr(eq + 1)));
      size.name = trim(item.substr(0, eq));
      if (!size.value || !is_identifier(size.name)) bad_spec(text, fmt::format("'{}' is not a size", item));
    } else if (auto number = parse_number(item)) {
      size.value = number;
    } else if (is_identifier(item)) {
      size.name = item;
    } else {
      bad_spec(text, fmt::format("'{}' is not a size", item));
    }
    if (size.value && *size.value < 0) bad_spec(text, "a size is negative");
    spec.sizes.push_back(std::move(size));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return spec;
}

std::vector<TensorInput> find_inputs(const program::Program& program, const ExportOptions& options) {
  return Inputs(program, options).list(options);
}

namespace {

/// Puts the graph's inputs back into the containers that forward takes.
class Arguments {
 public:
  Arguments(std::map<std::string, onnx::Value*> tensors, onnx::Builder& builder)
      : tensors_(std::move(tensors)), builder_(builder) {}

  std::optional<eval::Value> make(const std::string& path, const program::Type& type, const Data* sample) {
    if (auto found = tensors_.find(path); found != tensors_.end()) return eval::Value(found->second);
    if (sample && sample->container) {
      std::vector<eval::Value> items;
      const std::vector<Data>& from = sample->container->items;
      if (sample->kind == Data::Kind::Dict) {
        auto dict = std::make_shared<eval::Dict>();
        for (size_t i = 0; i + 1 < from.size(); i += 2) {
          std::string key = from[i].kind == Data::Kind::String ? from[i].text : std::to_string(from[i].integer);
          eval::Value k =
              from[i].kind == Data::Kind::String ? eval::Value(key) : eval::Value(builder_.dim(from[i].integer));
          dict->set(k, make(path + "_" + key, {"Tensor", {}}, &from[i + 1]).value_or(eval::None{}));
        }
        return dict;
      }
      for (size_t i = 0; i < from.size(); ++i)
        items.push_back(make(path + "_" + std::to_string(i), {"Tensor", {}}, &from[i]).value_or(eval::None{}));
      return sample->kind == Data::Kind::Tuple ? eval::Value::tuple(std::move(items))
                                               : eval::Value::list(std::move(items));
    }
    if (sample) {
      switch (sample->kind) {
        case Data::Kind::Int:
          return builder_.dim(sample->integer);
        case Data::Kind::Bool:
          return sample->integer != 0;
        case Data::Kind::Float:
          return sample->real;
        case Data::Kind::String:
          return sample->text;
        default:
          return eval::None{};
      }
    }
    if (type.name == "Tuple") {
      std::vector<eval::Value> items;
      for (size_t i = 0; i < type.args.size(); ++i)
        items.push_back(make(path + "_" + std::to_string(i), type.args[i], nullptr).value_or(eval::None{}));
      return eval::Value::tuple(std::move(items));
    }
    if (type.name == "List" || type.name == "Dict") {
      auto dict = std::make_shared<eval::Dict>();
      std::vector<eval::Value> items;
      for (size_t i = 0;; ++i) {
        auto found = tensors_.find(path + "_" + std::to_string(i));
        if (found == tensors_.end()) break;
        items.emplace_back(found->second);
      }
      for (auto& [name, value] : tensors_)
        if (name.starts_with(path + "_")) dict->set(name.substr(path.size() + 1), value);
      return type.name == "List" ? eval::Value::list(std::move(items)) : eval::Value(dict);
    }
    if (type.name == "Optional") return eval::None{};
    return std::nullopt;
  }

 private:
  std::map<std::string, onnx::Value*> tensors_;
  onnx::Builder& builder_;
};

}  // namespace

std::vector<eval::Value> make_inputs(const program::Program& program, const ExportOptions& options,
                                     onnx::Builder& builder) {
  std::map<std::string, onnx::Value*> tensors;
  Sizes sizes(builder);
  std::vector<Diagnostic> missing;
  for (const TensorInput& in : find_inputs(program, options)) {
    if (!in.dtype || !in.sizes) {
      if (in.sizes && !in.dtype) {
        missing.push_back(Error(Code::MissingInputInfo, fmt::format("the type of the input '{}' is not known", in.path),
                                fmt::format("say it: --input '{}:float32[...]'", in.path))
                              .first());
      } else {
        missing.push_back(Inputs::missing(in).first());
      }
      continue;
    }
    onnx::Shape shape;
    for (const InputSpec::Size& s : *in.sizes) shape.push_back(sizes.dim(in, s));
    tensors[in.path] = builder.input(in.name, *in.dtype, std::move(shape));
  }
  if (!missing.empty()) throw Error(std::move(missing));
  Arguments arguments(std::move(tensors), builder);
  std::vector<eval::Value> out;
  const program::Function& forward = program.forward();
  for (size_t i = 1; i < forward.parameters.size(); ++i) {
    const program::Parameter& p = forward.parameters[i];
    const Data* sample =
        program.samples && i - 1 < program.samples->size() ? &(*program.samples)[i - 1].value : nullptr;
    std::optional<eval::Value> v = arguments.make(p.name, p.type, sample);
    if (!v && p.default_value) break;  // this and all that follow have defaults
    if (!v)
      throw Error(Code::MissingInputInfo,
                  fmt::format("forward takes '{}' of type {}, which is no tensor", p.name, p.type.str()),
                  "give the argument a default value in the model, or trace the model with it");
    out.push_back(*v);
  }
  return out;
}

}  // namespace lithify::driver
