#include "core/engine/requests/conversation_input.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/utf8.h"
#include "core/base/white_space.h"
#include "core/chat/adaptation.h"

namespace quire {
namespace {

// Returns the text between the outer brackets or braces.
std::string inside(std::string_view text) {
  const std::string_view all = trimmed(text);
  return std::string(trimmed(all.substr(1, all.size() - 2)));
}

// Refuses parts of a content that are not text: a template would write marks of images that the model does
// not get.
void require_text_parts(const JsonValue& message, size_t idx) {
  const JsonValue* content = message.find("content");
  const JsonValue::Array* parts = content == nullptr ? nullptr : content->as_array();
  if (parts == nullptr) return;
  for (size_t i = 0; i < parts->size(); ++i) {
    const JsonValue* type = (*parts)[i].find("type");
    const std::string* name = type == nullptr ? nullptr : type->as_string();
    if (name != nullptr && chat::is_text_part(*name)) continue;
    throw Error(ErrorCode::invalid_argument,
                "messages[{}].content[{}]: a part of the type \"{}\" is not supported; this model reads text",
                idx, i, name == nullptr ? "" : printable(*name))
        .at("messages");
  }
}

void require_messages(const JsonValue::Array& messages) {
  for (size_t i = 0; i < messages.size(); ++i) {
    const JsonValue* role = messages[i].find("role");
    if (role == nullptr || role->as_string() == nullptr) {
      throw Error(ErrorCode::invalid_argument, "messages[{}]: not an object whose role is a string", i)
          .at("messages");
    }
    require_text_parts(messages[i], i);
  }
}

}  // namespace

PromptPart parse_messages(std::string_view json) {
  const JsonValue parsed = parse_json(json, "messages");
  if (const JsonValue::Array* list = parsed.as_array()) {
    require_messages(*list);
    return {PromptPart::Kind::messages, inside(json), {}};
  }
  const JsonValue* role = parsed.find("role");
  if (role == nullptr || role->as_string() == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "messages: neither a list of messages nor one message; a message is an object whose role is "
                "a string")
        .at("messages");
  }
  require_text_parts(parsed, 0);
  return {PromptPart::Kind::messages, std::string(trimmed(json)), {}};
}

std::string parse_tools(std::string_view json) {
  if (json.empty()) return {};
  const JsonValue parsed = parse_json(json, "tools");
  const JsonValue::Array* const list = parsed.as_array();
  if (list == nullptr) throw Error(ErrorCode::invalid_argument, "tools: not a JSON list").at("tools");
  for (size_t i = 0; i < list->size(); ++i) {
    if ((*list)[i].as_object() == nullptr)
      throw Error(ErrorCode::invalid_argument, "tools[{}]: not a JSON object", i).at("tools");
  }
  return list->empty() ? std::string() : std::string(json);
}

void set_template_arguments(ConversationSettings& conversation, std::string_view json) {
  if (json.empty()) {
    conversation.arguments.clear();
    conversation.adds_generation_prompt = true;
    return;
  }
  const JsonValue parsed = parse_json(json, "template_arguments");
  if (parsed.as_object() == nullptr)
    throw Error(ErrorCode::invalid_argument, "template_arguments: not a JSON object")
        .at("template_arguments");
  for (const char* const own : {"messages", "tools"}) {
    if (parsed.find(own) == nullptr) continue;
    throw Error(ErrorCode::invalid_argument, "template_arguments: {} is not allowed here; use its own setter",
                own)
        .at("template_arguments");
  }
  const JsonValue* const goes_on = parsed.find("continue_final_message");
  const bool continues = goes_on != nullptr && goes_on->as_bool() != nullptr && *goes_on->as_bool();
  std::string arguments = inside(json);
  conversation.adds_generation_prompt = parsed.find("add_generation_prompt") == nullptr && !continues;
  conversation.arguments = std::move(arguments);
}

gsl::span<const PromptPart> messages_of(const std::vector<PromptPart>& parts) {
  const auto is_messages = [](const PromptPart& part) { return part.is_messages(); };
  const auto first = std::find_if(parts.begin(), parts.end(), is_messages);
  const auto last = std::find_if_not(first, parts.end(), is_messages);
  if (std::any_of(last, parts.end(), is_messages)) {
    throw Error(ErrorCode::invalid_argument,
                "prompt: there are other parts between its messages; add all messages one after the other")
        .at("prompt");
  }
  return gsl::span<const PromptPart>(parts).subspan(static_cast<size_t>(first - parts.begin()),
                                                    static_cast<size_t>(last - first));
}

std::string conversation_input(const ConversationSettings& settings, gsl::span<const PromptPart> messages) {
  std::string input = "{\"messages\":[";
  const char* separator = "";
  for (const PromptPart& part : messages) {
    if (part.text.empty()) continue;
    input.append(separator).append(part.text);
    separator = ",";
  }
  input += "]";
  if (!settings.tools.empty()) input.append(",\"tools\":").append(settings.tools);
  if (settings.adds_generation_prompt) input += ",\"add_generation_prompt\":true";
  if (!settings.arguments.empty()) input.append(",").append(settings.arguments);
  return input += "}";
}

}  // namespace quire
