// Operators that take graphs: wrappers become calls, control flow becomes statements.
#include <fmt/format.h>

#include "base/diagnostic.hpp"
#include "read/exported/graph.hpp"

namespace lithify::read {
namespace {

using program::Expr;
using program::Stmt;
using EKind = Expr::Kind;
using SKind = Stmt::Kind;

/// The operands of a wrapper: single ones, or lists of them.
std::vector<Expr> flat(const std::vector<Expr>& arguments, size_t from) {
  std::vector<Expr> out;
  for (size_t i = from; i < arguments.size(); ++i) {
    if (arguments[i].kind == EKind::List) {
      out.insert(out.end(), arguments[i].items.begin(), arguments[i].items.end());
    } else {
      out.push_back(arguments[i]);
    }
  }
  return out;
}

bool is_graph(const std::vector<Expr>& arguments, size_t i) {
  return i < arguments.size() && arguments[i].kind == EKind::Path;
}
bool is_list(const std::vector<Expr>& arguments, size_t i) {
  return i < arguments.size() && arguments[i].kind == EKind::List;
}

}  // namespace

/// An inner graph as a function of the program, which returns a tuple, or the one value of a condition.
Expr GraphReader::inner_graph(const Json& inner) {
  const auto [pos, scope] = std::pair(pos_, scope_);
  const Json graph = inner["graph"];
  program::Function f;
  f.name = name(inner);
  while (program_.functions.contains(fmt::format("__torch__.{}", f.name))) f.name += "_";
  f.qualified_name = fmt::format("__torch__.{}", f.name);
  f.pos = pos;
  program_.functions[f.qualified_name] = {};  // the name is taken
  for (const Json& input : graph["inputs"].items()) {
    const auto [kind, value] = input.only();
    program::Parameter p;
    p.type.name = kind == "as_tensor" ? "Tensor" : "Any";
    if (kind == "as_tensor") {
      p.name = name(value);
    } else if (kind.starts_with("as_sym_") && value.find("as_name")) {
      p.name = name(value["as_name"]);
    } else {
      p.name = fresh();  // a number: the graph has it as a literal
    }
    f.parameters.push_back(std::move(p));
  }
  f.facts = facts(graph);
  f.body = statements(graph);
  std::tie(pos_, scope_) = std::pair(pos, scope);
  Stmt result = made(SKind::Return);
  const std::optional<Json> single = graph.find("is_single_tensor_return");
  const std::vector<Json> outputs = graph["outputs"].items();
  if (single && single->boolean() && outputs.size() == 1) {
    result.values.push_back(argument(outputs[0]));
    f.returns = {"Tensor", {}};
  } else {
    Expr all = made(EKind::Tuple);
    for (const Json& output : outputs) all.items.push_back(argument(output));
    result.values.push_back(std::move(all));
    f.returns = {"Tuple", std::vector<program::Type>(outputs.size(), {"Tensor", {}})};
  }
  f.body.push_back(std::move(result));
  Expr e = made(EKind::Path);
  e.name = f.qualified_name;
  program_.functions[e.name] = std::move(f);
  return e;
}

Expr GraphReader::call_graph(const Expr& graph, std::vector<Expr> arguments) const {
  Expr e = made(EKind::Call);
  e.name = graph.name;
  e.items = std::move(arguments);
  return e;
}

bool GraphReader::higher_order(const Json& node, std::string_view name, const std::vector<std::string>& targets,
                               std::vector<Stmt>& out) {
  const auto returns_tuple = [&](const Expr& graph) {
    return program_.functions.at(graph.name).returns.name == "Tuple";
  };
  const auto called = [&](const Expr& graph, std::vector<Expr> arguments) {
    if (targets.empty()) {
      Stmt s = made(SKind::Evaluate);
      s.values.push_back(call_graph(graph, std::move(arguments)));
      return s;
    }
    return assign(targets, call_graph(graph, std::move(arguments)), returns_tuple(graph));
  };
  std::vector<Expr> arguments;
  const auto read = [&] {
    const auto [pos, scope] = std::pair(pos_, scope_);
    for (const Json& input : node["inputs"].items()) arguments.push_back(argument(input["arg"]));
    std::tie(pos_, scope_) = std::pair(pos, scope);
  };
  if (name == "wrap_with_set_grad_enabled" || name == "strict_mode" || name == "invoke_subgraph" ||
      name == "wrap_with_autocast") {
    read();
    size_t at = 0;
    while (at < arguments.size() && !is_graph(arguments, at)) ++at;
    if (at == arguments.size()) node.fail("has no graph");
    const size_t first = name == "invoke_subgraph" ? at + 2 : at + 1;  // after the name of the subgraph
    Stmt call = called(arguments[at], flat(arguments, first));
    if (name != "wrap_with_autocast") {
      out.push_back(std::move(call));
      return true;
    }
    if (at != 4) node.fail("is autocast without its four settings");
    Stmt with = made(SKind::With);
    with.values.push_back(operation("prim::autocast", {arguments[0], arguments[1], arguments[2]}));
    with.body.push_back(std::move(call));
    out.push_back(std::move(with));
    return true;
  }
  if (name == "cond") {
    read();
    if (!is_graph(arguments, 1) || !is_graph(arguments, 2)) node.fail("is a condition without its two graphs");
    Stmt choice = made(SKind::If);
    choice.values.push_back(arguments[0]);
    choice.body.push_back(called(arguments[1], flat(arguments, 3)));
    choice.orelse.push_back(called(arguments[2], flat(arguments, 3)));
    out.push_back(std::move(choice));
    return true;
  }
  if (name == "while_loop") {
    read();
    if (!is_graph(arguments, 0) || !is_graph(arguments, 1) || !is_list(arguments, 2) || !is_list(arguments, 3) ||
        arguments[2].items.size() != targets.size())
      node.fail("is a loop without its graphs and values");
    while_loop(arguments, targets, out);
    return true;
  }
  if (name == "scan" || name == "map_impl") {
    read();
    const bool scan = name == "scan";
    const size_t lists = scan ? 3 : 2;
    for (size_t i = 1; i <= lists; ++i)
      if (!is_graph(arguments, 0) || !is_list(arguments, i)) node.fail("is a loop without its graph and values");
    const std::vector<Expr> carried = scan ? arguments[1].items : std::vector<Expr>{};
    const std::vector<Expr>& scanned = arguments[lists - 1].items;
    if (scanned.empty() || targets.size() < carried.size()) node.fail("is a loop over nothing");
    loop_over_slices(arguments[0], carried, scanned, arguments[lists].items, targets, out);
    return true;
  }
  if (name == "associative_scan") {
    read();
    if (!is_graph(arguments, 0) || !is_list(arguments, 1) || !is_list(arguments, 2) ||
        arguments[1].items.size() != targets.size() || targets.empty())
      node.fail("is a scan without its graph and values");
    associative_scan(arguments[0], arguments[1].items, arguments[2].items, targets, out);
    return true;
  }
  return false;
}

/// go = condition(carried); while go: carried = body(carried); go = condition(carried)
void GraphReader::while_loop(const std::vector<Expr>& arguments, const std::vector<std::string>& targets,
                             std::vector<Stmt>& out) {
  const auto operands = [&] {
    std::vector<Expr> all;
    for (const std::string& name : targets) all.push_back(named(name));
    all.insert(all.end(), arguments[3].items.begin(), arguments[3].items.end());
    return all;
  };
  for (size_t i = 0; i < targets.size(); ++i) out.push_back(assign({targets[i]}, arguments[2].items[i], false));
  const std::string go = fresh();
  const bool tuple = program_.functions.at(arguments[0].name).returns.name == "Tuple";
  const Stmt decide = assign({go}, call_graph(arguments[0], operands()), tuple);
  out.push_back(decide);
  Stmt loop = made(SKind::While);
  loop.values.push_back(named(go));
  loop.body.push_back(assign(targets, call_graph(arguments[1], operands()), true));
  loop.body.push_back(decide);
  out.push_back(std::move(loop));
}

/// The first slices; for i in range(size of the first axis - 1): the next = combine(the last, slices at i + 1, extra);
/// all are stacked. In which order an associative function is applied makes no difference.
void GraphReader::associative_scan(const Expr& combine, const std::vector<Expr>& scanned,
                                   const std::vector<Expr>& extra, const std::vector<std::string>& targets,
                                   std::vector<Stmt>& out) {
  const auto slice = [&](const Expr& xs, Expr at) {
    return operation("aten::select.int", {xs, number(0), std::move(at)});
  };
  std::vector<std::string> lists, last;
  for (const Expr& xs : scanned) {
    last.push_back(fresh());
    lists.push_back(fresh());
    out.push_back(assign({last.back()}, slice(xs, number(0)), false));
    Expr first = made(EKind::List);
    first.items.push_back(named(last.back()));
    out.push_back(assign({lists.back()}, std::move(first), false));
  }
  Stmt loop = made(SKind::For);
  const std::string index = fresh();
  loop.targets = {index};
  loop.values.push_back(operation("aten::sub", {operation("aten::size.int", {scanned[0], number(0)}), number(1)}));
  std::vector<Expr> operands;
  for (const std::string& name : last) operands.push_back(named(name));
  for (const Expr& xs : scanned) operands.push_back(slice(xs, operation("aten::add", {named(index), number(1)})));
  operands.insert(operands.end(), extra.begin(), extra.end());
  loop.body.push_back(assign(last, call_graph(combine, std::move(operands)),
                             program_.functions.at(combine.name).returns.name == "Tuple"));
  append_to(lists, last, loop.body);
  out.push_back(std::move(loop));
  stack(lists, targets, out);
}

void GraphReader::append_to(std::span<const std::string> lists, std::span<const std::string> values,
                            std::vector<Stmt>& out) {
  for (size_t i = 0; i < lists.size(); ++i) {
    out.push_back(made(SKind::Evaluate));
    out.back().values.push_back(operation("aten::append", {named(lists[i]), named(values[i])}));
  }
}

void GraphReader::stack(std::span<const std::string> lists, std::span<const std::string> targets,
                        std::vector<Stmt>& out) {
  for (size_t i = 0; i < lists.size(); ++i)
    out.push_back(assign({targets[i]}, operation("aten::stack", {named(lists[i]), number(0)}), false));
}

/// for i in range(size of the first axis): carried, results = body(carried, slices at i, extra); the results are
/// stacked.
void GraphReader::loop_over_slices(const Expr& body, const std::vector<Expr>& carried, const std::vector<Expr>& scanned,
                                   const std::vector<Expr>& extra, const std::vector<std::string>& targets,
                                   std::vector<Stmt>& out) {
  const size_t n = carried.size();
  for (size_t i = 0; i < n; ++i) out.push_back(assign({targets[i]}, carried[i], false));
  std::vector<std::string> lists, results(targets.begin(), targets.begin() + static_cast<std::ptrdiff_t>(n));
  for (size_t i = n; i < targets.size(); ++i) {
    Expr empty = made(EKind::Annotate);
    empty.type = {"List", {{"Tensor", {}}}};
    empty.items.push_back(made(EKind::List));
    lists.push_back(fresh());
    results.push_back(fresh());
    out.push_back(assign({lists.back()}, std::move(empty), false));
  }
  Stmt loop = made(SKind::For);
  const std::string index = fresh();
  loop.targets = {index};
  loop.values.push_back(operation("aten::size.int", {scanned[0], number(0)}));
  std::vector<Expr> operands;
  for (size_t i = 0; i < n; ++i) operands.push_back(named(targets[i]));
  for (const Expr& xs : scanned) operands.push_back(operation("aten::select.int", {xs, number(0), named(index)}));
  operands.insert(operands.end(), extra.begin(), extra.end());
  loop.body.push_back(
      assign(results, call_graph(body, std::move(operands)), program_.functions.at(body.name).returns.name == "Tuple"));
  append_to(lists, std::span(results).subspan(n), loop.body);
  out.push_back(std::move(loop));
  stack(lists, std::span(targets).subspan(n), out);
}

}  // namespace lithify::read
