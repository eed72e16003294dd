#include "core/engine/loop/commit.h"

#include <algorithm>
#include <utility>

#include "core/base/contain.h"
#include "core/base/deadline.h"
#include "core/base/error.h"

namespace quire {

namespace {

// Emits a token. Returns the number of newest tokens to retract because a banned string begins in them. Stop
// strings are checked before max_new_tokens, so that the last token cannot leak a part of one.
int32_t emit_token(JobRecord& job, const SampledToken& sampled, bool is_last) {
  JobStep& step = job.step;
  if (is_last && step.finish == FinishReason::stop_token) {
    job.text.push_silent(sampled, job.wants_log_probs());
    job.result.stop_token = sampled.token;
    return 0;
  }
  if (job.matcher != nullptr && !job.matcher->accept(sampled.token))
    throw Error(ErrorCode::internal, "the constraint rejects a token that its mask allowed");
  const FoundText found = job.text.push(sampled, job.wants_log_probs());
  if (found.stop) {
    job.result.stop_string = job.request.stop_strings[*found.stop];
    step.finish = FinishReason::stop_string;
  }
  return found.num_banned_tokens;
}

bool runs_in_loop(const JobRecord& job) {
  const auto prompt = static_cast<size_t>(job.lane.num_prompt_tokens);
  return job.request.loop_guard.is_on() &&
         find_loop(gsl::span<const TokenId>(job.lane.tokens).subspan(prompt), job.request.loop_guard) > 0;
}

}  // namespace

// Commits all lanes first, then the sampled tokens of their jobs.
void Commit::commit(const StepPlan& plan) noexcept {
  const int32_t batch_jobs = plan.num_jobs();
  for (const PlannedLane& planned : plan.lanes) {
    planned.lane->job->channel->progress.batch_jobs = batch_jobs;
    commit_lane(planned);
  }
  const JobRecord* last = nullptr;
  for (const PlannedLane& planned : plan.lanes) {
    if (std::exchange(last, planned.lane->job) != planned.lane->job) commit_job(*planned.lane->job);
  }
}

// Accepts the new tokens, up to the one that completes a stop string, a banned string or a loop.
void Commit::take_tokens(JobRecord& job) {
  for (size_t i = 0; i < job.step.drawn.size(); ++i) {
    const SampledToken& sampled = job.step.drawn[i];
    const bool is_last = i + 1 == job.step.drawn.size();
    job.for_each_lane([&](Lane& lane) { lane.tokens.push_back(sampled.token); });
    job.sampler.accept(sampled.token, sampled.probability);
    const int32_t num_banned_tokens = emit_token(job, sampled, is_last);
    if (num_banned_tokens > 0) {
      job.step.finish = FinishReason::unfinished;
      return jobs_.retract_banned(job, num_banned_tokens);
    }
    if (job.step.finish == FinishReason::stop_string) return;
    if (is_last && job.step.finish != FinishReason::unfinished) break;
    if (!runs_in_loop(job)) continue;
    job.step.finish = FinishReason::loop;
    break;
  }
  if (job.step.finish == FinishReason::unfinished) return;
  job.text.finish(job.step.finish == FinishReason::stop_token ? AnswerEnd::complete : AnswerEnd::cut_off);
}

void Commit::commit_lane(const PlannedLane& planned) noexcept {
  if (planned.faulted) return;
  count_lane(planned);
  jobs_.name_spaces().add_served(planned.lane->job->name_space, planned.num_tokens);
  take_prompt(planned);
}

void Commit::commit_job(JobRecord& job) noexcept {
  JobStep& step = job.step;
  job.suspect = false;
  if (step.error != ErrorCode::ok) return jobs_.fail(job, step.error, step.message, step.parameter);
  count_draws(job);
  job.drop_candidates();
  if (!step.drawn.empty()) job.lane.num_forced = step.num_forced;
  const auto fail = [&](ErrorCode code, std::string_view what, std::string_view parameter) {
    jobs_.fail(job, code, what, parameter);
  };
  if (!contain(
          "no memory for the tokens of a step", [&] { take_tokens(job); }, fail))
    return;
  if (!step.drawn.empty()) {
    job.channel->progress.new_tokens = job.num_new_tokens();
    job.channel->state = JobState::generating;
    measure_token(job);
  }
  contain(
      "no memory for an event", [&] { emit(job); }, fail);
  if (step.finish != FinishReason::unfinished) jobs_.end(job, step.finish, ErrorCode::ok, {});
}

// Stores the results of scoring and embedding jobs.
void Commit::take_prompt(const PlannedLane& planned) noexcept {
  JobRecord& job = *planned.lane->job;
  if (job.request.kind == JobKind::generate) return;
  if (job.request.kind == JobKind::embed) {
    std::swap(job.pool, job.step.pool);
    if (job.step.finish == FinishReason::completed) job.output.embedding.swap(job.step.embedding);
  }
  if (!job.step.scores.empty())
    std::copy(job.step.scores.begin(), job.step.scores.end(), job.output.scores.begin() + planned.start);
  if (job.step.raw_rows.empty()) return;
  const size_t vocab_size = job.step.raw_rows.size() / static_cast<size_t>(planned.num_tokens);
  const size_t width = job.output.raw_logits.size() / job.lane.tokens.size();
  for (size_t i = 0; i < static_cast<size_t>(planned.num_tokens); ++i) {
    const auto row = job.step.raw_rows.subspan(i * vocab_size, width);
    const size_t at = (static_cast<size_t>(planned.start) + i) * width;
    std::copy(row.begin(), row.end(), job.output.raw_logits.begin() + static_cast<ptrdiff_t>(at));
  }
}

// Counts prompt tokens: those computed, and those found in the prefix cache.
void Commit::count_lane(const PlannedLane& planned) noexcept {
  const Lane& lane = *planned.lane;
  JobRecord& job = *lane.job;
  const bool prefills =
      !job.first_token || planned.num_tokens > 1 + lane.num_candidates + job.lane.num_forced;
  jobs_.metrics_store().count(job.metrics_index, [&](JobCounts& of) {
    if (prefills) of.prompt_tokens_computed += static_cast<uint64_t>(planned.num_tokens);
    if (!job.first_token) of.prompt_tokens_cached += static_cast<uint64_t>(planned.num_found_tokens);
  });
  if (&lane != &job.lane) return;  // the progress of a job is that of its first lane
  JobProgress& progress = job.channel->progress;
  if (prefills) progress.computed_tokens = planned.end();
  // Counts only the prompt. After a preemption the job finds its own pages, which do not count.
  if (!job.first_token && job.result.preemptions == 0) job.result.cached_tokens += planned.num_found_tokens;
  progress.cached_tokens = job.result.cached_tokens;
}

// Counts new tokens, and proposed and accepted draft tokens.
void Commit::count_draws(JobRecord& job) noexcept {
  if (job.step.drawn.empty()) return;
  const int32_t num_candidates = job.lane.num_candidates;
  const int32_t num_accepted = job.num_accepted_drafts();
  job.result.draft_tokens += num_candidates;
  job.result.accepted_draft_tokens += num_accepted;
  DraftProgress& progress = job.channel->progress.drafts;
  progress.tokens = job.result.draft_tokens;
  progress.accepted = job.result.accepted_draft_tokens;
  for (size_t i = 0; i < static_cast<size_t>(num_accepted); ++i)
    progress.accepted_by_position[i] = ++job.result.accepted_by_position[i];
  jobs_.metrics_store().count(job.metrics_index, [&](JobCounts& of) {
    of.new_tokens += static_cast<uint64_t>(job.step.drawn.size());
    of.draft_tokens += static_cast<uint64_t>(num_candidates);
    of.draft_tokens_accepted += static_cast<uint64_t>(num_accepted);
    for (size_t i = 0; i < static_cast<size_t>(num_accepted); ++i) ++of.accepted_by_position[i];
  });
}

void Commit::measure_token(JobRecord& job) noexcept {
  const TimePoint now = clock_.now();
  MetricsStore& metrics_store = jobs_.metrics_store();
  if (job.first_token) {
    const double seconds = in_seconds(now - job.last_token);
    metrics_store.observe(job.metrics_index,
                          [&](JobHistograms& of) { of.time_between_tokens.observe(seconds); });
  } else {
    job.first_token = now;
    job.channel->progress.first_token = now;
    const double seconds = in_seconds(now - job.submitted);
    metrics_store.observe(job.metrics_index,
                          [&](JobHistograms& of) { of.time_to_first_token.observe(seconds); });
    jobs_.measure_reuse(job);
  }
  job.last_token = now;
}

void Commit::emit(JobRecord& job) {
  EventStream& stream = *job.channel->stream;
  if (!job.announced) {
    job.announced = true;
    stream.push(job.channel->make_event(EventKind::started), &jobs_.pending_wakeups());
  }
  if (job.request.want_progress && !job.first_token) {
    Event progress = job.channel->make_event(EventKind::progress);
    progress.done_tokens = std::min(kv_.length(*job.lane.sequence), job.lane.num_prompt_tokens);
    progress.total_tokens = job.lane.num_prompt_tokens;
    stream.push(std::move(progress), &jobs_.pending_wakeups());
  }
  const bool ends = job.step.finish != FinishReason::unfinished;
  while (job.text.has_text() || (ends && job.text.has_anything())) {
    Event text = job.text.take();
    job.channel->label(EventKind::text, text);
    if (!stream.push(std::move(text), &jobs_.pending_wakeups()))
      throw Error(ErrorCode::slow_reader,
                  "max_unread_events: the reader left {} events unread; read them faster, or set another "
                  "event_policy",
                  job.request.max_unread_events);
  }
}

}  // namespace quire
