#include "core/engine/events/text_output.h"

#include <utility>

namespace quire {

namespace {

std::optional<HeldTokens> hold_tokens(const TextStream& stream, const std::vector<std::string>& stops,
                                      const std::vector<std::string>& banned) {
  if (banned.empty()) return std::nullopt;
  std::vector<std::string> all = stops;
  all.insert(all.end(), banned.begin(), banned.end());
  return HeldTokens(stream.clone(), StopMatcher(all), stops.size());
}

}  // namespace

TextOutput::TextOutput(std::unique_ptr<TextStream> stream, const std::vector<std::string>& stops,
                       const std::vector<std::string>& banned)
    : TextOutput(stream->clone(), StopMatcher(stops), hold_tokens(*stream, stops, banned)) {}

TextOutput::TextOutput(std::unique_ptr<TextStream> stream, StopMatcher matcher,
                       std::optional<HeldTokens> held)
    : first_stream_(stream->clone()),
      first_matcher_(matcher),
      stream_(std::move(stream)),
      matcher_(std::move(matcher)),
      first_held_(held),
      held_(std::move(held)) {}

FoundText TextOutput::push(const SampledToken& token, bool with_log_probs) {
  with_log_probs_ = with_log_probs;
  if (held_) {
    said_.push_back(token);
    return held_->push(token, with_log_probs, pending_);
  }
  say(token, with_log_probs);
  piece_.clear();
  stream_->push(token.token, piece_);
  matcher_.push(piece_, pending_.text);
  return {matcher_.matched(), 0};
}

void TextOutput::take_back(int32_t num_tokens) {
  held_->take_back(num_tokens);
  said_.resize(said_.size() - static_cast<size_t>(num_tokens));
}

void TextOutput::push_silent(const SampledToken& token, bool with_log_probs) {
  with_log_probs_ = with_log_probs;
  if (held_) return held_->push_silent(token);
  say(token, with_log_probs);
}

void TextOutput::say(const SampledToken& token, bool with_log_probs) {
  pending_.token_ids.push_back(token.token);
  if (!with_log_probs) return;
  pending_.log_probs.push_back(token.log_prob);
  pending_.top_log_probs.push_back(token.top_log_probs);
}

// Half a character at the end is shown as U+FFFD, which may itself complete a stop string.
void TextOutput::finish() {
  if (held_) return held_->finish(with_log_probs_, pending_);
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
  std::optional<HeldTokens> held;
  if (held_) held = held_->forked();
  return TextOutput(stream_->clone(), matcher_, std::move(held));
}

TextOutput TextOutput::rewound(gsl::span<const TokenId> tokens) const {
  TextOutput result(first_stream_->clone(), first_matcher_, first_held_);
  for (size_t i = 0; i < tokens.size(); ++i) {
    SampledToken again;
    again.token = tokens[i];
    const bool taken = i < num_taken_;
    bool with_log_probs = !taken && !pending_.log_probs.empty();
    if (held_) {
      again = said_[i];
      with_log_probs = with_log_probs_;
    } else if (with_log_probs) {
      again.log_prob = pending_.log_probs[i - num_taken_];
      again.top_log_probs = pending_.top_log_probs[i - num_taken_];
    }
    result.push(again, with_log_probs);
    if (taken) result.take();
  }
  return result;
}

}  // namespace quire
