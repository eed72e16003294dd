#include <algorithm>
#include <limits>
#include <vector>

#include <quire/job.h>
#include <quire/request.h>

#include "capi/src/arguments.h"
#include "capi/src/cancel_object.h"
#include "capi/src/guard.h"
#include "capi/src/job_object.h"
#include "capi/src/read_request.h"
#include "capi/src/take_events.h"

using namespace quire::capi;

static_assert(QUIRE_JOB_STATE_QUEUED == static_cast<int32_t>(quire::JobState::queued));
static_assert(QUIRE_JOB_STATE_PROMPT == static_cast<int32_t>(quire::JobState::prefill));
static_assert(QUIRE_JOB_STATE_GENERATING == static_cast<int32_t>(quire::JobState::generating));
static_assert(QUIRE_JOB_STATE_PAUSED == static_cast<int32_t>(quire::JobState::paused));
static_assert(QUIRE_JOB_STATE_FINISHED == static_cast<int32_t>(quire::JobState::finished));

namespace {

// Calls `read` with the job.
template <typename Result, typename Read>
Result get(quire_job* job, quire_error** error, Result failure, Read&& read) noexcept {
  return guard(error, failure, [&]() -> Result { return read(*Pinned(job, "job")->job); });
}

// Calls `read` with the result of the job.
template <typename Result, typename Read>
Result get_result(quire_job* job, quire_error** error, Result failure, Read&& read) noexcept {
  return get(job, error, failure,
             [&](const quire::Job& of) { return static_cast<Result>(read(of.result())); });
}

template <typename Act>
int32_t act(quire_job* job, quire_error** error, Act&& action) noexcept {
  return get(job, error, 0, [&](quire::Job& of) {
    action(of);
    return 1;
  });
}

// Handles of jobs that were submitted together. Frees those not handed out, which cancels their jobs.
class MadeJobs {
 public:
  explicit MadeJobs(size_t num_jobs) { handles_.reserve(num_jobs); }
  MadeJobs(const MadeJobs&) = delete;
  MadeJobs& operator=(const MadeJobs&) = delete;
  ~MadeJobs() {
    for (quire_job* const handle : handles_) free_handle(handle, nullptr);
  }

  void add(quire_job* handle) { handles_.push_back(handle); }
  void give(gsl::span<quire_job*> out) noexcept {
    std::copy(handles_.begin(), handles_.end(), out.begin());
    handles_.clear();
  }

 private:
  std::vector<quire_job*> handles_;
};

// Copies values directly from the job to the caller: a query of the size copies nothing.
int64_t write_values(const quire::Job& of, void (quire::Job::*read)(const quire::Job::ReadValues&) const,
                     float* out_values, size_t out_capacity) {
  const OutArgument<float> out(out_values, out_capacity, "out_values");
  int64_t size = 0;
  (of.*read)([&](gsl::span<const float> values) { size = out.write(values); });
  return size;
}

}  // namespace

quire_job* quire_job_submit(quire_cache* cache, quire_job_request* request, quire_error** error) {
  return guard(error, static_cast<quire_job*>(nullptr), [&] {
    const std::shared_ptr<const CacheShare> share = Pinned(cache, "cache")->share;
    quire::JobRequest job = read_request(request, *share, Counts::for_kind);
    const quire::JobKind kind = job.kind;
    return make_handle<quire_job>(share, share->cache->submit(std::move(job)), kind);
  });
}

int32_t quire_job_submit_many(quire_cache* cache, quire_job_request* request, quire_job** out_jobs,
                              size_t num_jobs, quire_error** error) {
  return guard(error, 0, [&] {
    const std::shared_ptr<const CacheShare> share = Pinned(cache, "cache")->share;
    const OutArgument<quire_job*> out(out_jobs, num_jobs, "out_jobs");
    const quire::JobRequest job = read_request(request, *share, Counts::for_kind);
    constexpr size_t kMost = std::numeric_limits<int32_t>::max();
    const auto wanted = static_cast<int32_t>(range_argument(num_jobs, size_t{1}, kMost, "num_jobs"));
    MadeJobs made(num_jobs);
    for (std::shared_ptr<quire::Job>& one : share->cache->submit_many(job, wanted)) {
      made.add(make_handle<quire_job>(share, std::move(one), job.kind));
    }
    made.give({out.data(), num_jobs});
    return 1;
  });
}

int32_t quire_job_poll(quire_job* job, int64_t timeout_ns, quire_cancel* cancel, quire_event** out_event,
                       quire_error** error) {
  return get(job, error, QUIRE_WAIT_FAILED, [&](quire::Job& of) {
    quire_event*& event = event_argument(out_event);
    quire::WaitEnd end = quire::WaitEnd::timeout;
    event = take_event(of, wait_argument(timeout_ns, cancel, "waiting in quire_job_poll"), end);
    return wait_result(end);
  });
}

int64_t quire_job_drain(quire_job* job, int64_t timeout_ns, quire_cancel* cancel, quire_event** out_events,
                        size_t max_events, quire_error** error) {
  return get(job, error, int64_t{QUIRE_WAIT_FAILED}, [&](quire::Job& of) {
    const quire::Wait wait = wait_argument(timeout_ns, cancel, "waiting in quire_job_drain");
    check_events_argument(out_events, max_events);
    return take_events(of, wait, out_events, max_events);
  });
}

int32_t quire_job_wait(quire_job* job, int64_t timeout_ns, quire_cancel* cancel, quire_error** error) {
  return get(job, error, QUIRE_WAIT_FAILED, [&](const quire::Job& of) {
    return wait_result(of.wait_for_end(wait_argument(timeout_ns, cancel, "waiting in quire_job_wait")));
  });
}

int32_t quire_job_cancel(quire_job* job, quire_error** error) {
  return act(job, error, [](quire::Job& of) { of.cancel(); });
}

int32_t quire_job_free(quire_job* handle, quire_error** error) {
  return free_handle(handle, error);
}

int32_t quire_job_pause(quire_job* job, quire_error** error) {
  return act(job, error, [](quire::Job& of) { of.pause(); });
}

int32_t quire_job_resume(quire_job* job, quire_error** error) {
  return act(job, error, [](quire::Job& of) { of.resume(); });
}

int32_t quire_job_set_priority(quire_job* job, int32_t priority, quire_error** error) {
  return act(job, error,
             [&](quire::Job& of) { of.set_priority(range_argument(priority, -1000, 1000, "priority")); });
}

int32_t quire_job_rewind(quire_job* job, int32_t num_new_tokens, quire_error** error) {
  return act(job, error, [&](quire::Job& of) {
    of.rewind(range_argument(num_new_tokens, 0, std::numeric_limits<int32_t>::max(), "num_new_tokens"));
  });
}

quire_job* quire_job_fork(quire_job* job, quire_job_request* request, quire_error** error) {
  return guard(error, static_cast<quire_job*>(nullptr), [&] {
    const Pinned parent(job, "job");
    const RequestSettings settings = Pinned(request, "request")->read();
    if (settings.shared_queue.events != nullptr &&
        settings.shared_queue.runtime != parent->cache->model->runtime) {
      throw quire::Error(
          quire::ErrorCode::invalid_argument,
          "queue: it belongs to another runtime than the job; create it with the job's runtime")
          .at("queue");
    }
    require_applicable(settings, Counts::fork, "a fork, which takes all other settings from its job");
    quire::ForkOptions options;
    if (is_made(settings, "seed")) options.seed = settings.job.sampling.seed;
    options.random_seed = settings.job.random_seed;
    options.tag = settings.job.tag;
    options.max_new_tokens = settings.max_new_tokens_set ? settings.job.max_new_tokens : 0;
    options.queue = settings.shared_queue.events;
    return make_handle<quire_job>(parent->cache, parent->job->fork(options), parent->kind);
  });
}

int64_t quire_job_id(quire_job* job, quire_error** error) {
  return get(job, error, int64_t{-1},
             [](const quire::Job& of) { return static_cast<int64_t>(of.id().value); });
}

uint64_t quire_job_seed(quire_job* job, quire_error** error) {
  return get(job, error, uint64_t{0}, [](const quire::Job& of) { return of.seed(); });
}

int32_t quire_job_state(quire_job* job, quire_error** error) {
  return get(job, error, -1, [](const quire::Job& of) { return static_cast<int32_t>(of.state()); });
}

int32_t quire_job_finish_reason(quire_job* job, quire_error** error) {
  return get_result(job, error, -1, [](const quire::JobResult& of) { return of.reason; });
}

int32_t quire_job_stop_token(quire_job* job, quire_error** error) {
  return get_result(job, error, -1, [](const quire::JobResult& of) { return of.stop_token; });
}

int64_t quire_job_stop_text(quire_job* job, char* out_text, size_t out_capacity, quire_error** error) {
  return get_result(job, error, int64_t{-1}, [&](const quire::JobResult& of) {
    return write_text(of.stop_string, out_text, out_capacity);
  });
}

int32_t quire_job_error_code(quire_job* job, quire_error** error) {
  return get_result(job, error, -1, [](const quire::JobResult& of) { return of.error; });
}

int64_t quire_job_explain(quire_job* job, char* out_text, size_t out_capacity, quire_error** error) {
  return get(job, error, int64_t{-1},
             [&](const quire::Job& of) { return write_text(of.explain(), out_text, out_capacity); });
}

int64_t quire_job_prompt_tokens(quire_job* job, quire_error** error) {
  return get_result(job, error, int64_t{-1}, [](const quire::JobResult& of) { return of.prompt_tokens; });
}

int64_t quire_job_cached_tokens(quire_job* job, quire_error** error) {
  return get_result(job, error, int64_t{-1}, [](const quire::JobResult& of) { return of.cached_tokens; });
}

int64_t quire_job_new_tokens(quire_job* job, quire_error** error) {
  return get_result(job, error, int64_t{-1}, [](const quire::JobResult& of) { return of.new_tokens; });
}

int64_t quire_job_draft_tokens(quire_job* job, quire_error** error) {
  return get_result(job, error, int64_t{-1}, [](const quire::JobResult& of) { return of.draft_tokens; });
}

int64_t quire_job_accepted_draft_tokens(quire_job* job, quire_error** error) {
  return get_result(job, error, int64_t{-1},
                    [](const quire::JobResult& of) { return of.accepted_draft_tokens; });
}

int64_t quire_job_accepted_by_position(quire_job* job, int64_t* out_counts, size_t out_capacity,
                                       quire_error** error) {
  return get_result(job, error, int64_t{-1}, [&](const quire::JobResult& of) {
    return write_counts(of.accepted_by_position, of.draft_tokens > 0, out_counts, out_capacity);
  });
}

int64_t quire_job_preemptions(quire_job* job, quire_error** error) {
  return get_result(job, error, int64_t{-1}, [](const quire::JobResult& of) { return of.preemptions; });
}

int64_t quire_job_time_queued_ns(quire_job* job, quire_error** error) {
  return get_result(job, error, int64_t{-1},
                    [](const quire::JobResult& of) { return of.time_queued.count(); });
}

int64_t quire_job_time_prompt_ns(quire_job* job, quire_error** error) {
  return get_result(job, error, int64_t{-1},
                    [](const quire::JobResult& of) { return of.time_prefill.count(); });
}

int64_t quire_job_time_generate_ns(quire_job* job, quire_error** error) {
  return get_result(job, error, int64_t{-1},
                    [](const quire::JobResult& of) { return of.time_generating.count(); });
}

int64_t quire_job_scores(quire_job* job, float* out_values, size_t out_capacity, quire_error** error) {
  return guard(error, int64_t{-1}, [&]() -> int64_t {
    const Pinned pinned(job, "job");
    const OutArgument<float> out(out_values, out_capacity, "out_values");
    if (pinned->kind != quire::JobKind::score ||
        pinned->job->result().reason != quire::FinishReason::completed) {
      return 0;
    }
    // The first token has no score.
    size_t size = 0;
    pinned->job->read_scores([&](gsl::span<const float> scores) {
      size = scores.size() + 1;
      if (!out.fits(size)) return;
      out.data()[0] = std::numeric_limits<float>::quiet_NaN();
      std::copy(scores.begin(), scores.end(), out.data() + 1);
    });
    return static_cast<int64_t>(size);
  });
}

int64_t quire_job_raw_logits(quire_job* job, float* out_values, size_t out_capacity, quire_error** error) {
  return get(job, error, int64_t{-1}, [&](const quire::Job& of) {
    return write_values(of, &quire::Job::read_raw_logits, out_values, out_capacity);
  });
}

int64_t quire_job_embedding(quire_job* job, float* out_values, size_t out_capacity, quire_error** error) {
  return get(job, error, int64_t{-1}, [&](const quire::Job& of) {
    return write_values(of, &quire::Job::read_embedding, out_values, out_capacity);
  });
}
