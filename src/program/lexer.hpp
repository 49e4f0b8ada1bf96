// The tokens of serialized TorchScript text.
#pragma once

#include <cstdint>
#include <string_view>

#include "program/text.hpp"

namespace lithify::program {

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
  Lexer(std::string_view record, std::string_view text);

  const Token& token() const { return token_; }
  size_t indent() const { return indent_; }

  /// The character after the current token; blanks are skipped.
  char following() const;
  /// Whether the current word goes on with ".name", without blanks.
  bool dotted() const { return peek(at_) == '.' && is_letter(peek(at_ + 1)); }
  /// Makes the current word include one more ".name".
  void extend();
  /// The rest of the line, which becomes part of the current token.
  std::string_view rest_of_line();

  void advance();

  [[noreturn]] void fail(size_t pos, std::string_view what, Code code = Code::BadCode) const;

 private:
  char peek(size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
  void set(char kind, size_t start) { token_ = {kind, static_cast<uint32_t>(start), text_.substr(start, at_ - start)}; }
  void skip_blanks();
  /// Goes to the first character of the next line that is not empty.
  void start_line();
  void number();
  void string(char quote);

  std::string_view record_;
  std::string_view text_;
  size_t at_ = 0;
  size_t indent_ = 0;
  int brackets_ = 0;
  Token token_;
};

}  // namespace lithify::program
