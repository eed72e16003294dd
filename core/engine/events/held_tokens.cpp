#include "core/engine/events/held_tokens.h"

#include <algorithm>
#include <utility>

namespace quire {

HeldTokens::HeldTokens(std::unique_ptr<TextStream> stream, StopMatcher matcher, size_t num_stops)
    : num_stops_(num_stops),
      settled_stream_(stream->clone()),
      settled_matcher_(matcher),
      stream_(std::move(stream)),
      matcher_(std::move(matcher)) {}

HeldTokens::HeldTokens(const HeldTokens& other)
    : num_stops_(other.num_stops_),
      settled_stream_(other.settled_stream_->clone()),
      settled_matcher_(other.settled_matcher_),
      stream_(other.stream_->clone()),
      matcher_(other.matcher_),
      tokens_(other.tokens_),
      text_(other.text_),
      num_settled_bytes_(other.num_settled_bytes_),
      num_passed_bytes_(other.num_passed_bytes_) {}

HeldTokens HeldTokens::forked() const {
  HeldTokens fork(stream_->clone(), matcher_, num_stops_);
  fork.text_ = text_;
  fork.num_settled_bytes_ = num_settled_bytes_;
  fork.num_passed_bytes_ = num_passed_bytes_;
  return fork;
}

size_t HeldTokens::text_end(size_t idx) const {
  return idx + 1 < tokens_.size() ? tokens_[idx + 1].text_begin : text_.size();
}

void HeldTokens::read(TokenId token, TextStream& stream) {
  piece_.clear();
  passed_.clear();
  stream.push(token, piece_);
}

FoundText HeldTokens::push(const SampledToken& token, bool with_log_probs, Event& out) {
  read(token.token, *stream_);
  tokens_.push_back({token, text_.size(), 0});
  text_ += piece_;
  matcher_.push(piece_, passed_);
  tokens_.back().num_held_bytes = matcher_.num_held_bytes();
  num_passed_bytes_ += passed_.size();
  FoundText found;
  if (!matcher_.stopped()) {
    settle(with_log_probs, out);
  } else if (*matcher_.matched() < num_stops_) {
    found.stop = matcher_.matched();
    release_tokens(tokens_.size(), num_passed(), with_log_probs, out);
  } else {
    const size_t first = token_at(num_passed(), tokens_.size());
    found.num_banned_tokens = static_cast<int32_t>(tokens_.size() - first);
  }
  return found;
}

void HeldTokens::push_silent(const SampledToken& token) {
  tokens_.push_back({token, text_.size(), 0});
}

// An incomplete character at the end becomes U+FFFD, which may itself complete a stop string.
void HeldTokens::finish(bool with_log_probs, Event& out) {
  piece_.clear();
  passed_.clear();
  stream_->finish(piece_);
  text_ += piece_;
  if (!matcher_.push(piece_, passed_)) matcher_.finish(passed_);
  num_passed_bytes_ += passed_.size();
  release_tokens(tokens_.size(), num_passed(), with_log_probs, out);
}

void HeldTokens::retract(int32_t num_tokens) {
  const size_t num_kept = tokens_.size() - static_cast<size_t>(num_tokens);
  const size_t text_before = tokens_.front().text_begin;
  text_.resize(tokens_[num_kept].text_begin);
  tokens_.resize(num_kept);
  stream_ = settled_stream_->clone();
  matcher_ = settled_matcher_;
  num_passed_bytes_ = num_settled_bytes_ + text_before - matcher_.num_held_bytes();
  for (const Token& token : tokens_) {
    read(token.sampled.token, *stream_);
    matcher_.push(piece_, passed_);
    num_passed_bytes_ += passed_.size();
  }
}

void HeldTokens::release_tokens(size_t num_tokens, size_t num_bytes, bool with_log_probs, Event& out) {
  for (size_t i = 0; i < num_tokens; ++i) {
    SampledToken& sampled = tokens_[i].sampled;
    out.token_ids.push_back(sampled.token);
    if (!with_log_probs) continue;
    out.log_probs.push_back(sampled.log_prob);
    out.top_log_probs.push_back(std::move(sampled.top_log_probs));
  }
  out.text.append(text_, 0, num_bytes);
}

// Returns the index of the token, among the first num_tokens, whose text contains that byte; 0 for text
// before all tokens.
size_t HeldTokens::token_at(size_t text_begin, size_t num_tokens) const {
  size_t idx = num_tokens - 1;
  while (idx > 0 && tokens_[idx].text_begin > text_begin) --idx;
  return idx;
}

// Returns the number of tokens that can no longer be taken back. Bytes that the matcher holds after a token
// may begin a banned text. Then all tokens from that beginning on would be taken back, and others would
// follow the tokens before it. So the bytes held after those tokens matter again.
size_t HeldTokens::num_settled() const {
  size_t num_settled = tokens_.size();
  while (num_settled > 0 && tokens_[num_settled - 1].num_held_bytes > 0) {
    const size_t end = text_end(num_settled - 1);
    const size_t held = std::min(end, tokens_[num_settled - 1].num_held_bytes);
    num_settled = token_at(end - held, num_settled);
  }
  return num_settled;
}

void HeldTokens::settle(bool with_log_probs, Event& out) {
  const size_t num_settled = this->num_settled();
  if (num_settled == 0) return;
  const size_t num_bytes = text_end(num_settled - 1);
  release_tokens(num_settled, num_bytes, with_log_probs, out);
  for (size_t i = 0; i < num_settled; ++i) {
    read(tokens_[i].sampled.token, *settled_stream_);
    settled_matcher_.push(piece_, passed_);
  }
  tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<ptrdiff_t>(num_settled));
  for (Token& token : tokens_) token.text_begin -= num_bytes;
  text_.erase(0, num_bytes);
  num_settled_bytes_ += num_bytes;
}

}  // namespace quire
