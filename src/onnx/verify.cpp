#include "onnx/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <unordered_map>
#include <unordered_set>

#include "base/diagnostic.hpp"
#include "onnx/opdef.hpp"
#include "onnx/scope.hpp"
#include "sym/given.hpp"

namespace lithify::onnx {
namespace {

/// Facts in a context of their own: what is inferred there leaves no trace in the export.
class Scratch {
 public:
  sym::Context sym;

  Dim size(Dim e) {
    if (!e) return e;
    auto [known, is_new] = sizes_.try_emplace(e);
    if (!is_new) return known->second;
    const Dim copy = sym.rebuild(e, [&](Dim symbol) { return this->symbol(symbol); });
    return sizes_[e] = copy;
  }

  Value* value(const Value* v) {
    if (!v) return nullptr;
    auto [known, is_new] = values_.try_emplace(v);
    if (!is_new) return &known->second;
    Value copy;
    copy.kind = v->kind;
    copy.dtype = v->dtype;
    copy.form = v->form;
    copy.constant = v->constant;
    for (const Dim d : v->shape) copy.shape.push_back(size(d));
    if (v->contents) {
      copy.contents.emplace();
      for (const Dim e : *v->contents) copy.contents->push_back(size(e));
    }
    return &(values_[v] = std::move(copy));
  }

 private:
  Dim symbol(Dim original) {
    auto [known, is_new] = symbols_.try_emplace(original);
    if (!is_new) return known->second;
    sym::SymbolInfo info = sym::info(original);
    if (info.below) info.below = size(info.below);
    return symbols_[original] = sym.symbol(info);
  }

  std::unordered_map<Dim, Dim> sizes_, symbols_;
  std::unordered_map<const Value*, Value> values_;
};

class Verifier {
 public:
  Verifier(const Graph& graph, int opset, std::string_view after) : scopes_(graph), opset_(opset), after_(after) {
    check(graph);
  }

 private:
  [[noreturn]] void fail(const std::string& rule) const {
    const std::string where = node_ ? fmt::format("node {} '{}' ({})", node_->op_type, shown(*node_), node_->scope)
                                    : std::string("the outputs of a graph");
    throw Error(Code::Internal, fmt::format("the graph is wrong after {}: {}: {}", after_, where, rule));
  }

  static std::string shown(const Node& n) {
    return !n.name.empty() ? n.name : n.outputs.empty() || !n.outputs[0] ? "" : n.outputs[0]->name;
  }

  // ---- which values can be seen ----

  void check(const Graph& graph) {
    Vector<const Value*> own;
    const size_t given = given_.size();
    for (const sym::Fact& f : graph.given) given_.push_back({f.kind, scratch_.size(f.a), scratch_.size(f.b)});
    auto define = [&](const Value* v) {
      if (v->graph != &graph) fail(fmt::format("the value '{}' belongs to another graph", v->name));
      if (!visible_.insert(v).second) fail(fmt::format("the value '{}' is made twice", v->name));
      own.push_back(v);
      check_symbols(*v, graph);
    };
    for (const Value* v : graph.inputs) {
      if (v->kind != Value::Kind::Input) fail(fmt::format("the input '{}' of a graph is something else", v->name));
      define(v);
    }
    for (const Node* n : graph.nodes) {
      node_ = n;
      for (size_t i = 0; i < n->inputs.size(); ++i) check_use(n->inputs[i], fmt::format("its input {}", i));
      for (const Graph* body : n->bodies()) {
        if (body->parent() != &graph) fail("it has the body of a node elsewhere");
        check(*body);
        node_ = n;
      }
      for (size_t i = 0; i < n->outputs.size(); ++i) {
        const Value* v = n->outputs[i];
        if (!v) continue;
        if (v->kind != Value::Kind::Output || v->producer != n || v->output_index != i)
          fail(fmt::format("its output {} does not know it", i));
        define(v);
      }
      check_facts(*n);
    }
    node_ = nullptr;
    for (const Value* v : graph.outputs)
      if (v->kind != Value::Kind::Output || v->graph != &graph || !visible_.contains(v))
        fail(fmt::format("'{}' is not made by a node of the graph", v->name));
    if (std::unordered_set(graph.outputs.begin(), graph.outputs.end()).size() != graph.outputs.size())
      fail("one value is there twice");
    for (const Value* v : own) visible_.erase(v);
    given_.resize(given);
  }

  void check_use(const Value* v, const std::string& what) const {
    if (!v) return;
    if (v->kind == Value::Kind::Constant ? !v->constant : !visible_.contains(v))
      fail(fmt::format("{} ('{}', {}) is not there before it", what, v->name, print_type(*v)));
  }

  // ---- names of sizes ----

  void check_symbols(const Value& v, const Graph& graph) {
    for_each_symbol(v, [&](Dim symbol) {
      const Graph* home = scopes_.home(symbol);
      for (const Graph* g = &graph; g != home; g = g->parent())
        if (!g)
          fail(fmt::format("'{}' is {}, and {} is a size inside a body that is not around it", v.name, print_type(v),
                           symbol.str()));
    });
    for (const Dim size : v.shape) {
      if (!size || size.is_constant() || !named_.insert(size).second) continue;
      if (!names_.insert(size.str()).second) fail(fmt::format("two sizes are called {}", size.str()));
    }
  }

  // ---- facts ----

  void check_facts(const Node& n) {
    if (!n.domain.empty()) return;
    const OpDef* def = find_op(n.op_type);
    if (!def) fail("ONNX has no such operator");
    if (def->since > opset_) fail(fmt::format("ONNX has it from opset {} on, and this is {}", def->since, opset_));
    if (n.is("If")) return check_if(n);
    if (n.is("Loop")) return check_loop(n);
    if (n.bodies().empty()) check_rule(n, *def);
  }

  void check_rule(const Node& n, const OpDef& def) {
    Node copy;
    copy.op_type = n.op_type;
    copy.attributes = n.attributes;
    for (Attribute& a : copy.attributes)
      if (auto* type = std::get_if<std::shared_ptr<const Value>>(&a.data))
        *type = std::make_shared<const Value>(*scratch_.value(type->get()));
    for (const Value* v : n.inputs) copy.inputs.push_back(scratch_.value(v));
    Vector<Value> inferred(n.outputs.size());
    for (Value& v : inferred) copy.outputs.push_back(&v);
    const sym::Given given(scratch_.sym, given_);
    try {
      Inference inference(scratch_.sym, opset_, copy);
      def.infer(inference);
    } catch (const Error& e) {
      fail(fmt::format("its inputs are not what it takes: {}", e.first().message));
    }
    // The elements that an empty sequence will get are known only to who makes it.
    if (n.is("SequenceEmpty")) inferred[0].shape = scratch_.value(n.outputs[0])->shape;
    for (size_t i = 0; i < n.outputs.size(); ++i)
      if (n.outputs[i]) check_same(inferred[i], *scratch_.value(n.outputs[i]), fmt::format("its output {}", i));
  }

  /// `has` is what a value is by its facts, in the scratch context; `is` what it must be.
  void check_same(const Value& is, const Value& has, const std::string& what) {
    const auto sides = [&] { return fmt::format("{} is {}, not {}", what, print_type(is), print_type(has)); };
    if (is.dtype != has.dtype || is.form != has.form || is.rank() != has.rank()) fail(sides());
    for (size_t axis = 0; axis < is.rank(); ++axis)
      if (differ(is.shape[axis], has.shape[axis])) fail(sides());
  }

  /// Whether two sizes can never be the same.
  bool differ(Dim a, Dim b) { return a && b && scratch_.sym.equal(a, b) == false; }

  void check_if(const Node& n) {
    const Vector<Graph*> bodies = n.bodies();
    if (bodies.size() != 2 || n.inputs.size() != 1) fail("it has not one condition and two branches");
    for (const Graph* body : bodies) {
      if (!body->inputs.empty() || body->outputs.size() != n.outputs.size())
        fail("a branch has inputs, or not as many outputs as the node");
      for (size_t i = 0; i < n.outputs.size(); ++i)
        check_same(*scratch_.value(body->outputs[i]), *scratch_.value(n.outputs[i]),
                   fmt::format("output {} of a branch", i));
    }
  }

  void check_loop(const Node& n) {
    if (n.bodies().size() != 1 || n.inputs.size() < 2) fail("it has not one body, a count and a condition");
    const Graph& body = *n.bodies()[0];
    const size_t carried = n.inputs.size() - 2;
    if (body.inputs.size() != carried + 2 || body.outputs.size() != n.outputs.size() + 1 || n.outputs.size() < carried)
      fail("the body has not as many inputs or outputs as it asks for");
    for (size_t i = 0; i < carried; ++i) check_carried(n, body, i);
    for (size_t i = carried; i < n.outputs.size(); ++i) {
      Value rows = *scratch_.value(body.outputs[i + 1]);
      rows.shape.insert(rows.shape.begin(), Dim());
      check_same(rows, *scratch_.value(n.outputs[i]), fmt::format("output {}", i));
    }
  }

  /// A value before the first iteration, at the start and the end of each, and after the last.
  void check_carried(const Node& n, const Graph& body, size_t i) {
    const Value &first = *scratch_.value(n.inputs[i + 2]), &end = *scratch_.value(body.outputs[i + 1]),
                &last = *scratch_.value(n.outputs[i]);
    const Dim index = iteration(body);
    const auto at = [&](Dim iteration) {
      Value v = *scratch_.value(body.inputs[i + 2]);
      for (size_t axis = 0; axis < v.rank(); ++axis)
        v.shape[axis] = of_iteration(body, body.inputs[i + 2]->shape[axis], index, iteration);
      return v;
    };
    const auto what = [&](std::string_view when) { return fmt::format("carried value {} {}", i, when); };
    check_same(first, at(scratch_.sym.constant(0)), what("before the loop"));
    check_same(end, at(index ? scratch_.sym.add(index, scratch_.sym.constant(1)) : index), what("after an iteration"));
    const Value* count = n.inputs[0] && !n.inputs[1] ? scratch_.value(n.inputs[0]) : nullptr;
    const bool known = count && count->contents && count->contents->size() == 1;
    check_same(at(known ? scratch_.sym.max(count->contents->front(), scratch_.sym.constant(0)) : Dim()), last,
               what("after the loop"));
  }

  /// The symbol of the number of the iteration, where it has one.
  Dim iteration(const Graph& body) {
    const auto& contents = body.inputs[0]->contents;
    return contents && contents->size() == 1 && contents->front().is_symbol() ? scratch_.size(contents->front())
                                                                              : Dim();
  }

  /// A size at the start of an iteration: empty where it follows from more than the number of the iteration.
  Dim of_iteration(const Graph& body, Dim size, Dim index, Dim number) {
    if (!size) return size;
    bool of_index = false;
    for (const Dim symbol : sym::symbols(size)) {
      if (scratch_.size(symbol) == index)
        of_index = true;
      else if (scopes_.home(symbol) == &body)
        return {};
    }
    if (!of_index) return scratch_.size(size);
    return number ? scratch_.sym.substitute(scratch_.size(size), index, number) : Dim();
  }

  const SymbolScopes scopes_;
  Scratch scratch_;
  const int opset_;
  const std::string_view after_;
  const Node* node_ = nullptr;
  std::unordered_set<const Value*> visible_;
  sym::Facts given_;  // where the graph runs that is checked
  std::unordered_set<Dim> named_;
  std::unordered_set<std::string> names_;
};

}  // namespace

void verify(const Graph& graph, int opset, std::string_view after) { Verifier(graph, opset, after); }

void verify_names(const Graph& graph, std::string_view after) {
  const auto fail = [&](const std::string& message) {
    throw Error(Code::Internal, fmt::format("the graph is wrong after {}: {}", after, message));
  };
  std::unordered_set<std::string_view> values, nodes;
  const auto name = [&](const Value* v, std::string_view of) {
    if (v->name.empty()) fail(fmt::format("a value of {} has no name", of));
    if (!values.insert(v->name).second) fail(fmt::format("two values are called '{}'", v->name));
  };
  const auto visit = [&](const auto& self, const Graph& g) -> void {
    for (const Value* v : g.inputs) name(v, "a graph");
    for (const Node* n : g.nodes) {
      if (n->name.empty() || !nodes.insert(n->name).second)
        fail(fmt::format("two nodes are called '{}', or it has no name", n->name));
      for (const Value* v : n->outputs)
        if (v) name(v, n->name);
      for (const Graph* body : n->bodies()) self(self, *body);
    }
  };
  for (const Value* v : graph.initializers()) name(v, "the graph");
  visit(visit, graph);
}

void verify(const Model& model, std::string_view after) {
  verify(*model.graph, model.opset, after);
  verify_names(*model.graph, after);
  for (const Node* n : model.graph->all_nodes())
    if (!n->domain.empty() && !model.domains.contains(n->domain))
      throw Error(Code::Internal, fmt::format("the graph is wrong after {}: node '{}': its domain {} is not declared",
                                              after, n->name, n->domain));
}

bool verification() {
#ifdef LITHIFY_VERIFY
  return true;
#else
  static const bool asked = [] {
    const char* text = std::getenv("LITHIFY_VERIFY");
    return text && std::string_view(text) == "1";
  }();
  return asked;
#endif
}

}  // namespace lithify::onnx
