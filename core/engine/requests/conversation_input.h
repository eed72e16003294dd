// Parses the JSON texts of a conversation, and joins them to the input of a chat template.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <gsl/gsl>

#include "core/engine/requests/request_spec.h"

namespace quire {

// Returns the part for a list of messages, or for one message. A message is an object with a role, and parts
// of its content are texts. Throws ErrorCode::format for malformed JSON, and ErrorCode::invalid_argument for
// anything else.
PromptPart parse_messages(std::string_view json);

// Returns the text of a JSON list of tools, or an empty text for an empty one. Throws like parse_messages.
std::string parse_tools(std::string_view json);

// Sets the arguments of the template from a JSON object; an empty text removes them. Throws like
// parse_messages and changes nothing then.
void set_template_arguments(ConversationSettings& conversation, std::string_view json);

// Returns the parts that are messages. Throws ErrorCode::invalid_argument if other parts are between them.
gsl::span<const PromptPart> messages_of(const std::vector<PromptPart>& parts);

// Returns the JSON object that a chat template renders.
std::string conversation_input(const ConversationSettings& settings, gsl::span<const PromptPart> messages);

}  // namespace quire
