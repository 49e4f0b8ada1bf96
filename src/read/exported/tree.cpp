#include "read/exported/tree.hpp"

#include <deque>
#include <string>

#include "base/diagnostic.hpp"

namespace lithify::read {
namespace {

using program::Expr;
using ExprKind = Expr::Kind;

Expr key_of(const Json& key) {
  Expr e;
  if (key.is_integer()) {
    e.kind = ExprKind::Int;
    e.integer = key.integer();
  } else {
    e.kind = ExprKind::String;
    e.name = key.text();
  }
  return e;
}

class Tree {
 public:
  Tree(const std::optional<Json>& namedtuples, std::vector<Expr>& outputs)
      : namedtuples_(namedtuples), outputs_(outputs) {}

  Expr build(const Json& spec) {
    const std::optional<Json> type = spec.find("type");
    if (!type) {
      if (next_ == outputs_.size()) spec.fail("has more leaves than the program has outputs");
      return std::move(outputs_[next_++]);
    }
    const std::vector<Json> children = spec["children_spec"].items();
    if (type->text() == "builtins.list") return sequence(ExprKind::List, children);
    if (type->text() == "builtins.tuple") return sequence(ExprKind::Tuple, children);
    const std::vector<Json> keys = keys_of(type->text(), spec.find("context"), children.size());
    if (keys.size() != children.size()) return sequence(ExprKind::Tuple, children);
    Expr dict;
    dict.kind = ExprKind::Dict;
    for (size_t i = 0; i < children.size(); ++i) {
      dict.items.push_back(key_of(keys[i]));
      dict.items.push_back(build(children[i]));
    }
    return dict;
  }

  bool complete() const { return next_ == outputs_.size(); }

 private:
  Expr sequence(ExprKind kind, const std::vector<Json>& children) {
    Expr e;
    e.kind = kind;
    for (const Json& child : children) e.items.push_back(build(child));
    return e;
  }

  /// The names of the children. The context is a JSON text: a list of keys, or, of some classes, the list of fields
  /// first in another list; of a named tuple, the name of its type.
  std::vector<Json> keys_of(std::string_view type, const std::optional<Json>& context, size_t children) {
    if (!context || !context->is_text()) return {};
    if (type == "collections.namedtuple") {
      const std::optional<Json> fields = namedtuples_ ? namedtuples_->find(context->text()) : std::nullopt;
      return fields ? (*fields)["field_names"].items() : std::vector<Json>{};
    }
    try {
      Json keys = contexts_.emplace_back(context->text(), "context").root();
      if (!keys.is_array()) return {};
      std::vector<Json> items = keys.items();
      if (!items.empty() && items[0].is_array()) items = items[0].items();
      for (const Json& key : items)
        if (!key.is_text() && !key.is_integer()) return {};
      return items.size() == children ? items : std::vector<Json>{};
    } catch (const Error&) {
      return {};  // a context of another form has no names
    }
  }

  const std::optional<Json>& namedtuples_;
  std::vector<Expr>& outputs_;
  size_t next_ = 0;
  std::deque<JsonDocument> contexts_;
};

}  // namespace

Expr returned_value(std::string_view spec, const std::optional<Json>& namedtuples, std::vector<Expr> outputs) {
  const std::vector<Expr> all = outputs;
  const JsonDocument document(spec, "out_spec");
  const std::vector<Json> versioned = document.root().items();
  if (versioned.size() == 2) {
    Tree tree(namedtuples, outputs);
    Expr value = tree.build(versioned[1]);
    if (tree.complete()) return value;
  }
  if (all.size() == 1) return all[0];
  Expr e;
  e.kind = ExprKind::Tuple;
  e.items = all;
  return e;
}

program::Type type_of(const Expr& value) {
  switch (value.kind) {
    case ExprKind::Int:
      return {"int", {}};
    case ExprKind::Float:
      return {"float", {}};
    case ExprKind::Bool:
      return {"bool", {}};
    case ExprKind::None:
      return {"NoneType", {}};
    case ExprKind::String:
      return {"str", {}};
    case ExprKind::Tuple: {
      program::Type type{"Tuple", {}};
      for (const Expr& item : value.items) type.args.push_back(type_of(item));
      return type;
    }
    case ExprKind::List:
      return {"List", {value.items.empty() ? program::Type{"Tensor", {}} : type_of(value.items[0])}};
    case ExprKind::Dict:
      return {"Dict", {{"str", {}}, value.items.empty() ? program::Type{"Tensor", {}} : type_of(value.items[1])}};
    default:
      return {"Tensor", {}};
  }
}

}  // namespace lithify::read
