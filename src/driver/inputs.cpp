#include "driver/inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <span>

#include "base/checked.hpp"
#include "program/print.hpp"

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

/// A formula that is factor * symbol + offset.
struct Linear {
  std::string symbol;
  int64_t factor = 1;
  int64_t offset = 0;
};
std::optional<Linear> linear(const program::Expr& e) {
  using Kind = program::Expr::Kind;
  if (e.kind == Kind::Name) return Linear{e.name};
  if (e.kind != Kind::Operator || e.items.size() != 2) return std::nullopt;
  const bool swapped = e.items[0].kind == Kind::Int;
  const program::Expr& number = e.items[swapped ? 0 : 1];
  std::optional<Linear> inner = number.kind == Kind::Int ? linear(e.items[swapped ? 1 : 0]) : std::nullopt;
  if (!inner) return std::nullopt;
  if (e.name == "aten::add") {
    inner->offset = checked_add(inner->offset, number.integer);
  } else if (e.name == "aten::mul" && number.integer >= 1) {
    inner->factor = checked_mul(inner->factor, number.integer);
    inner->offset = checked_mul(inner->offset, number.integer);
  } else {
    return std::nullopt;
  }
  return inner;
}

/// The element type of a parameter that is a number of Python.
std::optional<DType> number_type(const program::Type& type) {
  if (type.name == "Optional" && type.args.size() == 1) return number_type(type.args[0]);
  if (type.name == "int") return DType::Int64;
  if (type.name == "float") return DType::Double;
  if (type.name == "bool") return DType::Bool;
  return std::nullopt;
}

/// Walks a parameter in parallel with its sample, calling `leaf` for each tensor.
class Inputs {
 public:
  Inputs(const program::Program& program, const ExportOptions& options)
      : program_(program), opens_fixed_(!options.also.empty()) {
    for (const std::string& text : options.inputs) specs_.push_back(parse_input_spec(text));
  }

  std::vector<TensorInput> list(const ExportOptions& options) {
    const program::Function& forward = program_.forward();
    for (size_t i = 1; i < forward.parameters.size(); ++i) {
      const program::Parameter& p = forward.parameters[i];
      const program::SampleInput* known = nullptr;
      if (program_.samples && i - 1 < program_.samples->size()) known = &(*program_.samples)[i - 1];
      visit(p.name, p.type, known ? &known->value : nullptr, p.default_value.has_value(),
            known ? std::span(known->formulas) : std::span<const program::Expr>());
    }
    rename(options);
    apply_dynamic(options);
    name_symbols();
    return std::move(found_);
  }

 private:
  void visit(const std::string& path, const program::Type& type, const Data* sample, bool has_default,
             std::span<const program::Expr> formulas = {}) {
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
    if (sample && sample->kind == Data::Kind::Int && formulas.size() == 1) {
      found_.push_back({path, path, DType::Int64, std::vector<InputSpec::Size>{}, true, &formulas[0]});
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
    if (const std::optional<DType> number = sample ? std::nullopt : number_type(type)) {
      if (described(path))
        found_.push_back({.path = path, .name = path, .dtype = number, .sizes = {{}}, .number = true});
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
      for (int64_t s : sample->tensor->sizes) in.sizes->push_back({.value = s});
      in.settled = !formulas.empty();
      for (size_t i = 0; i < formulas.size() && i < in.sizes->size(); ++i)
        if (formulas[i].kind != program::Expr::Kind::Int) (*in.sizes)[i].formula = &formulas[i];
    }
    if (const InputSpec* spec = described(path)) {
      if (in.settled && spec->dtype && spec->dtype != in.dtype)
        throw Error(Code::BadOption, fmt::format("--input says that {} is {}, and in the file it is {}", path,
                                                 name_of(*spec->dtype), name_of(*in.dtype)));
      if (spec->dtype) in.dtype = spec->dtype;
      if (in.sizes && in.sizes->size() != spec->sizes.size())
        throw Error(Code::BadOption, fmt::format("--input gives {} {} dimensions, and the sample in the file has {}",
                                                 path, spec->sizes.size(), in.sizes->size()));
      std::vector<InputSpec::Size> sizes = spec->sizes;
      for (size_t i = 0; i < sizes.size(); ++i) {
        sizes[i].given = true;
        if (!in.sizes) continue;
        const InputSpec::Size& file = (*in.sizes)[i];
        sizes[i].formula = file.formula;
        if (in.settled && !file.formula && !opens_fixed_ && (!sizes[i].name.empty() || sizes[i].value != file.value))
          throw hard_coded(path, i, file);
        if (!sizes[i].value) sizes[i].value = file.value;
      }
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
        InputSpec::Size& size = (*in->sizes)[static_cast<size_t>(at)];
        if (in->settled && !size.formula && !opens_fixed_) throw hard_coded(name, static_cast<size_t>(at), size);
        size.name = dim;
        size.given = true;
      }
    }
  }

  static bool is_symbol(const InputSpec::Size& size) {
    return size.formula && size.formula->kind == program::Expr::Kind::Name;
  }

  /// A symbol of the file has one name on all axes: the first that the user gives one of them, or one after the first
  /// of them. The other open sizes are formulas.
  void name_symbols() {
    std::map<std::string, InputSpec::Size> symbols;
    for (bool given : {true, false})
      for (const TensorInput& in : found_)
        for (size_t i = 0; in.sizes && i < in.sizes->size(); ++i) {
          const InputSpec::Size& size = (*in.sizes)[i];
          if (!size.formula || size.given != given) continue;
          InputSpec::Size chosen = size;
          if (!given) chosen.name = fmt::format("{}_dim{}", in.name, i);
          if (is_symbol(size)) {
            const auto [known, first] = symbols.try_emplace(size.formula->name, chosen);
            if (given && !first && known->second.name != chosen.name)
              warn(fmt::format("axis {} of '{}' is the same size as another input's, and is called '{}'", i, in.name,
                               known->second.name));
          }
        }
    sym::Context context;
    eval::SymbolTable table;
    for (const auto& [symbol, size] : symbols)
      table.emplace(symbol, size.name.empty() ? context.constant(*size.value) : context.symbol({.name = size.name}));
    for (TensorInput& in : found_)
      for (size_t i = 0; in.sizes && i < in.sizes->size(); ++i) {
        InputSpec::Size& size = (*in.sizes)[i];
        if (!size.formula) continue;
        if (is_symbol(size)) {
          const InputSpec::Size& named = symbols.at(size.formula->name);
          size.name = named.name;
          if (named.name.empty()) size.value = named.value;
          continue;
        }
        if (const auto line = linear(*size.formula); line && !table.contains(line->symbol)) {
          if (!size.given) size.name = fmt::format("{}_dim{}", in.name, i);
          table.emplace(line->symbol, context.symbol({.name = line->symbol}));
          continue;
        }
        const std::optional<sym::Expr> known = eval::evaluate_formula(context, *size.formula, table);
        const std::string formula = known ? known->str() : program::print(*size.formula);
        if (size.given)
          warn(fmt::format("axis {} of '{}' is {} in the file, and is called so instead of '{}'", i, in.name, formula,
                           size.name));
        size.name = formula;
      }
  }

  void warn(std::string what) { warnings.push_back({Code::BadOption, Severity::Warning, std::move(what), {}, "", ""}); }

 public:
  std::vector<Diagnostic> warnings;

  static Error hard_coded(const std::string& name, size_t axis, const InputSpec::Size& size) {
    return Error(
        Code::HardCodedSize,
        fmt::format("axis {} of the input '{}' has the fixed size {} in the file", axis, name, size.value.value_or(0)),
        fmt::format("export the program again with dynamic_shapes={{'{}': {{{}: torch.export.Dim.DYNAMIC}}}}, or give "
                    "a second one of other sizes by --also",
                    name, axis));
  }

  static Error missing(const TensorInput& in) {
    return Error(Code::MissingInputInfo,
                 fmt::format("the file does not say the type and sizes of the input '{}'", in.path),
                 fmt::format("say it: --input '{}:float32[batch,3,224,224]'", in.path));
  }

 private:
  const program::Program& program_;
  const bool opens_fixed_;  // what is fixed in the file: other captures show where it went
  std::vector<InputSpec> specs_;
  std::set<const InputSpec*> used_;
  std::vector<TensorInput> found_;
};

/// The symbols that the names of sizes stand for.
class Sizes {
 public:
  Sizes(const program::Program& program, onnx::Builder& builder) : program_(program), builder_(builder) {}

  /// Makes the symbol of a size that is nothing else. All others are formulas of such symbols; where a symbol never
  /// stands alone, the first size that is linear in it (the `derived` ones) tells it.
  void define(const TensorInput& in, const InputSpec::Size& size, bool derived) {
    const std::optional<Linear> line = size.formula ? linear(*size.formula) : std::nullopt;
    if (!line || symbols.contains(line->symbol) || derived == (size.formula->kind == program::Expr::Kind::Name)) return;
    sym::SymbolInfo info = range_of(line->symbol);
    for (std::optional<int64_t>* bound : {&info.lower, &info.upper})
      if (*bound) *bound = checked_add(checked_mul(**bound, line->factor), line->offset);
    if (line->offset == 0) info.divisor = line->factor;
    const onnx::Dim whole = named(in, size, info);
    symbols[line->symbol] =
        builder_.sym.floor_div(builder_.sym.sub(whole, builder_.dim(line->offset)), builder_.dim(line->factor));
    known_[size.formula] = whole;
  }

  onnx::Dim dim(const TensorInput& in, const InputSpec::Size& size) {
    if (!size.formula) return named(in, size, {});
    if (const auto own = known_.find(size.formula); own != known_.end()) return own->second;
    const auto known = eval::evaluate_formula(builder_.sym, *size.formula, symbols);
    if (!known)
      throw Error(Code::MissingInputInfo, fmt::format("the size {} of the input '{}' does not follow from other sizes",
                                                      program::print(*size.formula), in.name));
    return *known;
  }

  /// The integer that an input is.
  onnx::Dim integer(const TensorInput& in, onnx::Value* value) {
    const std::string& symbol = in.integer->name;
    if (in.integer->kind == program::Expr::Kind::Name && !symbols.contains(symbol))
      symbols[symbol] = builder_.symbol_of(value, in.name);
    return dim(in, {.formula = in.integer});
  }

  eval::SymbolTable symbols;  ///< by their names in the file
  std::vector<std::string> preconditions;

 private:
  struct Known {
    onnx::Dim symbol;
    std::optional<int64_t> sample;
    std::string input;
  };

  /// What the file knows of a symbol.
  sym::SymbolInfo range_of(const std::string& symbol) const {
    sym::SymbolInfo info;
    for (const program::Symbol& s : program_.symbols) {
      if (s.name != symbol) continue;
      if (s.lower) info.lower = s.lower;
      info.upper = s.upper;
    }
    return info;
  }

  onnx::Dim named(const TensorInput& in, const InputSpec::Size& size, sym::SymbolInfo info) {
    if (size.name.empty()) return builder_.dim(*size.value);
    Known& known = symbols_[size.name];
    if (!known.symbol) {
      if (info.lower.value_or(1) > 1 && *info.lower > info.divisor)
        preconditions.push_back(fmt::format("{} >= {}", size.name, *info.lower));
      if (info.upper) preconditions.push_back(fmt::format("{} <= {}", size.name, *info.upper));
      info.name = size.name;
      info.sample = size.value;
      known = {builder_.sym.symbol(info), size.value, in.name};
    } else if (known.sample && size.value && *known.sample != *size.value) {
      throw Error(Code::BadOption,
                  fmt::format("the dimension '{}' is {} in the sample of '{}' and {} in that of '{}'", size.name,
                              *known.sample, known.input, *size.value, in.name),
                  "sizes that differ need different names");
    }
    return known.symbol;
  }

  const program::Program& program_;
  onnx::Builder& builder_;
  std::map<std::string, Known> symbols_;
  std::map<const program::Expr*, onnx::Dim> known_;
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

std::vector<TensorInput> find_inputs(const program::Program& program, const ExportOptions& options,
                                     std::vector<Diagnostic>* warnings) {
  Inputs inputs(program, options);
  std::vector<TensorInput> found = inputs.list(options);
  if (warnings) *warnings = std::move(inputs.warnings);
  return found;
}

namespace {

/// Puts the graph's inputs back into the containers that forward takes.
class Arguments {
 public:
  Arguments(std::map<std::string, eval::Value> tensors, onnx::Builder& builder)
      : tensors_(std::move(tensors)), builder_(builder) {}

  std::optional<eval::Value> make(const std::string& path, const program::Type& type, const Data* sample) {
    if (auto found = tensors_.find(path); found != tensors_.end()) return found->second;
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
  std::map<std::string, eval::Value> tensors_;
  onnx::Builder& builder_;
};

/// The value of an expression without names or operators, as defaults are written.
std::optional<eval::Value> literal(const program::Expr& e, onnx::Builder& builder) {
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
      std::vector<eval::Value> items;
      for (const program::Expr& item : e.items) {
        std::optional<eval::Value> v = literal(item, builder);
        if (!v) return std::nullopt;
        items.push_back(std::move(*v));
      }
      return eval::Value::tuple(std::move(items));
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

ModelInputs make_inputs(const program::Program& program, const std::vector<TensorInput>& inputs,
                        onnx::Builder& builder) {
  std::map<std::string, eval::Value> tensors;
  Sizes sizes(program, builder);
  ModelInputs out;
  for (bool derived : {false, true})
    for (const TensorInput& in : inputs)
      for (size_t i = 0; in.sizes && i < in.sizes->size(); ++i) sizes.define(in, (*in.sizes)[i], derived);
  std::vector<Diagnostic> missing;
  for (const TensorInput& in : inputs) {
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
    onnx::Value* value = builder.input(in.name, *in.dtype, std::move(shape));
    if (in.integer) {
      tensors[in.path] = sizes.integer(in, value);
    } else if (in.number) {
      tensors[in.path] =
          in.dtype == DType::Int64 ? eval::Value(builder.symbol_of(value, in.name)) : eval::run_time_number(value);
    } else {
      tensors[in.path] = value;
    }
  }
  if (!missing.empty()) throw Error(std::move(missing));
  Arguments arguments(std::move(tensors), builder);
  const program::Function& forward = program.forward();
  for (size_t i = 1; i < forward.parameters.size(); ++i) {
    const program::Parameter& p = forward.parameters[i];
    const Data* sample =
        program.samples && i - 1 < program.samples->size() ? &(*program.samples)[i - 1].value : nullptr;
    std::optional<eval::Value> v = arguments.make(p.name, p.type, sample);
    if (!v && p.default_value) {
      v = literal(*p.default_value, builder);
      if (!v && i + 1 == forward.parameters.size()) break;  // the evaluator knows it
    }
    if (!v)
      throw Error(Code::MissingInputInfo,
                  fmt::format("forward takes '{}' of type {}, which is no tensor", p.name, p.type.str()),
                  "give the argument a default value in the model, or trace the model with it");
    out.arguments.push_back(*v);
  }
  out.symbols = std::move(sizes.symbols);
  out.preconditions = std::move(sizes.preconditions);
  return out;
}

}  // namespace lithify::driver
