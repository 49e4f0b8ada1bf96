// The parser by recursive descent; parse.hpp is its interface.
//
//   parse.cpp              files, classes, functions and types
//   parse_statement.cpp    statements
//   parse_expression.cpp   expressions
//   parse_literal.cpp      numbers and strings
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "program/lexer.hpp"
#include "program/program.hpp"

namespace lithify::program {

/// Python's bool, int, float types and containers of them: gives literals the type that is declared for them. The
/// printer writes whole floats from 1e10 as integers.
void convert_literal(Expr& e, const Type& type);

class Parser {
 public:
  Parser(std::string_view record, std::string_view text, int32_t file) : lexer_(record, text), file_(file) {}

  void file(Program& program, const std::string& prefix);
  Function function(std::string_view scope, const Type& self);
  Type type();
  void expect_end() {
    while (kind() == kNewline) advance();
    if (kind() != kEnd) unexpected("the end of the text");
  }

 private:
  // Tokens.
  char kind() const { return lexer_.token().kind; }
  std::string_view text() const { return lexer_.token().text; }
  uint32_t pos() const { return lexer_.token().pos; }
  Pos here() const { return {file_, pos()}; }
  bool at_word(std::string_view w) const { return kind() == kWord && text() == w; }
  void advance() { lexer_.advance(); }
  bool accept(char k) {
    if (kind() != k) return false;
    advance();
    return true;
  }
  void expect(char k) {
    if (!accept(k)) unexpected(k == kArrow ? std::string("'->'") : fmt::format("'{}'", k));
  }
  void expect_word(std::string_view w) {
    if (!at_word(w)) unexpected(fmt::format("'{}'", w));
    advance();
  }
  void expect_newline() {
    if (kind() == kEnd) return;
    if (!accept(kNewline)) unexpected("the end of the line");
  }
  std::string name() {
    if (kind() != kWord) unexpected("a name");
    std::string n(text());
    advance();
    return n;
  }
  std::string path();
  [[noreturn]] void unexpected(std::string_view wanted) const {
    const std::string found = kind() == kEnd       ? "the end of the text"
                              : kind() == kNewline ? "the end of the line"
                                                   : fmt::format("'{}'", text().substr(0, 40));
    lexer_.fail(pos(), fmt::format("expected {}, found {}", wanted, found));
  }

  /// Counts the nesting of blocks, expressions and types while it lives.
  class Nest {
   public:
    explicit Nest(Parser& p) : p_(p) {
      if (++p_.depth_ > kMaxNesting) p_.too_deep();
    }
    ~Nest() { --p_.depth_; }
    Nest(const Nest&) = delete;
    Nest& operator=(const Nest&) = delete;

   private:
    Parser& p_;
  };

  [[noreturn]] void too_deep() const { lexer_.fail(pos(), "nested too deeply", Code::LimitExceeded); }

  // Definitions.
  Class class_definition(const std::string& prefix);
  void class_line(Class& cls, const Type& self);
  void class_declaration(Class& cls, const std::string& word);
  void class_assignment(Class& cls, const std::string& word);
  std::vector<std::string> string_list();
  Expr enum_value();
  Parameter parameter(const Type& untyped);

  // Statements.
  template <class Line>
  void lines(size_t outer, Line&& line);
  std::vector<Stmt> block();
  Stmt statement();
  void assignment(Stmt& s);
  void compound(Stmt& s);

  // Expressions.
  Expr make(Expr::Kind kind) const {
    Expr e;
    e.kind = kind;
    e.pos = here();
    return e;
  }
  Expr around(Expr::Kind kind, Pos pos, Expr inner);
  Expr expression();
  Expr primary(bool& parenthesized);
  void postfix(Expr& e, bool parenthesized);
  Expr word();
  Expr torch_path();
  Expr own_path();
  Expr local_call();
  Expr typed_form(Expr::Kind kind);
  Expr is_instance();
  Expr get_attribute();
  Expr constant();
  Expr number(bool negative);
  double real(std::string_view digits);
  int64_t integer();
  std::string string();
  void items(Expr& e, char close);
  void arguments(Expr& e);

  Lexer lexer_;
  int32_t file_;
  int depth_ = 0;    ///< of what is being parsed
  int deepest_ = 0;  ///< level of the deepest item of the current expression
};

/// The lines of a block inside a line that is indented by `outer`.
template <class Line>
void Parser::lines(size_t outer, Line&& line) {
  const size_t indent = lexer_.indent();
  while (kind() != kEnd && lexer_.indent() > outer) {
    if (lexer_.indent() != indent) lexer_.fail(pos(), "the indentation does not match the block");
    line();
  }
}

}  // namespace lithify::program
