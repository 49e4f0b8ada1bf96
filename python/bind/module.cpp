// lithify._core: the public API for Python. Everything that needs torch is in Python; here is only the core.
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

#include "lithify/lithify.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace lithify;

namespace {

/// Address, dtype, sizes, strides.
using Live = std::tuple<uintptr_t, std::string, std::vector<int64_t>, std::vector<int64_t>>;
using Model = std::variant<nb::bytes, std::string>;
using Axes = std::map<std::string, std::map<int64_t, std::string>>;
using Progress = std::function<void(uint64_t done, uint64_t total)>;
/// A model, and its weights that are not in it.
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

ExportOptions options_of(int opset, std::vector<std::string> inputs, Axes dynamic_axes,
                         std::vector<std::string> input_names, std::vector<std::string> output_names,
                         std::string custom_ops, bool allow_custom) {
  ExportOptions options;
  options.custom_ops = std::move(custom_ops);
  options.allow_custom = allow_custom;
  options.opset = opset;
  options.inputs = std::move(inputs);
  options.dynamic_axes = std::move(dynamic_axes);
  options.input_names = std::move(input_names);
  options.output_names = std::move(output_names);
  return options;
}

ExportOptions::ExternalData external_of(const std::string& name) {
  if (name == "auto") return ExportOptions::ExternalData::Auto;
  if (name == "always") return ExportOptions::ExternalData::Always;
  if (name == "never") return ExportOptions::ExternalData::Never;
  throw nb::value_error("external_data is 'auto', 'always' or 'never'");
}

ExportOptions::State state_of(const std::string& name) {
  if (name == "error") return ExportOptions::State::Refuse;
  if (name == "io") return ExportOptions::State::InOut;
  if (name == "frozen") return ExportOptions::State::Frozen;
  throw nb::value_error("state is 'error', 'io' or 'frozen'");
}

ExportOptions::Recover recover_of(const std::string& name) {
  if (name == "never") return ExportOptions::Recover::Never;
  if (name == "decided") return ExportOptions::Recover::Decided;
  if (name == "guess") return ExportOptions::Recover::Guess;
  throw nb::value_error("recover is 'never', 'decided' or 'guess'");
}

/// Handles of values are numbers in Python, and None is none.
using Handle = std::optional<uintptr_t>;

CustomCall::Tensor to_tensor(Handle h) { return h ? reinterpret_cast<CustomCall::Tensor>(*h) : nullptr; }
Handle to_handle(CustomCall::Tensor t) { return t ? Handle(reinterpret_cast<uintptr_t>(t)) : std::nullopt; }

template <class To, class From>
std::vector<To> each(const std::vector<From>& items, To (*convert)(From)) {
  std::vector<To> out;
  for (const From& item : items) out.push_back(convert(item));
  return out;
}

/// A schema, and what is called with each call of the operator; it returns the handles of the results.
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

/// Writes to the path, or returns the bytes when there is none.
std::pair<ExportResult, std::optional<nb::bytes>> export_model(
    const Model& model, const std::map<std::string, Live>& weights, const std::optional<std::string>& out, int opset,
    std::vector<std::string> inputs, Axes dynamic_axes, std::vector<std::string> input_names,
    std::vector<std::string> output_names, std::string custom_ops, bool allow_custom, const std::string& external_data,
    const std::optional<Progress>& progress, const std::string& state, const std::vector<Source>& also,
    const std::string& recover, bool strict, std::optional<std::vector<std::string>> left,
    const std::vector<Plugin>& plugins, std::map<std::string, int> custom_opsets) {
  const ModelSource source = source_of(model, weights);
  ExportOptions options = options_of(opset, std::move(inputs), std::move(dynamic_axes), std::move(input_names),
                                     std::move(output_names), std::move(custom_ops), allow_custom);
  options.external_data = external_of(external_data);
  options.state = state_of(state);
  options.recover = recover_of(recover);
  options.strict = strict;
  options.left = std::move(left);
  options.plugins = plugins_of(plugins);
  options.custom_opsets = std::move(custom_opsets);
  for (const auto& [other, its_weights] : also) options.also.push_back(source_of(other, its_weights));
  if (progress)
    options.progress = [&progress](uint64_t done, uint64_t total) {
      const nb::gil_scoped_acquire held;
      (*progress)(done, total);
    };
  std::optional<nb::bytes> bytes;
  const auto allocate = [&bytes](uint64_t size) {
    const nb::gil_scoped_acquire held;
    bytes = nb::steal<nb::bytes>(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)));
    if (!bytes->is_valid()) throw std::bad_alloc();
    return reinterpret_cast<std::byte*>(PyBytes_AsString(bytes->ptr()));
  };
  const auto run = [&] {
    const nb::gil_scoped_release released;
    return out ? export_file(source, *out, options) : export_bytes(source, allocate, options);
  };
  ExportResult result = run();
  return {std::move(result), std::move(bytes)};
}

CheckResult check_model(const Model& model, const std::map<std::string, Live>& weights, int opset,
                        std::vector<std::string> inputs, Axes dynamic_axes, std::string custom_ops, bool allow_custom) {
  const ModelSource source = source_of(model, weights);
  const ExportOptions options =
      options_of(opset, std::move(inputs), std::move(dynamic_axes), {}, {}, std::move(custom_ops), allow_custom);
  const nb::gil_scoped_release released;
  return check_file(source, options);
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

void define_results(nb::module_& m) {
  nb::class_<Message>(m, "Message", "One thing that is wrong or worth knowing.")
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
  nb::class_<DimensionClaim>(m, "DimensionClaim", "What is known of a dimension that was declared dynamic.")
      .def_ro("name", &DimensionClaim::name)
      .def_ro("constraints", &DimensionClaim::constraints)
      .def_ro("repairs", &DimensionClaim::repairs)
      .def_ro("unverified", &DimensionClaim::unverified)
      .def("__str__", [](const DimensionClaim& self) { return self.name + ": " + self.str(); })
      .def("__repr__", [](const DimensionClaim& self) { return "<" + self.name + ": " + self.str() + ">"; });
  nb::class_<ExportResult>(m, "ExportResult")
      .def_ro("inputs", &ExportResult::inputs)
      .def_ro("outputs", &ExportResult::outputs)
      .def_ro("dimensions", &ExportResult::dimensions)
      .def_ro("nodes", &ExportResult::nodes)
      .def_ro("opset", &ExportResult::opset)
      .def_ro("weights", &ExportResult::weights)
      .def_ro("weight_bytes", &ExportResult::weight_bytes)
      .def_ro("file_bytes", &ExportResult::file_bytes)
      .def_ro("external_file", &ExportResult::external_file)
      .def_ro("seconds", &ExportResult::seconds)
      .def_ro("messages", &ExportResult::messages)
      .def_ro("graph_text", &ExportResult::graph_text);
  nb::class_<OperatorStatus>(m, "OperatorStatus", "One operator of a program, as `check` sees it.")
      .def_ro("name", &OperatorStatus::name)
      .def_ro("count", &OperatorStatus::count)
      .def_ro("supported", &OperatorStatus::supported)
      .def_ro("since", &OperatorStatus::since);
  nb::class_<OpsetStatus>(m, "OpsetStatus", "The model in one opset.")
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
      .def("__bool__", [](const CheckResult& self) { return self.exportable; });
  nb::class_<InspectResult>(m, "InspectResult", "What is in a model file.")
      .def_ro("kind", &InspectResult::kind)
      .def_ro("file_version", &InspectResult::file_version)
      .def_ro("inputs", &InspectResult::inputs)
      .def_ro("returns", &InspectResult::returns)
      .def_ro("operators", &InspectResult::operators)
      .def_ro("weights", &InspectResult::weights)
      .def_ro("weight_bytes", &InspectResult::weight_bytes)
      .def_ro("code", &InspectResult::code);
  nb::class_<SupportedOperator>(m, "SupportedOperator")
      .def_ro("name", &SupportedOperator::name)
      .def_ro("schemas", &SupportedOperator::schemas)
      .def_ro("since", &SupportedOperator::since);
}

}  // namespace

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false);  // results that outlive the interpreter are no fault of the user's
  define_results(m);
  define_custom_call(m);
  const nb::object error = nb::module_::import_("lithify._errors").attr("ExportError");
  nb::register_exception_translator(translate, nb::object(error).release().ptr());
  m.def("export_model", export_model, "model"_a, "weights"_a, "out"_a.none(), nb::kw_only(), "opset"_a, "inputs"_a,
        "dynamic_axes"_a, "input_names"_a, "output_names"_a, "custom_ops"_a, "allow_custom"_a, "external_data"_a,
        "progress"_a.none(), "state"_a, "also"_a, "recover"_a, "strict"_a, "left"_a.none(), "plugins"_a,
        "custom_opsets"_a);
  m.def("check_model", check_model, "model"_a, "weights"_a, nb::kw_only(), "opset"_a, "inputs"_a, "dynamic_axes"_a,
        "custom_ops"_a, "allow_custom"_a);
  m.def("inspect_model", inspect_model, "model"_a);
  m.def("supported_operators", supported_operators);
  m.def("opset_for", opset_for, "runtime"_a);
  m.attr("lowest_opset") = lowest_opset;
  m.attr("highest_opset") = highest_opset;
  m.attr("default_opset") = default_opset;
  m.attr("version") = version();
}
