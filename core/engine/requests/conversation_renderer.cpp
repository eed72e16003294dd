#include "core/engine/requests/conversation_renderer.h"

#include <ctime>
#include <utility>

#include <gsl/gsl>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/chat/history.h"
#include "core/engine/model/model_loader.h"
#include "core/engine/requests/conversation_input.h"
#include "core/engine/requests/request_spec.h"

namespace quire {
namespace {

constexpr size_t kMaxInputBytes = size_t{64} << 20;

chat::LocalTime clock_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  return {parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec};
}

}  // namespace

ChatTemplates with_own_settings(std::shared_ptr<const chat::TemplateSet> templates) {
  ChatTemplates chat;
  for (const auto& [name, text] : templates->special_tokens())
    chat.settings.special_tokens.emplace(name, text);
  chat.templates = std::move(templates);
  return chat;
}

chat::RenderedChat render_chat(const ChatTemplates& chat, std::string_view text) {
  JsonValue input = parse_json(text, "input", {.max_bytes = kMaxInputBytes});
  chat::TemplateContext context;
  context.special_tokens.assign(chat.settings.special_tokens.begin(), chat.settings.special_tokens.end());
  context.now = chat.settings.now ? *chat.settings.now : clock_time();
  const chat::ChatTemplate& chosen = chat.templates->choose(chat.settings.name, input);
  if (!chat.settings.adapts_history) return chosen.render(input, context);
  return chat::render_history(chosen, std::move(input), std::move(context));
}

chat::RenderedChat render_conversation(const RequestSpec& spec, const LoadedModel& model) {
  const gsl::span<const PromptPart> messages = messages_of(spec.prompt);
  if (messages.empty())
    throw Error(ErrorCode::invalid_argument, "prompt: it has no messages to render; add some").at("prompt");
  const std::string input = conversation_input(spec.conversation, messages);
  const ChatTemplates& given = spec.conversation.chat;
  return with_parameter("messages", [&] {
    if (given.templates != nullptr) return render_chat(given, input);
    return render_chat(with_own_settings(model.chat->templates(model.model->path())), input);
  });
}

}  // namespace quire
