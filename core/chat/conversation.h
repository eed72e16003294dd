// Turns a conversation in its JSON form into the variables of a chat template, as transformers does.
#pragma once

#include <cstddef>

#include "core/base/json.h"
#include "core/chat/chat_template.h"
#include "core/chat/objects.h"

namespace quire::chat {

// All values are content. Keys of messages whose value is null are left out (see TemplateContext). Reasoning
// is available under both names (`reasoning_content`, `thinking`). Throws ErrorCode::invalid_argument if
// `input` is not an object with messages.
Dict* conversation_variables(Machine& machine, const JsonValue& input, const TemplateContext& context);

// Returns the value as JSON, as a template's `tojson` writes it.
std::string json_text(const JsonValue& value);

// Returns about how many bytes the value has as JSON; the limits of a rendering grow with this number.
size_t approximate_bytes(const JsonValue& value);

// --- Continuing the last message

// Returns whether the input sets `continue_final_message`.
bool continues_final_message(const JsonValue& input);
// Marker that is appended to the last message before rendering; the rendered text is cut at it.
inline constexpr std::string_view kContinuationMark = "CONTINUE_FINAL_MESSAGE_TAG ";
// Cuts the text at the marker. Throws ErrorCode::invalid_argument if the template left the message out.
Text cut_at_mark(const Text& rendered, const std::string& final_message);
// Appends the marker to the last message; returns the message without it.
std::string mark_final_message(Machine& machine, const Dict& variables);

}  // namespace quire::chat
