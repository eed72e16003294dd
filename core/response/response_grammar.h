// What an answer may be, as a grammar: reasoning, text, calls of the tools with their arguments by schema, in
// the words of the dialect that the parser reads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/base/ids.h"
#include "core/base/json.h"
#include "core/response/dialect.h"
#include "core/response/response_parser.h"
#include "core/response/value_types.h"

namespace quire {

enum class ToolChoice : uint8_t { none, automatic, required };

// By their texts.
using SpecialTokens = std::unordered_map<std::string, TokenId>;

struct ResponseRules {
  const Dialect* dialect = nullptr;
  ToolSet tools;
  ToolChoice choice = ToolChoice::automatic;
  bool parallel = true;
  ReasoningStart reasoning = ReasoningStart::closed;
  std::string format;  // of what is text, in Lark's notation; empty: any
};

// From a JSON object as OpenAI's requests have it: `dialect`, `tools`, `tool_choice`, `parallel_tool_calls`,
// `response_format`, `reasoning`. ErrorCode::format where it is malformed, ErrorCode::unsupported naming what
// cannot be kept to, ErrorCode::not_found for a dialect or tool that is not there.
ResponseRules parse_response_rules(std::string_view json);

// In Lark's notation. Marks that are special tokens are those tokens.
std::string response_grammar(const ResponseRules& rules, const SpecialTokens& special);

}  // namespace quire
