// From the tokens of one job to its text events.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gsl/gsl>

#include "core/engine/events/event.h"
#include "core/engine/events/text_codec.h"
#include "core/sampling/sampler.h"
#include "core/tokenizer/stop_matcher.h"

namespace quire {

// Collects tokens until some of their text may be shown: whole characters that cannot be the head of a stop
// string. One thread at a time.
class TextOutput {
 public:
  TextOutput(std::unique_ptr<TextStream> stream, const std::vector<std::string>& stops);

  // The index of the stop string that is now complete; its text and what follows are cut off.
  std::optional<size_t> push(const SampledToken& token, bool with_log_probs);
  // A token that ends the job and has no text.
  void push_silent(const SampledToken& token, bool with_log_probs);
  // Lets go of what was held back; nothing is pushed afterwards.
  void finish();

  // Text to show, or tokens that never have any: those wait for nothing.
  bool has_text() const {
    return !pending_.text.empty() || (stream_->is_silent() && !pending_.token_ids.empty());
  }
  bool has_anything() const { return has_text() || !pending_.token_ids.empty(); }
  // Text, ids and log-probabilities so far; they are gone from here.
  Event take();
  // What all calls of take gave: tokens, and bytes of text.
  int32_t num_taken_tokens() const { return static_cast<int32_t>(num_taken_); }
  int64_t num_taken_bytes() const { return num_taken_bytes_; }
  // Tokens that were pushed and not yet taken.
  size_t num_pending_tokens() const { return pending_.token_ids.size(); }

  // A copy for a fork. What is pending goes with the parent alone; what is held back goes with both.
  TextOutput clone() const;
  // The state after `tokens`, the first of those that were pushed here. What was taken is not shown again;
  // of what is pending the part that belongs to `tokens` stays.
  TextOutput rewound(gsl::span<const TokenId> tokens) const;

 private:
  TextOutput(std::unique_ptr<TextStream> stream, StopMatcher matcher);

  std::unique_ptr<TextStream> first_stream_;  // as it was before the first token
  StopMatcher first_matcher_;                 // likewise; shares the automaton
  std::unique_ptr<TextStream> stream_;
  StopMatcher matcher_;
  std::string piece_;
  Event pending_;
  size_t num_taken_ = 0;  // tokens
  int64_t num_taken_bytes_ = 0;
};

}  // namespace quire
