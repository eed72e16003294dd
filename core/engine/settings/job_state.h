// State and result of a job, and the options of a fork.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/engine/events/event.h"

namespace quire {

class EventQueue;

enum class JobState : int32_t {
  queued = 0,   // waits for admission, for the first time or after a preemption
  prefill = 1,  // its prompt is being computed
  generating = 2,
  paused = 3,  // by pause(), or by backpressure of a slow reader; keeps its pages
  finished = 4,
};

// Final once state() is finished; before that the counts and times so far.
struct JobResult : JobUsage {
  FinishReason reason = FinishReason::unfinished;
  ErrorCode error = ErrorCode::ok;
  std::string message;      // with FinishReason::failed
  std::string parameter;    // with FinishReason::failed, the parameter at fault; empty for none
  TokenId stop_token = -1;  // with FinishReason::stop_token
  std::string stop_string;  // with FinishReason::stop_string
};

struct ForkOptions {
  std::optional<uint64_t> seed;  // absent: that of the parent
  bool random_seed = false;      // draws a seed instead
  uint64_t tag = 0;
  int32_t max_new_tokens = 0;         // counted from the fork; 0: as many as the parent has left
  std::shared_ptr<EventQueue> queue;  // may be null
};

}  // namespace quire
