// Files, classes, functions and types.
#include "program/parse.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "program/parser.hpp"

namespace lithify::program {

/// NAME {'.' NAME}
std::string Parser::path() {
  if (kind() != kWord) unexpected("a name");
  while (lexer_.dotted()) lexer_.extend();
  return name();
}

Type Parser::type() {
  const Nest nest(*this);
  Type t{path(), {}};
  if (!accept('[')) return t;
  if (accept('(')) {  // Tuple[()]
    expect(')');
  } else {
    do {
      t.args.push_back(type());
    } while (accept(',') && kind() != ']');
  }
  expect(']');
  return t;
}

void Parser::file(Program& program, const std::string& prefix) {
  while (kind() != kEnd) {
    const uint32_t start = pos();
    if (lexer_.indent() != 0) lexer_.fail(start, "unexpected indentation");
    if (at_word("class")) {
      Class cls = class_definition(prefix);
      std::string key = cls.qualified_name;
      if (!program.classes.try_emplace(std::move(key), std::move(cls)).second) {
        lexer_.fail(start, "the class is defined twice");
      }
    } else if (at_word("def")) {
      Function f = function(prefix, {"Tensor", {}});
      std::string key = f.qualified_name;
      if (!program.functions.try_emplace(std::move(key), std::move(f)).second) {
        lexer_.fail(start, "the function is defined twice");
      }
    } else if (at_word("import") || at_word("op_version_set")) {
      lexer_.rest_of_line();
      advance();
      expect_newline();
    } else {
      unexpected("a class or a function");
    }
  }
}

Class Parser::class_definition(const std::string& prefix) {
  static constexpr std::pair<std::string_view, Class::Kind> heads[] = {
      {"Module", Class::Kind::Module},       {"NamedTuple", Class::Kind::NamedTuple},     {"Enum", Class::Kind::Enum},
      {"Interface", Class::Kind::Interface}, {"ModuleInterface", Class::Kind::Interface},
  };
  const size_t outer = lexer_.indent();
  expect_word("class");
  Class cls;
  cls.pos = here();
  cls.kind = Class::Kind::Plain;
  cls.qualified_name = prefix + "." + name();
  if (accept('(')) {
    const auto* head = find_row(heads, text());
    if (!head) unexpected("a base class");
    cls.kind = head->second;
    cls.module_interface = head->first == "ModuleInterface";
    advance();
    expect(')');
  }
  expect(':');
  expect_newline();
  const Type self{cls.qualified_name, {}};
  lines(outer, [&] { class_line(cls, self); });
  std::unordered_set<std::string_view> names;
  for (const Function& method : cls.methods) {
    if (!names.insert(method.name).second) {
      lexer_.fail(method.pos.offset, fmt::format("the method {} is defined twice", method.name));
    }
  }
  return cls;
}

void Parser::class_line(Class& cls, const Type& self) {
  if (at_word("def") && is_letter(lexer_.following())) {
    cls.methods.push_back(function(cls.qualified_name, self));
    return;
  }
  const std::string word = name();
  if (accept(':')) {
    class_declaration(cls, word);
  } else if (word == "__annotations__" && accept('[')) {
    std::string attribute = string();
    expect(']');
    expect('=');
    cls.attributes.emplace_back(std::move(attribute), type());
  } else if (accept('=')) {
    class_assignment(cls, word);
  } else if (word != "pass") {
    unexpected("':' or '='");
  }
  expect_newline();
}

/// What follows "NAME:" in a class: the type of an attribute, or the type and value of a constant.
void Parser::class_declaration(Class& cls, const std::string& word) {
  Type declared = type();
  const bool final_constant = declared.name == "Final" && declared.args.size() == 1;
  if (!final_constant) {
    if (cls.kind == Class::Kind::NamedTuple && accept('=')) expression();  // calls give every field
    cls.attributes.emplace_back(word, std::move(declared));
    return;
  }
  expect('=');
  Expr value = expression();
  Type inner = std::move(declared.args[0]);
  convert_literal(value, inner);
  value.type = std::move(inner);
  cls.constants.emplace_back(word, std::move(value));
}

/// What follows "NAME =" in a class: the value of an enum, or one of the lists that the printer writes for modules.
void Parser::class_assignment(Class& cls, const std::string& word) {
  static constexpr std::pair<std::string_view, std::vector<std::string> Class::*> lists[] = {
      {"__parameters__", &Class::parameters},
      {"__buffers__", &Class::buffers},
      {"__forward_pre_hooks__", &Class::forward_pre_hooks},
      {"__forward_hooks__", &Class::forward_hooks},
  };
  const auto* list = find_row(lists, word);
  if (cls.kind == Class::Kind::Enum) {
    cls.constants.emplace_back(word, enum_value());
  } else if (list) {
    cls.*list->second = string_list();
  } else if (word == "__annotations__") {
    expect('[');
    expect(']');
  } else {
    lexer_.fail(pos(), fmt::format("a class has no {}", word));
  }
}

std::vector<std::string> Parser::string_list() {
  std::vector<std::string> out;
  expect('[');
  while (kind() != ']') {
    out.push_back(string());
    if (!accept(',')) break;
  }
  expect(']');
  return out;
}

/// A literal. The printer does not escape the strings of enums: one with a quote inside goes to the line's last quote.
Expr Parser::enum_value() {
  if (kind() == kString && lexer_.following() != '\n' && lexer_.following() != '\0') {
    Expr e = make(Expr::Kind::String);
    std::string raw(text());
    raw += lexer_.rest_of_line();
    const size_t last = raw.rfind('"');
    if (raw.front() != '"' || last == 0) unexpected("a string");
    e.name = raw.substr(1, last - 1);
    advance();
    return e;
  }
  return expression();
}

Parameter Parser::parameter(const Type& untyped) {
  Parameter p;
  p.name = name();
  p.type = accept(':') ? type() : untyped;
  if (accept('=')) {
    p.default_value = expression();
    convert_literal(*p.default_value, p.type);
  }
  return p;
}

/// `self` is the type of a first parameter that has none.
Function Parser::function(std::string_view scope, const Type& self) {
  expect_word("def");
  Function f;
  f.pos = here();
  f.name = name();
  f.qualified_name = scope.empty() ? f.name : fmt::format("{}.{}", scope, f.name);
  expect('(');
  while (kind() != ')') {
    f.parameters.push_back(parameter(f.parameters.empty() ? self : Type{"Tensor", {}}));
    if (!accept(',')) break;
  }
  expect(')');
  f.returns = accept(kArrow) ? type() : Type{"Tensor", {}};
  f.body = block();
  return f;
}

namespace {

/// "code/__torch__/a/b.py" is "__torch__.a.b".
std::string module_of(std::string_view record) {
  std::string_view path = record;
  constexpr std::string_view folder = "code/";
  constexpr std::string_view extension = ".py";
  if (!path.starts_with(folder) || !path.ends_with(extension) || path.size() <= folder.size() + extension.size()) {
    throw Error(Code::BadCode, fmt::format("{} is not the name of a code record", record));
  }
  path.remove_prefix(folder.size());
  path.remove_suffix(extension.size());
  std::string out(path);
  std::ranges::replace(out, '/', '.');
  return out;
}

}  // namespace

void parse_file(Program& program, std::string record_name, std::string text, std::function<Place(uint32_t)> locate) {
  const std::string prefix = module_of(record_name);
  const auto index = static_cast<int32_t>(program.files.size());
  program.files.push_back({std::move(record_name), std::move(text), std::move(locate)});
  const SourceFile& file = program.files.back();
  Parser(file.name, file.text, index).file(program, prefix);
}

Function parse_function(std::string_view text) {
  Parser parser("text", text, -1);
  Function f = parser.function("", {"Tensor", {}});
  parser.expect_end();
  return f;
}

Type parse_type(std::string_view text) {
  Parser parser("type", text, -1);
  Type t = parser.type();
  parser.expect_end();
  return t;
}

}  // namespace lithify::program
