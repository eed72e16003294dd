// Several jobs of one cache that run to their ends together.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <quire/quire.hpp>

#include "capi/cli/interrupt.h"

namespace quire::cli {

// Result of one job.
struct JobOutcome {
  struct Finish {
    int32_t reason = QUIRE_FINISH_NONE;
    int32_t stop_token = -1;
    std::string stop_text;
    std::string error;  // with QUIRE_FINISH_ERROR
    int32_t error_code = QUIRE_ERROR_OK;
  };
  // Numbers of tokens, and times.
  struct Usage {
    int64_t prefill_done = 0;  // prompt tokens computed so far, if the request enables progress events
    int64_t prompt_tokens = 0;
    int64_t cached_tokens = 0;
    int64_t new_tokens = 0;
    int64_t draft_tokens = 0;
    int64_t accepted_draft_tokens = 0;
    int64_t queued_ns = 0;
    int64_t prefill_ns = 0;
    int64_t generate_ns = 0;
  };
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<float> log_probs;  // if the request enables them
  Finish finish;
  Usage usage;
  bool over = false;
};

// Returns "stop_token", "stop_string", "length", "max_seq_len", "completed", "cancelled", "loop", "error" or
// "none".
std::string finish_reason_name(int32_t reason);

// Returns ", 12 of 30 drafts accepted", or an empty text if there were none.
std::string drafts_text(const JobOutcome::Usage& usage);

// Submits jobs with a queue of its own and collects their events on the caller's thread.
class JobBatch {
 public:
  // Receives each event: the job's index, the event, and its text.
  using Watcher = std::function<void(size_t job_idx, const Event& event, const std::string& text)>;

  JobBatch(quire_runtime* runtime, quire_cache* cache);

  // Submits the request as the next job; overwrites its queue and user data.
  void submit(quire_job_request* request);

  // Runs until all jobs have ended. An interrupt cancels them and waits for their end.
  void run(Interrupt& interrupt, const Watcher& watcher);

  // Results in the order of submission; complete after run().
  const std::vector<JobOutcome>& outcomes() const { return outcomes_; }
  int64_t num_new_tokens() const { return num_new_tokens_; }
  // Time until the first, and until the last, job has its first token, counted from the first submit.
  double first_token_seconds() const { return first_token_seconds_; }
  double all_started_seconds() const { return all_started_seconds_; }
  double seconds() const { return seconds_; }
  // Number of all new tokens at the time when the last job got its first.
  int64_t tokens_when_all_started() const { return tokens_when_all_started_; }

 private:
  void take(const Event& event, const Watcher& watcher);
  void note_tokens(JobOutcome& outcome, const std::vector<int32_t>& tokens);
  static void read_result(JobOutcome& outcome, const Event& event);
  double elapsed() const;

  quire_cache* cache_;
  Queue queue_;
  std::vector<Job> jobs_;
  std::vector<JobOutcome> outcomes_;
  std::chrono::steady_clock::time_point start_;
  size_t num_over_ = 0;
  size_t num_started_ = 0;
  int64_t num_new_tokens_ = 0;
  int64_t tokens_when_all_started_ = 0;
  double first_token_seconds_ = 0;
  double all_started_seconds_ = 0;
  double seconds_ = 0;
};

}  // namespace quire::cli
