// How jobs come, are changed from outside, and go.
#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "core/base/error.h"
#include "core/engine/deadline.h"
#include "core/engine/jobs/request_check.h"
#include "core/engine/loop/step_loop.h"

namespace quire {

void StepLoop::take_in(Inbox& inbox) {
  now_ = runtime_.clock().now();
  if (!inbox.jobs.empty() || !inbox.tasks.empty()) queue_is_settled_ = false;
  for (auto& job : inbox.jobs) accept(std::move(job));
  inbox.jobs.clear();
  for (auto& task : inbox.tasks) {
    try {
      task->run(*this);
    } catch (const Error& error) {
      task->refuse(error.code(), error.what());
    } catch (const std::bad_alloc&) {
      task->refuse(ErrorCode::out_of_memory, "no memory");
    } catch (...) {
      task->refuse(ErrorCode::internal, "a task failed");
    }
  }
  inbox.tasks.clear();
  if (inbox.cancels) end_cancelled();
  sweep();
  told_.flush();
}

void StepLoop::accept(std::unique_ptr<JobRecord> job) noexcept {
  JobRecord& accepted = *job;
  try {
    waiting_.reserve(waiting_.size() + 1);
    accepted.book_place = book_.place_of(accepted.request.name_space);
    accepted.name_space = name_spaces_.enter(accepted.request.name_space);
    book_.submitted(accepted.book_place);
  } catch (...) {
    book_.submitted(accepted.book_place);
    fail(accepted, ErrorCode::out_of_memory, "no memory to take the job in");
    announce_end(accepted);
    return;
  }
  waiting_.push_back(std::move(job));
  next_deadline_ = std::min(next_deadline_, accepted.deadline());
}

void StepLoop::end_cancelled() noexcept {
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

void StepLoop::end_late() noexcept {
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

TimePoint StepLoop::next_event() const {
  TimePoint next = std::min(next_deadline_, plan_again_);
  for (const Pin& pin : pins_) next = std::min(next, pin.expires);
  return next;
}

// Pages and counts first, the terminal event with the next sweep: whoever sees it finds everything given
// back.
void StepLoop::end(JobRecord& job, FinishReason reason, ErrorCode code, std::string_view message) noexcept {
  if (std::exchange(job.ended, true)) return;
  queue_is_settled_ = false;
  const bool ran = job.sequence.has_value();
  drop_pages(job);
  if (!job.started) queue_.left_queue(job.request.name_space);
  if (job.name_space >= 0) name_spaces_.leave(job.name_space);
  JobResult& result = job.result;
  const TimePoint end_time = runtime_.clock().now();
  result.reason = reason;
  result.error = code;
  set_message(result.message, message);
  result.new_tokens = job.num_new_tokens();
  if (!job.started) result.time_queued = end_time - job.submitted;
  if (job.started) result.time_prefill = job.first_token.value_or(end_time) - *job.started;
  if (job.first_token) result.time_generating = end_time - *job.first_token;
  note_rest(job, false, end_time);
  book_.count(job.book_place, [&](JobCounts& of) {
    --(ran ? of.running_jobs : of.queued_jobs);
    ++of.finished_jobs;
    if (reason == FinishReason::failed) ++of.failed_jobs;
    if (reason == FinishReason::cancelled) ++of.cancelled_jobs;
  });
  if (reason == FinishReason::completed) {
    measure_reuse(job);
    job.channel->set_output(std::move(job.output));
  }
  any_ended_ = true;
}

void StepLoop::announce_end(JobRecord& job) noexcept {
  job.channel->finish(std::move(job.result), &told_);
  queue_.forget(job.id);
}

void StepLoop::drop_pages(JobRecord& job) noexcept {
  if (!job.sequence) return;
  kv_.destroy(*job.sequence);
  job.sequence.reset();
  name_spaces_.change_running(job.name_space, -1);
}

void StepLoop::sweep() noexcept {
  publish_stats();
  if (!std::exchange(any_ended_, false)) return;
  for (Jobs* jobs : {&running_, &waiting_}) {
    for (const auto& job : *jobs) {
      if (job->ended) announce_end(*job);
    }
    std::erase_if(*jobs, [](const auto& job) { return job->ended; });
  }
}

void StepLoop::end_all(ErrorCode code, std::string_view message) noexcept {
  for (Jobs* jobs : {&running_, &waiting_}) {
    for (const auto& job : *jobs) fail(*job, code, message);
  }
  while (!pins_.empty()) unpin(pins_.front().id);
  book_.cache().engine_error = code;
  sweep();
  told_.flush();
}

JobRecord* StepLoop::find(JobId id) {
  for (Jobs* jobs : {&running_, &waiting_}) {
    for (const auto& job : *jobs) {
      if (job->id == id && !job->ended) return job.get();
    }
  }
  return nullptr;
}

// The last token that stays is computed again: its logits are needed.
void StepLoop::rewind(JobRecord& job, int32_t num_new_tokens) {
  if (num_new_tokens < 0 || num_new_tokens >= job.num_new_tokens()) return;
  const auto num_kept = static_cast<size_t>(job.num_prompt_tokens) + static_cast<size_t>(num_new_tokens);
  const auto kept = gsl::span<const TokenId>(job.tokens).first(num_kept);
  TextOutput text = job.text.rewound(kept.subspan(static_cast<size_t>(job.num_prompt_tokens)));
  if (num_new_tokens < job.text.num_taken_tokens()) {
    Event event = job.channel->make_event(EventKind::rewind);
    event.kept_tokens = text.num_taken_tokens();
    event.kept_bytes = text.num_taken_bytes();
    job.channel->stream->push(std::move(event), &told_);
  }
  job.sampler.rewind(job.tokens.size() - num_kept);
  job.tokens.resize(num_kept);
  job.text = std::move(text);
  if (job.sequence) kv_.truncate(*job.sequence, static_cast<int32_t>(num_kept) - 1);
  job.channel->progress.new_tokens = num_new_tokens;
}

namespace {

int32_t new_tokens_of_fork(const JobRecord& parent, const ForkOptions& options) {
  return options.max_new_tokens > 0 ? options.max_new_tokens
                                    : parent.request.max_new_tokens - parent.num_new_tokens();
}

std::unique_ptr<JobRecord> make_child(const JobRecord& parent, std::shared_ptr<JobChannel> channel,
                                      const ForkOptions& options, int32_t max_tokens) {
  auto child = std::make_unique<JobRecord>(parent.request, parent.sampler, parent.text.clone());
  child->id = channel->id;
  child->channel = std::move(channel);
  child->request.tag = options.tag;
  child->request.index = 0;
  child->request.max_new_tokens = new_tokens_of_fork(parent, options);
  child->request.min_new_tokens = std::max(0, parent.request.min_new_tokens - parent.num_new_tokens());
  child->sampler.reseed(options.seed);
  child->stop_tokens = parent.stop_tokens;
  child->num_prompt_tokens = static_cast<int32_t>(parent.tokens.size());
  child->max_tokens = max_tokens;
  child->tokens.reserve(static_cast<size_t>(max_tokens) + 1);
  child->sampler.reserve(static_cast<size_t>(max_tokens) + 1);
  child->tokens.assign(parent.tokens.begin(), parent.tokens.end());
  child->result.prompt_tokens = child->num_prompt_tokens;
  return child;
}

}  // namespace

// Whether a fork can run beside its parent at once, with all its pages.
bool StepLoop::has_place_for_fork(const JobRecord& parent) {
  if (static_cast<int32_t>(running_.size()) >= policy_limits_.max_running_jobs) return false;
  const NamespaceView& space = name_spaces_.view(parent.name_space);
  if (space.max_running_jobs > 0 && space.running_jobs >= space.max_running_jobs) return false;
  if (space.max_pages == 0) return true;
  int32_t held_pages = kv_.num_pages(*parent.sequence);
  for (const auto& job : running_) {
    if (job->sequence && job->name_space == parent.name_space) held_pages += kv_.num_pages(*job->sequence);
  }
  return held_pages <= space.max_pages;
}

// The child takes over pages where there is a place for it; else it waits in the queue like any other and
// finds most of them through the cache.
void StepLoop::fork(const JobRecord& parent, std::shared_ptr<JobChannel> channel, const ForkOptions& options,
                    int32_t max_seq_len) {
  const int64_t wanted = static_cast<int64_t>(parent.tokens.size()) + new_tokens_of_fork(parent, options);
  check_fit(wanted, parent.request.name_space, {limits_, parts_.num_tokens, max_seq_len, options_});
  auto child = make_child(parent, std::move(channel), options,
                          static_cast<int32_t>(std::min<int64_t>(max_seq_len, wanted)));
  child->submitted = now_;
  child->channel->progress.submitted = now_;
  child->channel->progress.prompt_tokens = child->num_prompt_tokens;
  JobRecord& forked = *child;
  const bool shares = parent.sequence && has_place_for_fork(parent);
  accept(std::move(child));
  if (!shares || waiting_.empty() || waiting_.back().get() != &forked) return;
  try {
    forked.sequence = kv_.fork(*parent.sequence);
  } catch (...) {  // no memory for a second table: it waits instead
    return;
  }
  forked.admitted_priority = parent.admitted_priority;
  forked.result.cached_tokens = kv_.length(*forked.sequence);
  forked.channel->progress.cached_tokens = forked.result.cached_tokens;
  begin(forked);
  running_.push_back(std::move(waiting_.back()));
  waiting_.pop_back();
}

void StepLoop::begin(JobRecord& job) noexcept {
  job.channel->state = job.first_token ? JobState::generating : JobState::prefill;
  name_spaces_.change_running(job.name_space, 1);
  book_.count(job.book_place, [](JobCounts& of) {
    --of.queued_jobs;
    ++of.running_jobs;
  });
  if (job.started) return;
  job.started = now_;
  job.channel->progress.started = now_;
  job.result.time_queued = now_ - job.submitted;
  const double seconds = in_seconds(job.result.time_queued);
  book_.observe(job.book_place, [&](JobHistograms& of) { of.time_queued.observe(seconds); });
  queue_.left_queue(job.request.name_space);
}

void StepLoop::expire_pins() noexcept {
  for (size_t i = pins_.size(); i-- > 0;) {
    if (pins_[i].expires <= now_) unpin(pins_[i].id);
  }
}

PinId StepLoop::pin(const TokenIds& prompt, const std::string& name_space, Duration time_to_live) {
  int32_t pinned = 0;
  int32_t pinned_here = 0;
  for (const Pin& pin : pins_) {
    pinned += pin.num_own_pages;
    if (pin.name_space == name_space) pinned_here += pin.num_own_pages;
  }
  int32_t left = (options_.max_pinned_pages > 0 ? options_.max_pinned_pages : limits_.num_pages / 4) - pinned;
  const int32_t quota = name_spaces_.quota_of(name_space).max_pinned_pages;
  if (quota > 0) left = std::min(left, quota - pinned_here);
  pins_.reserve(pins_.size() + 1);
  Pin pin{PinId{last_pin_ + 1}, name_space, book_.place_of(name_space), {}, TimePoint::max()};
  if (time_to_live > Duration{0}) pin.expires = now_ + time_to_live;
  pin.pages = kv_.pin({name_space, 0}, prompt, left);
  if (pin.pages.empty()) throw Error(ErrorCode::not_found, "not one whole page of the prefix is cached");
  pins_.push_back(std::move(pin));
  count_pinned_pages();
  publish_stats();  // who asks after the call sees what it did
  return PinId{++last_pin_};
}

void StepLoop::unpin(PinId id) noexcept {
  const auto pin = std::find_if(pins_.begin(), pins_.end(), [&](const Pin& entry) { return entry.id == id; });
  if (pin == pins_.end()) return;
  kv_.unpin(pin->pages);
  pins_.erase(pin);
  count_pinned_pages();
  publish_stats();
}

// Each page once, however many pins keep it; pins of two namespaces share none.
void StepLoop::count_pinned_pages() noexcept {
  for (auto pin = pins_.begin(); pin != pins_.end(); ++pin) {
    pin->num_own_pages =
        static_cast<int32_t>(std::count_if(pin->pages.begin(), pin->pages.end(), [&](PageId page) {
          return std::none_of(pins_.begin(), pin, [&](const Pin& before) {
            return std::find(before.pages.begin(), before.pages.end(), page) != before.pages.end();
          });
        }));
  }
}

int32_t StepLoop::query_prefix(const TokenIds& prompt, const std::string& name_space) const {
  return kv_.demand(PrefixDomain{name_space, 0}, prompt).found_tokens;
}

void StepLoop::publish_stats() noexcept {
  CacheStats& stats = book_.cache();
  const PagePool& pool = kv_.pool();
  stats.pages = {pool.num_pages(), pool.num_free(), pool.num_cached(), pool.num_referenced(), 0};
  stats.pages_deduplicated = kv_.num_deduplicated();
  stats.pages_evicted = pool.num_evicted();
  book_.clear_pages();
  for (const Pin& pin : pins_) {
    stats.pages.pinned += pin.num_own_pages;
    book_.add_pages(pin.book_place, 0, pin.num_own_pages);
  }
  for (const auto& job : running_) {
    if (job->sequence) book_.add_pages(job->book_place, kv_.num_pages(*job->sequence), 0);
  }
  book_.publish();
}

void StepLoop::audit() const {
  const std::string problem = kv_.audit();
  if (!problem.empty()) throw Error(ErrorCode::internal, "page accounting: {}", problem);
}

}  // namespace quire
