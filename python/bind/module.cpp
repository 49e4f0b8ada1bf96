// lithify._core: the public C++ API for the Python package, which does everything that needs torch.
#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <span>
#include <tuple>
#include <variant>

#include "lithify/capture.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace lithify;

namespace {

/// Address, dtype, sizes, strides.
using Live = std::tuple<uintptr_t, std::string, std::vector<int64_t>, std::vector<int64_t>>;
using Model = std::variant<nb::bytes, std::string>;
using Axes = std::map<std::string, std::map<int64_t, std::string>>;
using Progress = std::function<void(uint64_t done, uint64_t total)>;
/// A model, and the weights that it lacks.
using Source = std::pair<Model, std::map<std::string, Live>>;

ModelSource source_of(const Model& model, const std::map<std::string, Live>& weights) {
  if (const auto* path = std::get_if<std::string>(&model)) return *path;
  const auto& contents = std::get<nb::bytes>(model);
  std::map<std::string, LiveTensor> live;
  for (const auto& [name, tensor] : weights) {
    const auto& [address, dtype, sizes, strides] = tensor;
    live[name] = {reinterpret_cast<const void*>(address), dtype, sizes, strides};
  }
  return ModelSource(std::span(static_cast<const std::byte*>(contents.data()), contents.size()), std::move(live));
}

/// Handles of values are numbers in Python; None is the null handle.
using Handle = std::optional<uintptr_t>;

CustomCall::Tensor to_tensor(Handle h) { return h ? reinterpret_cast<CustomCall::Tensor>(*h) : nullptr; }
Handle to_handle(CustomCall::Tensor t) { return t ? Handle(reinterpret_cast<uintptr_t>(t)) : std::nullopt; }

template <class To, class From>
std::vector<To> each(const std::vector<From>& items, To (*convert)(From)) {
  std::vector<To> out;
  for (const From& item : items) out.push_back(convert(item));
  return out;
}

/// A schema, and a function that gets each call of the operator and returns the handles of the results.
using Plugin = std::pair<std::string, std::function<std::vector<Handle>(CustomCall*)>>;

std::vector<CustomOperator> plugins_of(const std::vector<Plugin>& given) {
  std::vector<CustomOperator> out;
  for (const auto& [schema, run] : given)
    out.push_back({schema, [&run = run](CustomCall& call) {
                     const nb::gil_scoped_acquire held;
                     return each(run(&call), to_tensor);
                   }});
  return out;
}

using Attributes = std::map<std::string, decltype(CustomCall::Attribute::value)>;

std::vector<CustomCall::Attribute> attributes_of(const Attributes& given) {
  std::vector<CustomCall::Attribute> out;
  for (const auto& [name, value] : given) out.push_back({name, value});
  return out;
}

void define_custom_call(nb::module_& m) {
  nb::class_<CustomCall>(m, "CustomCall", "One call of a custom operator; see lithify.hpp.")
      .def("opset", &CustomCall::opset)
      .def("given", &CustomCall::given)
      .def("tensor", [](CustomCall& self, const std::string& name) { return to_handle(self.tensor(name)); })
      .def("tensors", [](CustomCall& self, const std::string& name) { return each(self.tensors(name), to_handle); })
      .def("integer", &CustomCall::integer)
      .def("integers", &CustomCall::integers)
      .def("real", &CustomCall::real)
      .def("flag", &CustomCall::flag)
      .def("text", &CustomCall::text)
      .def(
          "constant",
          [](CustomCall& self, double number, Handle like) {
            return to_handle(self.constant(number, to_tensor(like)));
          },
          "number"_a, "like"_a.none())
      .def("integers_constant",
           [](CustomCall& self, const std::vector<int64_t>& numbers) {
             return to_handle(self.integers_constant(numbers));
           })
      .def("tensor_constant",
           [](CustomCall& self, const std::string& type, const std::vector<int64_t>& sizes, const nb::bytes& data) {
             return to_handle(self.tensor_constant(type, sizes, {data.c_str(), data.size()}));
           })
      .def("node",
           [](CustomCall& self, const std::string& op_type, const std::vector<Handle>& inputs, const Attributes& given,
              size_t outputs) {
             return each(self.node(op_type, each(inputs, to_tensor), attributes_of(given), outputs), to_handle);
           })
      .def("foreign_node",
           [](CustomCall& self, const std::string& domain, int version, const std::string& op_type,
              const std::vector<Handle>& inputs, const Attributes& given, const std::vector<std::string>& types) {
             return each(self.node(domain, version, op_type, each(inputs, to_tensor), attributes_of(given), types),
                         to_handle);
           });
}

/// ExportOptions as Python sets them. What the core only borrows is kept here, for as long as the object lives.
struct Options {
  ExportOptions values;
  std::vector<Source> also;
  std::vector<Plugin> plugins;
  std::optional<Progress> progress;

  /// The options of the core, which borrow from this object.
  ExportOptions core() const {
    ExportOptions out = values;
    out.interface = Interface::Python;
    for (const auto& [model, weights] : also) out.also.push_back(source_of(model, weights));
    out.plugins = plugins_of(plugins);
    if (progress)
      out.progress = [this](uint64_t done, uint64_t total) {
        const nb::gil_scoped_acquire held;
        (*progress)(done, total);
      };
    return out;
  }
};

/// A member of ExportOptions as a property of the class.
template <class T>
void define_option(nb::class_<Options>& options, const char* name, T ExportOptions::*member) {
  options.def_prop_rw(
      name, [member](const Options& self) { return self.values.*member; },
      [member](Options& self, T value) { self.values.*member = std::move(value); });
}

void define_choice(nb::class_<Options>& options, const char* name) {
  options.def_prop_rw(name, nullptr, [name = std::string(name)](Options& self, const std::string& choice) {
    set_choice(self.values, name, choice);
  });
}

/// The names are those of the members of ExportOptions.
void define_options(nb::module_& m) {
  nb::class_<Options> options(m, "Options", "The options of an export; see lithify.hpp.");
  options.def(nb::init<>());
  define_option(options, "opset", &ExportOptions::opset);
  define_option(options, "target", &ExportOptions::target);
  define_option(options, "inputs", &ExportOptions::inputs);
  define_option(options, "dynamic_axes", &ExportOptions::dynamic_axes);
  define_option(options, "discover", &ExportOptions::discover);
  define_option(options, "input_names", &ExportOptions::input_names);
  define_option(options, "output_names", &ExportOptions::output_names);
  define_option(options, "strict", &ExportOptions::strict);
  define_option(options, "unroll", &ExportOptions::unroll);
  define_option(options, "budget", &ExportOptions::budget);
  define_option(options, "capture_runs", &ExportOptions::capture_runs);
  define_option(options, "capture_seconds", &ExportOptions::capture_seconds);
  define_option(options, "custom_ops", &ExportOptions::custom_ops);
  define_option(options, "custom_opsets", &ExportOptions::custom_opsets);
  define_option(options, "allow_custom", &ExportOptions::allow_custom);
  define_option(options, "weights_block", &ExportOptions::weights_block);
  define_option(options, "keep_weights", &ExportOptions::keep_weights);
  define_option(options, "skip_sync", &ExportOptions::skip_sync);
  define_option(options, "self_check", &ExportOptions::self_check);
  for (const char* name : {"recover", "state", "external_data", "weights", "precision"}) define_choice(options, name);
  options.def_rw("also", &Options::also);
  options.def_rw("plugins", &Options::plugins);
  options.def_rw("progress", &Options::progress, nb::arg().none());
}

using Exported = std::pair<ExportResult, std::optional<nb::bytes>>;

/// Calls `to_file(path)`, or where there is no path `to_memory(allocate)`, whose bytes are then returned too.
template <class ToFile, class ToMemory>
Exported exported(const std::optional<std::string>& out, ToFile to_file, ToMemory to_memory) {
  std::optional<nb::bytes> bytes;
  const auto allocate = [&bytes](uint64_t size) {
    const nb::gil_scoped_acquire held;
    bytes = nb::steal<nb::bytes>(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)));
    if (!bytes->is_valid()) throw std::bad_alloc();
    return reinterpret_cast<std::byte*>(PyBytes_AsString(bytes->ptr()));
  };
  const auto run = [&] {
    const nb::gil_scoped_release released;
    return out ? to_file(*out) : to_memory(allocate);
  };
  ExportResult result = run();
  return {std::move(result), std::move(bytes)};
}

/// Writes to the path, or returns the bytes when there is none.
Exported export_model(const Model& model, const std::map<std::string, Live>& weights,
                      const std::optional<std::string>& out, const Options& options) {
  const ModelSource source = source_of(model, weights);
  const ExportOptions given = options.core();
  return exported(
      out, [&](const std::string& path) { return export_file(source, path, given); },
      [&](const auto& allocate) { return export_bytes(source, allocate, given); });
}

// ---- live models ------------------------------------------------------------------------------------------------

/// lithify::Followed as Python makes it: conditions (formula, outcome, where, question, other raises), escapes
/// (formula, value, what, where, of contents, only here), and the number of sizes.
using PythonFollowed =
    std::tuple<std::vector<std::tuple<std::string, bool, std::string, std::optional<std::string>, bool>>,
               std::vector<std::tuple<std::string, double, std::string, std::string, bool, bool>>, size_t>;

std::optional<Followed> followed_of(const std::optional<PythonFollowed>& from) {
  if (!from) return std::nullopt;
  const auto& [conditions, escapes, sizes] = *from;
  Followed out;
  for (const auto& [formula, outcome, where, question, other_raises] : conditions)
    out.conditions.push_back({formula, outcome, where, question, other_raises});
  for (const auto& [formula, value, what, where, of_contents, only_here] : escapes)
    out.escapes.push_back({formula, value, what, where, of_contents, only_here});
  out.sizes = sizes;
  return out;
}

/// lithify::Capture as Python makes it.
struct PythonCapture {
  nb::bytes file;
  std::map<std::string, Live> weights;
  nb::object keep;  ///< what the weights point into
  std::vector<std::string> inputs, input_names, output_names;
  Axes dynamic_axes;
  std::optional<PythonFollowed> followed;
  std::vector<std::string> escaped_data, assumptions, state;
  std::vector<Plugin> plugins;
};

void define_capture(nb::module_& m) {
  nb::class_<PythonCapture>(m, "Capture", "A captured program; see capture.hpp.")
      .def(
          "__init__",
          [](PythonCapture* self, nb::bytes file, std::map<std::string, Live> weights, nb::object keep,
             std::vector<std::string> inputs, std::vector<std::string> input_names,
             std::vector<std::string> output_names, Axes dynamic_axes, std::optional<PythonFollowed> followed,
             std::vector<std::string> escaped_data, std::vector<std::string> assumptions,
             std::vector<std::string> state, std::vector<Plugin> plugins) {
            new (self) PythonCapture{std::move(file),         std::move(weights),     std::move(keep),
                                     std::move(inputs),       std::move(input_names), std::move(output_names),
                                     std::move(dynamic_axes), std::move(followed),    std::move(escaped_data),
                                     std::move(assumptions),  std::move(state),       std::move(plugins)};
          },
          nb::kw_only(), "file"_a, "weights"_a, "keep"_a.none(), "inputs"_a, "input_names"_a, "output_names"_a,
          "dynamic_axes"_a, "followed"_a.none(), "escaped_data"_a, "assumptions"_a, "state"_a, "plugins"_a);
}

/// A live model of Python: an object with `sample_sizes()`, `more_samples()`, `bounds()`, `capture(kind, sizes,
/// vary_contents, outcomes, sample)`, and `check(file, all sizes)`, which gives for each the name of an Agreement::Kind
/// in lower case and what there is to say.
class PythonModel final : public FrontEnd {
 public:
  PythonModel(nb::object model, const nb::module_& errors)
      : model_(std::move(model)),
        cannot_capture_(errors.attr("CannotCapture")),
        cannot_run_(errors.attr("CannotRun")) {}

  Sizes sample_sizes() override {
    const nb::gil_scoped_acquire held;
    return nb::cast<Sizes>(model_.attr("sample_sizes")());
  }
  std::vector<Sizes> more_samples() override {
    const nb::gil_scoped_acquire held;
    return nb::cast<std::vector<Sizes>>(model_.attr("more_samples")());
  }
  bool follows_sizes() const override { return true; }
  /// torch.jit.script of a large model takes the longest.
  std::vector<CaptureKind> other_kinds() const override { return {CaptureKind::Export, CaptureKind::Script}; }

  std::vector<std::string> bounds() const override {
    const nb::gil_scoped_acquire held;
    return nb::cast<std::vector<std::string>>(model_.attr("bounds")());
  }

  Capture capture(const CaptureRequest& request) override {
    constexpr const char* kinds[] = {"trace", "script", "export"};
    const nb::gil_scoped_acquire held;
    try {
      return to_capture(model_.attr("capture")(kinds[static_cast<int>(request.kind)], request.sizes,
                                               request.vary_contents, request.outcomes, request.sample));
    } catch (nb::python_error& e) {
      if (e.matches(cannot_run_)) throw CannotRun(nb::str(e.value()).c_str());
      if (!e.matches(cannot_capture_)) throw;
      throw CannotCapture(nb::str(e.value()).c_str());
    }
  }

  std::vector<Agreement> check(Bytes exported, const std::vector<Sizes>& sizes) override {
    const nb::gil_scoped_acquire held;
    const nb::object all = model_.attr("check")(nb::bytes(exported.data, exported.size), sizes);
    std::vector<Agreement> out;
    for (const auto& [kind, what] : nb::cast<std::vector<std::pair<std::string, std::string>>>(all))
      out.push_back({kind == "agrees"    ? Agreement::Kind::Agrees
                     : kind == "differs" ? Agreement::Kind::Differs
                     : kind == "not_run" ? Agreement::Kind::NotRun
                                         : Agreement::Kind::NoRuntime,
                     what});
    return out;
  }

 private:
  static Capture to_capture(nb::object made) {
    const auto& from = nb::cast<const PythonCapture&>(made);
    Capture out;
    out.model = source_of(Model(from.file), from.weights);
    out.inputs = from.inputs;
    out.input_names = from.input_names;
    out.output_names = from.output_names;
    out.dynamic_axes = from.dynamic_axes;
    out.followed = followed_of(from.followed);
    out.escaped_data = from.escaped_data;
    out.assumptions = from.assumptions;
    out.state = from.state;
    out.plugins = plugins_of(from.plugins);
    out.keep = std::shared_ptr<const void>(made.release().ptr(), [](PyObject* object) {
      const nb::gil_scoped_acquire held;
      Py_DECREF(object);
    });
    return out;
  }

  nb::object model_, cannot_capture_, cannot_run_;
};

CaptureStrategy strategy_of(const std::string& name) {
  if (name == "auto") return CaptureStrategy::Auto;
  if (name == "trace") return CaptureStrategy::Trace;
  if (name == "script") return CaptureStrategy::Script;
  if (name == "export") return CaptureStrategy::Export;
  throw nb::value_error("capture is 'auto', 'trace', 'script' or 'export'");
}

Exported export_live_model(const nb::object& model, const std::string& strategy, const std::optional<std::string>& out,
                           const Options& options) {
  PythonModel live(model, nb::module_::import_("lithify._errors"));
  const ExportOptions given = options.core();
  const CaptureStrategy how = strategy_of(strategy);
  return exported(
      out, [&](const std::string& path) { return export_live(live, how, path, given); },
      [&](const auto& allocate) { return export_live(live, how, allocate, given); });
}

CheckResult check_model(const Model& model, const std::map<std::string, Live>& weights, const Options& options) {
  const ModelSource source = source_of(model, weights);
  const ExportOptions given = options.core();
  const nb::gil_scoped_release released;
  return check_file(source, given);
}

InspectResult inspect_model(const Model& model) {
  const ModelSource source = source_of(model, {});
  const nb::gil_scoped_release released;
  return inspect_file(source);
}

/// An ExportError reaches Python with all its messages.
void translate(const std::exception_ptr& thrown, void* type) {
  try {
    std::rethrow_exception(thrown);
  } catch (const ExportError& e) {
    const nb::object raised = nb::borrow(static_cast<PyObject*>(type))(nb::cast(e.messages));
    PyErr_SetObject(static_cast<PyObject*>(type), raised.ptr());
  }
}

const char* name_of(ClaimKind kind) {
  constexpr const char* names[] = {"any size", "recorded path", "checked"};
  return names[static_cast<int>(kind)];
}

Sizes sizes_of(const nb::kwargs& given) {
  Sizes out;
  for (const auto& [name, size] : given) {
    const auto number = nb::steal(PyNumber_Index(size.ptr()));
    if (!number.is_valid()) throw nb::python_error();
    out.emplace_back(nb::cast<std::string>(name), nb::cast<int64_t>(number));
  }
  return out;
}

Claims claims_of(const Model& file) {
  if (const auto* path = std::get_if<std::string>(&file)) return read_claims(*path);
  const auto& contents = std::get<nb::bytes>(file);
  return read_claims(Bytes(contents.data(), contents.size()));
}

void define_claims(nb::module_& m) {
  nb::class_<Constraint>(m, "Constraint", "A condition on sizes, and the line of the model that it comes from.")
      .def_ro("formula", &Constraint::formula)
      .def_ro("where", &Constraint::where)
      .def("__str__", &Constraint::str)
      .def("__repr__", [](const Constraint& self) { return "<" + self.str() + ">"; });
  nb::class_<DimensionClaim>(m, "DimensionClaim", "What is claimed of a dynamic dimension.")
      .def_ro("name", &DimensionClaim::name)
      .def_prop_ro("kind", [](const DimensionClaim& self) { return name_of(self.kind); })
      .def_ro("constraints", &DimensionClaim::constraints)
      .def_ro("checked", &DimensionClaim::checked)
      .def_ro("unfollowed", &DimensionClaim::unfollowed)
      .def_ro("recovered", &DimensionClaim::recovered)
      .def_ro("unverified", &DimensionClaim::unverified)
      .def("__str__", [](const DimensionClaim& self) { return self.name + ": " + self.str(); })
      .def("__repr__", [](const DimensionClaim& self) { return "<" + self.name + ": " + self.str() + ">"; });
  nb::class_<Claims>(m, "Claims", "What is claimed of a file: at which sizes its results are those of the model.")
      .def_ro("dimensions", &Claims::dimensions)
      .def_ro("constraints", &Claims::constraints)
      .def_ro("conditions", &Claims::conditions)
      .def_ro("paths", &Claims::paths)
      .def_prop_ro("checked",
                   [](const Claims& self) {
                     std::vector<std::map<std::string, int64_t>> out;
                     for (const Sizes& sizes : self.checked) out.emplace_back(sizes.begin(), sizes.end());
                     return out;
                   })
      .def(
          "holds", [](const Claims& self, const nb::kwargs& sizes) { return self.holds(sizes_of(sizes)); },
          nb::sig("def holds(self, **sizes: int) -> bool | None"),
          "Whether the file is claimed to be right at these sizes: True, False where a constraint excludes them, None "
          "where that is not known.")
      .def(
          "why", [](const Claims& self, const nb::kwargs& sizes) { return self.ask(sizes_of(sizes)).why; },
          nb::sig("def why(self, **sizes: int) -> str"), "The reason for the answer of `holds`.")
      .def("__str__", &Claims::str)
      .def("__repr__", [](const Claims& self) { return "<Claims: " + self.str() + ">"; });
}

template <class Result>
std::string shown(const Result& self) {
  return to_text(self);
}

template <class Result>
std::string text_of(const Result& self, size_t width, bool color) {
  return to_text(self, {.width = width, .color = color});
}

void define_results(nb::module_& m) {
  nb::class_<Message>(m, "Message", "An error, a warning or a note.")
      .def_ro("code", &Message::code)
      .def_ro("severity", &Message::severity)
      .def_ro("subject", &Message::subject)
      .def_ro("text", &Message::text)
      .def_ro("file", &Message::file)
      .def_ro("line", &Message::line)
      .def_ro("function", &Message::function)
      .def_ro("hint", &Message::hint)
      .def("__str__", [](const Message& self) { return self.pretty; })
      .def("__repr__", [](const Message& self) { return "<Message " + self.code + ": " + self.text + ">"; });
  nb::class_<ValueInfo>(m, "ValueInfo", "An input or output of the model.")
      .def_ro("name", &ValueInfo::name)
      .def_ro("dtype", &ValueInfo::dtype)
      .def_ro("shape", &ValueInfo::shape)
      .def_ro("rank_known", &ValueInfo::rank_known)
      .def("__str__", &ValueInfo::str)
      .def("__repr__", [](const ValueInfo& self) { return "<" + self.str() + ">"; });
  nb::class_<TensorInfo>(m, "TensorInfo", "A tensor of a file.")
      .def_ro("name", &TensorInfo::name)
      .def_ro("dtype", &TensorInfo::dtype)
      .def_ro("shape", &TensorInfo::shape)
      .def_ro("bytes", &TensorInfo::bytes);
  define_claims(m);
  nb::class_<QuantizedWeight>(m, "QuantizedWeight", "A weight that is stored in blocks of integers.")
      .def_ro("name", &QuantizedWeight::name)
      .def_ro("dtype", &QuantizedWeight::dtype)
      .def_ro("error", &QuantizedWeight::error);
  nb::class_<ExportResult>(m, "ExportResult", "What an export wrote.")
      .def_ro("inputs", &ExportResult::inputs)
      .def_ro("outputs", &ExportResult::outputs)
      .def_ro("dimensions", &ExportResult::dimensions)
      .def_ro("claims", &ExportResult::claims)
      .def_ro("nodes", &ExportResult::nodes)
      .def_ro("opset", &ExportResult::opset)
      .def_ro("weights", &ExportResult::weights)
      .def_ro("weight_bytes", &ExportResult::weight_bytes)
      .def_ro("file_bytes", &ExportResult::file_bytes)
      .def_ro("quantized", &ExportResult::quantized)
      .def_ro("external_file", &ExportResult::external_file)
      .def_ro("seconds", &ExportResult::seconds)
      .def_ro("messages", &ExportResult::messages)
      .def_ro("graph_text", &ExportResult::graph_text)
      .def_ro("capture", &ExportResult::capture)
      .def_ro("capture_reason", &ExportResult::capture_reason)
      .def("__str__", shown<ExportResult>)
      .def("text", text_of<ExportResult>, "width"_a = 0, "color"_a = false,
           "The table that the command line prints, wrapped to a width unless that is 0.");
  nb::class_<OperatorStatus>(m, "OperatorStatus", "One operator of a program that was checked.")
      .def_ro("name", &OperatorStatus::name)
      .def_ro("count", &OperatorStatus::count)
      .def_ro("supported", &OperatorStatus::supported)
      .def_ro("since", &OperatorStatus::since);
  nb::class_<OpsetStatus>(m, "OpsetStatus", "A model in one opset.")
      .def_ro("opset", &OpsetStatus::opset)
      .def_ro("exportable", &OpsetStatus::exportable)
      .def_ro("nodes", &OpsetStatus::nodes);
  nb::class_<CheckResult>(m, "CheckResult", "Whether a model can be exported, and every reason why not.")
      .def_ro("exportable", &CheckResult::exportable)
      .def_ro("operators", &CheckResult::operators)
      .def_ro("messages", &CheckResult::messages)
      .def_ro("opsets", &CheckResult::opsets)
      .def_ro("lowest_opset", &CheckResult::lowest_opset)
      .def_ro("fewest_nodes_opset", &CheckResult::fewest_nodes_opset)
      .def("__bool__", [](const CheckResult& self) { return self.exportable; })
      .def("__str__", shown<CheckResult>);
  nb::class_<InspectResult>(m, "InspectResult", "The contents of a model file.")
      .def_ro("kind", &InspectResult::kind)
      .def_ro("file_version", &InspectResult::file_version)
      .def_ro("inputs", &InspectResult::inputs)
      .def_ro("returns", &InspectResult::returns)
      .def_ro("operators", &InspectResult::operators)
      .def_ro("weights", &InspectResult::weights)
      .def_ro("weight_bytes", &InspectResult::weight_bytes)
      .def_ro("code", &InspectResult::code)
      .def_ro("tensors", &InspectResult::tensors)
      .def("__str__", shown<InspectResult>);
  nb::class_<OnnxSummary>(m, "OnnxSummary", "What is in an ONNX file.")
      .def_ro("ir_version", &OnnxSummary::ir_version)
      .def_ro("producer", &OnnxSummary::producer)
      .def_ro("opsets", &OnnxSummary::opsets)
      .def_ro("inputs", &OnnxSummary::inputs)
      .def_ro("outputs", &OnnxSummary::outputs)
      .def_ro("nodes", &OnnxSummary::nodes)
      .def_ro("modules", &OnnxSummary::modules)
      .def_ro("functions", &OnnxSummary::functions)
      .def_ro("weights", &OnnxSummary::weights)
      .def_ro("weight_bytes", &OnnxSummary::weight_bytes)
      .def_ro("largest", &OnnxSummary::largest)
      .def_ro("external_files", &OnnxSummary::external_files)
      .def_ro("metadata", &OnnxSummary::metadata)
      .def_ro("file_bytes", &OnnxSummary::file_bytes)
      .def("__str__", shown<OnnxSummary>);
  nb::class_<WeightChange>(m, "WeightChange", "A weight that two ONNX files have with other contents.")
      .def_ro("name", &WeightChange::name)
      .def_ro("other", &WeightChange::other)
      .def_ro("what", &WeightChange::what)
      .def_ro("before", &WeightChange::before)
      .def_ro("after", &WeightChange::after)
      .def_ro("changed", &WeightChange::changed)
      .def_ro("largest", &WeightChange::largest);
  nb::class_<DiffResult>(m, "DiffResult", "Two ONNX files beside each other; true where they differ.")
      .def_ro("interface", &DiffResult::interface)
      .def_ro("operators", &DiffResult::operators)
      .def_ro("modules", &DiffResult::modules)
      .def_ro("same_graph", &DiffResult::same_graph)
      .def_ro("weights", &DiffResult::weights)
      .def_ro("removed", &DiffResult::removed)
      .def_ro("added", &DiffResult::added)
      .def_ro("equal_weights", &DiffResult::equal_weights)
      .def("__bool__", [](const DiffResult& self) { return !self.same(); })
      .def("__str__", shown<DiffResult>);
  nb::class_<SupportedOperator>(m, "SupportedOperator", "One operator that can be exported.")
      .def_ro("name", &SupportedOperator::name)
      .def_ro("schemas", &SupportedOperator::schemas)
      .def_ro("since", &SupportedOperator::since);
}

}  // namespace

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false);  // results may outlive the interpreter
  define_results(m);
  define_custom_call(m);
  define_options(m);
  define_capture(m);
  const nb::object error = nb::module_::import_("lithify._errors").attr("ExportError");
  nb::register_exception_translator(translate, nb::object(error).release().ptr());
  m.def("export_model", export_model, "model"_a, "weights"_a, "out"_a.none(), "options"_a);
  m.def("export_live", export_live_model, "model"_a, "strategy"_a, "out"_a.none(), "options"_a);
  m.def("other_sizes", other_sizes, "sample"_a);
  m.def("tied_size", tied_size, "name"_a, "sizes"_a);
  m.def("check_model", check_model, "model"_a, "weights"_a, "options"_a);
  m.def("inspect_model", inspect_model, "model"_a);
  m.def("read_claims", claims_of, "file"_a);
  m.def(
      "show_file", [](const std::string& model) { return show_file(model); }, "model"_a);
  m.def("diff_files", diff_files, "before"_a, "after"_a);
  m.def("supported_operators", supported_operators);
  m.def("opset_for", opset_for, "runtime"_a);
  m.attr("lowest_opset") = lowest_opset;
  m.attr("highest_opset") = highest_opset;
  m.attr("default_opset") = default_opset;
  m.attr("version") = version();
}
