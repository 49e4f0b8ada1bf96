#include "read/exported/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/diagnostic.hpp"
#include "base/json.hpp"
#include "read/byte_order.hpp"
#include "read/exported/archive.hpp"
#include "read/exported/graph.hpp"
#include "read/exported/guards.hpp"
#include "read/exported/places.hpp"
#include "read/exported/symbols.hpp"
#include "read/exported/tree.hpp"

namespace lithify::read {
namespace {

using archive::Archive;
using program::Data;
using program::Expr;
using program::Program;
using program::Stmt;

constexpr int64_t newest_schema = 8;
constexpr std::string_view class_name = "__torch__.Model";

/// An input of the graph that the file itself feeds.
struct Fed {
  std::string name;   ///< in the graph
  std::string field;  ///< in the state dict or the constants
  bool parameter = false;
  std::string_view contents = {};  ///< of a constant that is in the program itself
};

class Reader {
 public:
  Reader(ExportedArchive& archive, const Json& root)
      : archive_(archive),
        root_(root),
        graph_(root["graph_module"]["graph"]),
        program_(std::make_unique<Program>()),
        nodes_(*program_, 0) {}

  std::unique_ptr<Program> run() {
    read_header();
    forward_.name = "forward";
    forward_.qualified_name = fmt::format("{}.forward", class_name);
    forward_.parameters.push_back({"self", {std::string(class_name), {}}, {}});
    forward_.facts = nodes_.facts(graph_);
    program_->samples.emplace();
    read_inputs();
    read_ranges();
    read_guards();
    std::vector<Stmt> body = nodes_.statements(graph_);
    Stmt result;
    result.kind = Stmt::Kind::Return;
    result.values.push_back(read_outputs());
    forward_.returns = type_of(result.values[0]);
    read_model();
    std::ranges::move(body, std::back_inserter(forward_.body));
    std::ranges::move(kept_, std::back_inserter(forward_.body));
    forward_.body.push_back(std::move(result));
    model_.methods.push_back(std::move(forward_));
    program_->classes.emplace(class_name, std::move(model_));
    return std::move(program_);
  }

 private:
  void read_header() {
    const Json version = root_["schema_version"];
    const int64_t major = version.is_integer() ? version.integer() : version["major"].integer();
    if (major < 1 || major > newest_schema)
      throw Error(Code::UnsupportedVersion,
                  fmt::format("the file has version {} of torch.export's format; versions 1 to {} are read", major,
                              newest_schema),
                  "save the model again with a current release of PyTorch 2");
    program_->producer = "torch.export";
    if (const auto release = root_.find("torch_version")) program_->release = release->text();
    program_->file_version = 10;
    if (const auto opset = root_.find("opset_version"))
      if (const auto aten = opset->find("aten")) program_->file_version = aten->integer();
    program_->files.push_back({archive_.program_name, "", node_locator(archive_.program, archive_.program_name)});
    model_.kind = program::Class::Kind::Module;
    model_.qualified_name = class_name;
    model_.pos = forward_.pos = {0, 0};
  }

  // ---- inputs ----

  void read_inputs() {
    const Json signature = root_["graph_module"]["signature"];
    if (const auto specs = signature.find("input_specs")) {
      for (const Json& spec : specs->items()) read_input(spec);
      return;
    }
    // Before 2.2, inputs were identified by what feeds them.
    const auto fed_by = [&](std::string_view table, const std::string& name) -> std::optional<std::string> {
      const auto found = signature[table].find(name);
      return found ? std::optional<std::string>(found->text()) : std::nullopt;
    };
    for (const Json& input : graph_["inputs"].items()) {
      const auto [kind, value] = input.only();
      const std::string name = kind == "as_tensor" ? GraphReader::name(value) : std::string();
      const auto parameter = fed_by("inputs_to_parameters", name), buffer = fed_by("inputs_to_buffers", name);
      if (parameter || buffer) {
        fed_.push_back({name, parameter ? *parameter : *buffer, parameter.has_value()});
      } else {
        read_user_input(input);
      }
    }
    if (const auto constants = graph_.find("constants"))
      for (const auto& [name, contents] : constants->members())
        fed_.push_back({std::string(name), std::string(name), false, contents.text()});
  }

  void read_input(const Json& spec) {
    const auto [kind, value] = spec.only();
    const auto feed = [&, v = value](std::string_view field, bool parameter) {
      fed_.push_back({GraphReader::name(v["arg"]), std::string(v[field].text()), parameter});
    };
    if (kind == "user_input") return read_user_input(value["arg"]);
    if (kind == "parameter") return feed("parameter_name", true);
    if (kind == "buffer") return feed("buffer_name", false);
    if (kind == "tensor_constant") return feed("tensor_constant_name", false);
    if (kind == "custom_obj") return feed("custom_obj_name", false);
    // Constant inputs are literals in the graph, and tokens order effects.
    if (kind != "constant_input" && kind != "token")
      spec.fail(fmt::format("is of the kind '{}', which is not known", kind));
  }

  void read_user_input(const Json& argument) {
    const auto [kind, value] = argument.only();
    if (kind == "as_tensor") {
      const std::string name = GraphReader::name(value);
      forward_.parameters.push_back({name, {"Tensor", {}}, {}});
      program_->samples->push_back(tensor_sample(name));
    } else if (kind.starts_with("as_sym_") && value.find("as_name")) {
      const std::string name = GraphReader::name(value["as_name"]);
      if (kind != "as_sym_int")
        throw Error(Code::UnsupportedType,
                    fmt::format("the input '{}' is a number that is neither fixed nor an integer", name),
                    "pass it as a tensor, or export with it as a constant");
      forward_.parameters.push_back({name, {"int", {}}, {}});
      program_->samples->push_back(integer_sample(name));
    }
    // Any other is a constant, which is a literal in the graph.
  }

  static std::optional<int64_t> hint_of(const Json& size) {
    if (size.is_integer()) return size.integer();
    const auto [kind, value] = size.only();
    if (kind == "as_int") return value.integer();
    const std::optional<Json> hint = value.is_object() ? value.find("hint") : std::nullopt;
    if (!hint) return std::nullopt;
    if (hint->is_integer()) return hint->integer();
    const std::optional<Json> number = hint->find("as_int");
    return number ? std::optional(number->integer()) : std::nullopt;
  }

  program::SampleInput tensor_sample(const std::string& name) {
    const Json entry = graph_["tensor_values"][name];
    const Json meta = entry.find("meta").value_or(entry);
    auto view = std::make_shared<TensorView>();
    view->dtype = dtype_of_export(meta["dtype"].integer());
    program::SampleInput sample;
    for (const Json& size : meta["sizes"].items()) {
      // Without a hint nothing is known of the sample's size: 0 is what no dynamic dimension has.
      view->sizes.push_back(hint_of(size).value_or(0));
      sample.formulas.push_back(nodes_.size(size));
    }
    view->strides.assign(view->sizes.size(), 0);
    sample.value.kind = Data::Kind::Tensor;
    sample.value.tensor = std::move(view);
    return sample;
  }

  program::SampleInput integer_sample(const std::string& name) {
    const Json value = graph_["sym_int_values"][name];
    program::SampleInput sample;
    sample.value.kind = Data::Kind::Int;
    sample.value.integer = hint_of(value).value_or(0);
    sample.formulas.push_back(nodes_.size(value));
    return sample;
  }

  /// torch.export assumes of every dynamic size that it is neither 0 nor 1 and writes 2 as its least value; that is not
  /// a need of the program. Very large bounds stand for none.
  void read_ranges() {
    constexpr int64_t artefact = 2, least_size = 1, unbounded = std::numeric_limits<int32_t>::max();
    for (const auto& [name, range] : root_["range_constraints"].members()) {
      const Expr formula = parse_symbolic(name);
      if (formula.kind != Expr::Kind::Name) continue;
      const auto bound = [&, r = range](std::string_view key) -> std::optional<int64_t> {
        const auto value = r.find(key);
        return value && value->is_integer() ? std::optional(value->integer()) : std::nullopt;
      };
      program::Symbol symbol{formula.name, bound("min_val"), bound("max_val")};
      if (symbol.lower && *symbol.lower <= artefact) symbol.lower = least_size;
      if (symbol.upper && *symbol.upper >= unbounded) symbol.upper.reset();
      program_->symbols.push_back(std::move(symbol));
    }
  }

  /// Programs of releases before 2.9 may have conditions that the file does not have.
  void read_guards() {
    const auto all = root_.find("guards_code");
    program_->traced = !all;
    if (!all) return;
    std::vector<std::string> names;
    for (const program::Parameter& p : forward_.parameters) names.push_back(p.name);
    program_->guards.emplace();
    for (const Json& guard : all->items()) program_->guards->push_back(parse_guard(guard.text(), names));
  }

  // ---- outputs ----

  static Expr named(std::string name) {
    Expr e;
    e.kind = Expr::Kind::Name;
    e.name = std::move(name);
    return e;
  }

  /// A buffer that the program leaves with other contents.
  void keep(std::string_view buffer, Expr value) {
    Stmt set;
    set.kind = Stmt::Kind::SetAttribute;
    set.name = buffer;
    set.values = {named("self"), std::move(value)};
    kept_.push_back(std::move(set));
  }

  Expr read_outputs() {
    const Json module = root_["graph_module"];
    std::vector<Expr> outputs;
    if (const auto specs = module["signature"].find("output_specs")) {
      for (const Json& spec : specs->items()) {
        const auto [kind, value] = spec.only();
        if (kind == "user_output") outputs.push_back(nodes_.argument(value["arg"]));
        if (kind == "buffer_mutation") keep(value["buffer_name"].text(), named(nodes_.name(value["arg"])));
      }
    } else {
      size_t mutated = 0;
      const std::vector<Json> all = graph_["outputs"].items();
      for (auto& [output, buffer] : module["signature"]["buffers_to_mutate"].members())
        if (mutated < all.size()) keep(buffer.text(), nodes_.argument(all[mutated++]));
      for (size_t i = mutated; i < all.size(); ++i) outputs.push_back(nodes_.argument(all[i]));
    }
    return returned_value(out_spec(module), module.find("treespec_namedtuple_fields"), std::move(outputs));
  }

  static std::string_view out_spec(const Json& module) {
    if (const auto calls = module.find("module_call_graph"))
      for (const Json& entry : calls->items())
        if (const auto signature = entry.find("signature"); signature && entry["fqn"].text().empty())
          return (*signature)["out_spec"].text();
    const auto spec = module.find("call_spec");
    return spec ? (*spec)["out_spec"].text() : std::string_view("[]");
  }

  // ---- the model ----

  /// The object with its weights, and the statements that give them the names that they have in the graph. A model's
  /// whole state is among the inputs of its graph; what nothing uses is left out.
  void read_model() {
    program_->root = std::make_shared<program::Object>();
    program_->root->class_name = class_name;
    for (const Fed& fed : fed_) {
      if (!nodes_.used.contains(fed.name)) continue;
      Data data;
      data.kind = Data::Kind::Tensor;
      data.tensor = fed.contents.empty() ? archive_.weights->find(fed.field) : decode_tensor(fed.contents, fed.field);
      if (!data.tensor) data.tensor = archive_.constants->find(fed.field);
      if (!data.tensor)
        throw Error(Code::BadTensor, fmt::format("the program uses '{}', which is not in the file", fed.field));
      if (!program_->root->attribute(fed.field)) {
        program_->root->attributes.emplace_back(fed.field, std::move(data));
        model_.attributes.emplace_back(fed.field, program::Type{"Tensor", {}});
        (fed.parameter ? model_.parameters : model_.buffers).push_back(fed.field);
      }
      Stmt bind;
      bind.kind = Stmt::Kind::Assign;
      bind.targets = {fed.name};
      Expr value;
      value.kind = Expr::Kind::Attribute;
      value.name = fed.field;
      value.items.push_back(named("self"));
      bind.values.push_back(std::move(value));
      forward_.body.push_back(std::move(bind));
    }
  }

  ExportedArchive& archive_;
  Json root_;
  Json graph_;
  std::unique_ptr<Program> program_;
  GraphReader nodes_;
  program::Class model_;
  program::Function forward_;
  std::vector<Fed> fed_;
  std::vector<Stmt> kept_;  // buffers with other contents
};

}  // namespace

std::unique_ptr<Program> read_exported(const Archive& archive, const LiveTensors& live) {
  refuse_big_endian(archive);
  ExportedArchive opened = open_exported(archive, live);
  // Checksums of weights cost as much as all the rest: they are compared meanwhile.
  std::future<void> checksums = archive.verify_meanwhile(archive.entries());
  std::unique_ptr<Program> program;
  {
    const JsonDocument document(opened.program.text(), opened.program_name);
    program = Reader(opened, document.root()).run();
  }
  checksums.get();
  return program;
}

}  // namespace lithify::read
