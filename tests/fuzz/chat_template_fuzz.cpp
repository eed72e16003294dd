// Any text as a chat template and, after the first NUL, as its input: the result is an Error, or a rendering
// within the limits whose segments add up to its text.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/utf8.h"
#include "core/chat/chat_template.h"

namespace quire::chat {
namespace {

constexpr std::string_view kConversation = R"({"messages": [{"role": "user", "content": "hi <|x|>"},
  {"role": "assistant", "content": [{"type": "text", "text": "a"}], "tool_calls": [{"function": {"name": "f",
  "arguments": {"a": 1.5, "b": [true, null]}}}]}], "tools": [{"type": "function"}], "add_generation_prompt": true})";

void require(bool holds) {
  if (!holds) std::abort();
}

void run(std::string_view data) {
  const size_t cut = data.find('\0');
  const bool has_input = cut != std::string_view::npos;
  TemplateLimits limits;
  limits.max_steps = 20'000;
  const auto chat = ChatTemplate::compile(data.substr(0, cut), limits);
  const JsonValue input = parse_json(has_input ? data.substr(cut + 1) : kConversation, "input");
  TemplateContext context;
  context.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  const RenderedChat rendered = chat->render(input, context);
  require(rendered.text.size() <=
          limits.max_text_bytes + limits.text_bytes_per_input_byte * 16 * (data.size() + 1024));
  require(find_invalid_utf8(rendered.text) == rendered.text.size());
  size_t end = 0;
  for (const OriginRun& run : rendered.runs) {
    require(run.end > end);
    end = run.end;
  }
  require(end == rendered.text.size());
  for (const CharRange& range : rendered.generated) require(range.begin <= range.end);
}

}  // namespace
}  // namespace quire::chat

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t num_bytes) {
  try {
    quire::chat::run(std::string_view(reinterpret_cast<const char*>(data), num_bytes));
  } catch (const quire::Error&) {  // the only permitted exception
  }
  return 0;
}
