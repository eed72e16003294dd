// Tokens that may still be taken back: a text that must not appear may begin in them.
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

// What the text of a token has completed.
struct FoundText {
  std::optional<size_t> stop;  // the index of a stop text: what is before it is let out, nothing more comes
  int32_t num_banned_tokens = 0;  // the newest tokens, from the one on in which a banned text begins
};

// Lets tokens out whole, once no banned text can begin in them any more, whatever becomes of those after
// them. Stop texts and banned ones are looked for together: the one that ends first counts, of several that
// end together the longest. One thread at a time; a copy goes on from the same place.
class HeldTokens {
 public:
  // `stream` is before the first token. Of the texts of `matcher` those from num_stops on are banned.
  HeldTokens(std::unique_ptr<TextStream> stream, StopMatcher matcher, size_t num_stops);
  HeldTokens(const HeldTokens& other);
  HeldTokens(HeldTokens&&) = default;
  HeldTokens& operator=(HeldTokens&&) = default;
  ~HeldTokens() = default;

  // Appends to `out` what may be let out: tokens, log-probabilities where they are wanted, text. After a
  // banned text, take_back comes next.
  FoundText push(const SampledToken& token, bool with_log_probs, Event& out);
  // A token that ends the text and has none itself.
  void push_silent(const SampledToken& token);
  // Lets go of all; nothing is pushed afterwards.
  void finish(bool with_log_probs, Event& out);
  // The newest tokens were never said: at most size() of them.
  void take_back(int32_t num_tokens);
  // For a fork: what is held is text before its own tokens.
  HeldTokens forked() const;

  size_t size() const { return tokens_.size(); }

 private:
  struct Token {
    SampledToken sampled;
    size_t text_begin = 0;      // in text_
    size_t num_held_bytes = 0;  // by matcher_, after it
  };

  size_t text_end(size_t idx) const;
  size_t token_at(size_t text_begin, size_t num_tokens) const;
  size_t num_settled() const;
  size_t num_passed() const { return num_passed_bytes_ - num_settled_bytes_; }
  void read(TokenId token, TextStream& stream);
  void let_out(size_t num_tokens, size_t num_bytes, bool with_log_probs, Event& out);
  void settle(bool with_log_probs, Event& out);

  size_t num_stops_;
  std::unique_ptr<TextStream> settled_stream_;  // before the first of tokens_
  StopMatcher settled_matcher_;
  std::unique_ptr<TextStream> stream_;
  StopMatcher matcher_;
  std::vector<Token> tokens_;
  std::string text_;              // theirs; of a fork also what was held before it
  size_t num_settled_bytes_ = 0;  // of all text, before text_
  size_t num_passed_bytes_ = 0;   // of all text, what matcher_ does not hold
  std::string piece_;
  std::string passed_;
};

}  // namespace quire
