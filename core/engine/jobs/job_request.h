// A request as submitted. Plain data: Engine::submit checks all of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/engine/events/event.h"
#include "core/engine/settings/model_rules.h"
#include "core/response/response_parser.h"
#include "core/sampling/repetition.h"
#include "core/sampling/settings.h"
#include "core/step/token_matcher.h"

namespace quire {

class EventQueue;

enum class JobKind : int32_t {
  generate = 0,
  score = 1,  // log probabilities of the prompt's tokens; no new tokens
  warm = 2,   // computes the prompt, so that later jobs find it in the prefix cache; no new tokens
  embed = 3,  // one embedding vector for the prompt; no new tokens
};

// Request of one job.
// Wide type: the settings of a request are independent of each other.
struct JobRequest {
  JobKind kind = JobKind::generate;
  TokenIds prompt;        // at least one token id of the vocabulary
  uint64_t tag = 0;       // returned in every event
  uint64_t tag_step = 0;  // completion i of those submitted together has tag + i * tag_step
  int32_t index = 0;      // of this completion; set by Engine::submit_many

  // Generation.
  SamplingSettings sampling;
  bool random_seed = false;      // draws a new sampling.seed at each submit
  int32_t max_new_tokens = 256;  // 1 or more
  int32_t min_new_tokens = 0;    // stop tokens cannot be sampled before; stop strings still end the job
  std::shared_ptr<const TokenConstraint> constraint;  // restricts the text; null: unrestricted
  bool ignore_end_tokens = false;         // the model's own end-of-sequence tokens do not end the job
  RepetitionGuard loop_guard;             // ends the job if its new tokens repeat in a loop
  std::vector<TokenId> stop_tokens;       // in addition to the model's end tokens
  std::vector<std::string> stop_strings;  // valid UTF-8, not empty; not part of the output
  // Valid UTF-8, not empty; output that contains one is sampled again.
  std::vector<std::string> banned_strings;
  // Last token of the original prompt, removed from it for token healing: the new tokens begin with its text,
  // which is not emitted again. -1: none.
  TokenId healed_token = -1;
  bool emit_special_tokens = false;  // emits the text of special tokens as well
  // Parser in its initial state that classifies the output (reasoning, tool calls), special tokens included.
  // Null: all output is plain text.
  std::shared_ptr<const ResponseParser> response;
  // Prompt of a second sequence for classifier-free guidance, which gets the same new tokens. Each token is
  // sampled from guide + scale * (lane - guide), computed on log-softmax values. Empty, with a scale of 1: no
  // guidance.
  TokenIds negative_prompt;
  float guidance_scale = 1.0F;  // 0 to kMaxGuidanceScale; above 1 steers away from the negative prompt
  bool want_log_probs = false;
  int32_t num_top_log_probs = 0;  // 0 to kMaxTopLogProbs; more than 0 implies want_log_probs
  // Maximum number of draft tokens in one step: 0 for none, at most the engine's. Absent: the engine's.
  // Output does not depend on it.
  std::optional<int32_t> max_drafts;

  // Scoring.
  // returns all rows of logits: prompt x vocabulary floats, at most kMaxRawLogitBytes
  bool want_raw_logits = false;

  // Embedding.
  Pooling pooling = Pooling::model;
  bool normalise = true;

  // Scheduling. The highest priority is first; among equal ones the earliest deadline.
  int32_t priority = 0;  // -kMaxPriority to kMaxPriority
  // Times from submit until the job must leave the queue, produce its first token, and end. 0: no limit.
  Duration queue_deadline{0};
  Duration first_token_deadline{0};
  Duration total_deadline{0};
  // Reserves pages for the prompt and max_new_tokens at admission, so that the job is never preempted for
  // lack of pages.
  bool reserve_whole = false;

  // Cache. Pages are shared only within a namespace; quotas apply to a namespace.
  std::string name_space;
  bool reuse_prefix = true;   // may start from pages in the prefix cache
  bool publish_pages = true;  // later jobs may start from the pages of this one

  // Events.
  SlowReaderPolicy slow_reader = SlowReaderPolicy::coalesce;
  int32_t max_unread_events = 64;     // 2 or more
  bool want_progress = false;         // EventKind::progress; off by default
  std::shared_ptr<EventQueue> queue;  // also receives the job's events; may be null

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
