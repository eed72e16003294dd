// What a job tells its reader. Events are pulled, never pushed into the caller.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/base/log.h"
#include "core/kv/page_listener.h"
#include "core/response/events.h"
#include "core/sampling/sampler.h"

namespace quire {

enum class EventKind : int32_t {
  started = 1,   // the job left the queue; at most once
  progress = 2,  // a part of the prompt was computed: done_tokens of total_tokens
  text = 3,      // new tokens and the text they complete
  finished = 4,  // terminal: the job came to its end, see reason
  error = 5,     // terminal: the job failed, see error and message
  rewind = 6,    // what was shown is taken back, but for kept_tokens and kept_bytes
  log = 7,       // a line of the log, of no job
  page = 8,      // what became of a page of a cache, of no job
};

// Why a job is over.
enum class FinishReason : int32_t {
  unfinished = 0,
  stop_token = 1,  // an end-of-sequence token of the model, or one of the request
  stop_string = 2,
  max_new_tokens = 3,
  max_seq_len = 4,  // the sequence is as long as the model or the cache allows
  completed = 5,    // a scoring, warming or embedding job is done
  cancelled = 6,
  failed = 7,  // the only reason that comes as EventKind::error
  loop = 8,    // the new tokens run in a loop that JobRequest::loop_guard tells
};

// What a job took. Complete with the terminal event; before that as far as it is.
struct JobUsage {
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;          // of the prompt, found in the cache when the job first started
  int32_t new_tokens = 0;             // the stop token included; what a rewind took back is not counted
  int32_t draft_tokens = 0;           // that speculation proposed
  int32_t accepted_draft_tokens = 0;  // of those, the ones that stood
  int32_t preemptions = 0;
  Duration time_queued{0};      // submit to first step
  Duration time_prefill{0};     // first step to first token
  Duration time_generating{0};  // first token to end
  Duration time_resting{0};     // of those, paused or waiting for its reader
};

// What became of a whole page of a cache, or of all of them.
struct PageChange {
  enum class Kind : int32_t { stored = 1, removed = 2, cleared = 3 };

  Kind kind = Kind::cleared;
  PageMedium medium = PageMedium::device;
  int64_t number = 0;   // of the events of one follower; where it jumps some were lost
  uint64_t hash = 0;    // the beginning of its key
  uint64_t parent = 0;  // of the page before; 0: it is the first
  std::string name_space;
};

// Which one of a job's events this is decides which fields mean something. Text is always valid UTF-8 and cut
// between code points; joined over all events it is what the tokens decode to, less the stop cut.
struct Event {
  EventKind kind = EventKind::text;
  JobId job;          // unique in the process
  int32_t index = 0;  // of the completions that were submitted together
  uint64_t tag = 0;   // the request's, for a reader of many jobs

  // text. A token whose text is held back (half a character, perhaps the head of a stop string) comes with
  // the event that carries its text, or the first part of it, or with the last one; tokens are never lost.
  std::string text;
  TokenIds token_ids;
  int32_t first_token = 0;       // the place of token_ids[0] among the tokens of the job
  std::vector<float> log_probs;  // per token; empty unless asked for
  std::vector<std::vector<TokenLogProb>> top_log_probs;  // per token; empty unless asked for

  // text of a request that says how answers are written: what `text`, the raw bytes, is. Its own raw bytes
  // are empty.
  std::optional<ResponseEvent> part;

  // progress
  int32_t done_tokens = 0;  // of the prompt, cached ones included
  int32_t total_tokens = 0;

  // rewind: of all that the events before it showed, this much stands
  int32_t kept_tokens = 0;
  int64_t kept_bytes = 0;  // of text

  // log
  LogLevel log_level = LogLevel::info;
  int64_t lost_lines = 0;  // that found no room before this one

  std::optional<PageChange> page;  // with EventKind::page; the tokens of a page are token_ids

  // finished, error
  FinishReason reason = FinishReason::unfinished;
  ErrorCode error = ErrorCode::ok;
  std::string message;      // one line, only with EventKind::error
  std::string parameter;    // the parameter at fault, only with EventKind::error; empty for none
  TokenId stop_token = -1;  // with FinishReason::stop_token
  std::string stop_string;  // with FinishReason::stop_string
  JobUsage usage;

  bool terminal() const { return kind == EventKind::finished || kind == EventKind::error; }
};

// What happens when a reader leaves more than its share of events unread. The engine never waits for one.
enum class SlowReaderPolicy : int32_t {
  coalesce = 0,  // new text joins the last unread text event
  pause = 1,     // the job makes no more tokens until the reader has caught up
  end = 2,       // the job fails with ErrorCode::slow_reader
};

}  // namespace quire
