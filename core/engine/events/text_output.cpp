#include "core/engine/events/text_output.h"

#include <utility>

namespace quire {

TextOutput::TextOutput(std::unique_ptr<TextStream> stream, const std::vector<std::string>& stops)
    : TextOutput(std::move(stream), StopMatcher(stops)) {}

TextOutput::TextOutput(std::unique_ptr<TextStream> stream, StopMatcher matcher)
    : first_stream_(stream->clone()),
      first_matcher_(matcher),
      stream_(std::move(stream)),
      matcher_(std::move(matcher)) {}

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
  pending_.first_token = num_taken_tokens();
  num_taken_ += pending_.token_ids.size();
  num_taken_bytes_ += static_cast<int64_t>(pending_.text.size());
  return std::exchange(pending_, Event{});
}

TextOutput TextOutput::clone() const {
  return TextOutput(stream_->clone(), matcher_);
}

TextOutput TextOutput::rewound(gsl::span<const TokenId> tokens) const {
  TextOutput result(first_stream_->clone(), first_matcher_);
  for (size_t i = 0; i < tokens.size(); ++i) {
    SampledToken again;
    again.token = tokens[i];
    const bool taken = i < num_taken_;
    const bool with_log_probs = !taken && !pending_.log_probs.empty();
    if (with_log_probs) {
      again.log_prob = pending_.log_probs[i - num_taken_];
      again.top_log_probs = pending_.top_log_probs[i - num_taken_];
    }
    result.push(again, with_log_probs);
    if (taken) result.take();
  }
  return result;
}

}  // namespace quire
