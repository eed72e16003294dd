// A conversation in its JSON form as the variables of a template, the way transformers passes it on.
#pragma once

#include <cstddef>

#include "core/base/json.h"
#include "core/chat/chat_template.h"
#include "core/chat/objects.h"

namespace quire::chat {

// All of it is content. Keys of messages whose value is null are left out, and reasoning has both of its
// names
// (`reasoning_content`, `thinking`). ErrorCode::invalid_argument where `input` is no object with messages.
Dict* conversation_variables(Machine& machine, const JsonValue& input, const TemplateContext& context);

// About the bytes that a value has as JSON: what limits of a rendering grow with.
size_t approximate_bytes(const JsonValue& value);

// --- Continuing the last message

// The input asks for it.
bool continues_final_message(const JsonValue& input);
// Text that stands at the end of the last message while it is rendered, and where the result is cut.
inline constexpr std::string_view kContinuationMark = "CONTINUE_FINAL_MESSAGE_TAG ";
// Cuts the text where the mark is. ErrorCode::invalid_argument where the template has left the message out.
Text cut_at_mark(const Text& rendered, const std::string& final_message);
// Puts the mark into the last message; returns the message without it.
std::string mark_final_message(Machine& machine, const Dict& variables);

}  // namespace quire::chat
