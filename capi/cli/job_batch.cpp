#include "capi/cli/job_batch.h"

#include <algorithm>
#include <array>

namespace quire::cli {
namespace {

constexpr size_t kMaxEvents = 64;  // taken at once

}  // namespace

std::string drafts_text(const JobOutcome::Usage& usage) {
  if (usage.draft_tokens == 0) return {};
  return ", " + std::to_string(usage.accepted_draft_tokens) + " of " + std::to_string(usage.draft_tokens) +
         " drafts accepted";
}

std::string finish_reason_name(int32_t reason) {
  switch (reason) {
    case QUIRE_FINISH_STOP_TOKEN:
      return "stop_token";
    case QUIRE_FINISH_STOP_STRING:
      return "stop_string";
    case QUIRE_FINISH_LENGTH:
      return "length";
    case QUIRE_FINISH_MAX_SEQ_LEN:
      return "max_seq_len";
    case QUIRE_FINISH_COMPLETED:
      return "completed";
    case QUIRE_FINISH_CANCELLED:
      return "cancelled";
    case QUIRE_FINISH_LOOP:
      return "loop";
    case QUIRE_FINISH_ERROR:
      return "error";
    default:
      return "none";
  }
}

JobBatch::JobBatch(quire_runtime* runtime, quire_cache* cache)
    : cache_(cache), queue_(call(quire_queue_create, runtime)), start_(std::chrono::steady_clock::now()) {}

double JobBatch::elapsed() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void JobBatch::submit(quire_job_request* request) {
  if (jobs_.empty()) start_ = std::chrono::steady_clock::now();
  call(quire_job_request_set_queue, request, queue_.get());
  call(quire_job_request_set_user_data, request, uint64_t{jobs_.size()});
  jobs_.emplace_back(call(quire_job_submit, cache_, request));
  outcomes_.emplace_back();
}

void JobBatch::run(Interrupt& interrupt, const Watcher& watcher) {
  quire_cancel* cancel = interrupt.cancel();
  std::array<quire_event*, kMaxEvents> taken{};
  while (num_over_ < jobs_.size()) {
    const int64_t count = call(quire_queue_drain, queue_.get(), int64_t{QUIRE_WAIT_FOREVER}, cancel,
                               taken.data(), taken.size());
    if (count == QUIRE_WAIT_CANCELLED) {
      for (const Job& job : jobs_) call(quire_job_cancel, job.get());
      cancel = nullptr;  // now only wait for the jobs to end
    }
    std::vector<Event> events(taken.begin(), taken.begin() + std::max<int64_t>(count, 0));
    for (const Event& event : events) take(event, watcher);
  }
  seconds_ = elapsed();
}

void JobBatch::note_tokens(JobOutcome& outcome, const std::vector<int32_t>& tokens) {
  if (tokens.empty()) return;
  const bool first = outcome.tokens.empty();
  outcome.tokens.insert(outcome.tokens.end(), tokens.begin(), tokens.end());
  num_new_tokens_ += static_cast<int64_t>(tokens.size());
  if (!first) return;
  if (num_started_ == 0) first_token_seconds_ = elapsed();
  if (++num_started_ < jobs_.size()) return;
  all_started_seconds_ = elapsed();
  tokens_when_all_started_ = num_new_tokens_;
}

void JobBatch::take(const Event& event, const Watcher& watcher) {
  const size_t job_idx = call(quire_event_user_data, event);
  JobOutcome& outcome = outcomes_.at(job_idx);
  const std::string text = text_of(quire_event_text, event);
  outcome.text += text;
  note_tokens(outcome, values_of<int32_t>(quire_event_tokens, event));
  const std::vector<float> log_probs = values_of<float>(quire_event_log_probs, event);
  outcome.log_probs.insert(outcome.log_probs.end(), log_probs.begin(), log_probs.end());
  const int32_t type = call(quire_event_type, event);
  if (type == QUIRE_EVENT_PROGRESS) {
    outcome.usage.prefill_done = call(quire_event_progress_done, event);
    outcome.usage.prompt_tokens = call(quire_event_progress_total, event);
  }
  if (type == QUIRE_EVENT_FINISHED || type == QUIRE_EVENT_ERROR) {
    outcome.over = true;
    outcome.finish.reason = call(quire_event_finish_reason, event);
    outcome.finish.error_code = call(quire_event_error_code, event);
    if (type == QUIRE_EVENT_ERROR) {
      outcome.finish.reason = QUIRE_FINISH_ERROR;
      outcome.finish.error = text_of(quire_event_error_message, event);
    }
    read_result(outcome, event);
    ++num_over_;
  }
  watcher(job_idx, event, text);
}

void JobBatch::read_result(JobOutcome& outcome, const Event& event) {
  outcome.finish.stop_token = call(quire_event_stop_token, event);
  outcome.finish.stop_text = text_of(quire_event_stop_text, event);
  outcome.usage.prompt_tokens = call(quire_event_prompt_tokens, event);
  outcome.usage.cached_tokens = call(quire_event_cached_tokens, event);
  outcome.usage.new_tokens = call(quire_event_new_tokens, event);
  outcome.usage.draft_tokens = call(quire_event_draft_tokens, event);
  outcome.usage.accepted_draft_tokens = call(quire_event_accepted_draft_tokens, event);
  outcome.usage.queued_ns = call(quire_event_time_queued_ns, event);
  outcome.usage.prefill_ns = call(quire_event_time_prompt_ns, event);
  outcome.usage.generate_ns = call(quire_event_time_generate_ns, event);
}

}  // namespace quire::cli
