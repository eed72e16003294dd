// Lexer of chat templates. Whitespace control (trim_blocks, lstrip_blocks) is already applied to the tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/chat/template_error.h"

namespace quire::chat {

enum class TokenType : uint8_t {
  data,            // text between tags
  variable_begin,  // {{
  variable_end,
  block_begin,  // {%
  block_end,
  name,
  text,  // a string literal, unescaped
  integer,
  real,
  op,  // an operator or a bracket, spelled as in `text`
  end,
};

struct Token {
  TokenType type = TokenType::end;
  std::string text;
  int64_t integer = 0;
  double real = 0.0;
  Position position;
};

// Splits the source into tokens; the last one has type `end`. Throws TemplateError (syntax).
std::vector<Token> read_tokens(std::string_view source);

}  // namespace quire::chat
