// The C ABI over the C++ API: checks arguments, and turns every exception into a status.
#include <algorithm>
#include <new>
#include <string_view>

#include "capi/handles.hpp"
#include "lithify/lithify.h"

namespace {

using lithify::ExportError;
using lithify::ExportOptions;
using lithify::ModelSource;
using lithify::capi::Result;

lithify::capi::Handles& handles() {
  // Never destroyed: other threads may still be exporting while the process ends.
  static auto& all = *new lithify::capi::Handles;
  return all;
}

bool is_text(const char* text) { return text != nullptr && *text != '\0'; }

/// Runs `f`, which returns a status; no exception leaves the library.
template <class F>
lithify_status guarded(F f) noexcept {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return LITHIFY_ERROR_MEMORY;
  } catch (...) {
    return LITHIFY_ERROR_INTERNAL;
  }
}

/// Changes options by `change`, if `valid`.
template <class F>
lithify_status set(lithify_options* options, bool valid, F change) {
  return guarded([&]() -> lithify_status {
    bool known = handles().use<ExportOptions>(options, [&](ExportOptions& o) {
      if (valid) change(o);
    });
    return !known ? LITHIFY_ERROR_HANDLE : valid ? LITHIFY_OK : LITHIFY_ERROR_ARGUMENT;
  });
}

lithify_status set_flag(lithify_options* options, bool ExportOptions::*member, int flag) {
  return set(options, flag == 0 || flag == 1, [&](ExportOptions& o) { o.*member = flag == 1; });
}

/// Constants of C have the numbers of the enums, from 0 to `last`.
template <class Enum>
lithify_status set_enum(lithify_options* options, Enum ExportOptions::*member, int choice, int last) {
  return set(options, choice >= 0 && choice <= last, [&](ExportOptions& o) { o.*member = static_cast<Enum>(choice); });
}

/// The options of a call that gives none.
ExportOptions default_options() {
  ExportOptions options;
  options.interface = lithify::Interface::C;
  return options;
}

template <class T>
lithify_status release(const void* handle) {
  return guarded([&]() -> lithify_status {
    return handle == nullptr || handles().remove<T>(handle) ? LITHIFY_OK : LITHIFY_ERROR_HANDLE;
  });
}

std::vector<std::string> texts(const std::vector<lithify::ValueInfo>& values) {
  std::vector<std::string> out;
  for (const lithify::ValueInfo& v : values) out.push_back(v.str());
  return out;
}

/// Calls `work`, which fills a Result and returns whether it succeeded, with the options behind the handle; gives the
/// caller a handle of the result.
template <class F>
lithify_status perform(bool valid, const lithify_options* handle, lithify_result** result, F work) {
  if (result) *result = nullptr;
  return guarded([&]() -> lithify_status {
    ExportOptions options = default_options();
    if (handle && !handles().use<ExportOptions>(handle, [&](ExportOptions& o) { options = o; }))
      return LITHIFY_ERROR_HANDLE;
    if (!valid) return LITHIFY_ERROR_ARGUMENT;
    Result made;
    bool good = false;
    try {
      good = work(options, made);
    } catch (const ExportError& e) {
      made.messages = e.messages;
      made.json = lithify::to_json(e.messages);
    }
    if (result) *result = static_cast<lithify_result*>(handles().add(std::move(made)));
    return good ? LITHIFY_OK : LITHIFY_ERROR_MODEL;
  });
}

ModelSource in_memory(const void* data, size_t size) { return ModelSource(lithify::Bytes(data, size)); }

// In the three that follow, `source` makes the ModelSource, of arguments that are `valid`.

template <class F>
lithify_status export_model(bool valid, F source, const char* out, const lithify_options* options,
                            lithify_result** result) {
  valid = valid && (out ? *out != '\0' : result != nullptr);
  return perform(valid, options, result, [&](const ExportOptions& o, Result& made) {
    auto allocate = [&](uint64_t size) {
      made.bytes.resize(size);
      return made.bytes.data();
    };
    lithify::ExportResult done =
        out ? lithify::export_file(source(), out, o) : lithify::export_bytes(source(), allocate, o);
    made.json = lithify::to_json(done);
    made.messages = done.messages;
    made.inputs = texts(done.inputs);
    made.outputs = texts(done.outputs);
    made.claims = std::move(done.claims);
    return true;
  });
}

template <class F>
lithify_status check_model(bool valid, F source, const lithify_options* options, lithify_result** result) {
  return perform(valid, options, result, [&](const ExportOptions& o, Result& made) {
    lithify::CheckResult done = lithify::check_file(source(), o);
    made.json = lithify::to_json(done);
    made.messages = done.messages;
    return done.exportable;
  });
}

template <class F>
lithify_status inspect_model(bool valid, F source, lithify_result** result) {
  return perform(valid, nullptr, result, [&](const ExportOptions&, Result& made) {
    lithify::InspectResult done = lithify::inspect_file(source());
    made.json = lithify::to_json(done);
    made.inputs = texts(done.inputs);
    return true;
  });
}

template <class F>
lithify_status read_claims(bool valid, F read, lithify_result** result) {
  return perform(valid, nullptr, result, [&](const ExportOptions&, Result& made) {
    made.claims = read();
    made.json = lithify::to_json(*made.claims);
    return true;
  });
}

/// What `get` finds in the result; nothing for an invalid handle.
template <class T, class F>
T ask(const lithify_result* result, F get) {
  T out{};
  guarded([&]() -> lithify_status {
    handles().use<Result>(result, [&](const Result& r) { out = get(r); });
    return LITHIFY_OK;
  });
  return out;
}

/// The text `part` of item `index` of the list `list`.
template <class List, class Part>
const char* item(const lithify_result* result, size_t index, List Result::*list, Part part) {
  return ask<const char*>(result, [&](const Result& r) -> const char* {
    return index < (r.*list).size() ? part((r.*list)[index]).c_str() : nullptr;
  });
}

const std::string& itself(const std::string& text) { return text; }

}  // namespace

const char* lithify_status_text(lithify_status status) {
  switch (status) {
    case LITHIFY_OK:
      return "the call succeeded";
    case LITHIFY_ERROR_MODEL:
      return "the model cannot be exported; the messages of the result have the reasons";
    case LITHIFY_ERROR_HANDLE:
      return "a handle is null, was freed, or is of another kind";
    case LITHIFY_ERROR_ARGUMENT:
      return "an argument is null, empty, out of range or not of the form described";
    case LITHIFY_ERROR_MEMORY:
      return "there is not enough memory";
    case LITHIFY_ERROR_INTERNAL:
      return "a fault of the library";
    default:
      return "there is no such status";
  }
}

const char* lithify_version(void) { return lithify::version(); }

lithify_options* lithify_options_new(void) {
  void* made = nullptr;
  guarded([&]() -> lithify_status {
    made = handles().add(default_options());
    return LITHIFY_OK;
  });
  return static_cast<lithify_options*>(made);
}

lithify_status lithify_options_free(lithify_options* options) { return release<ExportOptions>(options); }

lithify_status lithify_options_set_opset(lithify_options* options, int opset) {
  bool valid = opset >= lithify::lowest_opset && opset <= lithify::highest_opset;
  return set(options, valid, [&](ExportOptions& o) { o.opset = opset; });
}

lithify_status lithify_options_set_target(lithify_options* options, const char* runtime) {
  int opset = 0;
  const bool is_any = is_text(runtime) && std::string_view(runtime) == "ort";
  try {
    if (is_text(runtime) && !is_any) opset = lithify::opset_for(runtime);
  } catch (const std::exception&) {
    // The runtime is not known.
  }
  return set(options, is_any || opset > 0, [&](ExportOptions& o) {
    o.target = is_any ? "ort" : "";
    if (!is_any) o.opset = opset;
  });
}

lithify_status lithify_options_add_input(lithify_options* options, const char* spec) {
  return set(options, is_text(spec), [&](ExportOptions& o) { o.inputs.emplace_back(spec); });
}

lithify_status lithify_options_add_dynamic_axis(lithify_options* options, const char* value, int64_t axis,
                                                const char* dimension) {
  return set(options, is_text(value) && is_text(dimension),
             [&](ExportOptions& o) { o.dynamic_axes[value][axis] = dimension; });
}

lithify_status lithify_options_add_input_name(lithify_options* options, const char* name) {
  return set(options, is_text(name), [&](ExportOptions& o) { o.input_names.emplace_back(name); });
}

lithify_status lithify_options_add_output_name(lithify_options* options, const char* name) {
  return set(options, is_text(name), [&](ExportOptions& o) { o.output_names.emplace_back(name); });
}

lithify_status lithify_options_set_discover(lithify_options* options, int discover) {
  return set_flag(options, &ExportOptions::discover, discover);
}

lithify_status lithify_options_add_also(lithify_options* options, const char* model) {
  return set(options, is_text(model), [&](ExportOptions& o) { o.also.emplace_back(model); });
}

lithify_status lithify_options_add_also_bytes(lithify_options* options, const void* data, size_t size) {
  return set(options, data && size, [&](ExportOptions& o) { o.also.push_back(in_memory(data, size)); });
}

lithify_status lithify_options_set_recover(lithify_options* options, int recover) {
  return set_enum(options, &ExportOptions::recover, recover, LITHIFY_RECOVER_GUESS);
}

lithify_status lithify_options_set_strict(lithify_options* options, int strict) {
  return set_flag(options, &ExportOptions::strict, strict);
}

lithify_status lithify_options_set_state(lithify_options* options, int state) {
  return set_enum(options, &ExportOptions::state, state, LITHIFY_STATE_FROZEN);
}

lithify_status lithify_options_set_budget(lithify_options* options, int64_t times) {
  return set(options, times >= 1 && times <= 1000, [&](ExportOptions& o) { o.budget = times; });
}

lithify_status lithify_options_set_unroll(lithify_options* options, int64_t iterations) {
  return set(options, iterations >= 0, [&](ExportOptions& o) { o.unroll = iterations; });
}

lithify_status lithify_options_set_custom_operators(lithify_options* options, const char* declarations) {
  return set(options, is_text(declarations), [&](ExportOptions& o) { o.custom_ops = declarations; });
}

lithify_status lithify_options_add_custom_opset(lithify_options* options, const char* domain, int version) {
  return set(options, is_text(domain) && version >= 1, [&](ExportOptions& o) { o.custom_opsets[domain] = version; });
}

lithify_status lithify_options_set_allow_custom(lithify_options* options, int allow) {
  return set_flag(options, &ExportOptions::allow_custom, allow);
}

lithify_status lithify_options_set_external_data(lithify_options* options, int when) {
  return set_enum(options, &ExportOptions::external_data, when, LITHIFY_EXTERNAL_DATA_NEVER);
}

lithify_status lithify_options_set_weights(lithify_options* options, int weights) {
  return set_enum(options, &ExportOptions::weights, weights, LITHIFY_WEIGHTS_UINT4);
}

lithify_status lithify_options_set_weights_block(lithify_options* options, int64_t elements) {
  return set(options, elements > 0, [&](ExportOptions& o) { o.weights_block = elements; });
}

lithify_status lithify_options_set_precision(lithify_options* options, int precision) {
  return set_enum(options, &ExportOptions::precision, precision, LITHIFY_PRECISION_BFLOAT16);
}

lithify_status lithify_options_add_keep_weights(lithify_options* options, const char* pattern) {
  return set(options, is_text(pattern), [&](ExportOptions& o) { o.keep_weights.emplace_back(pattern); });
}

lithify_status lithify_options_set_skip_sync(lithify_options* options, int skip) {
  return set_flag(options, &ExportOptions::skip_sync, skip);
}

lithify_status lithify_options_set_self_check(lithify_options* options, int check) {
  return set_flag(options, &ExportOptions::self_check, check);
}

lithify_status lithify_options_set_progress(lithify_options* options, lithify_progress progress, void* user) {
  return set(options, true, [&](ExportOptions& o) {
    o.progress = nullptr;
    if (progress) o.progress = [=](uint64_t done, uint64_t total) { progress(done, total, user); };
  });
}

lithify_status lithify_export_file(const char* model, const char* out, const lithify_options* options,
                                   lithify_result** result) {
  return export_model(
      is_text(model), [&] { return ModelSource(model); }, out, options, result);
}

lithify_status lithify_check_file(const char* model, const lithify_options* options, lithify_result** result) {
  return check_model(
      is_text(model), [&] { return ModelSource(model); }, options, result);
}

lithify_status lithify_inspect_file(const char* model, lithify_result** result) {
  return inspect_model(
      is_text(model), [&] { return ModelSource(model); }, result);
}

lithify_status lithify_export_bytes(const void* data, size_t size, const char* out, const lithify_options* options,
                                    lithify_result** result) {
  return export_model(
      data && size, [&] { return in_memory(data, size); }, out, options, result);
}

lithify_status lithify_check_bytes(const void* data, size_t size, const lithify_options* options,
                                   lithify_result** result) {
  return check_model(
      data && size, [&] { return in_memory(data, size); }, options, result);
}

lithify_status lithify_inspect_bytes(const void* data, size_t size, lithify_result** result) {
  return inspect_model(
      data && size, [&] { return in_memory(data, size); }, result);
}

lithify_status lithify_claims_file(const char* model, lithify_result** result) {
  return read_claims(
      is_text(model), [&] { return lithify::read_claims(std::string(model)); }, result);
}

lithify_status lithify_claims_bytes(const void* data, size_t size, lithify_result** result) {
  return read_claims(
      data && size, [&] { return lithify::read_claims(lithify::Bytes(data, size)); }, result);
}

lithify_status lithify_claims_holds(const lithify_result* claimed, const char* const* names, const int64_t* sizes,
                                    size_t count, int* answer, lithify_result** result) {
  if (result) *result = nullptr;
  if (answer) *answer = LITHIFY_CLAIM_UNKNOWN;
  std::optional<lithify::Claims> claims;
  const lithify_status taken = guarded([&]() -> lithify_status {
    const bool known = handles().use<Result>(claimed, [&](const Result& r) { claims = r.claims; });
    return known ? LITHIFY_OK : LITHIFY_ERROR_HANDLE;
  });
  if (taken != LITHIFY_OK) return taken;
  const bool given = count == 0 || (names && sizes && std::all_of(names, names + count, is_text));
  return perform(answer && claims && given, nullptr, result, [&](const ExportOptions&, Result& made) {
    lithify::Sizes at;
    for (size_t i = 0; i < count; ++i) at.emplace_back(names[i], sizes[i]);
    const lithify::ClaimAnswer found = claims->ask(at);
    *answer = !found.holds ? LITHIFY_CLAIM_UNKNOWN : *found.holds ? LITHIFY_CLAIM_HOLDS : LITHIFY_CLAIM_EXCLUDED;
    made.json = lithify::to_json(found);
    return true;
  });
}

lithify_status lithify_operators(lithify_result** result) {
  return perform(true, nullptr, result, [&](const ExportOptions&, Result& made) {
    made.json = lithify::to_json(lithify::supported_operators());
    return true;
  });
}

lithify_status lithify_result_free(lithify_result* result) { return release<Result>(result); }

const char* lithify_result_json(const lithify_result* result) {
  return ask<const char*>(result, [](const Result& r) { return r.json.c_str(); });
}

size_t lithify_result_message_count(const lithify_result* result) {
  return ask<size_t>(result, [](const Result& r) { return r.messages.size(); });
}

const char* lithify_result_message(const lithify_result* result, size_t index) {
  return item(
      result, index, &Result::messages, [](auto& m) -> auto& { return m.pretty; });
}

const char* lithify_result_message_code(const lithify_result* result, size_t index) {
  return item(
      result, index, &Result::messages, [](auto& m) -> auto& { return m.code; });
}

const char* lithify_result_message_severity(const lithify_result* result, size_t index) {
  return item(
      result, index, &Result::messages, [](auto& m) -> auto& { return m.severity; });
}

size_t lithify_result_input_count(const lithify_result* result) {
  return ask<size_t>(result, [](const Result& r) { return r.inputs.size(); });
}

const char* lithify_result_input(const lithify_result* result, size_t index) {
  return item(result, index, &Result::inputs, itself);
}

size_t lithify_result_output_count(const lithify_result* result) {
  return ask<size_t>(result, [](const Result& r) { return r.outputs.size(); });
}

const char* lithify_result_output(const lithify_result* result, size_t index) {
  return item(result, index, &Result::outputs, itself);
}

const void* lithify_result_bytes(const lithify_result* result, size_t* size) {
  if (!size) return nullptr;
  *size = 0;
  return ask<const void*>(result, [&](const Result& r) -> const void* {
    *size = r.bytes.size();
    return r.bytes.empty() ? nullptr : r.bytes.data();
  });
}
