#include "program/lexer.hpp"

#include <algorithm>

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

}  // namespace

Lexer::Lexer(std::string_view record, std::string_view text) : record_(record), text_(text) {
  if (text.size() > kMaxText) fail(0, "the text is too long", Code::LimitExceeded);
  start_line();
  advance();
}

char Lexer::following() const {
  size_t i = at_;
  while (i < text_.size() && (text_[i] == ' ' || text_[i] == '\t')) ++i;
  return peek(i);
}

void Lexer::extend() {
  ++at_;
  while (is_word(peek(at_))) ++at_;
  token_.text = text_.substr(token_.pos, at_ - token_.pos);
  if (token_.text.size() > kMaxWord) fail(token_.pos, "the name is too long", Code::LimitExceeded);
}

std::string_view Lexer::rest_of_line() {
  const size_t start = at_;
  at_ = std::min(text_.find('\n', at_), text_.size());
  return text_.substr(start, at_ - start);
}

void Lexer::advance() {
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

void Lexer::fail(size_t pos, std::string_view what, Code code) const {
  throw Error(text_diagnostic(code, record_, text_, pos, what));
}

void Lexer::skip_blanks() {
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

void Lexer::start_line() {
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

void Lexer::number() {
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

void Lexer::string(char quote) {
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

}  // namespace lithify::program
