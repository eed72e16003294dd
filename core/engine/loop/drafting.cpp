#include "core/engine/loop/drafting.h"

#include <algorithm>

#include "core/base/contain.h"
#include "core/base/deadline.h"
#include "core/drafting/ngram_drafter.h"
#include "kernels/interface/state_specs.h"

namespace quire {

namespace {

constexpr double kWeightOfGain = 0.125;
constexpr size_t kSizesSeen = 4096;
// Weights of a step in the running acceptance of its job, and of all jobs.
constexpr float kWeightOfStep = 0.2F;
constexpr float kWeightOfStepOfAll = 0.02F;

void set_reason(const JobRecord& job, DraftReason reason) {
  job.channel->progress.drafts.reason.store(reason, std::memory_order_relaxed);
}

int32_t most_drafts(const JobRecord& job, const DraftingOptions& options) {
  return job.request.max_drafts.value_or(options.max_drafts);
}

std::shared_ptr<Drafter> make_drafter(const EngineOptions& options) {
  if (options.drafter != nullptr) return options.drafter;
  switch (options.drafting.drafter) {
    case DrafterKind::none:
      break;
    case DrafterKind::ngram:
    case DrafterKind::automatic:
      return std::make_shared<NgramDrafter>();
  }
  return nullptr;
}

// Adds a measured step. One that was interrupted, by the system or another process, counts only a little.
void observe_step(StepTimes& times, int32_t num_tokens, Duration period) noexcept {
  constexpr double kMostLonger = 1.5;
  if (times.knows(num_tokens)) {
    const double longest = kMostLonger * in_seconds(times.of(num_tokens));
    period = std::min(period, Duration(static_cast<Duration::rep>(longest * 1e9)));
  }
  times.observe(num_tokens, period);
}

}  // namespace

Drafting::Drafting(LiveJobs& jobs, TokenSampling& sampling)
    : jobs_(jobs), sampling_(sampling), drafter_(make_drafter(jobs.context().options)) {
  pace_.first.resize(kSizesSeen);
  const auto max_jobs = static_cast<size_t>(jobs.context().policy.max_running_lanes);
  draftees_.reserve(max_jobs);
  requests_.reserve(max_jobs);
  offers_.reserve(max_jobs);
  counts_.reserve(max_jobs);
}

// Drafts are optional: without memory for them the step goes on without them.
void Drafting::propose() {
  contain(
      "no memory for drafts",
      [this] {
        find_draftees();
        if (draftees_.empty()) return;
        draft();
        choose();
      },
      [](ErrorCode, std::string_view) {});
}

// Lists the jobs that may have drafts, and counts the step without drafts.
void Drafting::find_draftees() {
  draftees_.clear();
  step_.num_jobs = step_.num_tokens = 0;
  const PolicyLimits& policy = jobs_.context().policy;
  step_.max_tokens = std::min(policy.max_step_tokens, policy.max_logit_rows);
  const bool has_prompts = drafter_ != nullptr && computes_prompts();
  for (const auto& entry : jobs_.running()) {
    JobRecord& job = *entry;
    if (job.request.kind != JobKind::generate || !job.first_token || !job.runnable()) continue;
    ++step_.num_jobs;
    step_.num_tokens += job.num_lanes() * (1 + job.lane.num_candidates + job.lane.num_forced);
    if (job.lane.num_candidates > 0) continue;
    if (drafter_ == nullptr) {
      set_reason(job, DraftReason::off_in_engine);
    } else if (most_drafts(job, jobs_.context().options.drafting) == 0) {
      set_reason(job, DraftReason::off_in_request);
    } else if (has_prompts) {
      set_reason(job, DraftReason::prompts);
    } else if (job.suspect || room_of(job) < 1) {
      set_reason(job, DraftReason::no_room);
    } else {
      draftees_.push_back({&job, room_of(job)});
    }
  }
}

// Returns the number of drafts that a job may have. The token after the last draft is drawn without one. More
// rejected drafts than kStateLine - 1 would overwrite the recurrent state from which the job continues.
int32_t Drafting::room_of(const JobRecord& job) const {
  const EngineContext& context = jobs_.context();
  int32_t room = most_drafts(job, context.options.drafting);
  room = std::min(room, job.request.max_new_tokens - job.num_new_tokens() - 1);
  room = std::min(room, job.max_tokens - job.num_tokens() - 1);
  if (context.executor.num_state_slots > 0) room = std::min(room, kernels::kStateLine - 1);
  return std::max(room, 0);
}

// True if the next step computes parts of prompts. Their step is longer anyway, and it is sized for them.
bool Drafting::computes_prompts() const {
  const KvCache& kv = jobs_.context().pages.kv();
  const auto is_behind = [&](const Lane& lane) {
    const auto num_known = static_cast<int32_t>(lane.known().size());
    return !lane.sequence || num_known - kv.length(*lane.sequence) > 1 + lane.job->lane.num_forced;
  };
  int32_t num_lanes = 0;
  for (const auto& job : jobs_.running()) {
    num_lanes += job->num_lanes();
    if (!job->runnable()) continue;
    if (job->request.kind != JobKind::generate || !job->first_token || is_behind(job->lane) ||
        (job->guide && is_behind(*job->guide)))
      return true;
  }
  return num_lanes < jobs_.context().policy.max_running_lanes &&
         std::any_of(jobs_.waiting().begin(), jobs_.waiting().end(),
                     [](const auto& job) { return job->runnable(); });
}

// Lets the drafter propose, and cuts each proposal at the first token that the job cannot draw.
void Drafting::draft() {
  requests_.clear();
  for (const Draftee& draftee : draftees_) {
    JobRecord& job = *draftee.job;
    job.step.begin();
    job.drafts.proposal.clear();
    if (!job.drafts.has_average) job.drafts.acceptance = acceptance_;
    job.drafts.has_average = true;
    requests_.push_back({job.lane.tokens, job.drafts.num_unchanged, draftee.num_drafts, &job.drafts.state,
                         &job.drafts.proposal});
  }
  drafter_->draft(requests_);
  for (Draftee& draftee : draftees_) {
    JobRecord& job = *draftee.job;
    job.drafts.num_unchanged = job.num_tokens();
    const auto num_drafts = std::min(draftee.num_drafts, static_cast<int32_t>(job.drafts.proposal.size()));
    const auto drafts = gsl::span<const TokenId>(job.drafts.proposal).first(static_cast<size_t>(num_drafts));
    draftee.num_drafts = sampling_.count_possible(job, drafts);
    if (draftee.num_drafts == 0) set_reason(job, DraftReason::no_match);
  }
}

// Decides how many drafts each job gets, and adds them.
void Drafting::choose() {
  offers_.clear();
  for (const Draftee& draftee : draftees_)
    offers_.push_back({draftee.num_drafts, draftee.job->num_lanes(), draftee.job->drafts.acceptance});
  counts_.assign(offers_.size(), 0);
  step_.time_of = [this](int32_t num_tokens) { return time_of(num_tokens); };
  // The time without drafts was forgotten: it is measured first.
  const bool knows_plain = pace_.others.knows(step_.num_tokens) || !pace_.others.knows_any();
  double gain = 1.0;
  if (knows_plain) gain = chooser_.choose(offers_, step_, counts_);
  int32_t num_drafts = 0;
  int32_t num_offered = 0;
  for (size_t i = 0; i < offers_.size(); ++i) {
    num_drafts += counts_[i] * offers_[i].num_lanes;
    num_offered += offers_[i].num_drafts;
  }
  weigh_modes(gain * step_.num_jobs / time_of(step_.num_tokens), step_.num_tokens);
  const bool is_probe = pace_.num_plain_steps >= kProbeInterval;
  if (num_drafts == 0 && num_offered > 0 && is_probe) probe(step_.max_tokens - step_.num_tokens);
  if (num_drafts > 0 || is_probe) pace_.num_plain_steps = 0;
  for (size_t i = 0; i < offers_.size(); ++i) {
    JobRecord& job = *draftees_[i].job;
    if (offers_[i].num_drafts == 0) continue;
    set_reason(job, counts_[i] > 0 ? DraftReason::drafting : DraftReason::costs_more);
    if (counts_[i] > 0)
      job.propose(gsl::span<const TokenId>(job.drafts.proposal).first(static_cast<size_t>(counts_[i])));
  }
}

// Gives each job with an offer one draft.
void Drafting::probe(int32_t room) {
  for (size_t i = 0; i < offers_.size(); ++i) {
    if (offers_[i].num_drafts == 0 || offers_[i].num_lanes > room) continue;
    room -= offers_[i].num_lanes;
    counts_[i] = 1;
  }
}

// Returns the expected seconds of a step that is not issued ahead. Larger steps than those known are assumed
// to take no longer, so that they are tried. A token more costs at most what one of the step without drafts
// does, whatever was measured on a busy machine.
double Drafting::time_of(int32_t num_tokens) const {
  const Duration plain = pace_.others.of(step_.num_tokens);
  if (plain == Duration{0}) return 1.0;
  const double longest = in_seconds(plain) * num_tokens / step_.num_tokens;
  return std::min(longest, in_seconds(pace_.others.beyond(step_.num_tokens, plain, num_tokens)));
}

// Compares the expected rate of this step, in tokens per second, with that of steps issued ahead.
void Drafting::weigh_modes(double rate, int32_t num_tokens) {
  if (!pace_.issued.knows(num_tokens) || !pace_.others.knows(num_tokens)) return;
  const double ahead = step_.num_jobs / in_seconds(pace_.issued.of(num_tokens));
  pace_.gain += kWeightOfGain * (rate / ahead - pace_.gain);
}

bool Drafting::holds_back() const noexcept {
  if (drafter_ == nullptr) return false;
  const bool tries = pace_.num_plain_steps >= kProbeInterval ||
                     (pace_.gain > DraftChooser::kLeastGain && pace_.issued.knows_any());
  const DraftingOptions& options = jobs_.context().options.drafting;
  return tries && std::any_of(jobs_.running().begin(), jobs_.running().end(), [&](const auto& job) {
           return job->request.kind == JobKind::generate && job->runnable() && most_drafts(*job, options) > 0;
         });
}

void Drafting::observe(const StepPlan& plan, Duration period, bool is_issued) noexcept {
  if (drafter_ == nullptr) return;
  int32_t num_tokens = 0;
  int32_t num_drafts = 0;
  for (const PlannedLane& planned : plan.lanes) {
    num_tokens += planned.num_tokens;
    num_drafts += planned.lane->num_candidates;
  }
  if (num_drafts == 0) ++pace_.num_plain_steps;
  const bool generates = num_tokens == static_cast<int32_t>(plan.lanes.size()) + num_drafts;
  if (!generates || period <= Duration{0} || static_cast<size_t>(num_tokens) >= kSizesSeen) return;
  if (is_issued) return observe_step(pace_.issued, num_tokens, period);
  Duration& first = pace_.first[static_cast<size_t>(num_tokens)];
  if (first == Duration{0}) {
    first = period;
  } else {
    observe_step(pace_.others, num_tokens, pace_.others.knows(num_tokens) ? period : std::min(first, period));
  }
}

void Drafting::learn(const StepPlan& plan) noexcept {
  for (const PlannedLane& planned : plan.lanes) {
    JobRecord& job = *planned.lane->job;
    if (planned.lane != &job.lane || job.lane.num_candidates == 0 || job.step.drawn.empty()) continue;
    const int32_t num_accepted = job.num_accepted_drafts();
    const bool is_refuted =
        num_accepted < std::min(job.lane.num_candidates, static_cast<int32_t>(job.step.drawn.size()));
    job.drafts.acceptance.observe(num_accepted, is_refuted, kWeightOfStep);
    acceptance_.observe(num_accepted, is_refuted, kWeightOfStepOfAll);
  }
}

}  // namespace quire
