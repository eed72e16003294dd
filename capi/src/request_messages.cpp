// Setters of a request for prompts that are conversations.
#include <quire/request.h>

#include "capi/src/chat_object.h"
#include "capi/src/request_setters.h"
#include "core/engine/requests/conversation_input.h"

using namespace quire::capi;

int32_t quire_job_request_add_messages(quire_job_request* request, const char* text, size_t text_len,
                                       quire_error** error) {
  return set(request, {"prompt", Counts::any_kind, "messages"}, error, [&](RequestSettings& settings) {
    settings.prompt.push_back(quire::parse_messages(text_argument(text, text_len)));
  });
}

int32_t quire_job_request_set_tools(quire_job_request* request, const char* text, size_t text_len,
                                    quire_error** error) {
  return set(request, {"tools", Counts::any_kind}, error, [&](RequestSettings& settings) {
    settings.conversation.tools = quire::parse_tools(text_argument(text, text_len));
  });
}

int32_t quire_job_request_set_template_arguments(quire_job_request* request, const char* text,
                                                 size_t text_len, quire_error** error) {
  return set(request, {"template_arguments", Counts::any_kind}, error, [&](RequestSettings& settings) {
    set_template_arguments(settings.conversation, text_argument(text, text_len));
  });
}

int32_t quire_job_request_set_chat_template(quire_job_request* request, quire_chat_template* chat,
                                            quire_error** error) {
  return set(request, {"chat_template", Counts::any_kind}, error, [&](RequestSettings& settings) {
    settings.conversation.chat = chat == nullptr ? quire::ChatTemplates{} : Pinned(chat, "chat")->share();
  });
}
