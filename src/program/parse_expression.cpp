// Expressions.
#include <algorithm>
#include <charconv>
#include <utility>

#include "program/parser.hpp"

namespace lithify::program {

Expr Parser::expression() {
  const Nest nest(*this);
  const int deepest_before = std::exchange(deepest_, depth_);
  bool parenthesized = false;
  Expr e = primary(parenthesized);
  if (kind() == '.' || kind() == '[') postfix(e, parenthesized);
  deepest_ = std::max(deepest_, deepest_before);
  return e;
}

/// An expression with `inner` as its first item. It pushes the whole tree of the current expression one level down,
/// which no nesting of the text bounds.
Expr Parser::around(Expr::Kind kind, Pos pos, Expr inner) {
  if (++deepest_ > kMaxNesting) too_deep();
  Expr e;
  e.kind = kind;
  e.pos = pos;
  e.items.push_back(std::move(inner));
  return e;
}

Expr Parser::primary(bool& parenthesized) {
  switch (kind()) {
    case kWord:
      return word();
    case kNumber:
      return number(false);
    case kString: {
      Expr e = make(Expr::Kind::String);
      e.name = string();
      return e;
    }
    case '-':
      advance();
      return number(true);
    case '[': {
      Expr e = make(Expr::Kind::List);
      advance();
      items(e, ']');
      return e;
    }
    case '{': {
      Expr e = make(Expr::Kind::Dict);
      advance();
      while (kind() != '}') {
        e.items.push_back(expression());
        expect(':');
        e.items.push_back(expression());
        if (!accept(',')) break;
      }
      expect('}');
      return e;
    }
    case '(': {
      Expr e = make(Expr::Kind::Tuple);
      advance();
      if (accept(')')) return e;
      Expr first = expression();
      if (accept(')')) {
        parenthesized = true;
        return first;
      }
      e.items.push_back(std::move(first));
      expect(',');
      items(e, ')');
      return e;
    }
    default:
      unexpected("an expression");
  }
}

/// Comma-separated expressions up to `close`, which is consumed.
void Parser::items(Expr& e, char close) {
  while (kind() != close) {
    e.items.push_back(expression());
    if (!accept(',')) break;
  }
  expect(close);
}

/// '(' [argument {',' argument} [',']] ')'
void Parser::arguments(Expr& e) {
  expect('(');
  while (kind() != ')') {
    if (kind() == kWord && lexer_.following() == '=') {
      e.keywords.push_back(name());
      advance();
    } else if (!e.keywords.empty()) {
      unexpected("a keyword argument");
    }
    e.items.push_back(expression());
    if (!accept(',')) break;
  }
  expect(')');
}

/// What follows an expression: .name, .method(...), [index], [begin:end].
void Parser::postfix(Expr& e, bool parenthesized) {
  while (kind() == '.' || kind() == '[') {
    if (accept('.')) {
      e = around(Expr::Kind::Attribute, here(), std::move(e));
      e.name = name();
      if (kind() == '(') {
        const bool to_list = !parenthesized && e.name == "tolist";
        e.kind = to_list ? Expr::Kind::Operator : Expr::Kind::Method;
        if (to_list) e.name = kToList;
        arguments(e);
      } else {
        e.integer = parenthesized;
      }
    } else {
      e = around(Expr::Kind::Subscript, here(), std::move(e));
      advance();
      Expr index = expression();
      if (accept(':')) {
        if (index.kind != Expr::Kind::Int) lexer_.fail(index.pos.offset, "a slice has integer bounds");
        e.kind = Expr::Kind::Slice;
        e.integer = index.integer;
        e.integer2 = integer();
      } else {
        e.integer = parenthesized;
        e.items.push_back(std::move(index));
      }
      expect(']');
    }
    parenthesized = false;
  }
}

/// An expression that begins with a word.
Expr Parser::word() {
  const std::string_view w = text();
  if (lexer_.dotted()) {
    if (w == "torch" || w == "ops") return torch_path();
    if (w == "__torch__") return own_path();
    if (w == "CONSTANTS") return constant();
  }
  if (lexer_.following() == '(') return local_call();
  if (w == "None") {
    Expr e = make(Expr::Kind::None);
    advance();
    return e;
  }
  if (w == "True" || w == "False") {
    Expr e = make(Expr::Kind::Bool);
    e.integer = w == "True";
    advance();
    return e;
  }
  if (w == "inf" || w == "nan" || w == "infj" || w == "nanj") return number(false);
  Expr e = make(Expr::Kind::Name);
  e.name = w;
  advance();
  return e;
}

/// An operator; or an attribute, when a local is called torch.
Expr Parser::torch_path() {
  const Pos start = here();
  Expr e = make(Expr::Kind::Operator);
  const bool torch = text() == "torch";
  const size_t first_name = torch ? 6 : 4;  // after "torch." or "ops."
  const std::string p = path();
  const std::string_view rest = std::string_view(p).substr(first_name);
  if (kind() != '(') {
    if (!torch) unexpected("'('");
    e.kind = Expr::Kind::Name;
    e.name = "torch";
    for (size_t at = 0; at < rest.size();) {
      const size_t dot = std::min(rest.find('.', at), rest.size());
      e = around(Expr::Kind::Attribute, start, std::move(e));
      e.name = rest.substr(at, dot - at);
      at = dot + 1;
    }
    return e;
  }
  const auto* spelling = find_row(kSpellings, p);
  const auto dots = std::ranges::count(rest, '.');
  if (spelling) {
    e.name = spelling->second;
  } else if (torch && dots <= 1) {
    e.name.reserve(6 + rest.size());
    e.name.append("aten::").append(rest);
  } else if (!torch && (dots == 1 || dots == 2)) {
    const size_t dot = rest.find('.');
    e.name.append(rest.substr(0, dot)).append("::").append(rest.substr(dot + 1));
  } else {
    lexer_.fail(e.pos.offset, "this is not the name of an operator");
  }
  arguments(e);
  return e;
}

/// A function, a class, or an enum member of the program.
Expr Parser::own_path() {
  Expr e = make(Expr::Kind::Path);
  e.name = path();
  if (kind() != '(') return e;
  constexpr std::string_view suffix = ".__new__";
  if (!e.name.ends_with(suffix)) {
    e.kind = Expr::Kind::Call;
    e.pos = here();  // the name has the debug record of a constant
    arguments(e);
    return e;
  }
  e.kind = Expr::Kind::New;
  e.name.resize(e.name.size() - suffix.size());
  advance();
  const uint32_t argument = pos();
  if (path() != e.name) lexer_.fail(argument, "__new__ is given another class");
  expect(')');
  return e;
}

/// A call by a plain name: a special form, an operator with a name of Python's, or a local that holds a function.
Expr Parser::local_call() {
  const std::string_view w = text();
  if (w == "annotate") return typed_form(Expr::Kind::Annotate);
  if (w == "unchecked_cast") return typed_form(Expr::Kind::UncheckedCast);
  if (w == "uninitialized") return typed_form(Expr::Kind::Uninitialized);
  if (w == "isinstance") return is_instance();
  if (w == "getattr") return get_attribute();
  const auto* spelling = find_row(kSpellings, w);
  Expr e = make(spelling ? Expr::Kind::Operator : Expr::Kind::Call);
  e.name = spelling ? spelling->second : w;
  advance();
  if (!spelling) e.pos = here();
  arguments(e);
  return e;
}

/// NAME '(' type [',' expression] ')'
Expr Parser::typed_form(Expr::Kind kind) {
  Expr e = make(kind);
  advance();
  expect('(');
  e.type = type();
  if (kind != Expr::Kind::Uninitialized) {
    expect(',');
    e.items.push_back(expression());
    convert_literal(e.items[0], e.type);
  }
  accept(',');
  expect(')');
  return e;
}

Expr Parser::is_instance() {
  Expr e = make(Expr::Kind::IsInstance);
  advance();
  expect('(');
  e.items.push_back(expression());
  expect(',');
  if (accept('(')) {
    e.integer = 1;
    e.type.name = "Tuple";
    while (kind() != ')') {
      e.type.args.push_back(type());
      if (!accept(',')) break;
    }
    expect(')');
  } else {
    e.type = type();
  }
  expect(')');
  return e;
}

Expr Parser::get_attribute() {
  Expr e = make(Expr::Kind::Attribute);
  advance();
  expect('(');
  e.items.push_back(expression());
  expect(',');
  e.name = string();
  expect(')');
  return e;
}

/// CONSTANTS.cN
Expr Parser::constant() {
  Expr e = make(Expr::Kind::Constant);
  const std::string p = path();
  const std::string_view digits = std::string_view(p).substr(std::string_view("CONSTANTS.c").size());
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), e.integer);
  if (!p.starts_with("CONSTANTS.c") || error != std::errc() || end != digits.data() + digits.size() || e.integer < 0) {
    lexer_.fail(e.pos.offset, "this is not the name of a constant");
  }
  return e;
}

}  // namespace lithify::program
