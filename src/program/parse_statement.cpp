// Statements.
#include <utility>

#include "program/parser.hpp"

namespace lithify::program {

/// ':' NEWLINE and at least one line that is indented more than the current one.
std::vector<Stmt> Parser::block() {
  const Nest nest(*this);
  const size_t outer = lexer_.indent();
  expect(':');
  if (!accept(kNewline)) unexpected("the end of the line");
  if (kind() == kEnd || lexer_.indent() <= outer) lexer_.fail(pos(), "expected an indented block");
  std::vector<Stmt> body;
  lines(outer, [&] { body.push_back(statement()); });
  return body;
}

Stmt Parser::statement() {
  Stmt s;
  s.pos = here();
  if (kind() == kWord) {
    static constexpr std::pair<std::string_view, Stmt::Kind> keywords[] = {
        {"if", Stmt::Kind::If},     {"for", Stmt::Kind::For},     {"while", Stmt::Kind::While},
        {"with", Stmt::Kind::With}, {"def", Stmt::Kind::Closure}, {"return", Stmt::Kind::Return},
        {"pass", Stmt::Kind::Pass},
    };
    const auto* keyword = find_row(keywords, text());
    if (keyword) {
      s.kind = keyword->second;
      advance();
      compound(s);
      return s;
    }
    const char next = lexer_.following();
    if (next == '=' || next == ',' || next == ':') {
      assignment(s);
      expect_newline();
      return s;
    }
  }
  s.values.push_back(expression());
  Expr& e = s.values[0];
  if (kind() != '=') {
    s.kind = Stmt::Kind::Evaluate;
  } else {
    if (e.kind != Expr::Kind::Attribute) unexpected("the end of the line");
    advance();
    s.kind = Stmt::Kind::SetAttribute;
    s.name = std::move(e.name);
    Expr object = std::move(e.items[0]);
    e = std::move(object);
    s.values.push_back(expression());
  }
  expect_newline();
  return s;
}

void Parser::assignment(Stmt& s) {
  s.kind = Stmt::Kind::Assign;
  s.targets.push_back(name());
  if (accept(':')) {
    s.target_types.emplace_back(type());
  } else {
    while (accept(',')) {
      if (kind() == '=') {
        s.trailing_comma = true;
        break;
      }
      s.targets.push_back(name());
    }
  }
  expect('=');
  do {
    s.values.push_back(expression());
  } while (accept(','));
  s.unpack = s.trailing_comma || (s.values.size() == 1 && s.targets.size() > 1);
  if (s.unpack ? s.values.size() != 1 : s.values.size() != s.targets.size()) {
    lexer_.fail(s.pos.offset, fmt::format("{} names are given {} values", s.targets.size(), s.values.size()));
  }
  if (!s.target_types.empty()) convert_literal(s.values[0], *s.target_types[0]);
}

/// The rest of a statement that begins with a keyword.
void Parser::compound(Stmt& s) {
  switch (s.kind) {
    case Stmt::Kind::If: {
      const size_t indent = lexer_.indent();
      s.values.push_back(expression());
      s.body = block();
      if (at_word("else") && lexer_.indent() == indent) {
        advance();
        s.orelse = block();
      }
      break;
    }
    case Stmt::Kind::For:
      s.targets.push_back(name());
      expect_word("in");
      expect_word("range");
      expect('(');
      s.values.push_back(expression());
      expect(')');
      s.body = block();
      break;
    case Stmt::Kind::While:
      s.values.push_back(expression());
      s.body = block();
      break;
    case Stmt::Kind::With:
      s.values.push_back(expression());
      if (at_word("as")) {
        advance();
        s.targets.push_back(name());
      }
      s.body = block();
      break;
    case Stmt::Kind::Closure:
      s.targets.push_back(name());
      expect('(');
      expect(')');
      if (accept(kArrow)) type();
      s.body = block();
      break;
    case Stmt::Kind::Return:
      s.values.push_back(kind() == kNewline || kind() == kEnd ? make(Expr::Kind::None) : expression());
      expect_newline();
      break;
    default:
      expect_newline();
      break;
  }
}

}  // namespace lithify::program
