#include "program/parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_set>
#include <utility>

#include "program/text.hpp"

namespace lithify::program {

namespace {

// Bounds of what a hostile text may cost. Expressions take about a hundred bytes of memory per byte of text.
constexpr size_t kMaxText = size_t{64} << 20;
constexpr size_t kMaxWord = 4096;

constexpr bool is_punctuation(char c) {
  switch (c) {
    case '(':
    case ')':
    case '[':
    case ']':
    case '{':
    case '}':
    case ',':
    case ':':
    case '=':
    case '.':
    case '-':
    case '+':
      return true;
    default:
      return false;
  }
}
constexpr bool is_octal(char c) { return c >= '0' && c <= '7'; }

/// What a token is: one of these, or the character itself for punctuation.
enum Lexeme : char { kEnd = 0, kNewline = '\n', kWord = 'a', kNumber = '0', kString = '"', kArrow = '>' };

struct Token {
  char kind = kEnd;
  uint32_t pos = 0;
  std::string_view text;
};

/// Tokens one at a time. Line ends inside brackets are not tokens; after a kNewline token, indent() is that of the line
/// which follows.
class Lexer {
 public:
  Lexer(std::string_view record, std::string_view text) : record_(record), text_(text) {
    if (text.size() > kMaxText) fail(0, "the text is too long", Code::LimitExceeded);
    start_line();
    advance();
  }

  const Token& token() const { return token_; }
  size_t indent() const { return indent_; }
  size_t end() const { return at_; }  ///< of the current token

  /// The character after the current token; blanks are skipped.
  char following() const {
    size_t i = at_;
    while (i < text_.size() && (text_[i] == ' ' || text_[i] == '\t')) ++i;
    return peek(i);
  }
  /// Whether the current word goes on with ".name", without blanks.
  bool dotted() const { return peek(at_) == '.' && is_letter(peek(at_ + 1)); }
  /// Makes the current word include one more ".name".
  void extend() {
    ++at_;
    while (is_word(peek(at_))) ++at_;
    token_.text = text_.substr(token_.pos, at_ - token_.pos);
    if (token_.text.size() > kMaxWord) fail(token_.pos, "the name is too long", Code::LimitExceeded);
  }
  /// The rest of the line, which becomes part of the current token.
  std::string_view rest_of_line() {
    const size_t start = at_;
    at_ = std::min(text_.find('\n', at_), text_.size());
    return text_.substr(start, at_ - start);
  }

  void advance() {
    skip_blanks();
    const size_t start = at_;
    const char c = peek(at_);
    if (is_letter(c)) {
      while (is_word(peek(at_))) ++at_;
      if (at_ - start > kMaxWord) fail(start, "the name is too long", Code::LimitExceeded);
      set(kWord, start);
    } else if (is_digit(c)) {
      number();
      set(kNumber, start);
    } else if (c == '"' || c == '\'') {
      string(c);
      set(kString, start);
    } else if (at_ == text_.size()) {
      set(kEnd, start);
    } else if (c == '\n') {
      ++at_;
      set(kNewline, start);
      start_line();
    } else if (c == '-' && peek(at_ + 1) == '>') {
      at_ += 2;
      set(kArrow, start);
    } else if (is_punctuation(c)) {
      ++at_;
      if (c == '(' || c == '[' || c == '{') ++brackets_;
      if ((c == ')' || c == ']' || c == '}') && brackets_ > 0) --brackets_;
      set(c, start);
    } else {
      fail(start, "unexpected character");
    }
  }

  [[noreturn]] void fail(size_t pos, std::string_view what, Code code = Code::BadCode) const {
    throw Error(text_diagnostic(code, record_, text_, pos, what));
  }

 private:
  char peek(size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
  void set(char kind, size_t start) { token_ = {kind, static_cast<uint32_t>(start), text_.substr(start, at_ - start)}; }

  void skip_blanks() {
    while (true) {
      const char c = peek(at_);
      if (c == ' ' || c == '\t' || c == '\r' || (c == '\n' && brackets_ > 0)) {
        ++at_;
      } else if (c == '#') {
        rest_of_line();
      } else {
        return;
      }
    }
  }

  /// Goes to the first character of the next line that is not empty.
  void start_line() {
    while (true) {
      const size_t start = at_;
      while (peek(at_) == ' ') ++at_;
      indent_ = at_ - start;
      skip_blanks();
      if (peek(at_) != '\n') break;
      ++at_;
    }
    if (at_ == text_.size()) indent_ = 0;
  }

  void number() {
    const size_t start = at_;
    while (is_digit(peek(at_))) ++at_;
    if (peek(at_) == '.') ++at_;
    while (is_digit(peek(at_))) ++at_;
    if (peek(at_) == 'e' || peek(at_) == 'E') {
      ++at_;
      if (peek(at_) == '+' || peek(at_) == '-') ++at_;
      if (!is_digit(peek(at_))) fail(start, "malformed number");
      while (is_digit(peek(at_))) ++at_;
    }
    if (peek(at_) == 'j') ++at_;
    if (is_word(peek(at_)) || at_ - start > kMaxWord) fail(start, "malformed number");
  }

  void string(char quote) {
    const size_t start = at_;
    const std::string_view triple = text_.substr(at_, 3);
    const bool long_form = triple.size() == 3 && triple[1] == quote && triple[2] == quote;
    at_ += long_form ? 3 : 1;
    while (true) {
      const char c = peek(at_);
      if (at_ >= text_.size() || (c == '\n' && !long_form)) fail(start, "the string has no end");
      if (c == quote && (!long_form || text_.substr(at_, 3) == triple)) break;
      at_ += c == '\\' ? 2 : 1;
    }
    at_ += long_form ? 3 : 1;
  }

  std::string_view record_;
  std::string_view text_;
  size_t at_ = 0;
  size_t indent_ = 0;
  int brackets_ = 0;
  Token token_;
};

/// Python's bool, int, float types and containers of them: gives literals the type that is declared for them. The
/// printer writes whole floats from 1e10 as integers.
void convert_literal(Expr& e, const Type& type) {
  if (e.kind == Expr::Kind::Int && type.name == "float") {
    e.kind = Expr::Kind::Float;
    e.real = static_cast<double>(e.integer);
    e.integer = 0;
  } else if (type.name == "Optional" && type.args.size() == 1) {
    convert_literal(e, type.args[0]);
  } else if (e.kind == Expr::Kind::List && type.name == "List" && type.args.size() == 1) {
    for (Expr& item : e.items) convert_literal(item, type.args[0]);
  } else if (e.kind == Expr::Kind::Tuple && type.name == "Tuple" && type.args.size() == e.items.size()) {
    for (size_t i = 0; i < e.items.size(); ++i) convert_literal(e.items[i], type.args[i]);
  } else if (e.kind == Expr::Kind::Dict && type.name == "Dict" && type.args.size() == 2) {
    for (size_t i = 0; i < e.items.size(); ++i) convert_literal(e.items[i], type.args[i % 2]);
  }
}

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
  Expr primary(bool& parenthesised);
  void postfix(Expr& e, bool parenthesised);
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

// ---- types ----------------------------------------------------------------------------------------------------------

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

// ---- definitions ----------------------------------------------------------------------------------------------------

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

/// The lines of a block inside a line that is indented by `outer`.
template <class Line>
void Parser::lines(size_t outer, Line&& line) {
  const size_t indent = lexer_.indent();
  while (kind() != kEnd && lexer_.indent() > outer) {
    if (lexer_.indent() != indent) lexer_.fail(pos(), "the indentation does not match the block");
    line();
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
  static constexpr std::pair<std::string_view, std::vector<std::string> Class::*> lists[] = {
      {"__parameters__", &Class::parameters},
      {"__buffers__", &Class::buffers},
      {"__forward_pre_hooks__", &Class::forward_pre_hooks},
      {"__forward_hooks__", &Class::forward_hooks},
  };
  const std::string word = name();
  if (accept(':')) {
    Type declared = type();
    const bool final_constant = declared.name == "Final" && declared.args.size() == 1;
    if (final_constant) {
      expect('=');
      Expr value = expression();
      Type inner = std::move(declared.args[0]);
      convert_literal(value, inner);
      value.type = std::move(inner);
      cls.constants.emplace_back(word, std::move(value));
    } else {
      if (cls.kind == Class::Kind::NamedTuple && accept('=')) expression();  // calls give every field
      cls.attributes.emplace_back(word, std::move(declared));
    }
  } else if (word == "__annotations__" && accept('[')) {
    std::string attribute = string();
    expect(']');
    expect('=');
    cls.attributes.emplace_back(std::move(attribute), type());
  } else if (accept('=')) {
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
  } else if (word != "pass") {
    unexpected("':' or '='");
  }
  expect_newline();
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

// ---- statements -----------------------------------------------------------------------------------------------------

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

// ---- expressions ----------------------------------------------------------------------------------------------------

Expr Parser::expression() {
  const Nest nest(*this);
  const int deepest_before = std::exchange(deepest_, depth_);
  bool parenthesised = false;
  Expr e = primary(parenthesised);
  if (kind() == '.' || kind() == '[') postfix(e, parenthesised);
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

Expr Parser::primary(bool& parenthesised) {
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
        parenthesised = true;
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
void Parser::postfix(Expr& e, bool parenthesised) {
  while (kind() == '.' || kind() == '[') {
    if (accept('.')) {
      e = around(Expr::Kind::Attribute, here(), std::move(e));
      e.name = name();
      if (kind() == '(') {
        const bool to_list = !parenthesised && e.name == "tolist";
        e.kind = to_list ? Expr::Kind::Operator : Expr::Kind::Method;
        if (to_list) e.name = kToList;
        arguments(e);
      } else {
        e.integer = parenthesised;
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
        e.integer = parenthesised;
        e.items.push_back(std::move(index));
      }
      expect(']');
    }
    parenthesised = false;
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

double Parser::real(std::string_view digits) {
  if (digits == "inf") return std::numeric_limits<double>::infinity();
  if (digits == "nan") return std::numeric_limits<double>::quiet_NaN();
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) lexer_.fail(pos(), "malformed number");
  return value;
}

/// A literal after its sign: an integer, a float, or a complex number (real part, sign, imaginary part).
Expr Parser::number(bool negative) {
  const auto at_number = [&] {
    return kind() == kNumber || at_word("inf") || at_word("nan") || at_word("infj") || at_word("nanj");
  };
  if (!at_number()) unexpected("a number");
  Expr e = make(Expr::Kind::Float);
  std::string_view digits = text();
  if (digits.ends_with('j')) {
    e.kind = Expr::Kind::Complex;
    e.imag = real(digits.substr(0, digits.size() - 1));
    if (negative) e.imag = -e.imag;
    advance();
    return e;
  }
  if (kind() == kNumber && digits.find_first_of(".eE") == std::string_view::npos) {
    e.kind = Expr::Kind::Int;
    uint64_t magnitude = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), magnitude);
    if (error != std::errc() || magnitude > (uint64_t{1} << 63) - (negative ? 0 : 1)) {
      lexer_.fail(pos(), "the integer does not fit into 64 bits");
    }
    e.integer = static_cast<int64_t>(negative ? 0 - magnitude : magnitude);
  }
  e.real = e.kind == Expr::Kind::Int ? static_cast<double>(e.integer) : real(digits);
  if (negative && e.kind == Expr::Kind::Float) e.real = -e.real;
  advance();
  if (kind() == '+' || kind() == '-') {
    const bool minus = kind() == '-';
    advance();
    if (!at_number() || !text().ends_with('j')) unexpected("an imaginary number");
    e.kind = Expr::Kind::Complex;
    e.integer = 0;
    e.imag = real(text().substr(0, text().size() - 1));
    if (minus) e.imag = -e.imag;
    advance();
  } else if (e.kind == Expr::Kind::Int) {
    e.real = 0;
  }
  return e;
}

int64_t Parser::integer() {
  const Expr e = number(accept('-'));
  if (e.kind != Expr::Kind::Int) lexer_.fail(e.pos.offset, "expected an integer");
  return e.integer;
}

/// One or more adjacent string literals, without their escapes.
std::string Parser::string() {
  if (kind() != kString) unexpected("a string");
  static constexpr std::string_view escapes = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
  std::string out;
  for (; kind() == kString; advance()) {
    std::string_view raw = text();
    const size_t quotes = raw.size() >= 6 && raw[1] == raw[0] && raw[2] == raw[0] ? 3 : 1;
    raw = raw.substr(quotes, raw.size() - 2 * quotes);
    out.reserve(out.size() + raw.size());
    for (size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '\\') {
        out += raw[i];
        continue;
      }
      const std::string_view tail = raw.substr(i + 1);
      size_t known = 0;
      while (known < escapes.size() && escapes[known] != tail[0]) known += 2;
      if (known < escapes.size()) {
        out += escapes[known + 1];
        i += 1;
      } else if (tail.size() >= 3 && tail[0] <= '3' && is_octal(tail[0]) && is_octal(tail[1]) && is_octal(tail[2])) {
        out += static_cast<char>((tail[0] - '0') * 64 + (tail[1] - '0') * 8 + (tail[2] - '0'));
        i += 3;
      } else {
        lexer_.fail(pos() + quotes + i, "unknown escape in a string");
      }
    }
  }
  return out;
}

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
