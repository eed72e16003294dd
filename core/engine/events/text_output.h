// From the tokens of one job to its text events.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gsl/gsl>

#include "core/engine/events/event.h"
#include "core/engine/events/held_tokens.h"
#include "core/engine/events/text_codec.h"
#include "core/response/response_parser.h"
#include "core/sampling/sampler.h"
#include "core/tokenizer/stop_matcher.h"

namespace quire {

// Collects tokens until some of their text may be shown: whole characters that cannot be the head of a stop
// string. Where texts are banned, whole tokens in which none can begin. Where an answer is read, its parts.
// One thread at a time.
class TextOutput {
 public:
  TextOutput(std::unique_ptr<TextStream> stream, const std::vector<std::string>& stops,
             const std::vector<std::string>& banned = {});
  // The text is an answer that a copy of `reader` reads; before the first token.
  void read_as(const ResponseParser& reader);

  // What is complete now: of a stop string its text and what follows are cut off. After a banned one comes
  // take_back.
  FoundText push(const SampledToken& token, bool with_log_probs);
  // The newest tokens were never said; FoundText::num_banned_tokens of them.
  void take_back(int32_t num_tokens);
  // A token that ends the job and has no text.
  void push_silent(const SampledToken& token, bool with_log_probs);
  // Lets go of what was held back; nothing is pushed afterwards.
  void finish();

  // Text to show, or tokens that never have any: those wait for nothing.
  bool has_text() const {
    return !pending_.text.empty() || !parts_.empty() ||
           (now_.stream->is_silent() && !pending_.token_ids.empty());
  }
  bool has_anything() const { return has_text() || !pending_.token_ids.empty(); }
  // Text, ids and log-probabilities so far; they are gone from here. Of an answer that is read its first
  // part, and the others come with the last one.
  Event take();
  // What all calls of take gave: tokens, and bytes of text.
  int32_t num_taken_tokens() const { return static_cast<int32_t>(num_taken_); }
  int64_t num_taken_bytes() const { return num_taken_bytes_; }
  // Tokens that were pushed and not yet taken.
  size_t num_pending_tokens() const { return pending_.token_ids.size() + num_held_tokens(); }
  // Those before them cannot be taken back.
  size_t num_held_tokens() const { return now_.held ? now_.held->size() : 0; }

  // A copy for a fork. What is pending goes with the parent alone; what is held back goes with both.
  TextOutput clone() const;
  // The state after `tokens`, the first of those that were pushed here. What was taken is not shown again;
  // of what is pending the part that belongs to `tokens` stays. A call that has no end by then is shown again
  // from its beginning: arguments that are not written as JSON cannot be cut by bytes.
  TextOutput rewound(gsl::span<const TokenId> tokens) const;

 private:
  // What a token goes through on its way to text. A copy goes on by itself from the same place.
  struct Stages {
    Stages(std::unique_ptr<TextStream> text, StopMatcher stops, std::optional<HeldTokens> tokens);
    Stages(const Stages& other);
    Stages(Stages&&) = default;
    Stages& operator=(const Stages&) = delete;
    Stages& operator=(Stages&&) = default;
    ~Stages() = default;

    std::unique_ptr<TextStream> stream;
    StopMatcher matcher;             // copies share the automaton
    std::optional<HeldTokens> held;  // where texts are banned, in place of the two
    std::optional<ResponseParser> reader;
  };
  explicit TextOutput(Stages stages);

  void emit_token(const SampledToken& token, bool with_log_probs);
  FoundText push_text(const SampledToken& token, bool with_log_probs);
  void finish_text();
  void read_text();
  void take_all();

  Stages first_;  // as they were before the first token
  Stages now_;
  std::deque<ResponseEvent> parts_;  // what the reader has read
  std::vector<SampledToken> said_;   // of banned texts or a reader: all tokens, which a rewind may show again
  bool with_log_probs_ = false;      // as the last token was pushed
  std::string piece_;
  Event pending_;
  size_t num_taken_ = 0;  // tokens
  int64_t num_taken_bytes_ = 0;
};

}  // namespace quire
