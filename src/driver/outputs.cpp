#include "driver/outputs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/nearest.hpp"
#include "base/options.hpp"
#include "eval/carry.hpp"
#include "eval/elements.hpp"
#include "ops/quantized.hpp"

namespace lithify::driver {
namespace {

/// An output's default name is "output", "output_0", ...; a name from the model stands for itself.
std::string output_name(const std::string& path) {
  if (path.empty()) return "output";
  return std::isdigit(static_cast<unsigned char>(path[0])) ? "output_" + path : path;
}

Diagnostic is_dequantized(const std::string& name, DType type) {
  return {
      Code::UnsupportedType,
      Severity::Note,
      fmt::format("the output '{}' is {}: the model gives its dequantized values", output_name(name), name_of(type)),
      {},
      "",
      output_name(name)};
}

Diagnostic is_left_out(const std::string& name, const std::string& what) {
  return {Code::UnsupportedType,
          Severity::Note,
          fmt::format("'{}' is not in the file: it is {}", output_name(name), what),
          {},
          "",
          output_name(name)};
}

struct Collected {
  Outputs outputs;
  std::vector<Diagnostic>& diagnostics;
};

void collect(onnx::Builder& b, const eval::Value& v, const std::string& name, Collected& out, int depth = 0) {
  constexpr int most_nested = 64;
  if (depth > most_nested) throw Error(Code::LimitExceeded, "the model's result nests too deep");
  constexpr uint64_t each = 16;  // an output takes as much as this many elements of a list
  b.sym.budget.spend(Limit::Elements, each);
  auto below = [&](const std::string& part) { return name.empty() ? part : name + "_" + part; };
  if (v.is_none()) {
    out.diagnostics.push_back(is_left_out(name, "None"));
  } else if (auto* text = v.get_if<std::string>()) {
    out.diagnostics.push_back(is_left_out(name, fmt::format("'{}'", *text)));
  } else if (v.is_tensor()) {
    out.outputs.emplace_back(name, v.tensor()->read(b));
  } else if (auto* q = v.get_if<eval::Quantized>()) {
    out.outputs.emplace_back(name, ops::dequantized(b, *q));
    out.diagnostics.push_back(is_dequantized(name, q->dtype()));
  } else if (v.is_int()) {
    out.outputs.emplace_back(name, b.symbolic(v.integer()));
  } else if (auto* d = v.get_if<double>()) {
    out.outputs.emplace_back(name, b.scalar(DType::Double, *d));
  } else if (auto* flag = v.get_if<bool>()) {
    out.outputs.emplace_back(name, b.scalar_int(DType::Bool, *flag));
  } else if (auto* t = v.get_if<eval::Tuple>(); t && t->named) {
    for (size_t i = 0; i < t->items->size() && i < t->named->attributes.size(); ++i)
      collect(b, (*t->items)[i], below(t->named->attributes[i].first), out, depth + 1);
  } else if (v.is_open_list()) {
    if (onnx::Value* elements = eval::readable_elements(b, v))
      out.outputs.emplace_back(name, eval::as_sequence(b, elements));
  } else if (auto* maybe = v.get_if<eval::Maybe>()) {
    out.outputs.emplace_back(name, eval::as_optional(b, *maybe));
  } else if (v.is_list() || v.is<eval::Tuple>()) {
    const std::vector<eval::Value>& items = v.items();
    for (size_t i = 0; i < items.size(); ++i) collect(b, items[i], below(std::to_string(i)), out, depth + 1);
  } else if (auto* dict = v.get_if<std::shared_ptr<eval::Dict>>()) {
    (*dict)->check();
    for (const auto& [number, item] : (*dict)->items()) {
      auto* text = item.key.get_if<std::string>();
      collect(b, item.value,
              below(text                ? *text
                    : item.key.is_int() ? item.key.integer().str()
                                        : "key"),
              out, depth + 1);
    }
  } else if (auto* undecided = v.get_if<eval::Undecided>()) {
    throw Error(Code::UnsupportedControlFlow, undecided->why);
  } else {
    throw Error(Code::UnsupportedType, fmt::format("the model returns a {}, which ONNX cannot", v.kind_name()));
  }
}

std::vector<std::string> names_of(const std::vector<TensorInput>& inputs, const onnx::Graph& graph) {
  std::vector<std::string> names;
  for (const TensorInput& in : inputs) names.push_back(in.name);
  for (const onnx::Value* out : graph.outputs) names.push_back(out->name);
  return names;
}

}  // namespace

Outputs collect_outputs(onnx::Builder& b, const eval::Value& result, std::vector<Diagnostic>& diagnostics) {
  Collected out{{}, diagnostics};
  collect(b, result, "", out);
  return std::move(out.outputs);
}

void name_outputs(const ExportOptions& options, const onnx::Graph& graph, Outputs& outputs) {
  for (auto& [name, value] : outputs) name = output_name(name);
  if (options.output_names.size() > outputs.size())
    throw Error(Code::BadOption,
                fmt::format("{} output names are given, and the model has {} outputs", options.output_names.size(),
                            outputs.size()),
                fmt::format("give at most one name for each output by {}", option("output_names")));
  for (size_t i = 0; i < options.output_names.size(); ++i) outputs[i].first = options.output_names[i];
  std::set<std::string> distinct;
  for (auto& [name, value] : outputs)
    if (!distinct.insert(name).second)
      throw Error(Code::BadOption, fmt::format("two outputs are called '{}'", name),
                  fmt::format("give different names by {}", option("output_names")));
  for (const onnx::Value* in : graph.inputs) {
    auto clash = std::find_if(outputs.begin(), outputs.end(), [&](auto& o) { return o.first == in->name; });
    if (clash == outputs.end()) continue;
    bool asked = static_cast<size_t>(clash - outputs.begin()) < options.output_names.size();
    if (asked)
      throw Error(Code::BadOption, fmt::format("an input and an output are both called '{}'", in->name),
                  fmt::format("give the output another name by {}", option("output_names")));
    clash->first += "_out";
  }
}

void split_complex(onnx::Builder& b, Outputs& outputs, std::vector<Diagnostic>& diagnostics) {
  for (auto& [name, value] : outputs) {
    if (!is_complex(value->dtype)) continue;
    diagnostics.push_back({Code::UnsupportedType,
                           Severity::Warning,
                           fmt::format("the output '{}' is {}: the model gives its real and imaginary parts as {}, "
                                       "along a last axis of 2",
                                       name, name_of(value->dtype), name_of(part_type(value->dtype))),
                           {},
                           "",
                           name});
    value = b.pairs(value);
  }
}

void check_dynamic(const ExportOptions& options, const onnx::Graph& graph, const std::vector<TensorInput>& inputs,
                   std::vector<Diagnostic>& diagnostics) {
  for (const auto& declared : options.dynamic_axes) {
    const std::string& name = declared.first;
    bool input =
        std::any_of(inputs.begin(), inputs.end(), [&](auto& in) { return in.name == name || in.path == name; });
    auto out = std::find_if(graph.outputs.begin(), graph.outputs.end(), [&](auto* v) { return v->name == name; });
    if (input) continue;
    if (out == graph.outputs.end())
      throw Error(Code::UnknownInput,
                  fmt::format("{} names '{}', which is neither an input nor an output", option("dynamic_axes"), name),
                  fmt::format("{}the names are {}", did_you_mean(name, names_of(inputs, graph)),
                              fmt::join(names_of(inputs, graph), ", ")));
    for (auto& [axis, dim] : declared.second) {
      int64_t rank = static_cast<int64_t>((*out)->rank()), at = axis < 0 ? axis + rank : axis;
      if (at < 0 || at >= rank)
        throw Error(Code::BadOption,
                    fmt::format("output '{}' has {} dimensions, and axis {} is declared dynamic", name, rank, axis),
                    fmt::format("declare axes {} to {}", -rank, rank - 1));
      if (onnx::Dim size = (*out)->shape[static_cast<size_t>(at)]; size.is_constant())
        diagnostics.push_back(
            {Code::BadOption,
             Severity::Warning,
             fmt::format("axis {} of the output '{}' is declared dynamic, and is always {}", axis, name, size.str()),
             {},
             "",
             name});
    }
  }
}

}  // namespace lithify::driver
