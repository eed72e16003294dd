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
    : TextOutput(Stages(stream->clone(), StopMatcher(stops), hold_tokens(*stream, stops, banned))) {}

TextOutput::TextOutput(Stages stages) : first_(stages), now_(std::move(stages)) {}

TextOutput::Stages::Stages(std::unique_ptr<TextStream> text, StopMatcher stops,
                           std::optional<HeldTokens> tokens)
    : stream(std::move(text)), matcher(std::move(stops)), held(std::move(tokens)) {}

TextOutput::Stages::Stages(const Stages& other)
    : stream(other.stream->clone()), matcher(other.matcher), held(other.held), reader(other.reader) {}

void TextOutput::read_as(const ResponseParser& reader) {
  first_.reader = reader;
  now_.reader = reader;
}

FoundText TextOutput::push(const SampledToken& token, bool with_log_probs) {
  with_log_probs_ = with_log_probs;
  if (now_.held || now_.reader) pushed_tokens_.push_back(token);
  const FoundText found = push_text(token, with_log_probs);
  read_text();
  return found;
}

FoundText TextOutput::push_text(const SampledToken& token, bool with_log_probs) {
  if (now_.held) return now_.held->push(token, with_log_probs, pending_);
  emit_token(token, with_log_probs);
  piece_.clear();
  now_.stream->push(token.token, piece_);
  now_.matcher.push(piece_, pending_.text);
  return {now_.matcher.matched(), 0};
}

void TextOutput::retract(int32_t num_tokens) {
  now_.held->retract(num_tokens);
  pushed_tokens_.resize(pushed_tokens_.size() - static_cast<size_t>(num_tokens));
}

void TextOutput::push_silent(const SampledToken& token, bool with_log_probs) {
  with_log_probs_ = with_log_probs;
  if (now_.held) return now_.held->push_silent(token);
  emit_token(token, with_log_probs);
}

void TextOutput::emit_token(const SampledToken& token, bool with_log_probs) {
  pending_.token_ids.push_back(token.token);
  if (!with_log_probs) return;
  pending_.log_probs.push_back(token.log_prob);
  pending_.top_log_probs.push_back(token.top_log_probs);
}

void TextOutput::read_text() {
  if (!now_.reader) return;
  now_.reader->feed(pending_.text);
  pending_.text.clear();
  for (ResponseEvent& part : now_.reader->take()) parts_.push_back(std::move(part));
}

void TextOutput::finish(AnswerEnd end) {
  finish_text();
  read_text();
  if (!now_.reader) return;
  now_.reader->finish(end);
  read_text();
}

// An incomplete character at the end becomes U+FFFD, which may itself complete a stop string.
void TextOutput::finish_text() {
  if (now_.held) return now_.held->finish(with_log_probs_, pending_);
  piece_.clear();
  now_.stream->finish(piece_);
  if (!now_.matcher.push(piece_, pending_.text)) now_.matcher.finish(pending_.text);
}

Event TextOutput::take() {
  Event event;
  if (parts_.size() <= 1) {
    event.text.swap(pending_.text);
    event.token_ids.swap(pending_.token_ids);
    event.log_probs.swap(pending_.log_probs);
    event.top_log_probs.swap(pending_.top_log_probs);
  }
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
  Stages stages = now_;
  if (stages.held) stages.held = now_.held->forked();
  return TextOutput(std::move(stages));
}

TextOutput TextOutput::rewound(gsl::span<const TokenId> tokens) const {
  TextOutput result(first_);
  for (size_t i = 0; i < tokens.size(); ++i) {
    SampledToken again;
    again.token = tokens[i];
    const bool taken = i < num_taken_;
    bool with_log_probs = !taken && !pending_.log_probs.empty();
    if (now_.held || now_.reader) {
      again = pushed_tokens_[i];
      with_log_probs = with_log_probs_;
    } else if (with_log_probs) {
      again.log_prob = pending_.log_probs[i - num_taken_];
      again.top_log_probs = pending_.top_log_probs[i - num_taken_];
    }
    result.push(again, with_log_probs);
    const bool in_call = result.now_.reader && result.now_.reader->in_call();
    if (taken && !in_call) result.take_all();
  }
  return result;
}

}  // namespace quire
