#include "core/engine/job.h"

#include <utility>

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/engine/engine.h"
#include "core/engine/events/event_queue.h"
#include "core/engine/jobs/explain.h"
#include "core/engine/jobs/job_channel.h"
#include "core/engine/jobs/random_seed.h"
#include "core/engine/jobs/request_check.h"
#include "core/engine/loop/engine_thread.h"

namespace quire {

Job::Job(std::shared_ptr<Engine> cache, std::shared_ptr<JobChannel> channel)
    : cache_(std::move(cache)), channel_(std::move(channel)) {}

Job::~Job() {
  channel_->stream->abandon();
  cancel();
}

JobId Job::id() const {
  return channel_->id;
}

uint64_t Job::tag() const {
  return channel_->mark.tag;
}

WaitEnd Job::drain(const Wait& wait, size_t max_events, std::vector<Event>& out) {
  return channel_->stream->drain(wait, max_events, out);
}

std::optional<Event> Job::poll(Duration timeout) {
  return channel_->stream->poll(timeout);
}

bool Job::drained() const {
  return channel_->stream->drained();
}

WaitEnd Job::wait_for_end(const Wait& wait) const {
  return channel_->stream->wait_for_end(wait);
}

void Job::cancel() noexcept {
  if (channel_->over() || channel_->cancel_requested.exchange(true)) return;
  cache_->thread().queue().request_cancel();
}

// Applies `change` on the engine's thread, unless the job has finished by then or the engine is closed.
template <typename Change>
void Job::change(Change change) {
  if (channel_->over()) return;
  cache_->thread().post([id = channel_->id, change](LiveJobs& jobs) {
    if (JobRecord* job = jobs.find(id)) change(jobs, *job);
  });
}

void Job::pause() {
  change([](LiveJobs&, JobRecord& job) {
    job.paused = true;
    job.channel->state = JobState::paused;
  });
}

void Job::resume() {
  change([](LiveJobs&, JobRecord& job) {
    job.paused = false;
    job.channel->state = !job.holds_pages() ? JobState::queued
                         : job.first_token  ? JobState::generating
                                            : JobState::prefill;
  });
}

void Job::set_priority(int32_t priority) {
  check_priority(priority);
  change([priority](LiveJobs&, JobRecord& job) {
    job.request.priority = priority;
    job.admitted_priority = priority;
  });
}

void Job::rewind(int32_t num_new_tokens) {
  if (num_new_tokens < 0)
    throw Error(ErrorCode::invalid_argument, "num_new_tokens is {}, must be 0 or more", num_new_tokens)
        .at("num_new_tokens");
  change([num_new_tokens](LiveJobs& jobs, JobRecord& job) { jobs.rewind(job, num_new_tokens); });
}

std::shared_ptr<Job> Job::fork(const ForkOptions& options) {
  if (channel_->kind != JobKind::generate) {
    throw Error(ErrorCode::invalid_argument,
                "job {} does not generate text and cannot be forked; fork a generating job", id().value)
        .at("job");
  }
  if (options.max_new_tokens < 0) {
    throw Error(ErrorCode::invalid_argument, "max_new_tokens of the fork is {}, must be 0 or more",
                options.max_new_tokens)
        .at("max_new_tokens");
  }
  EngineThread& core = cache_->thread();
  EventStreamOptions stream = channel_->stream->options();
  stream.queue = options.queue;
  const uint64_t seed = options.random_seed ? draw_seed() : options.seed.value_or(channel_->mark.seed);
  const JobMark mark{options.tag, 0, seed};
  auto channel = std::make_shared<JobChannel>(channel_->kind, mark, channel_->name_space, stream);
  auto child = std::make_shared<Job>(cache_, channel);
  core.queue().enter(channel);
  try {
    core.post_fork(channel_->id, channel, options);
  } catch (...) {
    core.queue().leave(*channel);
    throw;
  }
  return child;
}

JobState Job::state() const {
  const JobState state = channel_->state;
  const bool was_preempted = state == JobState::queued && channel_->progress.was_preempted;
  const bool runs = state == JobState::prefill || state == JobState::generating || was_preempted;
  return runs && channel_->stream->is_throttled() ? JobState::paused : state;
}

JobResult Job::result() const {
  return channel_->result();
}

std::string Job::explain() const {
  JobView view;
  view.state = state();
  view.result = result();
  view.computed_tokens = channel_->progress.computed_tokens;
  view.batch_jobs = channel_->progress.batch_jobs;
  view.was_preempted = channel_->progress.was_preempted;
  view.reader_behind = channel_->stream->is_throttled();
  view.drafts = channel_->progress.drafts.reason;
  view.wait = channel_->wait_reason();
  if (view.wait.in_front.value != 0) {
    const auto in_front = cache_->thread().queue().find_live(view.wait.in_front);
    if (in_front != nullptr) view.wait_in_front = in_front->wait_reason();
  }
  return quire::explain(view);
}

namespace {

void copy_to(std::vector<float>& out, gsl::span<const float> values) {
  out.assign(values.begin(), values.end());
}

}  // namespace

std::vector<float> Job::scores() const {
  std::vector<float> out;
  read_scores([&](gsl::span<const float> values) { copy_to(out, values); });
  return out;
}

std::vector<float> Job::raw_logits() const {
  std::vector<float> out;
  read_raw_logits([&](gsl::span<const float> values) { copy_to(out, values); });
  return out;
}

std::vector<float> Job::embedding() const {
  std::vector<float> out;
  read_embedding([&](gsl::span<const float> values) { copy_to(out, values); });
  return out;
}

void Job::read_scores(const ReadValues& read) const {
  channel_->read_output([&](const JobOutput& output) { read(output.scores); });
}

void Job::read_raw_logits(const ReadValues& read) const {
  channel_->read_output([&](const JobOutput& output) { read(output.raw_logits); });
}

void Job::read_embedding(const ReadValues& read) const {
  channel_->read_output([&](const JobOutput& output) { read(output.embedding); });
}

uint64_t Job::seed() const {
  return channel_->mark.seed;
}

}  // namespace quire
