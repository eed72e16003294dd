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

void TextOutput::read_as(const ResponseParser& reader) {
  first_reader_ = reader;
  reader_ = reader;
}

FoundText TextOutput::push(const SampledToken& token, bool with_log_probs) {
  with_log_probs_ = with_log_probs;
  if (held_ || reader_) said_.push_back(token);
  const FoundText found = push_text(token, with_log_probs);
  read_text();
  return found;
}

FoundText TextOutput::push_text(const SampledToken& token, bool with_log_probs) {
  if (held_) return held_->push(token, with_log_probs, pending_);
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

void TextOutput::read_text() {
  if (!reader_) return;
  reader_->feed(pending_.text);
  pending_.text.clear();
  for (ResponseEvent& part : reader_->take()) parts_.push_back(std::move(part));
}

void TextOutput::finish() {
  finish_text();
  read_text();
  if (!reader_) return;
  reader_->finish();
  read_text();
}

// Half a character at the end is shown as U+FFFD, which may itself complete a stop string.
void TextOutput::finish_text() {
  if (held_) return held_->finish(with_log_probs_, pending_);
  piece_.clear();
  stream_->finish(piece_);
  if (!matcher_.push(piece_, pending_.text)) matcher_.finish(pending_.text);
}

Event TextOutput::take() {
  Event event;
  if (parts_.size() <= 1) event = std::exchange(pending_, Event{});
  if (!parts_.empty()) {
    event.part = std::move(parts_.front());
    event.text = std::exchange(event.part->raw, std::string());
    parts_.pop_front();
  }
  event.first_token = num_taken_tokens();
  num_taken_ += event.token_ids.size();
  num_taken_bytes_ += static_cast<int64_t>(event.text.size());
  return event;
}

void TextOutput::take_all() {
  do {
    take();
  } while (has_text());
}

TextOutput TextOutput::clone() const {
  std::optional<HeldTokens> held;
  if (held_) held = held_->forked();
  TextOutput copy(stream_->clone(), matcher_, std::move(held));
  if (reader_) copy.read_as(*reader_);
  return copy;
}

TextOutput TextOutput::rewound(gsl::span<const TokenId> tokens) const {
  TextOutput result(first_stream_->clone(), first_matcher_, first_held_);
  if (first_reader_) result.read_as(*first_reader_);
  for (size_t i = 0; i < tokens.size(); ++i) {
    SampledToken again;
    again.token = tokens[i];
    const bool taken = i < num_taken_;
    bool with_log_probs = !taken && !pending_.log_probs.empty();
    if (held_ || reader_) {
      again = said_[i];
      with_log_probs = with_log_probs_;
    } else if (with_log_probs) {
      again.log_prob = pending_.log_probs[i - num_taken_];
      again.top_log_probs = pending_.top_log_probs[i - num_taken_];
    }
    result.push(again, with_log_probs);
    const bool in_call = result.reader_ && result.reader_->in_call();
    if (taken && !in_call) result.take_all();
  }
  return result;
}

}  // namespace quire
