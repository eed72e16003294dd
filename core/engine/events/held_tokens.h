// Holds tokens that may still be taken back because a banned text may begin in them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/events/event.h"
#include "core/engine/events/text_codec.h"
#include "core/sampling/sampler.h"
#include "core/tokenizer/stop_matcher.h"

namespace quire {

// Result of a token's text.
struct FoundText {
  // Index of a completed stop string; the text before it was released, and no more follows.
  std::optional<size_t> stop;
  int32_t num_banned_tokens = 0;  // newest tokens to take back, from the one in which a banned text begins
};

// Releases whole tokens once no banned text can begin in them, whichever tokens follow. Searches for stop
// strings and banned texts together: the one that ends first counts, and of several that end together the
// longest. Not thread-safe. A copy continues independently from the same state.
class HeldTokens {
 public:
  // `stream` must be in its state before the first token. The texts of `matcher` from index num_stops on are
  // banned.
  HeldTokens(std::unique_ptr<TextStream> stream, StopMatcher matcher, size_t num_stops);
  HeldTokens(const HeldTokens& other);
  HeldTokens(HeldTokens&&) = default;
  HeldTokens& operator=(HeldTokens&&) = default;
  ~HeldTokens() = default;

  // Adds a token and appends to `out` what is released: tokens, text, and log probabilities if requested.
  // After a banned text, the caller must call take_back next.
  FoundText push(const SampledToken& token, bool with_log_probs, Event& out);
  // Adds a token that ends the text and has no text itself.
  void push_silent(const SampledToken& token);
  // Releases everything. No token may be pushed afterwards.
  void finish(bool with_log_probs, Event& out);
  // Removes the newest tokens, at most size() of them.
  void retract(int32_t num_tokens);
  // Returns a copy for a fork, in which the held text comes before its own tokens.
  HeldTokens forked() const;

  size_t size() const { return tokens_.size(); }

 private:
  struct Token {
    SampledToken sampled;
    size_t text_begin = 0;      // in text_
    size_t num_held_bytes = 0;  // bytes that matcher_ holds after this token
  };

  size_t text_end(size_t idx) const;
  size_t token_at(size_t text_begin, size_t num_tokens) const;
  size_t num_settled() const;
  size_t num_passed() const { return num_passed_bytes_ - num_settled_bytes_; }
  void read(TokenId token, TextStream& stream);
  void release_tokens(size_t num_tokens, size_t num_bytes, bool with_log_probs, Event& out);
  void settle(bool with_log_probs, Event& out);

  size_t num_stops_;
  std::unique_ptr<TextStream> settled_stream_;  // state before the first of tokens_
  StopMatcher settled_matcher_;
  std::unique_ptr<TextStream> stream_;
  StopMatcher matcher_;
  std::vector<Token> tokens_;
  std::string text_;              // text of tokens_; in a fork also the text held before them
  size_t num_settled_bytes_ = 0;  // bytes of all text before text_
  size_t num_passed_bytes_ = 0;   // bytes of all text that matcher_ has released
  std::string piece_;
  std::string passed_;
};

}  // namespace quire
