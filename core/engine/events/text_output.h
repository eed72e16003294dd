// Turns the tokens of one job into text events.
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

// Collects tokens until their text can be emitted: whole characters that cannot begin a stop string; with
// banned texts, whole tokens in which no banned text can begin; with a response parser, parts of the answer.
// Not thread-safe.
class TextOutput {
 public:
  TextOutput(std::unique_ptr<TextStream> stream, const std::vector<std::string>& stops,
             const std::vector<std::string>& banned = {});
  // Parses the text with a copy of `reader`. Must be called before the first token.
  void read_as(const ResponseParser& reader);

  // Adds a token. A stop string and the text after it are cut off. After a banned text, the caller must call
  // take_back next.
  FoundText push(const SampledToken& token, bool with_log_probs);
  // Removes the newest tokens: FoundText::num_banned_tokens of them.
  void retract(int32_t num_tokens);
  // Adds a token that ends the job and has no text.
  void push_silent(const SampledToken& token, bool with_log_probs);
  // Releases what was held back. No token may be pushed afterwards. `end` is how the answer ended.
  void finish(AnswerEnd end);

  // True if there is text to emit, or tokens of a codec without text: those need not wait.
  bool has_text() const {
    return !pending_.text.empty() || !parts_.empty() ||
           (now_.stream->is_silent() && !pending_.token_ids.empty());
  }
  bool has_anything() const { return has_text() || !pending_.token_ids.empty(); }
  // Takes the text, ids and log probabilities collected so far. With a response parser takes only the first
  // part; the tokens come with the last one.
  Event take();
  // Return the totals of all calls of take: tokens, and bytes of text.
  int32_t num_taken_tokens() const { return static_cast<int32_t>(num_taken_); }
  int64_t num_taken_bytes() const { return num_taken_bytes_; }
  // Returns the number of tokens that were pushed and not yet taken.
  size_t num_pending_tokens() const { return pending_.token_ids.size() + num_held_tokens(); }
  // Returns the number of tokens that can still be taken back.
  size_t num_held_tokens() const { return now_.held ? now_.held->size() : 0; }

  // Returns a copy for a fork. Pending output stays with the parent; text held back is in both.
  TextOutput clone() const;
  // Returns the state after `tokens`, which are the first of those pushed here. Output that was taken is not
  // emitted again; pending output that belongs to `tokens` stays. An incomplete tool call is emitted again
  // from its beginning: arguments that are not written as JSON cannot be cut at a byte.
  TextOutput rewound(gsl::span<const TokenId> tokens) const;

 private:
  // Processing stages from a token to its text. A copy continues independently from the same state.
  struct Stages {
    Stages(std::unique_ptr<TextStream> text, StopMatcher stops, std::optional<HeldTokens> tokens);
    Stages(const Stages& other);
    Stages(Stages&&) = default;
    Stages& operator=(const Stages&) = delete;
    Stages& operator=(Stages&&) = default;
    ~Stages() = default;

    std::unique_ptr<TextStream> stream;
    StopMatcher matcher;             // copies share the automaton
    std::optional<HeldTokens> held;  // used instead of the two if texts are banned
    std::optional<ResponseParser> reader;
  };
  explicit TextOutput(Stages stages);

  void emit_token(const SampledToken& token, bool with_log_probs);
  FoundText push_text(const SampledToken& token, bool with_log_probs);
  void finish_text();
  void read_text();
  void take_all();

  Stages first_;  // state before the first token
  Stages now_;
  std::deque<ResponseEvent> parts_;  // output of the response parser
  std::vector<SampledToken>
      pushed_tokens_;            // with banned texts or a response parser: all tokens, for a rewind
  bool with_log_probs_ = false;  // as in the last push
  std::string piece_;
  Event pending_;
  size_t num_taken_ = 0;  // tokens
  int64_t num_taken_bytes_ = 0;
};

}  // namespace quire
