// What an answer may be, as a grammar: reasoning, text, calls of the tools with their arguments by schema, in
// the words of the dialect that the parser reads.
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

// By their texts.
using SpecialTokens = std::unordered_map<std::string, TokenId>;

// Text that is free until a trigger comes, with which one of the tags then has to begin.
struct TagFormat {
  struct Tag {
    std::string begin;
    std::string content;  // in Lark's notation; empty: any text without `end`
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
  std::optional<ReasoningStart> reasoning;  // absent: closed, where no prompt says otherwise
  std::string format;                       // of what is text, in Lark's notation; empty: any
  std::optional<TagFormat> tags;            // likewise, in place of `format`
};

// From a JSON object as OpenAI's requests have it: `dialect`, `tools`, `tool_choice`, `parallel_tool_calls`,
// `response_format`, `reasoning`. ErrorCode::format where it is malformed, ErrorCode::unsupported naming what
// cannot be kept to, ErrorCode::not_found for a dialect or tool that is not there. kAutoDialect is `own`.
ResponseRules parse_response_rules(std::string_view json, const Dialect& own);

// In Lark's notation. Marks that are special tokens are those tokens.
std::string response_grammar(const ResponseRules& rules, const SpecialTokens& special);

}  // namespace quire
