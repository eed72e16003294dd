// Parses response rules in the form of OpenAI's requests.
#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/response/dialect_table.h"
#include "core/response/json_text.h"
#include "core/response/response_grammar.h"

namespace quire {
namespace {

constexpr size_t kMaxBytes = size_t{4} << 20;

std::optional<ReasoningStart> reasoning_of(const JsonView& request) {
  if (!request.has("reasoning")) return std::nullopt;
  const std::string& name = request.at("reasoning").as_string();
  if (name == "closed") return ReasoningStart::closed;
  if (name == "open") return ReasoningStart::open;
  if (name == "off") return ReasoningStart::off;
  throw Error(ErrorCode::invalid_argument, "reasoning: \"{}\" is invalid; use closed, open or off",
              printable(name));
}

void keep_tool(ToolSet& tools, const std::string& name) {
  const ToolSet::Tool* tool = tools.find(name);
  if (tool == nullptr)
    throw Error(ErrorCode::not_found, "tool_choice: there is no tool \"{}\"", printable(name));
  std::vector<ToolSet::Tool> kept;
  kept.push_back({tool->name, tool->parameters.copy()});
  tools = ToolSet(std::move(kept));
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
    throw Error(ErrorCode::invalid_argument, "tool_choice: \"{}\" is invalid; use none, auto or required",
                printable(name));
  }
  if (name == "none") rules.choice = ToolChoice::none;
  if (name == "required") rules.choice = ToolChoice::required;
  if (name == "required" && rules.tools.tools().empty()) {
    throw Error(ErrorCode::invalid_argument, "tool_choice: required needs at least one tool");
  }
}

// References in the schema begin at its own root, so it is not put into another one.
std::string schema_format(const JsonView& schema) {
  if (const bool* const accepts = schema.raw().as_bool())
    return *accepts ? "%json {}" : "%json {\"not\": {}}";
  if (!schema.is_object())
    throw Error(ErrorCode::format, "{} must be a schema: an object, true or false", schema.where());
  return "%json " + json_text(schema.raw());
}

// Returns the format in Lark notation; empty for any text.
std::string format_of(const JsonView& format) {
  const std::string& type = format.at("type").as_string();
  if (type == "text") return "";
  if (type == "json_object") return "%json {\"type\": \"object\"}";
  if (type == "json_schema") {
    const JsonView schema = format.at("json_schema");
    return schema_format(schema.has("schema") ? schema.at("schema") : schema);
  }
  if (type == "regex") return "/" + lark_pattern(format.at("pattern").as_string()) + "/";
  if (type == "gbnf" || type == "lark") {
    return fmt::format("%grammar {{\"{}\": {}}}", type, json_quoted(format.at("grammar").as_string()));
  }
  if (type == "choice") {
    std::string choices;
    for (const JsonView& item : format.at("choices").items()) {
      choices += (choices.empty() ? "" : " | ") + lark_text(item.as_string());
    }
    if (choices.empty())
      throw Error(ErrorCode::invalid_argument, "response_format: choices is empty; give at least one");
    return "(" + choices + ")";
  }
  throw Error(ErrorCode::unsupported,
              "response_format: \"{}\" is not supported; use text, json_object, json_schema, regex, choice, "
              "gbnf, lark or "
              "structural_tag",
              printable(type));
}

bool begins_with(const std::string& text, const std::string& beginning) {
  return text.compare(0, beginning.size(), beginning) == 0;
}

TagFormat::Tag tag_of(const JsonView& structure) {
  TagFormat::Tag tag;
  tag.begin = structure.at("begin").as_string();
  tag.end = structure.at("end").as_string();
  tag.content =
      structure.has("schema") ? schema_format(structure.at("schema")) : format_of(structure.at("format"));
  if (tag.content.empty() && tag.end.empty()) {
    throw Error(ErrorCode::invalid_argument, "{}: the text has no end; give an \"end\"", structure.where());
  }
  return tag;
}

void check_triggers(const TagFormat& format) {
  const auto has_trigger = [&](const TagFormat::Tag& tag) {
    return std::any_of(format.triggers.begin(), format.triggers.end(),
                       [&](const std::string& trigger) { return begins_with(tag.begin, trigger); });
  };
  for (const TagFormat::Tag& tag : format.tags) {
    if (has_trigger(tag)) continue;
    throw Error(ErrorCode::invalid_argument,
                "response_format: the structure \"{}\" begins with none of the triggers",
                printable(tag.begin));
  }
  for (const std::string& trigger : format.triggers) {
    const auto begins = [&](const TagFormat::Tag& tag) { return begins_with(tag.begin, trigger); };
    if (!trigger.empty() && std::any_of(format.tags.begin(), format.tags.end(), begins)) continue;
    throw Error(ErrorCode::invalid_argument, "response_format: no structure begins with the trigger \"{}\"",
                printable(trigger));
  }
}

TagFormat tags_of(const JsonView& request) {
  TagFormat format;
  for (const JsonView& structure : request.at("structures").items()) format.tags.push_back(tag_of(structure));
  if (format.tags.empty())
    throw Error(ErrorCode::invalid_argument, "response_format: structures is empty; give at least one");
  for (const JsonView& trigger : request.at("triggers").items())
    format.triggers.push_back(trigger.as_string());
  format.at_least_one = request.bool_or("at_least_one", false);
  format.stop_after_first = request.bool_or("stop_after_first", false);
  check_triggers(format);
  return format;
}

}  // namespace

ResponseRules parse_response_rules(std::string_view json, const Dialect& own) {
  JsonLimits limits;
  limits.max_bytes = kMaxBytes;
  const JsonValue value = parse_json(json, "response rules", limits);
  const JsonView request(value, "response rules");
  ResponseRules rules;
  const std::string name = request.at("dialect").as_string();
  rules.dialect =
      name == kAutoDialect ? &own : with_parameter("dialect", [&] { return &find_dialect(name); });
  if (const std::optional<JsonView> tools = request.find("tools"))
    rules.tools = with_parameter("tools", [&] { return ToolSet::of(*tools); });
  rules.parallel = request.bool_or("parallel_tool_calls", true);
  rules.reasoning = with_parameter("reasoning", [&] { return reasoning_of(request); });
  with_parameter("tool_choice", [&] { read_choice(request, rules); });
  if (const std::optional<JsonView> format = request.find("response_format")) {
    with_parameter("response_format", [&] {
      if (format->at("type").as_string() == "structural_tag") {
        rules.tags = tags_of(*format);
      } else {
        rules.format = format_of(*format);
      }
    });
  }
  if (rules.choice != ToolChoice::none && rules.dialect->forms.empty()) {
    throw Error(ErrorCode::unsupported, "dialect: \"{}\" has no tool calls; choose another dialect",
                rules.dialect->name);
  }
  return rules;
}

}  // namespace quire
