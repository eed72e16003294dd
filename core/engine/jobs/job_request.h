// What a caller asks for. Plain data: nothing is checked before Cache::submit, everything is checked there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/engine/events/event.h"
#include "core/response/response_parser.h"
#include "core/sampling/repetition.h"
#include "core/sampling/settings.h"
#include "core/step/token_matcher.h"

namespace quire {

class EventQueue;

enum class JobKind : int32_t {
  generate = 0,
  score = 1,  // log-probabilities of the prompt itself; no new tokens
  warm = 2,   // computes the prompt so that later jobs find it in the cache; no new tokens
  embed = 3,  // one vector for the prompt; no new tokens
};

enum class Pooling : int32_t { mean = 0, last = 1 };

struct JobRequest {
  JobKind kind = JobKind::generate;
  TokenIds prompt;        // 1 or more ids of the vocabulary
  uint64_t tag = 0;       // comes back in every event
  uint64_t tag_step = 0;  // added once for each of the completions before, of those submitted together
  int32_t index = 0;      // of this completion; set by Cache::submit_many

  // Generation.
  SamplingSettings sampling;
  bool random_seed = false;      // sampling.seed is drawn anew with each submit
  int32_t max_new_tokens = 256;  // 1 or more
  int32_t min_new_tokens = 0;    // stop tokens are not drawn before; stop strings still end the job
  std::shared_ptr<const TokenConstraint> constraint;  // what the text may be; null: anything
  bool ignore_end_tokens = false;           // the model's own end-of-sequence tokens do not end the job
  RepetitionGuard loop_guard;               // new tokens that run in a loop end the job
  std::vector<TokenId> stop_tokens;         // in addition to the model's
  std::vector<std::string> stop_strings;    // valid UTF-8, not empty; never part of the text
  std::vector<std::string> banned_strings;  // likewise; text that contains one is drawn anew
  // The token whose text the new tokens begin with, and which was taken off the prompt for that: its text is
  // not said again. -1: none.
  TokenId healed_token = -1;
  bool emit_special_tokens = false;  // the text of special tokens is part of the text
  // Reads the answer, special tokens included, so that events say what their text is: a parser before the
  // first byte. Null: text is text.
  std::shared_ptr<const ResponseParser> response;
  // Guidance by a second sequence: each token is drawn from guide + scale * (lane - guide), in logarithms of
  // the softmax, where the guide is the same new tokens after this prompt. Empty, with a scale of 1: none.
  TokenIds negative_prompt;
  float guidance_scale = 1.0F;  // 0 to kMaxGuidanceScale; above 1 leads away from the negative prompt
  bool want_log_probs = false;
  int32_t num_top_log_probs = 0;  // 0 to kMaxTopLogProbs; more than 0 implies want_log_probs

  // Scoring.
  bool want_raw_logits = false;  // keeps every row: prompt x vocabulary floats, at most kMaxRawLogitBytes

  // Embedding.
  Pooling pooling = Pooling::mean;
  bool normalise = true;

  // Scheduling. Higher priority first; within one, the earliest deadline first.
  int32_t priority = 0;  // -kMaxPriority to kMaxPriority
  // From submit: to leave the queue, to the first token, to the end. 0 is none.
  Duration queue_deadline{0};
  Duration first_token_deadline{0};
  Duration total_deadline{0};
  // Takes pages for the prompt and max_new_tokens at once, so that the job is never preempted for pages.
  bool reserve_whole = false;

  // Cache. Pages are shared only inside a namespace; quotas are counted per namespace.
  std::string name_space;
  bool reuse_prefix = true;   // may start from cached pages
  bool publish_pages = true;  // later jobs may start from the pages of this one

  // Events.
  SlowReaderPolicy slow_reader = SlowReaderPolicy::coalesce;
  int32_t max_unread_events = 64;     // 2 or more
  bool want_progress = false;         // EventKind::progress; off by default
  std::shared_ptr<EventQueue> queue;  // announces the job's events there as well; may be null

  static constexpr float kMaxGuidanceScale = 100.0F;
  static constexpr int32_t kMaxPriority = 1000;
  static constexpr int32_t kMaxTopLogProbs = 64;
  static constexpr int32_t kMaxStopTokens = 1024;
  static constexpr int32_t kMaxStopStrings = 256;
  static constexpr size_t kMaxStopStringBytes = 4096;
  static constexpr size_t kMaxNameSpaceBytes = 256;
  static constexpr uint64_t kMaxRawLogitBytes = uint64_t{1} << 30;
};

}  // namespace quire
