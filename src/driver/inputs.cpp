#include "driver/inputs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <span>

#include "base/nearest.hpp"
#include "base/options.hpp"
#include "driver/input_sizes.hpp"
#include "driver/tied_sizes.hpp"

namespace lithify::driver {
namespace {

using program::Data;
using Formulas = std::span<const program::Expr>;

/// The element type of a parameter that is a number of Python.
std::optional<DType> number_type(const program::Type& type) {
  if (type.name == "Optional" && type.args.size() == 1) return number_type(type.args[0]);
  if (type.name == "int") return DType::Int64;
  if (type.name == "float") return DType::Double;
  if (type.name == "bool") return DType::Bool;
  return std::nullopt;
}

bool is_tensor(const program::Type& type) {
  return type.name == "Tensor" || (type.name == "Optional" && type.args.size() == 1 && type.args[0].name == "Tensor");
}

/// Walks the parameters of forward, each with its sample, and lists the tensors in them.
class InputFinder {
 public:
  InputFinder(const program::Program& program, const ExportOptions& options)
      : program_(program), options_(options), opens_fixed_(!options.also.empty()) {
    for (const std::string& text : options.inputs) specs_.push_back(parse_input_spec(text));
  }

  std::vector<TensorInput> run() {
    const program::Function& forward = program_.forward();
    for (size_t i = 1; i < forward.parameters.size(); ++i) {
      const program::Parameter& p = forward.parameters[i];
      if (const program::SampleInput* sample = sample_of(program_, i)) {
        add_sample(p.name, sample->value, sample->formulas);
      } else {
        add_type(p.name, p.type, p.default_value.has_value());
      }
    }
    check_specs_used();
    rename();
    for (const auto& [name, axes] : options_.dynamic_axes) open_axes(name, axes);
    return std::move(found_);
  }

 private:
  // ---- by the sample: what is not a tensor in it is part of the model ----

  void add_sample(const std::string& path, const Data& sample, Formulas formulas) {
    constexpr uint64_t each = 16;  // an input takes as much as this many elements of a list
    budget_.spend(Limit::Elements, each);
    switch (sample.kind) {
      case Data::Kind::Tensor:
        return add_sample_tensor(path, *sample.tensor, formulas);
      case Data::Kind::Int:
        if (formulas.size() == 1)
          found_.push_back({.path = path,
                            .name = path,
                            .dtype = DType::Int64,
                            .sizes = {{}},
                            .settled = true,
                            .integer = &formulas[0]});
        return;
      case Data::Kind::Dict: {
        const std::vector<Data>& items = sample.container->items;
        for (size_t i = 0; i + 1 < items.size(); i += 2) add_sample(path_below(path, items[i]), items[i + 1], {});
        return;
      }
      case Data::Kind::List:
      case Data::Kind::Tuple:
        for (size_t i = 0; i < sample.container->items.size(); ++i)
          add_sample(path_below(path, i), sample.container->items[i], {});
        return;
      default:
        return;
    }
  }

  void add_sample_tensor(const std::string& path, const TensorView& tensor, Formulas formulas) {
    TensorInput in{.path = path, .name = path, .dtype = tensor.dtype, .sizes = {{}}, .settled = !formulas.empty()};
    for (int64_t s : tensor.sizes) in.sizes->push_back({.value = s});
    for (size_t i = 0; i < formulas.size() && i < in.sizes->size(); ++i)
      if (formulas[i].kind != program::Expr::Kind::Int) (*in.sizes)[i].formula = &formulas[i];
    add(std::move(in));
  }

  // ---- by the declared type, where there is no sample: what may be left out is an input if the user describes it ----

  void add_type(const std::string& path, const program::Type& type, bool has_default) {
    if (type.name == "Tuple") {
      for (size_t i = 0; i < type.args.size(); ++i) add_type(path_below(path, i), type.args[i], false);
    } else if (type.name == "List" || type.name == "Dict") {
      add_described(path);
    } else if (const std::optional<DType> number = number_type(type)) {
      if (described(path))
        found_.push_back({.path = path, .name = path, .dtype = number, .sizes = {{}}, .number = true});
    } else if (is_tensor(type)) {
      const bool may_be_missing = type.name == "Optional" || has_default;
      if (!may_be_missing || described(path)) add({.path = path, .name = path});
    }
  }

  /// A list or dict has the elements that the user describes: x_0, x_1, ...
  void add_described(const std::string& path) {
    for (const InputSpec& spec : specs_)
      if (spec.name.starts_with(path + "_")) add({.path = spec.name, .name = spec.name});
  }

  // ---- what the user describes ----

  void add(TensorInput in) {
    if (const InputSpec* spec = described(in.path)) apply(*spec, in);
    found_.push_back(std::move(in));
  }

  const InputSpec* described(const std::string& path) {
    const auto spec = std::ranges::find(specs_, path, &InputSpec::name);
    if (spec == specs_.end()) return nullptr;
    used_.insert(&*spec);
    return &*spec;
  }

  void apply(const InputSpec& spec, TensorInput& in) const {
    if (in.settled && spec.dtype && spec.dtype != in.dtype)
      throw Error(Code::BadOption,
                  fmt::format("{} describes '{}' as {}, and in the file it is {}", option("inputs"), in.path,
                              name_of(*spec.dtype), name_of(*in.dtype)),
                  "leave the type out, or save the model with a sample of this type");
    if (in.sizes && in.sizes->size() != spec.sizes.size())
      throw Error(Code::BadOption,
                  fmt::format("{} gives '{}' {} dimensions, and the sample in the file has {}", option("inputs"),
                              in.path, spec.sizes.size(), in.sizes->size()),
                  "give one size for each dimension of the sample");
    if (spec.dtype) in.dtype = spec.dtype;
    std::vector<InputSpec::Size> sizes = spec.sizes;
    for (size_t i = 0; i < sizes.size(); ++i) {
      sizes[i].given = true;
      if (in.sizes) merge((*in.sizes)[i], sizes[i], in, i);
    }
    in.sizes = std::move(sizes);
  }

  /// A size that the user gives takes from the file what the user leaves out.
  void merge(const InputSpec::Size& file, InputSpec::Size& given, const TensorInput& in, size_t axis) const {
    const bool differs = !given.name.empty() || given.value != file.value;
    if (differs) check_open(in, in.path, axis, file);
    given.formula = file.formula;
    if (!given.value) given.value = file.value;
  }

  /// Throws where the file fixes a size, and no other capture shows where it went.
  void check_open(const TensorInput& in, const std::string& name, size_t axis, const InputSpec::Size& size) const {
    if (!in.settled || size.formula || opens_fixed_) return;
    throw Error(
        Code::HardCodedSize,
        fmt::format("axis {} of the input '{}' has the fixed size {} in the file", axis, name, size.value.value_or(0)),
        fmt::format("export the program again with dynamic_shapes={{'{}': {{{}: torch.export.Dim.DYNAMIC}}}}, or give "
                    "a second one of other sizes by {}",
                    name, axis, option("also")));
  }

  void check_specs_used() const {
    for (const InputSpec& spec : specs_)
      if (!used_.contains(&spec))
        throw Error(Code::UnknownInput,
                    fmt::format("{} names '{}', and the model's inputs are {}", option("inputs"), spec.name, paths()),
                    did_you_mean(spec.name, path_list()) + "use one of these names");
  }

  std::vector<std::string> path_list() const {
    std::vector<std::string> out;
    for (const TensorInput& in : found_) out.push_back(in.path);
    return out;
  }
  std::string paths() const { return fmt::format("{}", fmt::join(path_list(), ", ")); }

  void rename() {
    const std::vector<std::string>& names = options_.input_names;
    if (names.empty()) return;
    if (names.size() > found_.size())
      throw Error(Code::BadOption,
                  fmt::format("{} input names are given, and the model has {} tensor inputs ({})", names.size(),
                              found_.size(), paths()),
                  fmt::format("give at most one name for each input by {}", option("input_names")));
    for (size_t i = 0; i < names.size(); ++i) found_[i].name = names[i];
    std::set<std::string> distinct;
    for (const TensorInput& in : found_)
      if (!distinct.insert(in.name).second)
        throw Error(Code::BadOption, fmt::format("two inputs are called '{}'", in.name),
                    fmt::format("give different names by {}", option("input_names")));
  }

  /// Makes axes of the input of that name dynamic. A name that is not an input may be an output: the outputs are known
  /// later.
  void open_axes(const std::string& name, const std::map<int64_t, std::string>& axes) {
    const auto in =
        std::ranges::find_if(found_, [&](const TensorInput& t) { return t.name == name || t.path == name; });
    if (in == found_.end()) return;
    if (!in->sizes) throw missing_info(*in);
    const auto rank = static_cast<int64_t>(in->sizes->size());
    for (const auto& [axis, dimension] : axes) {
      const int64_t at = axis < 0 ? axis + rank : axis;
      if (at < 0 || at >= rank)
        throw Error(Code::BadOption,
                    fmt::format("input '{}' has {} dimensions, and axis {} is declared dynamic", name, rank, axis),
                    fmt::format("declare axes {} to {}", -rank, rank - 1));
      InputSpec::Size& size = (*in->sizes)[static_cast<size_t>(at)];
      check_open(*in, name, static_cast<size_t>(at), size);
      size.name = dimension;
      size.given = true;
    }
  }

  const program::Program& program_;
  const ExportOptions& options_;
  const bool opens_fixed_;  // whether sizes that the file fixes can be dynamic: other captures show where they went
  std::vector<InputSpec> specs_;
  std::set<const InputSpec*> used_;
  lithify::Budget budget_;
  std::vector<TensorInput> found_;
};

}  // namespace

std::vector<TensorInput> find_inputs(const program::Program& program, const ExportOptions& options,
                                     std::vector<Diagnostic>* warnings) {
  std::vector<TensorInput> found = InputFinder(program, options).run();
  std::vector<Diagnostic> about_names = name_open_sizes(found);
  std::ranges::move(tie_sizes(found), std::back_inserter(about_names));
  if (warnings) *warnings = std::move(about_names);
  return found;
}

Error missing_info(const TensorInput& in) {
  const char* what = in.sizes ? "type" : "type and sizes";
  const char* form = in.sizes ? "{}:float32[...]" : "{}:float32[batch,3,224,224]";
  return Error(Code::MissingInputInfo, fmt::format("the file does not have the {} of the input '{}'", what, in.path),
               "specify it: " + option("inputs", fmt::format(fmt::runtime(form), in.path)));
}

std::string path_below(const std::string& path, size_t index) { return fmt::format("{}_{}", path, index); }

std::string path_below(const std::string& path, const Data& key) {
  return fmt::format("{}_{}", path, key.kind == Data::Kind::String ? key.text : std::to_string(key.integer));
}

const program::SampleInput* sample_of(const program::Program& program, size_t index) {
  return program.samples && index - 1 < program.samples->size() ? &(*program.samples)[index - 1] : nullptr;
}

}  // namespace lithify::driver
