// Long file: all changes of the list of live jobs, from submission to the end.
#include "core/engine/loop/live_jobs.h"

#include <algorithm>
#include <utility>

#include "core/base/contain.h"
#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/base/message_text.h"

namespace quire {

namespace {

int32_t max_pinned_pages(const EngineContext& context) {
  const int32_t pages = context.options.max_pinned_pages;
  return pages > 0 ? pages : context.executor.guaranteed_pages() / 4;
}

}  // namespace

LiveJobs::LiveJobs(const EngineContext& context)
    : context_(context),
      namespaces_(context.options),
      pins_(context.pages.kv(), namespaces_, metrics_store_, max_pinned_pages(context)) {
  const auto max_jobs = static_cast<size_t>(context.policy.max_running_lanes);
  running_.reserve(max_jobs);
  admitted_.reserve(max_jobs);
  pending_wakeups_.reserve(max_jobs);
  publish_stats();
}

LiveJobs::~LiveJobs() = default;

void LiveJobs::take_in(QueuedWork& queued_work) {
  now_ = context_.runtime.clock().now();
  if (!queued_work.jobs.empty() || !queued_work.tasks.empty()) note_change();
  for (auto& job : queued_work.jobs) accept(std::move(job));
  queued_work.jobs.clear();
  for (auto& task : queued_work.tasks) {
    contain(
        "no memory", [&] { task->run(*this); },
        [&](ErrorCode code, std::string_view message, std::string_view parameter) {
          task->refuse(code, message, parameter);
        });
  }
  queued_work.tasks.clear();
  if (queued_work.cancels) end_cancelled();
  sweep();
  pending_wakeups_.flush();
}

void LiveJobs::read_clock() noexcept {
  now_ = context_.runtime.clock().now();
  end_late();
  pending_wakeups_.flush();
  pins_.expire(now_);
}

void LiveJobs::accept(std::unique_ptr<JobRecord> job) noexcept {
  JobRecord& accepted = *job;
  try {
    waiting_.reserve(waiting_.size() + 1);
    accepted.metrics_index = metrics_store_.place_of(accepted.request.name_space);
    accepted.name_space = namespaces_.enter(accepted.request.name_space);
    metrics_store_.submitted(accepted.metrics_index);
  } catch (...) {
    metrics_store_.submitted(accepted.metrics_index);
    fail(accepted, ErrorCode::out_of_memory, "no memory to accept the job");
    announce_end(accepted);
    return;
  }
  waiting_.push_back(std::move(job));
  next_deadline_ = std::min(next_deadline_, accepted.deadline());
}

void LiveJobs::end_cancelled() noexcept {
  for (Jobs* jobs : {&running_, &waiting_}) {
    for (const auto& job : *jobs) {
      if (job->channel->cancel_requested) end(*job, FinishReason::cancelled, ErrorCode::ok, {});
    }
  }
}

namespace {

std::string_view missed_deadline(const JobRecord& job, TimePoint now) {
  if (job.total_deadline <= now) return "deadline_ns passed";
  if (!job.first_token && job.first_token_deadline <= now) return "first_token_deadline_ns passed";
  if (!job.started && job.queue_deadline <= now) return "queue_deadline_ns passed";
  return {};
}

}  // namespace

void LiveJobs::end_late() noexcept {
  if (now_ < next_deadline_) return;
  next_deadline_ = TimePoint::max();
  for (Jobs* jobs : {&running_, &waiting_}) {
    for (const auto& job : *jobs) {
      const std::string_view missed = missed_deadline(*job, now_);
      if (!missed.empty()) {
        fail(*job, ErrorCode::deadline, missed);
      } else {
        next_deadline_ = std::min(next_deadline_, job->deadline());
      }
    }
  }
  sweep();
}

TimePoint LiveJobs::next_event() const {
  return std::min(next_deadline_, pins_.next_expiry());
}

// Frees pages and updates counts now. The terminal event is sent by the next sweep, so that its reader finds
// everything freed.
void LiveJobs::end(JobRecord& job, FinishReason reason, ErrorCode code, std::string_view message,
                   std::string_view parameter) noexcept {
  if (std::exchange(job.ended, true)) return;
  note_change();
  const bool ran = job.holds_pages();
  drop_pages(job);
  if (!job.started) context_.queue.left_queue(job.request.name_space);
  if (job.name_space >= 0) namespaces_.leave(job.name_space);
  JobResult& result = job.result;
  const TimePoint end_time = context_.runtime.clock().now();
  result.reason = reason;
  result.error = code;
  set_message(result.message, message);
  set_text(result.parameter, parameter);
  result.new_tokens = job.num_new_tokens();
  if (!job.started) result.time_queued = end_time - job.submitted;
  if (job.started) result.time_prefill = job.first_token.value_or(end_time) - *job.started;
  if (job.first_token) result.time_generating = end_time - *job.first_token;
  track_pauses(job, false, end_time);
  metrics_store_.count(job.metrics_index, [&](JobCounts& of) {
    --(ran ? of.running_jobs : of.queued_jobs);
    ++of.finished_jobs;
    if (reason == FinishReason::failed) ++of.failed_jobs;
    if (reason == FinishReason::cancelled) ++of.cancelled_jobs;
  });
  if (reason == FinishReason::completed) {
    measure_reuse(job);
    job.channel->set_output(std::move(job.output));
  }
  sweeps_.any_ended = true;
}

void LiveJobs::announce_end(JobRecord& job) noexcept {
  job.channel->finish(std::move(job.result), &pending_wakeups_);
  context_.queue.forget(job.id);
}

void LiveJobs::drop_pages(JobRecord& job) noexcept {
  if (!job.holds_pages()) return;
  close_lanes(job);
  namespaces_.change_running(job.name_space, -1);
}

void LiveJobs::close_lanes(JobRecord& job) noexcept {
  job.for_each_lane([&](Lane& lane) {
    if (lane.sequence) kv().destroy(*lane.sequence);
    lane.sequence.reset();
  });
}

void LiveJobs::sweep() noexcept {
  publish_stats();
  if (!std::exchange(sweeps_.any_ended, false)) return;
  for (Jobs* jobs : {&running_, &waiting_}) {
    for (const auto& job : *jobs) {
      if (job->ended) announce_end(*job);
    }
    std::erase_if(*jobs, [](const auto& job) { return job->ended; });
  }
}

void LiveJobs::measure_reuse(const JobRecord& job) noexcept {
  if (!job.request.reuse_prefix) return;
  const double share = static_cast<double>(job.result.cached_tokens) / job.lane.num_prompt_tokens;
  metrics_store_.observe(job.metrics_index, [&](JobHistograms& of) { of.cached_share.observe(share); });
}

void LiveJobs::fail_each(ErrorCode code, std::string_view message) noexcept {
  for (Jobs* jobs : {&running_, &waiting_}) {
    for (const auto& job : *jobs) fail(*job, code, message);
  }
}

void LiveJobs::fail_all(ErrorCode code, std::string_view message) noexcept {
  fail_each(code, message);
  sweep();
  pending_wakeups_.flush();
}

void LiveJobs::wait_for_model() noexcept {
  WaitReason reason;
  reason.cause = WaitCause::model;
  for (const auto& job : waiting_) {
    if (job->wait_reason == reason) continue;
    job->wait_reason = reason;
    job->channel->set_wait_reason(reason);
  }
}

void LiveJobs::end_all(ErrorCode code, std::string_view message) noexcept {
  fail_each(code, message);
  while (drop_oldest_pin()) {
  }
  metrics_store_.cache().engine_error = code;
  sweep();
  pending_wakeups_.flush();
  context_.pages.end();
}

JobRecord* LiveJobs::find(JobId id) {
  for (Jobs* jobs : {&running_, &waiting_}) {
    for (const auto& job : *jobs) {
      if (job->id == id && !job->ended) return job.get();
    }
  }
  return nullptr;
}

// Drops one more token from the cache than from the job: the last remaining token is computed again for its
// logits.
void LiveJobs::rewind(JobRecord& job, int32_t num_new_tokens) {
  if (num_new_tokens < 0 || num_new_tokens >= job.num_new_tokens()) return;
  Lane& lane = job.lane;
  const auto num_kept = static_cast<size_t>(lane.num_prompt_tokens) + static_cast<size_t>(num_new_tokens);
  const auto kept = gsl::span<const TokenId>(lane.tokens).first(num_kept);
  TextOutput text = job.text.rewound(kept.subspan(static_cast<size_t>(lane.num_prompt_tokens)));
  const bool takes_back_shown = text.num_taken_tokens() < job.text.num_taken_tokens();
  if (takes_back_shown) {
    Event event = job.channel->make_event(EventKind::rewind);
    event.kept_tokens = text.num_taken_tokens();
    event.kept_bytes = text.num_taken_bytes();
    job.channel->stream->push(std::move(event), &pending_wakeups_);
  }
  job.text = std::move(text);
  job.exclusions.drop_from(num_new_tokens);
  drop_tokens(job, num_new_tokens);
}

void LiveJobs::retract_banned(JobRecord& job, int32_t num_tokens) {
  const int32_t place = job.num_new_tokens() - num_tokens;
  job.exclusions.settle(job.num_new_tokens() - static_cast<int32_t>(job.text.num_held_tokens()));
  const auto drawn = static_cast<size_t>(job.lane.num_prompt_tokens) + static_cast<size_t>(place);
  if (!job.exclusions.add(place, job.lane.tokens[drawn])) {
    throw Error(ErrorCode::capacity, "banned_texts: more than {} tokens were retracted; ban fewer texts",
                Exclusions::kMaxTakenBack)
        .at("banned_texts");
  }
  job.text.retract(num_tokens);
  drop_tokens(job, place);
}

void LiveJobs::drop_tokens(JobRecord& job, int32_t num_new_tokens) {
  job.drop_candidates();
  const int32_t num_dropped = job.num_new_tokens() - num_new_tokens;
  if (job.matcher != nullptr) job.matcher->rollback(num_dropped);
  job.sampler.rewind(static_cast<uint64_t>(num_dropped));
  job.for_each_lane([&](Lane& lane) {
    const int32_t num_kept = lane.num_prompt_tokens + num_new_tokens;
    lane.tokens.resize(static_cast<size_t>(num_kept));
    lane.num_followed = std::min(lane.num_followed, num_kept - 1);
    if (lane.sequence) kv().truncate(*lane.sequence, num_kept - 1);
  });
  job.drafts.num_unchanged = std::min(job.drafts.num_unchanged, job.num_tokens());
  job.channel->progress.new_tokens = num_new_tokens;
}

namespace {

int32_t new_tokens_of_fork(const JobRecord& parent, const ForkOptions& options) {
  return options.max_new_tokens > 0 ? options.max_new_tokens
                                    : parent.request.max_new_tokens - parent.num_new_tokens();
}

// The parent's tokens become the prompt of the fork.
void take_over(const Lane& parent, Lane& child, int32_t num_new_tokens) {
  const gsl::span<const TokenId> tokens = parent.known();
  child.num_prompt_tokens = static_cast<int32_t>(tokens.size());
  child.adapter_generation = parent.adapter_generation;
  child.num_followed = parent.num_followed;
  child.tokens.reserve(tokens.size() + static_cast<size_t>(num_new_tokens) + 1);
  child.tokens.assign(tokens.begin(), tokens.end());
}

std::unique_ptr<JobRecord> make_child(const JobRecord& parent, std::shared_ptr<JobChannel> channel,
                                      const ForkOptions& options, int32_t num_new_tokens) {
  auto child = std::make_unique<JobRecord>(parent.request, parent.sampler, parent.text.clone());
  child->id = channel->id;
  child->channel = std::move(channel);
  child->request.tag = options.tag;
  child->request.index = 0;
  child->request.max_new_tokens = new_tokens_of_fork(parent, options);
  child->request.min_new_tokens = std::max(0, parent.request.min_new_tokens - parent.num_new_tokens());
  child->sampler.reseed(child->channel->mark.seed);
  child->stop_tokens = parent.stop_tokens;
  if (parent.matcher != nullptr) child->matcher = parent.matcher->clone();
  child->max_tokens = parent.num_tokens() + num_new_tokens;
  child->sampler.reserve(static_cast<size_t>(child->max_tokens) + 1);
  take_over(parent.lane, child->lane, num_new_tokens);
  if (parent.guide) take_over(*parent.guide, child->guide.emplace(child.get()), num_new_tokens);
  child->result.prompt_tokens = child->lane.num_prompt_tokens;
  return child;
}

}  // namespace

int32_t LiveJobs::num_pages(const JobRecord& job) const {
  int32_t pages = 0;
  job.for_each_lane([&](const Lane& lane) {
    if (lane.sequence) pages += kv().num_pages(*lane.sequence);
  });
  return pages;
}

int32_t LiveJobs::num_running_lanes() const {
  int32_t lanes = 0;
  for (const auto& job : running_) lanes += job->num_lanes();
  return lanes;
}

// True if a fork can run at once beside its parent, with all its pages.
bool LiveJobs::has_place_for_fork(const JobRecord& parent) {
  const int32_t most = std::min(context_.policy.max_running_lanes, kv().max_lanes());
  if (num_running_lanes() + parent.num_lanes() > most) return false;
  const NamespaceView& space = namespaces_.view(parent.name_space);
  if (space.max_running_jobs > 0 && space.running_jobs >= space.max_running_jobs) return false;
  return space.max_pages == 0 || pages_of(parent.name_space) + num_pages(parent) <= space.max_pages;
}

// Returns the pages of all running jobs of a namespace.
int32_t LiveJobs::pages_of(int32_t name_space) const {
  int32_t held_pages = 0;
  for (const auto& job : running_) {
    if (job->name_space == name_space) held_pages += num_pages(*job);
  }
  return held_pages;
}

// Leaves a page for the next token of each running lane.
bool LiveJobs::extend_pages(const Lane& lane, int32_t num_tokens) {
  const int32_t lacking = pages_for(num_tokens, kv().pool().page_tokens()) - kv().num_pages(*lane.sequence);
  if (lacking <= 0) return true;
  const NamespaceView& space = namespaces_.view(lane.job->name_space);
  const bool is_free = kv().pool().num_available() >= lacking + num_running_lanes();
  const bool is_in_quota =
      space.max_pages == 0 || pages_of(lane.job->name_space) + lacking <= space.max_pages;
  return is_free && is_in_quota && kv().preallocate_pages(*lane.sequence, num_tokens);
}

// Shares the parent's pages with the child if the child can run at once. Otherwise the child waits in the
// queue, and finds most of the pages in the prefix cache.
void LiveJobs::fork(JobRecord& parent, std::shared_ptr<JobChannel> channel, const ForkOptions& options,
                    int32_t max_seq_len) {
  const JobSize size{parent.num_tokens(),
                     parent.guide ? static_cast<int32_t>(parent.guide->known().size()) : 0,
                     new_tokens_of_fork(parent, options)};
  check_fit(size, parent.request.name_space,
            {context_.executor, context_.num_tokens, max_seq_len, context_.options});
  auto child = make_child(parent, std::move(channel), options, new_tokens_within(max_seq_len, size));
  child->submitted = now_;
  child->channel->progress.submitted = now_;
  child->channel->progress.prompt_tokens = child->lane.num_prompt_tokens;
  JobRecord& forked = *child;
  const bool shares = parent.holds_pages() && has_place_for_fork(parent);
  accept(std::move(child));
  if (!shares || waiting_.empty() || waiting_.back().get() != &forked) return;
  try {
    forked.lane.sequence = kv().fork(*parent.lane.sequence);
    if (forked.guide) forked.guide->sequence = kv().fork(*parent.guide->sequence);
  } catch (...) {  // no memory for a second page table: the child waits instead
    return close_lanes(forked);
  }
  // The two write to a shared page of which one gets a copy, with the tokens that the target has computed.
  for (JobRecord* job : {&parent, &forked}) {
    job->for_each_lane(
        [&](Lane& lane) { lane.num_followed = std::min(lane.num_followed, kv().length(*lane.sequence)); });
  }
  forked.admitted_priority = parent.admitted_priority;
  forked.result.cached_tokens = kv().length(*forked.lane.sequence);
  forked.channel->progress.cached_tokens = forked.result.cached_tokens;
  begin(forked);
  running_.push_back(std::move(waiting_.back()));
  waiting_.pop_back();
}

void LiveJobs::begin(JobRecord& job) noexcept {
  job.channel->state = job.first_token ? JobState::generating : JobState::prefill;
  job.channel->progress.was_preempted = false;
  namespaces_.change_running(job.name_space, 1);
  metrics_store_.count(job.metrics_index, [](JobCounts& of) {
    --of.queued_jobs;
    ++of.running_jobs;
  });
  if (job.started) return;
  job.started = now_;
  job.channel->progress.started = now_;
  job.result.time_queued = now_ - job.submitted;
  const double seconds = in_seconds(job.result.time_queued);
  metrics_store_.observe(job.metrics_index, [&](JobHistograms& of) { of.time_queued.observe(seconds); });
  context_.queue.left_queue(job.request.name_space);
}

PinId LiveJobs::pin(const TokenIds& prompt, const std::string& name_space, Duration time_to_live) {
  const TimePoint expires = time_to_live > Duration{0} ? now_ + time_to_live : TimePoint::max();
  const PinId pin = pins_.add(prompt, name_space, expires);
  publish_stats();  // statistics read after this call include the pin
  return pin;
}

void LiveJobs::unpin(PinId pin) noexcept {
  pins_.remove(pin);
  publish_stats();
}

bool LiveJobs::drop_oldest_pin() noexcept {
  if (pins_.empty()) return false;
  pins_.remove_oldest();
  publish_stats();
  return true;
}

int32_t LiveJobs::query_prefix(const TokenIds& prompt, const std::string& name_space) const {
  return kv().demand(PrefixDomain{name_space, 0}, prompt).found_tokens;
}

void LiveJobs::follow_pages(const PageFollowing& following) {
  context_.pages.follow(following);
}

void LiveJobs::publish_stats() noexcept {
  CacheStats& stats = metrics_store_.cache();
  context_.pages.measure(stats);
  metrics_store_.clear_pages();
  stats.pages.pinned = pins_.count_pages();
  for (const auto& job : running_) {
    if (job->holds_pages()) metrics_store_.add_pages(job->metrics_index, num_pages(*job), 0);
  }
  metrics_store_.publish();
}

// Looks up each waiting job only once. If its restored pages are evicted again before it starts, they are
// recomputed.
void LiveJobs::reload_prefixes() {
  if (!context_.pages.stores_prefixes()) return;
  const auto num_places = static_cast<size_t>(context_.policy.max_running_lanes - num_running_lanes());
  for (size_t i = 0; i < std::min(num_places, waiting_.size()); ++i) {
    JobRecord& job = *waiting_[i];
    if (!job.request.reuse_prefix || std::exchange(job.prefix_looked_up, true)) continue;
    const auto reload_prefix = [&](const Lane& of) {
      context_.pages.reload_prefix({job.request.name_space, of.adapter_generation}, of.tokens);
    };
    contain(
        "no memory", [&] { job.for_each_lane(reload_prefix); },
        [](ErrorCode, std::string_view) {});  // the prefix is computed instead
  }
}

void LiveJobs::write_prefix_files(Duration longest) noexcept {
  if (!context_.pages.has_prefix_files() || std::exchange(sweeps_.prefixes_filed, true)) return;
  const TimePoint end = deadline_after(context_.runtime.clock().now(), longest);
  context_.pages.write_prefix_files([&] { return context_.runtime.clock().now() >= end; });
  publish_stats();
}

// Its finished pages stay in the prefix cache, so that it can continue where it was, unless they are evicted.
void LiveJobs::preempt(JobRecord& job) {
  const auto place =
      std::find_if(running_.begin(), running_.end(), [&](const auto& entry) { return entry.get() == &job; });
  waiting_.reserve(waiting_.size() + 1);
  drop_pages(job);
  job.prefix_looked_up = false;
  job.drop_candidates();
  waiting_.push_back(std::move(*place));
  running_.erase(place);
  job.channel->progress.preemptions = ++job.result.preemptions;
  metrics_store_.count(job.metrics_index, [](JobCounts& of) {
    --of.running_jobs;
    ++of.queued_jobs;
    ++of.preemptions;
  });
  job.channel->progress.was_preempted = true;
  if (!job.paused) job.channel->state = JobState::queued;
}

// The record stays in waiting_ until all grants are carried out, because grants refer to jobs by index.
void LiveJobs::admit(JobRecord& job, int32_t priority) {
  admitted_.push_back(&job);
  try {
    job.for_each_lane([&](Lane& lane) {
      SequenceOptions options;
      options.domain = {job.request.name_space, lane.adapter_generation};
      options.reuse = job.request.reuse_prefix;
      options.publish = job.request.publish_pages;
      lane.sequence = kv().create(options);
    });
  } catch (...) {
    close_lanes(job);
    throw;
  }
  job.admitted_priority = priority;
  begin(job);
}

void LiveJobs::move_admitted() noexcept {
  for (JobRecord* job : admitted_) {
    if (!job->holds_pages()) continue;
    const auto place =
        std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& entry) { return entry.get() == job; });
    running_.push_back(std::move(*place));  // does not allocate: the constructor reserved the capacity
    waiting_.erase(place);
  }
  admitted_.clear();
}

// Counts the time in which a running job takes part in no step.
void track_pauses(JobRecord& job, bool rests, TimePoint now) noexcept {
  if (rests && !job.paused_since) job.paused_since = now;
  if (rests || !job.paused_since) return;
  job.result.time_paused += now - *job.paused_since;
  job.paused_since.reset();
}

}  // namespace quire
