// What a job tells its reader. Events are pulled, never pushed into the caller.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/sampling/sampler.h"

namespace quire {

enum class EventKind : int32_t {
  started = 1,   // the job left the queue; at most once
  progress = 2,  // a part of the prompt was computed: done_tokens of total_tokens
  text = 3,      // new tokens and the text they complete
  finished = 4,  // terminal: the job came to its end, see reason
  error = 5,     // terminal: the job failed, see error and message
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
};

// Which one of a job's events this is decides which fields mean something. Text is always valid UTF-8 and cut
// between code points; joined over all events it is what the tokens decode to, less the stop cut.
struct Event {
  EventKind kind = EventKind::text;
  JobId job;         // unique within its cache
  uint64_t tag = 0;  // the request's, for a reader of many jobs

  // text. A token whose text is held back (half a character, perhaps the head of a stop string) comes with
  // the event that carries its text or with the last one; tokens are never lost.
  std::string text;
  TokenIds token_ids;
  std::vector<float> log_probs;                          // per token; empty unless asked for
  std::vector<std::vector<TokenLogProb>> top_log_probs;  // per token; empty unless asked for

  // progress
  int32_t done_tokens = 0;  // of the prompt, cached ones included
  int32_t total_tokens = 0;

  // finished, error
  FinishReason reason = FinishReason::unfinished;
  ErrorCode error = ErrorCode::ok;
  std::string message;  // one line, only with EventKind::error

  bool terminal() const { return kind == EventKind::finished || kind == EventKind::error; }
};

// What happens when a reader leaves more than its share of events unread. The engine never waits for one.
enum class SlowReaderPolicy : int32_t {
  coalesce = 0,  // new text joins the last unread text event
  pause = 1,     // the job makes no more tokens until the reader has caught up
  end = 2,       // the job fails with ErrorCode::capacity
};

}  // namespace quire
