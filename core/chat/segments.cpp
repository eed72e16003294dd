#include "core/chat/segments.h"

namespace quire::chat {

TokenIds encode_rendered(const Tokenizer& tokenizer, const RenderedChat& rendered) {
  const std::string_view text = rendered.text;
  std::vector<TextSpan> spans;
  size_t begin = 0;
  for (const OriginRun& run : rendered.runs) {
    spans.push_back({text.substr(begin, run.end - begin), run.from_template});
    begin = run.end;
  }
  return tokenizer.encode_spans(spans, false);
}

}  // namespace quire::chat
