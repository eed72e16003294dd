// Cursor over the tokens of a template, which a recursive-descent parser moves forward.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "core/chat/lexer.h"
#include "core/chat/limits.h"

namespace quire::chat {

using Words = std::initializer_list<std::string_view>;

class TokenCursor {
 public:
  // Throws TemplateError (syntax) if the source cannot be split into tokens. The limits must outlive the
  // cursor.
  TokenCursor(std::string_view source, const TemplateLimits& limits)
      : limits_(limits), tokens_(read_tokens(source)) {}

  // Guard that counts one level of nesting of blocks and expressions.
  class Level {
   public:
    explicit Level(TokenCursor& cursor) : cursor_(cursor) {
      if (++cursor_.depth_ > cursor_.limits_.max_syntax_depth) {
        cursor_.fail("blocks and expressions are nested deeper than the limit");
      }
    }
    ~Level() { --cursor_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    TokenCursor& cursor_;
  };

  const Token& current() const { return tokens_[idx_]; }
  // Returns the token after the current one; at the end, the end token.
  const Token& ahead() const { return tokens_[idx_ + 1 < tokens_.size() ? idx_ + 1 : tokens_.size() - 1]; }
  // Returns the current token and moves past it.
  Token next();

  static bool is(const Token& token, TokenType type, std::string_view text) {
    return token.type == type && token.text == text;
  }
  bool is_op(std::string_view op) const { return is(current(), TokenType::op, op); }
  bool is_word(std::string_view word) const { return is(current(), TokenType::name, word); }
  bool is_word_of(Words words) const;

  // Move past the current token if it is the operator or word.
  bool skip_op(std::string_view op);
  bool skip_word(std::string_view word);

  // Throws TemplateError (syntax) at the current token.
  [[noreturn]] void fail(std::string text) const;
  // Move past the current token; throw if it is another one.
  void expect_op(std::string_view op);
  void expect_word(std::string_view word);
  std::string expect_name();
  void expect(TokenType type, std::string_view what);
  void expect_block_end() { expect(TokenType::block_end, "end of statement block"); }

  const TemplateLimits& limits() const { return limits_; }

 private:
  const TemplateLimits& limits_;
  std::vector<Token> tokens_;
  size_t idx_ = 0;
  uint32_t depth_ = 0;
};

// Returns the name of a token for messages.
std::string describe(const Token& token);

}  // namespace quire::chat
