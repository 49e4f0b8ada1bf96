#include "program/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "program/text.hpp"

namespace lithify::program {

namespace {

bool is_native(std::string_view name) { return name.starts_with(kNativeClassPrefix); }

constexpr size_t kMaxReported = 20;

/// Verifies one function. Names are set in the order of the text: a name set in one branch or in a loop's body counts
/// as set after it.
class Verifier {
 public:
  Verifier(const Program& program, const Function& function) : program_(program), function_(function) {}

  void run() {
    for (const Parameter& p : function_.parameters) {
      if (!locals_.emplace(p.name, class_named(p.type.name)).second) {
        fail(function_.pos, fmt::format("two parameters are called {}", p.name));
      }
      if (p.default_value) expression(*p.default_value);
    }
    body(function_.body, function_.pos);
  }

 private:
  [[noreturn]] void fail(Pos pos, std::string_view what) const {
    const std::string message = fmt::format("in {}: {}", function_.qualified_name, what);
    Diagnostic d{Code::BadProgram, Severity::Error, message, {}, {}, {}};
    if (pos.file >= 0 && static_cast<size_t>(pos.file) < program_.files.size()) {
      const SourceFile& file = program_.files[static_cast<size_t>(pos.file)];
      d = text_diagnostic(Code::BadProgram, file.name, file.text, pos.offset, message);
    }
    d.place = program_.locate(pos);
    throw Error(std::move(d));
  }

  /// Classes whose methods are all known. An interface stands for any class.
  const Class* class_named(std::string_view name) const {
    const Class* cls = program_.find_class(name);
    return cls && cls->kind != Class::Kind::Interface ? cls : nullptr;
  }

  // ---- statements ----

  /// The body of a function or closure.
  void body(const std::vector<Stmt>& stmts, Pos pos) {
    if (stmts.empty() || stmts.back().kind != Stmt::Kind::Return) fail(pos, "a function does not end with a return");
    for (size_t i = 0; i + 1 < stmts.size(); ++i) statement(stmts[i]);
    shape(stmts.back().pos, stmts.back().values.size() == 1);
    expression(stmts.back().values[0]);
  }

  void block(const std::vector<Stmt>& stmts) {
    if (++depth_ > kMaxNesting) fail(stmts.empty() ? function_.pos : stmts[0].pos, "blocks are nested too deeply");
    for (const Stmt& s : stmts) statement(s);
    --depth_;
  }

  void statement(const Stmt& s) {
    for (const Expr& value : s.values) expression(value);
    switch (s.kind) {
      case Stmt::Kind::Assign:
        assignment(s);
        break;
      case Stmt::Kind::SetAttribute:
        shape(s.pos, s.values.size() == 2 && !s.name.empty());
        break;
      case Stmt::Kind::Evaluate:
        shape(s.pos, s.values.size() == 1);
        break;
      case Stmt::Kind::If:
        shape(s.pos, s.values.size() == 1);
        block(s.body);
        block(s.orelse);
        break;
      case Stmt::Kind::For:
        shape(s.pos, s.values.size() == 1 && s.targets.size() == 1);
        set(s.targets[0], nullptr);
        block(s.body);
        break;
      case Stmt::Kind::While:
        shape(s.pos, s.values.size() == 1);
        block(s.body);
        break;
      case Stmt::Kind::With:
        shape(s.pos, s.values.size() == 1 && s.targets.size() <= 1);
        if (!s.targets.empty()) set(s.targets[0], nullptr);
        block(s.body);
        break;
      case Stmt::Kind::Closure:
        closure(s);
        break;
      case Stmt::Kind::Return:
        fail(s.pos, "a return is not the last statement of its function");
      case Stmt::Kind::Pass:
        break;
    }
  }

  void assignment(const Stmt& s) {
    shape(s.pos, !s.targets.empty() && s.values.size() == (s.unpack ? 1 : s.targets.size()) &&
                     (s.target_types.empty() || s.target_types.size() == s.targets.size()));
    for (size_t i = 0; i < s.targets.size(); ++i) set(s.targets[i], s.unpack ? nullptr : class_of(s.values[i]));
  }

  /// Sees the names around it; what it sets stays inside.
  void closure(const Stmt& s) {
    shape(s.pos, s.targets.size() == 1);
    if (++depth_ > kMaxNesting) fail(s.pos, "blocks are nested too deeply");
    const size_t around = set_order_.size();
    body(s.body, s.pos);
    for (; set_order_.size() > around; set_order_.pop_back()) locals_.erase(set_order_.back());
    --depth_;
    set(s.targets[0], nullptr);
  }

  void shape(Pos pos, bool right) const {
    if (!right) fail(pos, "a statement or expression is malformed");
  }

  /// `cls` is the class of the value where it is declared. A name that is set twice to different classes has none.
  void set(const std::string& name, const Class* cls) {
    const auto [it, added] = locals_.try_emplace(name, cls);
    if (added) {
      set_order_.push_back(name);
    } else if (it->second != cls) {
      it->second = nullptr;
    }
  }

  // ---- expressions ----

  const Class* class_of(const Expr& e) const {
    if (e.kind == Expr::Kind::Name) {
      const auto it = locals_.find(e.name);
      return it == locals_.end() ? nullptr : it->second;
    }
    if (e.kind == Expr::Kind::New) return class_named(e.name);
    if (e.kind != Expr::Kind::Attribute) return nullptr;
    const Class* object = class_of(e.items[0]);
    if (!object) return nullptr;
    // A module may have thousands of layers, each of which is looked up.
    const auto [index, is_new] = attributes_.try_emplace(object);
    if (is_new)
      for (const auto& [name, type] : object->attributes) index->second.emplace(name, &type);
    const auto found = index->second.find(e.name);
    return found == index->second.end() ? nullptr : class_named(found->second->name);
  }

  void expression(const Expr& e) {
    if (++depth_ > kMaxNesting) fail(e.pos, "an expression is nested too deeply");
    check(e);
    for (const Expr& item : e.items) expression(item);
    --depth_;
  }

  /// The expression itself, not its items.
  void check(const Expr& e) const {
    const size_t n = e.items.size();
    shape(e.pos, e.keywords.size() <= n);
    switch (e.kind) {
      case Expr::Kind::Name:
        read(e);
        break;
      case Expr::Kind::Int:
      case Expr::Kind::Float:
      case Expr::Kind::Complex:
      case Expr::Kind::Bool:
      case Expr::Kind::None:
      case Expr::Kind::String:
      case Expr::Kind::Uninitialized:
        shape(e.pos, n == 0);
        break;
      case Expr::Kind::Constant:
        if (e.integer < 0 || static_cast<uint64_t>(e.integer) >= program_.constants.size()) {
          fail(e.pos, fmt::format("CONSTANTS.c{} is read, but the file has {} constants", e.integer,
                                  program_.constants.size()));
        }
        break;
      case Expr::Kind::List:
      case Expr::Kind::Tuple:
        break;
      case Expr::Kind::Dict:
        shape(e.pos, n % 2 == 0);
        break;
      case Expr::Kind::Attribute:
      case Expr::Kind::Slice:
      case Expr::Kind::Annotate:
      case Expr::Kind::UncheckedCast:
      case Expr::Kind::IsInstance:
        shape(e.pos, n == 1);
        break;
      case Expr::Kind::Subscript:
        shape(e.pos, n == 2);
        break;
      case Expr::Kind::Operator:
        shape(e.pos, e.name.find("::") != std::string::npos);
        break;
      case Expr::Kind::Call:
        if (!e.name.starts_with(kOwnPrefix)) {
          read(e);
        } else if (!is_native(e.name) && !program_.find_class(e.name) && !program_.find_function(e.name)) {
          fail(e.pos, fmt::format("{} is called, but not defined", e.name));
        }
        break;
      case Expr::Kind::Method:
        shape(e.pos, n >= 1 && e.keywords.size() < n);
        method(e);
        break;
      case Expr::Kind::New:
        if (!is_native(e.name) && !program_.find_class(e.name)) {
          fail(e.pos, fmt::format("an object of {} is made, but the class is not defined", e.name));
        }
        break;
      case Expr::Kind::Path:
        path(e);
        break;
    }
  }

  void read(const Expr& e) const {
    if (!locals_.contains(e.name)) fail(e.pos, fmt::format("{} is read before it is set", e.name));
  }

  void method(const Expr& e) const {
    const Class* cls = class_of(e.items[0]);
    if (cls && !cls->method(e.name)) {
      fail(e.pos, fmt::format("{} has no method {}", cls->qualified_name, e.name));
    }
  }

  void path(const Expr& e) const {
    if (program_.find_class(e.name) || program_.find_function(e.name)) return;
    const size_t dot = e.name.rfind('.');
    const Class* owner = dot == std::string::npos ? nullptr : program_.find_class(e.name.substr(0, dot));
    const std::string_view member = std::string_view(e.name).substr(dot + 1);
    if (owner && (owner->method(member) || owner->constant(member))) return;
    fail(e.pos, fmt::format("{} is not defined", e.name));
  }

  const Program& program_;
  const Function& function_;
  std::unordered_map<std::string_view, const Class*> locals_;
  std::vector<std::string_view> set_order_;
  mutable std::unordered_map<const Class*, std::unordered_map<std::string_view, const Type*>> attributes_;
  int depth_ = 0;
};

}  // namespace

void verify(const Program& program) {
  std::vector<const Function*> functions;
  for (const auto& [name, function] : program.functions) functions.push_back(&function);
  for (const auto& [name, cls] : program.classes) {
    if (cls.kind == Class::Kind::Interface) continue;
    for (const Function& method : cls.methods) functions.push_back(&method);
  }
  const auto key = [](const Function* f) {
    return std::tuple(f->pos.file, f->pos.offset, std::string_view(f->qualified_name));
  };
  std::ranges::sort(functions, {}, key);

  std::vector<Diagnostic> found;
  for (const Function* function : functions) {
    try {
      Verifier(program, *function).run();
    } catch (const Error& e) {
      found.push_back(e.first());
      if (found.size() == kMaxReported) break;
    }
  }
  if (!found.empty()) throw Error(std::move(found));
}

}  // namespace lithify::program
