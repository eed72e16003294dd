// Renders a conversation to the text of a prompt, by chat templates.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/chat/template_set.h"

namespace quire {

struct RequestSpec;
struct LoadedModel;

// Settings of a rendering.
struct RenderSettings {
  std::string name;  // of the template; empty: chosen by the input
  std::map<std::string, std::string> special_tokens;
  std::optional<chat::LocalTime> now;  // not set: the current time
  bool adapts_history = true;          // gives conversations the form that the template needs
};

struct ChatTemplates {
  std::shared_ptr<const chat::TemplateSet> templates;
  RenderSettings settings;
};

// Returns the templates with the special tokens from their own directory.
ChatTemplates with_own_settings(std::shared_ptr<const chat::TemplateSet> templates);

// Renders `text`, a JSON object with the messages and all other input of the template.
chat::RenderedChat render_chat(const ChatTemplates& chat, std::string_view text);

// Renders the messages of a request, with the request's templates or the model's own. Throws
// ErrorCode::invalid_argument if the prompt has no messages.
chat::RenderedChat render_conversation(const RequestSpec& spec, const LoadedModel& model);

}  // namespace quire
