// Builds the grammar of an answer for structured output: reasoning, text, and tool calls whose arguments
// follow their schemas, in the dialect that the parser reads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/ids.h"
#include "core/base/json.h"
#include "core/response/dialect.h"
#include "core/response/response_parser.h"
#include "core/response/value_types.h"

namespace quire {

enum class ToolChoice : uint8_t { none, automatic, required };

// Token ids by the text of the token.
using SpecialTokens = std::unordered_map<std::string, TokenId>;

// Structural tags: free text until a trigger, which must then begin one of the tags.
struct TagFormat {
  struct Tag {
    std::string begin;
    std::string content;  // in Lark notation; empty: any text without `end`
    std::string end;
  };
  std::vector<std::string> triggers;
  std::vector<Tag> tags;
  bool at_least_one = false;
  bool stop_after_first = false;
};

struct ResponseRules {
  const Dialect* dialect = nullptr;
  ToolSet tools;
  ToolChoice choice = ToolChoice::automatic;
  bool parallel = true;
  std::optional<ReasoningStart> reasoning;  // absent: `closed`, unless the prompt has begun reasoning
  std::string format;                       // grammar of the text, in Lark notation; empty: any text
  std::optional<TagFormat> tags;            // alternative to `format`
};

// Reads a JSON object with fields as in OpenAI's requests: `dialect`, `tools`, `tool_choice`,
// `parallel_tool_calls`, `response_format`, `reasoning`. The dialect kAutoDialect means `own`. Throws
// ErrorCode::format if the object is malformed, ErrorCode::unsupported naming what cannot be enforced, and
// ErrorCode::not_found for an unknown dialect or tool.
ResponseRules parse_response_rules(std::string_view json, const Dialect& own);

// Returns the grammar in Lark notation. Marks that are special tokens are written as tokens.
std::string response_grammar(const ResponseRules& rules, const SpecialTokens& special);

}  // namespace quire
