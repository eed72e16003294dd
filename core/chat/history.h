// Renders a conversation by a template after giving it the form that the template needs: arguments of calls
// as text or as object, roles that the template has, contents as text or as parts, ids of calls.
#pragma once

#include <cstddef>
#include <vector>

#include "core/base/json.h"
#include "core/chat/adaptation.h"
#include "core/chat/chat_template.h"

namespace quire::chat {

// An input of a template whose messages were adapted.
struct AdaptedInput {
  JsonValue input;
  std::vector<HistoryChange> changes;
  std::vector<size_t> origins;  // for each message, its index in the caller's list
};

// Applies the adaptations that every template needs, and those of the set. An input whose messages are not a
// list of objects stays as it is.
AdaptedInput adapt_input(JsonValue input, Adaptations adaptations);

// Sets what the adaptations need in the context of a rendering.
void apply_to_context(Adaptations adaptations, TemplateContext& context);

// Adapts the input to the template and renders it. Throws like ChatTemplate::render; if the template fails at
// a message, the error begins with its name, such as "messages[2]: ".
RenderedChat render_history(const ChatTemplate& chat, JsonValue input, TemplateContext context);

}  // namespace quire::chat
