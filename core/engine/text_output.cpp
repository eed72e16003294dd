#include "core/engine/text_output.h"

#include <utility>

namespace quire {

TextOutput::TextOutput(std::unique_ptr<TextStream> stream, const std::vector<std::string>& stops)
    : TextOutput(std::move(stream), StopMatcher(stops)) {}

std::optional<size_t> TextOutput::push(const SampledToken& token, bool with_log_probs) {
  push_silent(token, with_log_probs);
  piece_.clear();
  stream_->push(token.token, piece_);
  matcher_.push(piece_, pending_.text);
  return matcher_.matched();
}

void TextOutput::push_silent(const SampledToken& token, bool with_log_probs) {
  pending_.token_ids.push_back(token.token);
  if (!with_log_probs) return;
  pending_.log_probs.push_back(token.log_prob);
  pending_.top_log_probs.push_back(token.top_log_probs);
}

// Half a character at the end is shown as U+FFFD, which may itself complete a stop string.
void TextOutput::finish() {
  piece_.clear();
  stream_->finish(piece_);
  if (!matcher_.push(piece_, pending_.text)) matcher_.finish(pending_.text);
}

Event TextOutput::take() {
  return std::exchange(pending_, Event{});
}

TextOutput TextOutput::clone() const {
  TextOutput copy(stream_->clone(), fresh_matcher_);
  copy.matcher_ = matcher_;
  return copy;
}

TextOutput TextOutput::replay(std::unique_ptr<TextStream> stream, const TokenIds& tokens) const {
  TextOutput replayed(std::move(stream), fresh_matcher_);
  for (const TokenId token : tokens) {
    SampledToken again;
    again.token = token;
    replayed.push(again, false);
    replayed.take();
  }
  return replayed;
}

}  // namespace quire
