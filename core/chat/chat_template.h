// A compiled chat template (Jinja): renders a conversation as the text of a prompt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/base/mutex.h"
#include "core/chat/adaptation.h"
#include "core/chat/interpreter.h"
#include "core/chat/limits.h"
#include "core/chat/text.h"

namespace quire::chat {

struct Syntax;

// Inputs of a rendering other than the conversation.
struct TemplateContext {
  // Texts of the tokenizer's special tokens by name, such as bos_token. They count as text of the template.
  std::vector<std::pair<std::string, std::string>> special_tokens;
  LocalTime now;
  // If true, a content that is null beside tool calls is passed to the template as null. If false, it is left
  // out like every null.
  bool keeps_null_call_content = false;
  // Number of messages that are rendered; the later ones are left out.
  size_t max_messages = SIZE_MAX;
};

struct RenderedChat {
  std::string text;
  // Origin of the bytes. Special tokens are recognized only in bytes of the template; all other bytes are
  // content.
  std::vector<OriginRun> runs;
  // Text of `generation` blocks (the assistant's words), as character ranges.
  std::vector<CharRange> generated;
  uint64_t num_steps = 0;  // steps that the rendering took
  // Changes that gave the conversation the form that the template needs (history.h); none from render().
  std::vector<HistoryChange> changes;
};

// A compiled template. Its behaviour never changes; safe to use from any thread.
class ChatTemplate {
 public:
  // Throws TemplateError if the source is not a valid template, and ErrorCode::encoding if it is not UTF-8.
  static std::shared_ptr<const ChatTemplate> compile(std::string_view source,
                                                     const TemplateLimits& limits = {});
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  // Renders a conversation as it is; render_history (history.h) adapts it first.
  // `input` is an object with `messages` and any other variables that the template reads: `tools`,
  // `documents`, `add_generation_prompt` or custom ones. If `continue_final_message` is true, the text ends
  // inside the last message. Throws TemplateError, and ErrorCode::invalid_argument if the input is not a
  // conversation.
  RenderedChat render(const JsonValue& input, const TemplateContext& context) const;

  // Returns the adaptations that conversations need for this template (template_probe.h). The first call
  // finds them by rendering small conversations.
  Adaptations adaptations() const QUIRE_EXCLUDES(mutex_);

  // Returns the SHA-256 of the source, as hexadecimal digits.
  const std::string& hash() const { return hash_; }
  const std::string& source() const { return source_; }
  bool marks_generation() const;

 private:
  ChatTemplate(std::string_view source, const TemplateLimits& limits);

  TemplateLimits limits_;
  std::string source_;
  std::string hash_;
  std::unique_ptr<const Syntax> syntax_;
  mutable Mutex mutex_;
  mutable std::optional<Adaptations> adaptations_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::chat
