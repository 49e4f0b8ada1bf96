#include "program/print.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "program/text.hpp"

namespace lithify::program {

namespace {

class Printer {
 public:
  explicit Printer(const Program* program) : program_(program) {}

  void function(const Function& f, size_t indent, bool in_interface = false);
  void class_definition(const Class& cls);
  void expression(const Expr& e);
  std::string take() { return std::move(out_); }

 private:
  template <class... T>
  void put(const T&... pieces) {
    ((out_ += pieces), ...);
  }
  void begin_line(size_t indent) { out_.append(2 * indent, ' '); }

  void block(const std::vector<Stmt>& body, size_t indent);
  void statement(const Stmt& s, size_t indent);
  void assignment(const Stmt& s);
  void string_list(std::string_view name, const std::vector<std::string>& items);

  void quoted(std::string_view text);
  void real(double value);
  void list(const std::vector<Expr>& items, char open, std::string_view close);
  void arguments(const Expr& e, size_t first, std::string_view after_last);
  void typed(std::string_view form, const Expr& e);
  void operator_call(const Expr& e);
  void call(const Expr& e);
  void object(const Expr& e, bool parenthesized);

  const Program* program_;
  std::string out_;
};

// ---- definitions ----------------------------------------------------------------------------------------------------

void Printer::function(const Function& f, size_t indent, bool in_interface) {
  begin_line(indent);
  put("def ", f.name, "(");
  for (size_t i = 0; i < f.parameters.size(); ++i) {
    const Parameter& p = f.parameters[i];
    if (i > 0) put(in_interface ? ", " : ",\n    ");
    put(p.name);
    if (i > 0 || !in_interface) put(": ", p.type.str());
    if (p.default_value) {
      put("=");
      expression(*p.default_value);
    }
  }
  put(") -> ", f.returns.str(), ":\n");
  block(f.body, indent + 1);
}

void Printer::string_list(std::string_view name, const std::vector<std::string>& items) {
  begin_line(1);
  put(name, " = [");
  for (const std::string& item : items) {
    quoted(item);
    put(", ");
  }
  put("]\n");
}

void Printer::class_definition(const Class& cls) {
  const std::string& q = cls.qualified_name;
  put("class ", std::string_view(q).substr(q.rfind('.') + 1));
  switch (cls.kind) {
    case Class::Kind::Module:
      put("(Module)");
      break;
    case Class::Kind::Plain:
      break;
    case Class::Kind::NamedTuple:
      put("(NamedTuple)");
      break;
    case Class::Kind::Enum:
      put("(Enum)");
      break;
    case Class::Kind::Interface:
      put(cls.module_interface ? "(ModuleInterface)" : "(Interface)");
      break;
  }
  put(":\n");
  if (cls.kind == Class::Kind::Module) {
    string_list("__parameters__", cls.parameters);
    string_list("__buffers__", cls.buffers);
    if (!cls.forward_pre_hooks.empty()) string_list("__forward_pre_hooks__", cls.forward_pre_hooks);
    if (!cls.forward_hooks.empty()) string_list("__forward_hooks__", cls.forward_hooks);
  }
  bool first = true;
  for (const auto& [name, type] : cls.attributes) {
    begin_line(1);
    if (is_identifier(name)) {
      put(name, " : ", type.str(), "\n");
    } else {
      if (first) put("__annotations__ = []\n  ");
      put("__annotations__[");
      quoted(name);
      put("] = ", type.str(), "\n");
    }
    first = false;
  }
  for (const auto& [name, value] : cls.constants) {
    begin_line(1);
    put(name);
    if (cls.kind != Class::Kind::Enum) put(" : Final[", value.type.str(), "]");
    put(" = ");
    expression(value);
    put("\n");
  }
  for (const Function& method : cls.methods) function(method, 1, cls.kind == Class::Kind::Interface);
}

// ---- statements -----------------------------------------------------------------------------------------------------

void Printer::block(const std::vector<Stmt>& body, size_t indent) {
  for (const Stmt& s : body) statement(s, indent);
  if (body.empty()) {
    begin_line(indent);
    put("pass\n");
  }
}

void Printer::assignment(const Stmt& s) {
  for (size_t i = 0; i < s.targets.size(); ++i) {
    if (i > 0) put(", ");
    put(s.targets[i]);
    if (i < s.target_types.size() && s.target_types[i]) put(" : ", s.target_types[i]->str());
  }
  const bool comma = s.trailing_comma || (s.unpack && s.targets.size() == 1);
  put(comma ? ", = " : " = ");
  for (size_t i = 0; i < s.values.size(); ++i) {
    if (i > 0) put(", ");
    expression(s.values[i]);
  }
}

void Printer::statement(const Stmt& s, size_t indent) {
  begin_line(indent);
  switch (s.kind) {
    case Stmt::Kind::Assign:
      assignment(s);
      break;
    case Stmt::Kind::SetAttribute:
      expression(s.values[0]);
      put(".", s.name, " = ");
      expression(s.values[1]);
      break;
    case Stmt::Kind::Evaluate:
      expression(s.values[0]);
      break;
    case Stmt::Kind::Return:
      put("return ");
      expression(s.values[0]);
      break;
    case Stmt::Kind::Pass:
      put("pass");
      break;
    case Stmt::Kind::If:
      put("if ");
      expression(s.values[0]);
      put(":\n");
      block(s.body, indent + 1);
      if (!s.orelse.empty()) {
        begin_line(indent);
        put("else:\n");
        block(s.orelse, indent + 1);
      }
      return;
    case Stmt::Kind::For:
      put("for ", s.targets[0], " in range(");
      expression(s.values[0]);
      put("):\n");
      block(s.body, indent + 1);
      return;
    case Stmt::Kind::While:
      put("while ");
      expression(s.values[0]);
      put(":\n");
      block(s.body, indent + 1);
      return;
    case Stmt::Kind::With:
      put("with ");
      expression(s.values[0]);
      if (!s.targets.empty()) put(" as ", s.targets[0]);
      put(":\n");
      block(s.body, indent + 1);
      return;
    case Stmt::Kind::Closure:
      put("def ", s.targets[0], "():\n");
      block(s.body, indent + 1);
      return;
  }
  put("\n");
}

// ---- expressions ----------------------------------------------------------------------------------------------------

void Printer::quoted(std::string_view text) {
  put("\"");
  for (const char c : text) {
    switch (c) {
      case '\\':
      case '\'':
      case '"':
        out_ += '\\';
        out_ += c;
        break;
      case '\a':
        put("\\a");
        break;
      case '\b':
        put("\\b");
        break;
      case '\f':
        put("\\f");
        break;
      case '\n':
        put("\\n");
        break;
      case '\r':
        put("\\r");
        break;
      case '\t':
        put("\\t");
        break;
      case '\v':
        put("\\v");
        break;
      default:
        if (c >= 0x20 && c < 0x7f) {
          out_ += c;
        } else {
          fmt::format_to(std::back_inserter(out_), "\\{:03o}", static_cast<unsigned char>(c));
        }
    }
  }
  put("\"");
}

void Printer::real(double value) {
  if (std::isnan(value)) return put("nan");
  if (std::isinf(value)) return put(value < 0 ? "-inf" : "inf");
  const size_t start = out_.size();
  fmt::format_to(std::back_inserter(out_), "{:.17g}", value);
  if (std::string_view(out_).substr(start).find_first_of(".e") == std::string_view::npos) put(".");
}

void Printer::list(const std::vector<Expr>& items, char open, std::string_view close) {
  out_ += open;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) put(", ");
    expression(items[i]);
  }
  put(close);
}

/// The items of a call from `first` on, in parentheses.
void Printer::arguments(const Expr& e, size_t first, std::string_view after_last) {
  put("(");
  const size_t positional = e.items.size() - e.keywords.size();
  for (size_t i = first; i < e.items.size(); ++i) {
    if (i > first) put(", ");
    if (i >= positional) put(e.keywords[i - positional], "=");
    expression(e.items[i]);
  }
  if (e.items.size() > first) put(after_last);
  put(")");
}

/// form(type, expression)
void Printer::typed(std::string_view form, const Expr& e) {
  put(form, "(", e.type.str());
  for (const Expr& item : e.items) {
    put(", ");
    expression(item);
  }
  put(")");
}

void Printer::operator_call(const Expr& e) {
  if (e.name == kToList && !e.items.empty()) {
    expression(e.items[0]);
    put(".tolist");
    return arguments(e, 1, "");
  }
  const auto* spelling = std::ranges::find(kSpellings, e.name, &std::pair<std::string_view, std::string_view>::second);
  const size_t colons = e.name.find("::");
  const std::string_view scope = std::string_view(e.name).substr(0, colons);
  if (spelling != std::end(kSpellings)) {
    put(spelling->first);
  } else if (colons == std::string::npos) {
    put("ops.", e.name);
  } else {
    if (scope == "aten") {
      put("torch.");
    } else {
      put("ops.", scope, ".");
    }
    put(std::string_view(e.name).substr(colons + 2));
  }
  arguments(e, 0, "");
}

void Printer::call(const Expr& e) {
  put(e.name);
  const Class* cls = program_ ? program_->find_class(e.name) : nullptr;
  if (cls && cls->kind == Class::Kind::NamedTuple) {
    arguments(e, 0, e.items.size() == 1 ? "," : "");
  } else {
    arguments(e, 0, ", ");
  }
}

void Printer::object(const Expr& e, bool parenthesized) {
  if (parenthesized) put("(");
  expression(e);
  if (parenthesized) put(")");
}

void Printer::expression(const Expr& e) {
  switch (e.kind) {
    case Expr::Kind::Name:
    case Expr::Kind::Path:
      return put(e.name);
    case Expr::Kind::Int:
      fmt::format_to(std::back_inserter(out_), "{}", e.integer);
      return;
    case Expr::Kind::Float:
      return real(e.real);
    case Expr::Kind::Complex:
      real(e.real);
      put(e.imag >= 0 ? "+" : "-");
      real(std::abs(e.imag));
      return put("j");
    case Expr::Kind::Bool:
      return put(e.integer ? "True" : "False");
    case Expr::Kind::None:
      return put("None");
    case Expr::Kind::String:
      return quoted(e.name);
    case Expr::Kind::Constant:
      fmt::format_to(std::back_inserter(out_), "CONSTANTS.c{}", e.integer);
      return;
    case Expr::Kind::List:
      return list(e.items, '[', "]");
    case Expr::Kind::Tuple:
      return list(e.items, '(', e.items.size() == 1 ? ",)" : ")");
    case Expr::Kind::Dict:
      put("{");
      for (size_t i = 0; i + 1 < e.items.size(); i += 2) {
        if (i > 0) put(", ");
        expression(e.items[i]);
        put(": ");
        expression(e.items[i + 1]);
      }
      return put("}");
    case Expr::Kind::Attribute:
      if (is_identifier(e.name)) {
        object(e.items[0], e.integer != 0);
        return put(".", e.name);
      }
      put("getattr(");
      expression(e.items[0]);
      put(", ");
      quoted(e.name);
      return put(")");
    case Expr::Kind::Subscript: {
      const Expr::Kind base = e.items[0].kind;
      object(e.items[0], e.integer != 0 || (base != Expr::Kind::Name && base != Expr::Kind::Attribute));
      put("[");
      expression(e.items[1]);
      return put("]");
    }
    case Expr::Kind::Slice:
      object(e.items[0], true);
      fmt::format_to(std::back_inserter(out_), "[{}:{}]", e.integer, e.integer2);
      return;
    case Expr::Kind::Operator:
      return operator_call(e);
    case Expr::Kind::Call:
      return call(e);
    case Expr::Kind::Method:
      object(e.items[0], true);
      put(".", e.name);
      return arguments(e, 1, ", ");
    case Expr::Kind::Annotate:
      return typed("annotate", e);
    case Expr::Kind::UncheckedCast:
      return typed("unchecked_cast", e);
    case Expr::Kind::Uninitialized:
      return typed("uninitialized", e);
    case Expr::Kind::IsInstance: {
      put("isinstance(");
      expression(e.items[0]);
      put(", ");
      if (e.integer == 0) {
        put(e.type.str());
      } else {
        put("(");
        for (size_t i = 0; i < e.type.args.size(); ++i) put(i > 0 ? ", " : "", e.type.args[i].str());
        put(")");
      }
      return put(")");
    }
    case Expr::Kind::New:
      return put(e.name, ".__new__(", e.name, ")");
  }
}

}  // namespace

std::string print(const Expr& expr, const Program* program) {
  Printer p(program);
  p.expression(expr);
  return p.take();
}

std::string print(const Function& function, const Program* program) {
  Printer p(program);
  p.function(function, 0);
  return p.take();
}

std::string print(const Class& cls, const Program* program) {
  Printer p(program);
  p.class_definition(cls);
  return p.take();
}

std::string print_file(const Program& program, int32_t file) {
  // By position, then by name: definitions without a file have no positions.
  using Key = std::pair<uint32_t, std::string_view>;
  std::vector<std::tuple<Key, const Class*, const Function*>> definitions;
  for (const auto& [name, cls] : program.classes) {
    if (cls.pos.file == file) definitions.emplace_back(Key{cls.pos.offset, name}, &cls, nullptr);
  }
  for (const auto& [name, function] : program.functions) {
    if (function.pos.file == file) definitions.emplace_back(Key{function.pos.offset, name}, nullptr, &function);
  }
  std::ranges::sort(definitions);
  Printer p(&program);
  for (const auto& [key, cls, function] : definitions) {
    if (cls) {
      p.class_definition(*cls);
    } else {
      p.function(*function, 0);
    }
  }
  return p.take();
}

std::string print(const Program& program) {
  std::string out;
  for (size_t i = 0; i < program.files.size(); ++i) {
    out += fmt::format("# {}\n{}", program.files[i].name, print_file(program, static_cast<int32_t>(i)));
  }
  return out + print_file(program, -1);
}

}  // namespace lithify::program
