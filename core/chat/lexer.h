// The tokens of a template, with what its whitespace control asks for already done (trim_blocks,
// lstrip_blocks).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/chat/template_error.h"

namespace quire::chat {

enum class TokenType : uint8_t {
  data,            // text between the tags
  variable_begin,  // {{
  variable_end,
  block_begin,  // {%
  block_end,
  name,
  text,  // a quoted one, unescaped
  integer,
  real,
  op,  // an operator or a bracket, as `text` spells it
  end,
};

struct Token {
  TokenType type = TokenType::end;
  std::string text;
  int64_t integer = 0;
  double real = 0.0;
  Position position;
};

// Ends with a token of type `end`. Throws TemplateError (syntax).
std::vector<Token> read_tokens(std::string_view source);

}  // namespace quire::chat
