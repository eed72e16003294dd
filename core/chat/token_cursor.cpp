#include "core/chat/token_cursor.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/chat/template_error.h"

namespace quire::chat {

Token TokenCursor::next() {
  Token token = current();
  if (idx_ + 1 < tokens_.size()) ++idx_;
  return token;
}

bool TokenCursor::is_word_of(Words words) const {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return is_word(word); });
}

bool TokenCursor::skip_op(std::string_view op) {
  if (!is_op(op)) return false;
  next();
  return true;
}

bool TokenCursor::skip_word(std::string_view word) {
  if (!is_word(word)) return false;
  next();
  return true;
}

void TokenCursor::fail(std::string text) const {
  throw TemplateError(TemplateFault::syntax, current().position, std::move(text));
}

void TokenCursor::expect_op(std::string_view op) {
  if (!skip_op(op)) fail(fmt::format("expected '{}', got {}", op, describe(current())));
}

void TokenCursor::expect_word(std::string_view word) {
  if (!skip_word(word)) fail(fmt::format("expected '{}', got {}", word, describe(current())));
}

std::string TokenCursor::expect_name() {
  if (current().type != TokenType::name) fail("expected a name, got " + describe(current()));
  return next().text;
}

void TokenCursor::expect(TokenType type, std::string_view what) {
  if (current().type != type) fail(fmt::format("expected {}, got {}", what, describe(current())));
  next();
}

std::string describe(const Token& token) {
  switch (token.type) {
    case TokenType::data:
      return "template data";
    case TokenType::variable_begin:
      return "begin of print statement";
    case TokenType::variable_end:
      return "end of print statement";
    case TokenType::block_begin:
      return "begin of statement block";
    case TokenType::block_end:
      return "end of statement block";
    case TokenType::integer:
    case TokenType::real:
      return "a number";
    case TokenType::text:
      return "a string";
    case TokenType::end:
      return "end of template";
    case TokenType::name:
    case TokenType::op:
      break;
  }
  return "'" + token.text + "'";
}

}  // namespace quire::chat
