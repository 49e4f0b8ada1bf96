#include "read/exported/graph.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostic.hpp"
#include "program/text.hpp"
#include "read/exported/archive.hpp"
#include "read/exported/symbols.hpp"

namespace lithify::read {
namespace {

using program::Expr;
using program::Stmt;
using EKind = Expr::Kind;
using SKind = Stmt::Kind;

constexpr int max_graph_depth = 50;

/// Python functions on numbers, as operators.
constexpr std::pair<std::string_view, std::string_view> kPython[] = {
    {"_operator.add", "aten::add"},
    {"_operator.sub", "aten::sub"},
    {"_operator.mul", "aten::mul"},
    {"_operator.truediv", "aten::truediv"},
    {"_operator.floordiv", "aten::floordiv"},
    {"_operator.mod", "aten::remainder"},
    {"_operator.pow", "prim::pow"},
    {"_operator.neg", "aten::neg"},
    {"_operator.eq", "aten::eq"},
    {"_operator.ne", "aten::ne"},
    {"_operator.lt", "aten::lt"},
    {"_operator.le", "aten::le"},
    {"_operator.gt", "aten::gt"},
    {"_operator.ge", "aten::ge"},
    {"_operator.and_", "aten::__and__"},
    {"_operator.or_", "aten::__or__"},
    {"_operator.xor", "aten::__xor__"},
    {"_operator.lshift", "aten::__lshift__"},
    {"_operator.rshift", "aten::__rshift__"},
    {"_operator.getitem", "aten::__getitem__"},
    {"math.trunc", "aten::Int"},
    {"math.floor", "aten::floor"},
    {"math.ceil", "aten::ceil"},
    {"math.sqrt", "aten::sqrt"},
    {"torch.sym_int", "aten::Int"},
    {"torch.sym_float", "aten::Float"},
    {"torch.sym_not", "aten::__not__"},
    {"torch.sym_max", "prim::max"},
    {"torch.sym_min", "prim::min"},
    {"torch.sym_ite", "prim::ite"},
    {"torch.sym_sqrt", "aten::sqrt"},
    {"builtins.round", "aten::round"},
};

/// Operators that only check what the capture assumed.
constexpr std::string_view kChecks[] = {
    "aten._assert_async",
    "aten._assert_scalar",
    "aten._assert_tensor_metadata",
    "aten.sym_constrain_range",
    "aten.sym_constrain_range_for_size",
    "aten._functional_assert_scalar",
    "aten._functional_assert_async",
    "aten._functional_sym_constrain_range",
    "aten._functional_sym_constrain_range_for_size",
    "aten._print",
};

/// "aten::add.Tensor" of "aten.add.Tensor"; the overload "default" has no name.
std::string operator_name(std::string_view target) {
  const size_t dot = target.find('.');
  if (dot == std::string_view::npos) return fmt::format("python::{}", target);
  std::string_view rest = target.substr(dot + 1);
  if (rest.ends_with(".default")) rest.remove_suffix(std::string_view(".default").size());
  return fmt::format("{}::{}", target.substr(0, dot), rest);
}

}  // namespace

std::string innermost_module(std::string_view stack) {
  stack = stack.substr(stack.rfind(';') + 1);
  const size_t first = stack.find(',');
  if (first == std::string_view::npos) return {};
  std::string_view path = stack.substr(first + 1);
  path = path.substr(0, path.find(','));
  path = path.substr(0, path.find('@'));  // a module that is called again
  constexpr std::string_view old_root = "L['self']";
  if (path.starts_with(old_root)) path.remove_prefix(std::min(path.size(), old_root.size() + 1));
  const bool plain = std::ranges::all_of(path, [](char c) { return program::is_word(c) || c == '.'; });
  return plain && !path.starts_with("_empty_nn_module_stack") ? std::string(path) : std::string();
}

// ---- pieces
// -----------------------------------------------------------------------------------------------------------

Expr GraphReader::made(EKind kind) const {
  Expr e;
  e.kind = kind;
  e.pos = pos_;
  return e;
}

Expr GraphReader::named(std::string name) const {
  Expr e = made(EKind::Name);
  e.name = std::move(name);
  return e;
}

Expr GraphReader::number(int64_t value) const {
  Expr e = made(EKind::Int);
  e.integer = value;
  return e;
}

Expr GraphReader::text(std::string_view value) const {
  Expr e = made(EKind::String);
  e.name = value;
  return e;
}

Expr GraphReader::operation(std::string name, std::vector<Expr> items) const {
  Expr e = made(EKind::Operator);
  e.name = std::move(name);
  e.items = std::move(items);
  return e;
}

Stmt GraphReader::made(SKind kind) const {
  Stmt s;
  s.kind = kind;
  s.pos = pos_;
  s.scope = scope_;
  return s;
}

Stmt GraphReader::assign(std::vector<std::string> targets, Expr value, bool unpack) const {
  Stmt s = made(SKind::Assign);
  s.targets = std::move(targets);
  s.unpack = unpack;
  s.values.push_back(std::move(value));
  return s;
}

std::string GraphReader::fresh() { return fmt::format("_{}", fresh_++); }

Expr GraphReader::read(std::string name) {
  used.insert(name);
  return named(std::move(name));
}

// ---- arguments
// ----------------------------------------------------------------------------------------------------------

std::string GraphReader::name(const Json& tensor) {
  const Json name = tensor.is_text() ? tensor : tensor["name"];
  if (!program::is_identifier(name.text())) name.fail("is not a name");
  return std::string(name.text());
}

Expr GraphReader::tensor(const Json& tensor) { return read(name(tensor)); }

Expr GraphReader::optional_tensor(const Json& argument) {
  const auto [kind, value] = argument.only();
  return kind == "as_tensor" ? tensor(value) : made(EKind::None);
}

/// A number that is computed by the graph, or known.
Expr GraphReader::symbolic(const Json& argument) {
  const auto [kind, value] = argument.only();
  if (kind == "as_name") return read(name(value));
  return this->argument(argument);
}

template <class F>
Expr GraphReader::list(const Json& items, F one) {
  Expr e = made(EKind::List);
  for (const Json& item : items.items()) e.items.push_back(one(item));
  return e;
}

Expr GraphReader::argument(const Json& argument) {
  const auto integer = [&](const Json& v) { return number(v.integer()); };
  const auto real = [&](const Json& v) {
    Expr e = made(EKind::Float);
    e.real = v.real();
    return e;
  };
  const auto boolean = [&](const Json& v) {
    Expr e = made(EKind::Bool);
    e.integer = v.boolean();
    return e;
  };
  const auto string = [&](const Json& v) { return text(v.text()); };
  const auto tensors = [&](const Json& v) { return list(v, [&](const Json& t) { return tensor(t); }); };
  const auto lists = [&](const Json& v, auto one) {
    return list(v, [&](const Json& inner) { return list(inner, one); });
  };

  const auto [kind, value] = argument.only();
  if (kind == "as_none") return made(EKind::None);
  if (kind == "as_tensor") return tensor(value);
  if (kind == "as_tensors") return tensors(value);
  if (kind == "as_optional_tensor") return optional_tensor(value);
  if (kind == "as_optional_tensors") return list(value, [&](const Json& t) { return optional_tensor(t); });
  if (kind == "as_nested_tensors") return list(value, tensors);
  if (kind == "as_int") return integer(value);
  if (kind == "as_ints") return list(value, integer);
  if (kind == "as_int_lists") return lists(value, integer);
  if (kind == "as_float") return real(value);
  if (kind == "as_floats") return list(value, real);
  if (kind == "as_float_lists") return lists(value, real);
  if (kind == "as_bool") return boolean(value);
  if (kind == "as_bools") return list(value, boolean);
  if (kind == "as_string" || kind == "as_operator") return string(value);
  if (kind == "as_strings") return list(value, string);
  if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") return symbolic(value);
  if (kind == "as_sym_ints" || kind == "as_sym_floats" || kind == "as_sym_bools")
    return list(value, [&](const Json& v) { return symbolic(v); });
  if (kind == "as_graph") return inner_graph(value);
  if (kind == "as_custom_obj") return read(name(value));
  if (kind == "as_complex") {
    Expr e = made(EKind::Complex);
    e.real = value["real"].real();
    e.imag = value["imag"].real();
    return e;
  }
  if (kind == "as_scalar_type") {
    const DType dtype = dtype_of_export(value.integer());
    if (dtype == DType::Undefined) value.fail("is an element type that is not known");
    return number(torch_number(dtype));
  }
  // TorchScript's numbers: contiguous 0, preserve 1, channels last 2 and 3; strided is layout 0.
  if (kind == "as_memory_format") return number(value.integer() == 1 ? 0 : value.integer() == 4 ? 1 : value.integer());
  if (kind == "as_layout") return number(value.integer() == 7 ? 0 : value.integer());
  if (kind == "as_device") {
    const std::optional<Json> index = value.find("index");
    std::string device(value["type"].text());
    if (index) device += fmt::format(":{}", index->integer());
    return operation("aten::device", {text(device)});
  }
  if (kind == "as_string_to_argument") {
    Expr e = made(EKind::Dict);
    for (const auto& [key, item] : value.members()) {
      e.items.push_back(text(key));
      e.items.push_back(this->argument(item));
    }
    return e;
  }
  argument.fail(fmt::format("is of the kind '{}', which is not known", kind));
}

// ---- facts
// --------------------------------------------------------------------------------------------------------------

Expr GraphReader::size(const Json& size) {
  if (size.is_integer()) return number(size.integer());
  const auto [kind, value] = size.only();
  if (kind == "as_int") return number(value.integer());
  if (kind != "as_expr") return made(EKind::None);
  const std::string_view formula = value.is_text() ? value.text() : value["expr_str"].text();
  auto found = sizes_.find(formula);
  if (found == sizes_.end()) found = sizes_.emplace(formula, parse_symbolic(formula)).first;
  return found->second;
}

std::unordered_map<std::string, program::Fact> GraphReader::facts(const Json& graph) {
  std::unordered_map<std::string, program::Fact> out;
  for (const auto& [name, value] : graph["tensor_values"].members()) {
    const Json meta = value.find("meta").value_or(value);
    program::Fact& fact = out[std::string(name)];
    fact.dtype = dtype_of_export(meta["dtype"].integer());
    for (const Json& s : meta["sizes"].items()) fact.sizes.push_back(size(s));
  }
  for (const auto& [name, value] : graph["sym_int_values"].members())
    out[std::string(name)].sizes.push_back(size(value));
  return out;
}

// ---- nodes
// --------------------------------------------------------------------------------------------------------------

std::vector<Stmt> GraphReader::statements(const Json& graph) {
  if (++depth_ > max_graph_depth) throw Error(Code::LimitExceeded, "the graphs of the program nest too deep");
  std::vector<Stmt> out;
  for (const Json& n : graph["nodes"].items()) node(n, out);
  --depth_;
  return out;
}

/// The names that a node sets. A list among several results gets a name of its own, and is unpacked afterwards.
std::vector<std::string> GraphReader::targets(const std::vector<Json>& outputs, std::vector<Stmt>& unpacked) {
  std::vector<std::string> out;
  for (const Json& output : outputs) {
    const auto [kind, value] = output.only();
    if (kind == "as_tensor") {
      out.push_back(name(value));
    } else if (kind == "as_tensors") {
      std::vector<std::string> names;
      for (const Json& item : value.items()) names.push_back(name(item));
      if (outputs.size() == 1) return names;
      out.push_back(fresh());
      if (!names.empty()) unpacked.push_back(assign(std::move(names), named(out.back()), true));
    } else if (kind.starts_with("as_sym_") && value.find("as_name")) {
      out.push_back(name(value["as_name"]));
    } else {
      out.push_back(fresh());
    }
  }
  return out;
}

void GraphReader::node(const Json& node, std::vector<Stmt>& out) {
  pos_ = {file_, nodes_++};
  const std::optional<Json> stack = node["metadata"].find("nn_module_stack");
  scope_ = stack ? innermost_module(stack->text()) : std::string();
  std::string_view target = node["target"].text();
  if (!std::ranges::all_of(target, [](char c) { return program::is_word(c) || c == '.'; }))
    node["target"].fail("is not the name of an operator");
  constexpr std::string_view ops = "torch.ops.";
  const bool is_operator = target.starts_with(ops);
  if (is_operator) target.remove_prefix(ops.size());
  const bool check = std::ranges::any_of(kChecks, [&](std::string_view name) {
    return target.starts_with(name) && (target.size() == name.size() || target[name.size()] == '.');
  });

  std::vector<Stmt> unpacked;
  const std::vector<Json> outputs = node["outputs"].items();
  const std::vector<std::string> names = targets(outputs, unpacked);
  if (check) {
    for (const std::string& name : names) out.push_back(assign({name}, made(EKind::None), false));
    return;
  }
  constexpr std::string_view higher = "higher_order.";
  if (is_operator && target.starts_with(higher)) {
    if (higher_order(node, target.substr(higher.size()), names, out)) return;
  }
  const auto [file, offset] = pos_;
  const std::optional<std::string> scope = scope_;
  Expr value = call(node, is_operator ? operator_name(target) : target);
  pos_ = {file, offset};
  scope_ = scope;
  if (names.empty() && outputs.empty()) {
    Stmt s = made(SKind::Evaluate);
    s.values.push_back(std::move(value));
    out.push_back(std::move(s));
    return;
  }
  const bool is_list = outputs.size() == 1 && outputs[0].only().first == "as_tensors";
  if (names.empty()) {  // an empty list
    out.push_back(assign({fresh()}, std::move(value), false));
    return;
  }
  out.push_back(assign(names, std::move(value), is_list || names.size() > 1));
  out.back().trailing_comma = is_list;
  std::ranges::move(unpacked, std::back_inserter(out));
}

/// Arguments that were given by position stay so; the others go by their names in the schema.
Expr GraphReader::call(const Json& node, std::string_view target) {
  constexpr int64_t positional = 1;
  Expr e = operation(std::string(target), {});
  bool python = target.find("::") == std::string_view::npos;
  if (python) {
    constexpr std::string_view function = "torch._sym_";
    const auto* row = program::find_row(kPython, target);
    if (target == "_operator.pos") return argument(node["inputs"].items().at(0)["arg"]);
    e.name = row                            ? std::string(row->second)
             : target.starts_with(function) ? fmt::format("aten::{}", target.substr(function.size()))
                                            : fmt::format("python::{}", target.substr(target.rfind('.') + 1));
  }
  for (const Json& input : node["inputs"].items()) {
    const std::optional<Json> kind = input.find("kind");
    const std::string_view name = input["name"].text();
    const bool by_position = python || name.empty() || (kind && kind->integer() == positional);
    e.items.push_back(argument(input["arg"]));
    if (!by_position || !e.keywords.empty()) e.keywords.emplace_back(name);
  }
  return e;
}

}  // namespace lithify::read
