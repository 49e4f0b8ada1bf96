// The core for the page: one function that takes a request as JSON and answers with JSON, over the public API. The
// model is in memory; the ONNX file goes to a file of emscripten's file system, which the page makes a device of.
//
//   {"call": "inspect"}                                          to_json(InspectResult)
//   {"call": "check", "options": {...}}                          to_json(CheckResult)
//   {"call": "discover", "options": {...}}                       to_json(InspectResult), with what can be dynamic
//   {"call": "export", "out": "/dev/onnx", "options": {...}}     to_json(ExportResult)
//   {"call": "graph"}                                            text of the graph that was exported last, one line a
//   node
//   {"call": "claims"}                                           what the export before is claimed to be, as text
//   {"call": "claim", "sizes": {"batch": 3}}                     to_json(ClaimAnswer) for the export before
//   {"call": "shapes", "sizes": {"batch": 3}}                    the shapes of its inputs: [[3, 10]]
//
// A failure answers {"messages": [...]}. The keys of options are the members of ExportOptions, and "target"; "also" is
// true.
#include <emscripten.h>
#include <simdjson.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include "lithify/capture.hpp"
#include "lithify/lithify.hpp"

namespace {

using namespace lithify;
using simdjson::dom::element;
using simdjson::dom::object;

// What the page calls with the progress of an export.
EM_JS(void, report_progress, (double done, double total), { Module["progress"](done, total); });

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

/// The contents of a file.
struct Memory {
  std::unique_ptr<void, Free> first;
  size_t size = 0;

  ModelSource source() const { return ModelSource(Bytes(first.get(), size)); }
};

Memory model, other;  // `other` is another capture of it
ExportResult exported;
std::string answer;

std::string text_of(element e) { return std::string(std::string_view(e)); }

std::vector<std::string> texts_of(element e) {
  std::vector<std::string> out;
  for (const element item : e.get_array()) out.push_back(text_of(item));
  return out;
}

void set_option(ExportOptions& options, const std::string& name, element value) {
  if (name == "opset")
    options.opset = static_cast<int>(int64_t(value));
  else if (name == "target")
    options.opset = opset_for(text_of(value));
  else if (name == "inputs")
    options.inputs = texts_of(value);
  else if (name == "dynamic_axes")
    for (const auto& [input, axes] : object(value))
      for (const auto& [axis, dimension] : object(axes))
        options.dynamic_axes[std::string(input)][std::stoll(std::string(axis))] = text_of(dimension);
  else if (name == "also" && bool(value))
    options.also.push_back(other.source());
  else if (name == "discover")
    options.discover = bool(value);
  else if (name == "strict")
    options.strict = bool(value);
  else if (name == "allow_custom")
    options.allow_custom = bool(value);
  else if (name == "custom_ops")
    options.custom_ops = text_of(value);
  else
    set_choice(options, name, text_of(value));
}

ExportOptions options_of(object request) {
  ExportOptions options;
  element given;
  if (!request["options"].get(given))
    for (const auto& [name, value] : object(given)) set_option(options, std::string(name), value);
  options.interface = Interface::CommandLine;
  options.external_data = ExportOptions::ExternalData::Never;
  options.skip_sync = true;
  options.progress = [](uint64_t done, uint64_t total) {
    report_progress(static_cast<double>(done), static_cast<double>(total));
  };
  return options;
}

Sizes sizes_of(object given) {
  Sizes out;
  for (const auto& [name, size] : given) out.emplace_back(name, int64_t(size));
  return out;
}

/// A number, the name of a dimension, or a formula of such names; null where it is none of them.
std::string size_at(const std::string& size, const Sizes& sizes) {
  if (size.find_first_not_of("0123456789") == std::string::npos) return size;
  for (const auto& [name, value] : sizes)
    if (name == size) return std::to_string(value);
  const std::optional<int64_t> value = tied_size(size, sizes);
  return value ? std::to_string(*value) : "null";
}

std::string shapes_at(const Sizes& sizes) {
  std::string out;
  for (const ValueInfo& input : exported.inputs) {
    std::string shape;
    for (const std::string& size : input.shape) shape += (shape.empty() ? "" : ", ") + size_at(size, sizes);
    out += (out.empty() ? "[" : ", [") + shape + "]";
  }
  return "[" + out + "]";
}

std::string answer_to(object request) {
  const std::string call = text_of(request["call"]);
  const ModelSource source = model.source();
  if (call == "inspect") return to_json(inspect_file(source));
  if (call == "check") return to_json(check_file(source, options_of(request)));
  if (call == "graph") return exported.graph_text;
  if (call == "claims") return exported.claims.str();
  if (call == "discover") {
    InspectResult result = inspect_file(source);
    result.dynamic = discover_file(source, options_of(request));
    return to_json(result);
  }
  if (call == "export") {
    exported = export_file(source, text_of(request["out"]), options_of(request));
    return to_json(exported);
  }
  const Sizes sizes = sizes_of(request["sizes"]);
  if (call == "shapes") return shapes_at(sizes);
  return to_json(exported.claims.ask(sizes));
}

/// What is not a diagnostic of the library, as one.
std::string failure(const char* text) {
  Message m;
  m.severity = "error";
  m.text = text;
  return to_json(std::vector<Message>{m});
}

}  // namespace

extern "C" {

/// Memory for the bytes of a model, or of another capture of it, in the place of the one before; nullptr where there is
/// too little.
EMSCRIPTEN_KEEPALIVE void* lithify_web_memory(bool of_other, size_t size) {
  Memory& memory = of_other ? other : model;
  memory.first.reset();
  memory.first.reset(std::malloc(size));
  memory.size = memory.first ? size : 0;
  return memory.first.get();
}

/// Answers a request. The text lives until the next call.
EMSCRIPTEN_KEEPALIVE const char* lithify_web_call(const char* request) {
  try {
    simdjson::dom::parser parser;
    answer = answer_to(parser.parse(std::string(request)));
  } catch (const ExportError& e) {
    answer = to_json(e.messages);
  } catch (const std::bad_alloc&) {
    answer = failure("the browser gives this page too little memory for the model; use the command line");
  } catch (const std::exception& e) {
    answer = failure(e.what());
  }
  return answer.c_str();
}
}
