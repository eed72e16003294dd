// A compiled template: what turns a conversation into the text of a prompt.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/chat/interpreter.h"
#include "core/chat/limits.h"
#include "core/chat/text.h"

namespace quire::chat {

struct Syntax;

// What a rendering has beside its input.
struct TemplateContext {
  // Texts of a tokenizer's special tokens by name, such as bos_token. They count as the template's own words.
  std::vector<std::pair<std::string, std::string>> special_tokens;
  LocalTime now;
  // Arguments of tool calls that are a text become what they say as JSON, where that is an object. Off: as
  // given.
  bool parse_call_arguments = false;
};

struct RenderedChat {
  std::string text;
  // Which bytes of it are the template's, in which special tokens may be found; all others are content.
  std::vector<OriginRun> runs;
  // What stands in `generation` blocks, in characters: the words of the assistant.
  std::vector<CharRange> generated;
  uint64_t num_steps = 0;  // what it took
};

// Immutable; any thread.
class ChatTemplate {
 public:
  // Throws TemplateError for what is no template; ErrorCode::encoding where it is not UTF-8.
  static std::shared_ptr<const ChatTemplate> compile(std::string_view source,
                                                     const TemplateLimits& limits = {});
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  // `input`: an object with `messages`, and with whatever else the template reads: `tools`, `documents`,
  // `add_generation_prompt`, arguments of its own. `continue_final_message` ends the text inside of the last
  // message. Throws TemplateError, and ErrorCode::invalid_argument for an input that is no conversation.
  RenderedChat render(const JsonValue& input, const TemplateContext& context) const;

  // SHA-256 of the source, in hexadecimal digits.
  const std::string& hash() const { return hash_; }
  const std::string& source() const { return source_; }
  bool marks_generation() const;

 private:
  ChatTemplate(std::string_view source, const TemplateLimits& limits);

  TemplateLimits limits_;
  std::string source_;
  std::string hash_;
  std::unique_ptr<const Syntax> syntax_;
};

}  // namespace quire::chat
