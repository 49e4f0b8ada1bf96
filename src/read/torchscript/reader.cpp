#include "read/torchscript/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "archive/pickle.hpp"
#include "base/diagnostic.hpp"
#include "program/parse.hpp"
#include "read/byte_order.hpp"
#include "read/pickled_tensor.hpp"
#include "read/torchscript/data.hpp"
#include "read/torchscript/debug_pkl.hpp"

namespace lithify::read {
namespace {

using archive::Archive;
using archive::Pickle;
using program::Data;
using program::Program;

constexpr int64_t newest_version = 10;

int64_t read_version(const Archive& archive) {
  const std::string record = archive.has(".data/version") ? ".data/version" : "version";
  const archive::Record contents = archive.read(record);
  std::string_view text = contents.text();
  text = text.substr(0, text.find_last_not_of(" \r\n") + 1);
  int64_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (error != std::errc() || end != text.data() + text.size() || version < 1)
    throw Error(Code::BadArchive, fmt::format("the record '{}' holds no version number", record));
  if (version > newest_version)
    throw Error(Code::UnsupportedVersion,
                fmt::format("the file has version {} of the TorchScript format; versions 1 to {} are read", version,
                            newest_version),
                "save the model again with a current release of PyTorch 2");
  return version;
}

void parse_code(const Archive& archive, Program& program) {
  for (const Archive::Entry& entry : archive.entries_under("code/")) {
    if (!entry.name.ends_with(".py")) continue;
    program::parse_file(program, entry.name, std::string(archive.read(entry.name).text()),
                        source_locator(archive, entry.name));
  }
}

std::shared_ptr<program::Object> read_root(const Archive& archive, const Program& program, const LiveTensors& live) {
  const Pickle pickle(archive.read("data.pkl"));
  DataReader reader(program, TensorReader(archive, "data", live));
  const Data root = reader.read(pickle.root(), "");
  if (root.kind != Data::Kind::Object) throw Error(Code::BadPickle, "the record 'data.pkl' does not hold a module");
  return root.object;
}

std::vector<Data> read_constants(const Archive& archive, const Program& program) {
  const Pickle pickle(archive.read("constants.pkl"));
  DataReader reader(program, TensorReader(archive, "constants"));
  const Data table = reader.read(pickle.root(), "CONSTANTS");
  if (table.kind != Data::Kind::Tuple) throw Error(Code::BadPickle, "the record 'constants.pkl' does not hold a tuple");
  return std::move(table.container->items);
}

/// What torch.jit.trace was given for forward. Inputs of a kind that is not read are not worth a failure: the model may
/// be exported with sizes that the user gives.
std::optional<std::vector<program::SampleInput>> read_samples(const Archive& archive, const Program& program) try {
  if (!archive.has("traced_inputs.pkl")) return std::nullopt;
  const Pickle pickle(archive.read("traced_inputs.pkl"));
  DataReader reader(program, TensorReader(archive, "traced_inputs", TensorReader::Contents::Ignored));
  const Data methods = reader.read(pickle.root(), "traced inputs");
  if (methods.kind != Data::Kind::Dict) return std::nullopt;
  const std::vector<Data>& items = methods.container->items;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].kind != Data::Kind::String || items[i].text != "forward") continue;
    if (items[i + 1].kind != Data::Kind::List) return std::nullopt;
    std::vector<program::SampleInput> samples;
    for (const Data& value : items[i + 1].container->items) samples.push_back({value, {}});
    return samples;
  }
  return std::nullopt;
} catch (const Error& e) {
  if (e.first().code == Code::UnsupportedType) return std::nullopt;
  throw;
}

bool has_control_flow(const std::vector<program::Stmt>& body) {
  using Kind = program::Stmt::Kind;
  return std::ranges::any_of(body, [](const program::Stmt& s) {
    return s.kind == Kind::If || s.kind == Kind::For || s.kind == Kind::While || has_control_flow(s.body);
  });
}

bool calls_operators(std::string_view code) {
  return std::ranges::any_of(std::initializer_list<std::string_view>{" torch.", "(torch.", " ops.", "(ops."},
                             [&](std::string_view call) { return code.find(call) != std::string_view::npos; });
}

/// Whether a part of the program was traced. What has no debug information is taken for traced, unless nothing has any
/// and forward has control flow: tracing leaves none.
bool is_traced(const Archive& archive, const Program& program) {
  if (archive.has("traced_inputs.pkl")) return true;
  size_t known = 0, unknown = 0;
  for (const program::SourceFile& file : program.files) {
    if (!calls_operators(file.text)) continue;
    const CodeOrigin origin = code_origin(archive, file.name);
    if (origin == CodeOrigin::Trace) return true;
    ++(origin == CodeOrigin::Script ? known : unknown);
  }
  if (known > 0) return unknown > 0;
  const program::Class* model = program.find_class(program.root->class_name);
  const program::Function* forward = model ? model->method("forward") : nullptr;
  return !forward || !has_control_flow(forward->body);
}

/// The size of a constant that a trace asks for, where it does: it lost sight of a tensor, as of x.data, and the size
/// is one of the sample, as other numbers that it has.
std::optional<int64_t> size_of_constant(const program::Expr& e, const Program& program) {
  using Kind = program::Expr::Kind;
  if (e.kind != Kind::Operator || e.name != "aten::size" || e.items.size() != 2) return std::nullopt;
  if (e.items[0].kind != Kind::Constant || e.items[1].kind != Kind::Int) return std::nullopt;
  const auto number = static_cast<size_t>(e.items[0].integer);
  if (number >= program.constants.size() || !program.constants[number].tensor) return std::nullopt;
  const std::vector<int64_t>& sizes = program.constants[number].tensor->sizes;
  const auto rank = static_cast<int64_t>(sizes.size());
  const int64_t axis = e.items[1].integer < 0 ? e.items[1].integer + rank : e.items[1].integer;
  return axis < 0 || axis >= rank ? std::nullopt : std::optional(sizes[static_cast<size_t>(axis)]);
}

void replace_sizes_of_constants(program::Expr& e, const Program& program) {
  if (const std::optional<int64_t> size = size_of_constant(e, program)) {
    program::Expr number;
    number.kind = program::Expr::Kind::Int;
    number.pos = e.pos;
    number.integer = *size;
    e = std::move(number);
  }
  for (program::Expr& item : e.items) replace_sizes_of_constants(item, program);
}

void replace_sizes_of_constants(Program& program) {
  for (auto& [name, cls] : program.classes)
    for (program::Function& method : cls.methods)
      for (program::Stmt& s : method.body)
        for (program::Expr& e : s.values) replace_sizes_of_constants(e, program);
}

}  // namespace

std::unique_ptr<Program> read_torchscript(const Archive& archive, const LiveTensors& live) {
  auto program = std::make_unique<Program>();
  program->producer = "TorchScript";
  program->file_version = read_version(archive);
  refuse_big_endian(archive);
  // Checksums of weights cost as much as all the rest: they are compared meanwhile.
  std::future<void> weights = archive.verify_meanwhile(archive.entries_under("data/"));
  std::future<void> constants = archive.verify_meanwhile(archive.entries_under("constants/"));
  parse_code(archive, *program);
  program->root = read_root(archive, *program, live);
  program->constants = read_constants(archive, *program);
  program->samples = read_samples(archive, *program);
  program->traced = is_traced(archive, *program);
  if (program->traced && !program->constants.empty()) replace_sizes_of_constants(*program);
  weights.get();
  constants.get();
  return program;
}

}  // namespace lithify::read
