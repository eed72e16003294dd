// The step itself; plan and life of jobs are in files of their own.
#include "core/engine/loop/step_loop.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "core/engine/deadline.h"
#include "core/engine/loop/batch_builder.h"

namespace quire {

namespace {

KvCacheOptions kv_options(const ExecutorLimits& limits, const CacheOptions& options) {
  KvCacheOptions kv;
  kv.pool = {limits.num_pages, limits.page_tokens, options.prefix_hash_bits};
  kv.max_pages_per_sequence = limits.max_pages_per_sequence;
  kv.max_sequences = limits.max_sequences;
  return kv;
}

PolicyLimits policy_limits(const ExecutorLimits& limits, const CacheOptions& options) {
  PolicyLimits policy;
  policy.max_step_tokens = options.max_chunk_tokens > 0
                               ? std::min(options.max_chunk_tokens, limits.max_tokens)
                               : limits.max_tokens;
  policy.max_running_jobs = std::min({limits.max_sequences, limits.max_logit_rows, limits.max_tokens});
  if (options.max_running_jobs > 0) {
    policy.max_running_jobs = std::min(policy.max_running_jobs, options.max_running_jobs);
  }
  policy.max_logit_rows = limits.max_logit_rows;
  policy.page_tokens = limits.page_tokens;
  policy.max_overtakes = options.max_overtakes;
  policy.ageing_interval = options.ageing_interval;
  return policy;
}

}  // namespace

StepLoop::StepLoop(const Runtime& runtime, CacheParts parts, const CacheOptions& options, JobQueue& queue)
    : runtime_(runtime),
      parts_(std::move(parts)),
      options_(options),
      limits_(parts_.executor->limits()),
      executor_(*parts_.executor),
      queue_(queue),
      kv_(kv_options(limits_, options)),
      sampler_(parts_.num_tokens),
      name_spaces_(options),
      policy_limits_(policy_limits(limits_, options)) {
  const auto max_jobs = static_cast<size_t>(policy_limits_.max_running_jobs);
  running_.reserve(max_jobs);
  planned_jobs_.reserve(max_jobs);
  admitted_.reserve(max_jobs);
  told_.reserve(max_jobs);
  plan_.sequences.reserve(max_jobs);
  accepted_.sequences.reserve(max_jobs);
  batch_.draws.rows.reserve(max_jobs);
  batch_.draws.edits.reserve(static_cast<size_t>(limits_.max_draw_edits));
  {
    const MutexLock lock(fastest_mutex_);
    fastest_steps_.max_step_tokens = policy_limits_.max_step_tokens;
  }
  publish_stats();
}

StepLoop::~StepLoop() = default;

StepOutcome StepLoop::run_once() {
  now_ = runtime_.clock().now();
  end_late();
  told_.flush();
  expire_pins();
  const bool device_was_ahead = !following_jobs_.empty();
  if (!plan()) return StepOutcome::idle;
  step_started_ns_ = std::max<int64_t>(1, now_.time_since_epoch().count());
  const auto clear_watch = gsl::finally([this] { step_started_ns_ = 0; });
  try {
    step();
    if (!device_was_ahead) time_step();  // else nobody knows when the device began
  } catch (const Error& error) {
    if (error.code() == ErrorCode::device_lost) throw;
    blame(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    blame(ErrorCode::out_of_memory, "no memory for a step");
  } catch (const std::exception& error) {
    blame(ErrorCode::internal, error.what());
  } catch (...) {
    blame(ErrorCode::internal, "a step failed with something that is no exception of ours");
  }
  ++book_.cache().steps;
  sweep();
  told_.flush();
  if (options_.check_invariants) audit();
  return StepOutcome::advanced;
}

void StepLoop::step() {
  Reservation reservation = kv_.reserve(plan_);  // given back on the way out unless committed
  build_batch(plan_, reservation, limits_.max_pages_per_sequence, batch_);
  batch_.wants_hidden = std::any_of(planned_jobs_.begin(), planned_jobs_.end(),
                                    [](const JobRecord* job) { return job->request.kind == JobKind::embed; });
  plan_draws(reservation);
  executor_.forward(batch_);
  follow(reservation);
  const Logits logits = executor_.logits();
  measure_step();
  verify(reservation, logits);
  reservation.commit(accepted_);
  append(reservation);
}

void StepLoop::time_step() noexcept {
  const Duration took = runtime_.clock().now() - now_;
  const MutexLock lock(fastest_mutex_);
  fastest_steps_.observe(batch_.num_tokens(), took);
}

FastestSteps StepLoop::fastest_steps() const {
  const MutexLock lock(fastest_mutex_);
  return fastest_steps_;
}

void StepLoop::measure_step() noexcept {
  const double num_sequences = batch_.num_sequences();
  book_.steps().sequences.observe(num_sequences);
  book_.steps().tokens.observe(batch_.num_tokens());
  book_.steps().batch_fill.observe(num_sequences / policy_limits_.max_running_jobs);
}

// A step that failed as a whole is somebody's fault: who took part is run alone until it is found out whose.
void StepLoop::blame(ErrorCode code, std::string_view message) noexcept {
  if (planned_jobs_.size() == 1) {
    fail(*planned_jobs_.front(), code, message);
    return;
  }
  for (JobRecord* job : planned_jobs_) job->suspect = true;
  runtime_.log()(LogLevel::warning, "a step of {} jobs failed ({}): {}", planned_jobs_.size(),
                 error_code_name(code), message);
}

gsl::span<const float> StepLoop::token_logits(const Logits& logits, int32_t row) const {
  return logits.row(row).first(static_cast<size_t>(parts_.num_tokens));
}

void StepLoop::verify(const Reservation& reservation, const Logits& logits) {
  accepted_.sequences.clear();
  const gsl::span<const ReservedSequence> sequences = reservation.sequences();
  int32_t row = 0;
  for (size_t i = 0; i < planned_jobs_.size(); ++i) {
    JobRecord& job = *planned_jobs_[i];
    const ReservedSequence& reserved = sequences[i];
    AcceptedSequence accepted{reserved.num_tokens, false};
    try {
      verify_job(job, reserved, logits, row, accepted);
      if (job.request.kind == JobKind::embed) pool_states(job, reserved, batch_.sequence_starts[i]);
    } catch (const Error& error) {
      job.step.fault(error.code(), error.what());
    } catch (const std::bad_alloc&) {
      job.step.fault(ErrorCode::out_of_memory, "no memory for the tokens of a step");
    } catch (const std::exception& error) {
      job.step.fault(ErrorCode::internal, error.what());
    } catch (...) {
      job.step.fault(ErrorCode::internal, "a step failed with something that is no exception of ours");
    }
    accepted.faulted = job.step.error != ErrorCode::ok;
    accepted_.sequences.push_back(accepted);
    row += reserved.num_logit_rows;
  }
}

void StepLoop::verify_job(JobRecord& job, const ReservedSequence& reserved, const Logits& logits, int32_t row,
                          AcceptedSequence& accepted) {
  const bool reaches_end = job.ends_at(reserved.end());
  if (job.request.kind == JobKind::score) {
    verify_score(job, reserved, logits, row);
  } else if (reaches_end && job.request.kind == JobKind::generate) {
    verify_tokens(job, reserved, logits, row, accepted);
    return;
  } else if (!is_finite(logits, row + reserved.num_logit_rows - 1)) {
    throw Error(ErrorCode::numeric, "the logits behind token {} are not finite", reserved.end());
  }
  if (reaches_end) job.step.finish = FinishReason::completed;
}

namespace {

// log(sum(exp(row))), in double: the sum of a vocabulary loses digits in float.
double log_sum_exp(gsl::span<const float> row, float max_logit) {
  double sum = 0.0;
  for (const float logit : row) sum += std::exp(static_cast<double>(logit) - max_logit);
  return max_logit + std::log(sum);
}

}  // namespace

void StepLoop::verify_score(JobRecord& job, const ReservedSequence& reserved, const Logits& logits,
                            int32_t row) {
  for (int32_t i = 0; i < reserved.num_tokens; ++i) {
    const auto logits_row = token_logits(logits, row + i);
    const RowScan scan = scan_row(logits_row);
    const auto position = static_cast<size_t>(reserved.start) + static_cast<size_t>(i);
    if (!scan.finite)
      throw Error(ErrorCode::numeric, "the logits behind token {} are not finite", position + 1);
    if (job.request.want_raw_logits) {
      const size_t width = logits_row.size();
      std::copy(logits_row.begin(), logits_row.end(),
                job.output.raw_logits.begin() + static_cast<ptrdiff_t>(position * width));
    }
    if (position + 1 == job.tokens.size()) continue;
    const float logit = logits_row[static_cast<size_t>(job.tokens[position + 1])];
    job.output.scores[position] = static_cast<float>(logit - log_sum_exp(logits_row, scan.max_logit));
  }
}

// The row behind each candidate says whether it was right; the first wrong one is replaced by what was drawn,
// and nothing behind it stands. Plain decoding has no candidates and one row.
void StepLoop::verify_tokens(JobRecord& job, const ReservedSequence& reserved, const Logits& logits,
                             int32_t row, AcceptedSequence& accepted) {
  const int32_t first_row = row + reserved.num_logit_rows - 1 - job.num_candidates;
  const size_t num_known = job.tokens.size() - static_cast<size_t>(job.num_candidates);
  for (int32_t i = 0; i <= job.num_candidates && job.step.finish == FinishReason::unfinished; ++i) {
    const SampledToken sampled = sample(job, logits, first_row + i);
    take_token(job, sampled);
    const bool matches =
        i < job.num_candidates && job.tokens[num_known + static_cast<size_t>(i)] == sampled.token;
    if (!matches) break;
  }
  // The last of the new tokens has not been computed, whether it replaced a candidate or came behind them.
  accepted.num_tokens =
      reserved.num_tokens - job.num_candidates + static_cast<int32_t>(job.step.new_tokens.size()) - 1;
}

// Stop strings come before max_new_tokens, so that the last token cannot leak a piece of one.
void StepLoop::take_token(JobRecord& job, const SampledToken& sampled) {
  JobStep& step = job.step;
  step.new_tokens.push_back(sampled.token);
  job.sampler.accept(sampled.token, sampled.probability);
  if (std::find(job.stop_tokens.begin(), job.stop_tokens.end(), sampled.token) != job.stop_tokens.end()) {
    job.text.push_silent(sampled, job.wants_log_probs());
    job.text.finish();
    job.result.stop_token = sampled.token;
    step.finish = FinishReason::stop_token;
    return;
  }
  if (const auto stop = job.text.push(sampled, job.wants_log_probs())) {
    job.result.stop_string = job.request.stop_strings[*stop];
    step.finish = FinishReason::stop_string;
    return;
  }
  const int32_t num_new = job.num_drawn_tokens();
  if (num_new >= job.request.max_new_tokens) {
    step.finish = FinishReason::max_new_tokens;
  } else if (job.num_prompt_tokens + num_new >= job.max_tokens) {
    step.finish = FinishReason::max_seq_len;
  }
  if (step.finish != FinishReason::unfinished) job.text.finish();
}

void StepLoop::append(const Reservation& reservation) noexcept {
  for (size_t i = 0; i < planned_jobs_.size(); ++i) {
    append_job(*planned_jobs_[i], reservation.sequences()[i], accepted_.sequences[i]);
  }
}

// Memory for new tokens was taken at submit.
void StepLoop::append_job(JobRecord& job, const ReservedSequence& reserved,
                          const AcceptedSequence& accepted) noexcept {
  JobStep& step = job.step;
  job.suspect = false;
  if (accepted.faulted) {
    fail(job, step.error, step.message);
    return;
  }
  const auto num_new = static_cast<int32_t>(step.new_tokens.size());
  count_tokens(job, reserved, num_new);
  job.tokens.resize(job.tokens.size() - static_cast<size_t>(job.num_candidates));
  job.num_candidates = 0;
  job.tokens.insert(job.tokens.end(), step.new_tokens.begin(), step.new_tokens.end());
  name_spaces_.add_served(job.name_space, reserved.num_tokens);
  if (num_new > 0) {
    job.channel->progress.new_tokens = job.num_new_tokens();
    job.channel->state = JobState::generating;
    measure_token(job);
  }
  try {
    emit(job);
  } catch (const Error& error) {
    fail(job, error.code(), error.what());
  } catch (...) {
    fail(job, ErrorCode::out_of_memory, "no memory for an event");
  }
  if (step.finish != FinishReason::unfinished) end(job, step.finish, ErrorCode::ok, {});
}

namespace {

int32_t num_drafts_accepted(const JobRecord& job) {
  const size_t num_known = job.tokens.size() - static_cast<size_t>(job.num_candidates);
  const auto drafts = gsl::span<const TokenId>(job.tokens).subspan(num_known);
  const TokenIds& drawn = job.step.new_tokens;
  size_t accepted = 0;
  while (accepted < std::min(drafts.size(), drawn.size()) && drafts[accepted] == drawn[accepted]) ++accepted;
  return static_cast<int32_t>(accepted);
}

}  // namespace

// Of a prompt, what was computed and what was found; then what was drawn, and what came of drafts.
void StepLoop::count_tokens(JobRecord& job, const ReservedSequence& reserved, int32_t num_new) noexcept {
  const bool prefills = !job.first_token || reserved.num_tokens > 1 + job.num_candidates;
  JobProgress& progress = job.channel->progress;
  progress.company = batch_.num_sequences();
  if (prefills) progress.computed_tokens = reserved.end();
  // The prompt alone counts; after a preemption only what was never computed before is new.
  if (!job.first_token && job.result.preemptions == 0) job.result.cached_tokens += reserved.num_found_tokens;
  progress.cached_tokens = job.result.cached_tokens;
  job.result.draft_tokens += job.num_candidates;
  job.result.accepted_draft_tokens += num_drafts_accepted(job);
  progress.draft_tokens = job.result.draft_tokens;
  progress.accepted_draft_tokens = job.result.accepted_draft_tokens;
  book_.count(job.book_place, [&](JobCounts& of) {
    if (prefills) of.prompt_tokens_computed += static_cast<uint64_t>(reserved.num_tokens);
    if (!job.first_token) of.prompt_tokens_cached += static_cast<uint64_t>(reserved.num_found_tokens);
    of.new_tokens += static_cast<uint64_t>(num_new);
    of.draft_tokens += static_cast<uint64_t>(job.num_candidates);
    of.draft_tokens_accepted += static_cast<uint64_t>(num_drafts_accepted(job));
  });
}

void StepLoop::measure_token(JobRecord& job) noexcept {
  const TimePoint now = runtime_.clock().now();
  if (job.first_token) {
    const double seconds = in_seconds(now - job.last_token);
    book_.observe(job.book_place, [&](JobHistograms& of) { of.time_between_tokens.observe(seconds); });
  } else {
    job.first_token = now;
    job.channel->progress.first_token = now;
    const double seconds = in_seconds(now - job.submitted);
    book_.observe(job.book_place, [&](JobHistograms& of) { of.time_to_first_token.observe(seconds); });
    measure_reuse(job);
  }
  job.last_token = now;
}

void StepLoop::measure_reuse(const JobRecord& job) noexcept {
  if (!job.request.reuse_prefix) return;
  const double share = static_cast<double>(job.result.cached_tokens) / job.num_prompt_tokens;
  book_.observe(job.book_place, [&](JobHistograms& of) { of.cached_share.observe(share); });
}

void StepLoop::emit(JobRecord& job) {
  EventStream& stream = *job.channel->stream;
  if (!job.announced) {
    job.announced = true;
    stream.push(job.channel->make_event(EventKind::started), &told_);
  }
  if (job.request.want_progress && !job.first_token) {
    Event progress = job.channel->make_event(EventKind::progress);
    progress.done_tokens = std::min(kv_.length(*job.sequence), job.num_prompt_tokens);
    progress.total_tokens = job.num_prompt_tokens;
    stream.push(std::move(progress), &told_);
  }
  const bool ends = job.step.finish != FinishReason::unfinished;
  if (!job.text.has_text() && !(ends && job.text.has_anything())) return;
  Event text = job.text.take();
  text.kind = EventKind::text;
  text.job = job.id;
  text.index = job.channel->mark.index;
  text.tag = job.channel->mark.tag;
  if (!stream.push(std::move(text), &told_)) {
    throw Error(ErrorCode::slow_reader, "the reader left {} events unread", job.request.max_unread_events);
  }
}

}  // namespace quire
