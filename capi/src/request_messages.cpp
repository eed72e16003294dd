// Setters of a request for prompts that are conversations.
#include <string>
#include <string_view>
#include <utility>

#include <quire/request.h>

#include "capi/src/chat_object.h"
#include "capi/src/request_setters.h"
#include "core/base/json.h"

using namespace quire::capi;
using quire::Error;
using quire::ErrorCode;
using quire::JsonValue;

namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// What stands between the brackets or braces.
std::string inside(std::string_view text) {
  const std::string_view all = trimmed(text);
  return std::string(trimmed(all.substr(1, all.size() - 2)));
}

void require_messages(const JsonValue::Array& messages) {
  for (size_t i = 0; i < messages.size(); ++i) {
    const JsonValue* role = messages[i].find("role");
    if (role != nullptr && role->as_string() != nullptr) continue;
    throw Error(ErrorCode::invalid_argument, "messages[{}]: no object with a role that is a text", i);
  }
}

std::string messages_argument(std::string_view text) {
  const JsonValue parsed = quire::parse_json(text, "messages");
  if (const JsonValue::Array* list = parsed.as_array()) {
    require_messages(*list);
    return inside(text);
  }
  const JsonValue* role = parsed.find("role");
  if (role == nullptr || role->as_string() == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "messages: neither a list of messages nor one message, an object with a role that is a text");
  }
  return std::string(trimmed(text));
}

std::string tools_argument(std::string_view text) {
  if (text.empty()) return {};
  const JsonValue parsed = quire::parse_json(text, "tools");
  const JsonValue::Array* const list = parsed.as_array();
  if (list == nullptr) throw Error(ErrorCode::invalid_argument, "tools: no JSON list");
  for (size_t i = 0; i < list->size(); ++i) {
    if ((*list)[i].as_object() == nullptr)
      throw Error(ErrorCode::invalid_argument, "tools[{}]: no JSON object", i);
  }
  return list->empty() ? std::string() : std::string(text);
}

void set_arguments(ConversationSettings& conversation, std::string_view text) {
  conversation.arguments.clear();
  conversation.adds_generation_prompt = true;
  if (text.empty()) return;
  const JsonValue parsed = quire::parse_json(text, "template_arguments");
  if (parsed.as_object() == nullptr)
    throw Error(ErrorCode::invalid_argument, "template_arguments: no JSON object");
  for (const char* const own : {"messages", "tools"}) {
    if (parsed.find(own) == nullptr) continue;
    throw Error(ErrorCode::invalid_argument, "template_arguments: {} has a setter of its own", own);
  }
  const JsonValue* const goes_on = parsed.find("continue_final_message");
  const bool continues = goes_on != nullptr && goes_on->as_bool() != nullptr && *goes_on->as_bool();
  conversation.adds_generation_prompt = parsed.find("add_generation_prompt") == nullptr && !continues;
  conversation.arguments = inside(text);
}

}  // namespace

int32_t quire_job_request_add_messages(quire_job_request* request, const char* text, size_t text_len,
                                       quire_error** error) {
  return set(request, {"prompt", Counts::any_kind}, error, [&](RequestSettings& settings) {
    PromptPart part{PromptPart::Kind::messages, messages_argument(text_argument(text, text_len)), {}};
    settings.prompt.push_back(std::move(part));
  });
}

int32_t quire_job_request_set_tools(quire_job_request* request, const char* text, size_t text_len,
                                    quire_error** error) {
  return set(request, {"tools", Counts::any_kind}, error, [&](RequestSettings& settings) {
    settings.conversation.tools = tools_argument(text_argument(text, text_len));
  });
}

int32_t quire_job_request_set_template_arguments(quire_job_request* request, const char* text,
                                                 size_t text_len, quire_error** error) {
  return set(request, {"template_arguments", Counts::any_kind}, error, [&](RequestSettings& settings) {
    ConversationSettings changed = settings.conversation;
    set_arguments(changed, text_argument(text, text_len));
    settings.conversation = std::move(changed);
  });
}

int32_t quire_job_request_set_chat_template(quire_job_request* request, quire_chat_template* chat,
                                            quire_error** error) {
  return set(request, {"chat_template", Counts::any_kind}, error, [&](RequestSettings& settings) {
    settings.conversation.chat = chat == nullptr ? ChatShare{} : Pinned(chat, "chat")->share();
  });
}
