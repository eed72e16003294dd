// Events of a job for its reader. Readers pull events; the engine never calls into the caller.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/base/log.h"
#include "core/drafting/drafting_options.h"
#include "core/kv/page_listener.h"
#include "core/response/events.h"
#include "core/sampling/sampler.h"

namespace quire {

enum class EventKind : int32_t {
  started = 1,   // the job left the queue; at most once
  progress = 2,  // part of the prompt was computed: done_tokens of total_tokens
  text = 3,      // new tokens, and the text that they complete
  finished = 4,  // terminal: the job ended, see reason
  error = 5,     // terminal: the job failed, see error and message
  rewind = 6,    // emitted output is withdrawn, except kept_tokens and kept_bytes
  log = 7,       // a log line; belongs to no job
  page = 8,      // change of a page of a cache; belongs to no job
};

// Reason why a job ended.
enum class FinishReason : int32_t {
  unfinished = 0,
  stop_token = 1,  // an end-of-sequence token of the model, or one of the request
  stop_string = 2,
  max_new_tokens = 3,
  max_seq_len = 4,  // the sequence reached the limit of the model or the cache
  completed = 5,    // a scoring, warming or embedding job is done
  cancelled = 6,
  failed = 7,  // the only reason with EventKind::error
  loop = 8,    // the new tokens repeat in a loop, as JobRequest::loop_guard defines it
};

// Usage of a job: final in the terminal event, until then the values so far.
struct JobUsage : DraftUsage {
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;  // prompt tokens found in the prefix cache when the job first started
  int32_t new_tokens = 0;     // stop token included, tokens withdrawn by a rewind excluded
  int32_t preemptions = 0;
  Duration time_queued{0};      // submit to first step
  Duration time_prefill{0};     // first step to first token
  Duration time_generating{0};  // first token to end
  Duration time_paused{0};      // part of these during which the job was paused or waited for its reader
};

// Change of one whole page of a cache, or (cleared) of all.
struct PageChange {
  enum class Kind : int32_t { stored = 1, removed = 2, cleared = 3 };

  Kind kind = Kind::cleared;
  PageMedium medium = PageMedium::device;
  int64_t number = 0;   // sequence number for one follower; a gap means lost events
  uint64_t hash = 0;    // the first bytes of its key
  uint64_t parent = 0;  // hash of the page before it; 0: it is the first
  std::string name_space;
};

// An event of a job. `kind` determines which fields are used. Text is always valid UTF-8, cut between code
// points. Joined over all events it is the decoded output without the stop string.
// Wide type: the fields of all kinds of events.
struct Event {
  EventKind kind = EventKind::text;
  JobId job;          // unique in the process
  int32_t index = 0;  // of the completions that were submitted together
  uint64_t tag = 0;   // of the request, for a reader of many jobs

  // With EventKind::text. Text may be held back: an incomplete character, or a possible beginning of a stop
  // string. Its tokens then come with the event that has their text or the first part of it, or with the last
  // event. Tokens are never lost.
  std::string text;
  TokenIds token_ids;
  int32_t first_token = 0;                               // index of token_ids[0] among the job's tokens
  std::vector<float> log_probs;                          // per token; empty unless requested
  std::vector<std::vector<TokenLogProb>> top_log_probs;  // per token; empty unless requested

  // With EventKind::text, if the request has a response parser: the part of the answer to which `text`, the
  // raw bytes, belongs. Its own raw bytes are empty.
  std::optional<ResponseEvent> part;

  // With EventKind::progress.
  int32_t done_tokens = 0;  // of the prompt, cached ones included
  int32_t total_tokens = 0;

  // With EventKind::rewind: amounts of the output emitted so far that remain valid.
  int32_t kept_tokens = 0;
  int64_t kept_bytes = 0;  // of text

  // With EventKind::log.
  LogLevel log_level = LogLevel::info;
  int64_t lost_lines = 0;  // lines lost before this one because the buffer was full

  std::optional<PageChange> page;  // with EventKind::page; token_ids has the tokens of the page

  // With EventKind::finished and EventKind::error.
  FinishReason reason = FinishReason::unfinished;
  ErrorCode error = ErrorCode::ok;
  std::string message;  // one line, only with EventKind::error
  // The parameter at fault, only with EventKind::error; null for none. A pointer is cheaper to move than a
  // text.
  std::shared_ptr<const std::string> parameter;
  TokenId stop_token = -1;  // with FinishReason::stop_token
  std::string stop_string;  // with FinishReason::stop_string
  JobUsage usage;

  bool terminal() const { return kind == EventKind::finished || kind == EventKind::error; }
};

// Backpressure: reaction to a reader that leaves too many events unread. The engine never waits for a reader.
enum class SlowReaderPolicy : int32_t {
  coalesce = 0,  // new text is appended to the last unread text event
  pause = 1,     // the job generates no more tokens until the reader catches up
  end = 2,       // the job fails with ErrorCode::slow_reader
};

}  // namespace quire
