// Requests as OpenAI has them into rules.
#include <fmt/format.h>

#include "core/base/error.h"
#include "core/response/dialect_table.h"
#include "core/response/json_text.h"
#include "core/response/response_grammar.h"

namespace quire {
namespace {

constexpr size_t kMaxBytes = size_t{4} << 20;

ReasoningStart reasoning_of(const JsonView& request) {
  const std::string name = request.string_or("reasoning", "closed");
  if (name == "closed") return ReasoningStart::closed;
  if (name == "open") return ReasoningStart::open;
  if (name == "off") return ReasoningStart::off;
  throw Error(ErrorCode::invalid_argument, "reasoning: \"{}\" is none of closed, open, off", name);
}

void keep_tool(ToolSet& tools, const std::string& name) {
  const ToolSet::Tool* tool = tools.find(name);
  if (tool == nullptr) throw Error(ErrorCode::not_found, "tool_choice: there is no tool \"{}\"", name);
  tools = ToolSet({*tool});
}

void read_choice(const JsonView& request, ResponseRules& rules) {
  rules.choice = rules.tools.tools().empty() ? ToolChoice::none : ToolChoice::automatic;
  const std::optional<JsonView> choice = request.find("tool_choice");
  if (!choice) return;
  if (choice->is_object()) {
    const JsonView function = choice->has("function") ? choice->at("function") : *choice;
    keep_tool(rules.tools, function.at("name").as_string());
    rules.choice = ToolChoice::required;
    rules.parallel = false;
    return;
  }
  const std::string& name = choice->as_string();
  if (name != "none" && name != "auto" && name != "required") {
    throw Error(ErrorCode::invalid_argument, "tool_choice: \"{}\" is none of none, auto, required", name);
  }
  if (name == "none") rules.choice = ToolChoice::none;
  if (name == "required") rules.choice = ToolChoice::required;
  if (name == "required" && rules.tools.tools().empty()) {
    throw Error(ErrorCode::invalid_argument, "tool_choice: required, and there are no tools");
  }
}

std::string format_of(const JsonView& request) {
  const std::optional<JsonView> format = request.find("response_format");
  if (!format) return "";
  const std::string& type = format->at("type").as_string();
  if (type == "text") return "";
  if (type == "json_object") return "%json {\"type\": \"object\"}";
  if (type == "json_schema") {
    const JsonView schema = format->at("json_schema");
    const JsonView inner = schema.has("schema") ? schema.at("schema") : schema;
    return "%json {\"allOf\": [" + json_text(inner.raw()) + "]}";
  }
  if (type == "regex") return "/" + lark_pattern(format->at("pattern").as_string()) + "/";
  if (type == "choice") {
    std::string choices;
    for (const JsonView& item : format->at("choices").items()) {
      choices += (choices.empty() ? "" : " | ") + lark_text(item.as_string());
    }
    if (choices.empty()) throw Error(ErrorCode::invalid_argument, "response_format: there are no choices");
    return "(" + choices + ")";
  }
  throw Error(ErrorCode::unsupported,
              "response_format: \"{}\" is none of text, json_object, json_schema, regex, choice", type);
}

}  // namespace

ResponseRules parse_response_rules(std::string_view json) {
  JsonLimits limits;
  limits.max_bytes = kMaxBytes;
  const JsonValue value = parse_json(json, "response rules", limits);
  const JsonView request(value, "response rules");
  ResponseRules rules;
  rules.dialect = &find_dialect(request.at("dialect").as_string());
  if (const std::optional<JsonView> tools = request.find("tools")) rules.tools = ToolSet::of(*tools);
  rules.parallel = request.bool_or("parallel_tool_calls", true);
  rules.reasoning = reasoning_of(request);
  read_choice(request, rules);
  rules.format = format_of(request);
  if (rules.choice != ToolChoice::none && rules.dialect->forms.empty()) {
    throw Error(ErrorCode::unsupported, "dialect: \"{}\" has no calls of tools", rules.dialect->name);
  }
  return rules;
}

}  // namespace quire
