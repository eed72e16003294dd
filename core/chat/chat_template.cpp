#include "core/chat/chat_template.h"

#include <algorithm>

#include "core/base/sha256.h"
#include "core/base/utf8.h"
#include "core/chat/conversation.h"
#include "core/chat/names.h"
#include "core/chat/parser.h"
#include "core/chat/template_probe.h"

namespace quire::chat {
namespace {

std::unique_ptr<const Syntax> parse(std::string_view source, const TemplateLimits& limits) {
  if (source.size() > limits.max_source_bytes) {
    throw Error(ErrorCode::capacity, "chat template: {} bytes, more than the limit of {}", source.size(),
                limits.max_source_bytes);
  }
  require_utf8(source, "chat template");
  auto syntax = std::make_unique<Syntax>(parse_template(source, limits));
  resolve_names(*syntax);
  return syntax;
}

// Clips generation blocks to a text that was cut.
std::vector<CharRange> clipped(std::vector<CharRange> ranges, size_t num_chars) {
  for (CharRange& range : ranges) range.end = std::min(range.end, num_chars);
  ranges.erase(std::remove_if(ranges.begin(), ranges.end(),
                              [&](const CharRange& range) { return range.begin > num_chars; }),
               ranges.end());
  return ranges;
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source, const TemplateLimits& limits)
    : limits_(limits), source_(source), hash_(sha256_hex(source)), syntax_(parse(source, limits)) {}

ChatTemplate::~ChatTemplate() = default;

std::shared_ptr<const ChatTemplate> ChatTemplate::compile(std::string_view source,
                                                          const TemplateLimits& limits) {
  return std::shared_ptr<const ChatTemplate>(new ChatTemplate(source, limits));
}

RenderedChat ChatTemplate::render(const JsonValue& input, const TemplateContext& context) const {
  Machine machine(limits_, approximate_bytes(input));
  machine.set_now(context.now);
  const Dict* variables = conversation_variables(machine, input, context);
  const bool continues = continues_final_message(input);
  const std::string final_message = continues ? mark_final_message(machine, *variables) : std::string();
  RenderedText rendered = interpret(machine, *syntax_, *variables);
  if (continues) rendered.text = cut_at_mark(rendered.text, final_message);
  return {rendered.text.bytes(),
          rendered.text.runs(),
          clipped(std::move(rendered.generated), rendered.text.num_chars()),
          machine.steps_used(),
          {}};
}

Adaptations ChatTemplate::adaptations() const {
  const MutexLock lock(mutex_);
  if (!adaptations_) adaptations_ = probe_template(*syntax_, limits_);
  return *adaptations_;
}

bool ChatTemplate::marks_generation() const {
  return syntax_->has_generation;
}

}  // namespace quire::chat
