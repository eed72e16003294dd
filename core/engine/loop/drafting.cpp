#include "core/engine/loop/drafting.h"

#include <algorithm>
#include <utility>

#include "core/base/contain.h"
#include "core/base/deadline.h"
#include "core/drafting/ngram_drafter.h"
#include "core/engine/loop/draft_times.h"
#include "kernels/interface/state_specs.h"

namespace quire {

namespace {

constexpr double kWeightOfGain = 0.125;
constexpr int32_t kStillSteps = 3;  // that took no time before the clock counts as still
// Share of the time that probes may take, and the most that is saved for them, in steps.
constexpr double kShareOfProbes = 0.01;
constexpr double kMostSaved = 8.0;
constexpr double kFirstSaved = 2.0;  // in steps, for early corrections
// Number of generating jobs up to which the automatic drafter is used on a device that computes steps ahead.
// On an H200 n-grams give one job of an 8B model 2.8 times the speed, and 32 to 256 jobs 0.91 to 0.94 of it.
constexpr int32_t kMostJobsAhead = 8;
// The same for a network on a processor: on two cores story-3m gives one job of story-15m 1.0 to 1.4 times
// the speed, and four jobs 0.8 of it.
constexpr int32_t kMostJobsOnHost = 2;
// Least weights of a step in the running acceptance of its job, and of all jobs.
constexpr float kWeightOfStep = 0.08F;
constexpr float kWeightOfStepOfAll = 0.02F;

void set_reason(const JobRecord& job, DraftReason reason) {
  job.channel->progress.drafts.reason.store(reason, std::memory_order_relaxed);
}

// True if the job has its first new token and may draw the next one.
bool is_generating(const JobRecord& job) {
  return job.request.kind == JobKind::generate && job.first_token && job.runnable();
}

int32_t most_drafts(const JobRecord& job, const DraftingOptions& options) {
  return job.request.max_drafts.value_or(options.max_drafts);
}

std::shared_ptr<Drafter> make_drafter(const EngineOptions& options) {
  if (options.drafter != nullptr) return options.drafter;
  switch (options.drafting.drafter) {
    case DrafterKind::none:
    case DrafterKind::network:
      break;
    case DrafterKind::ngram:
    case DrafterKind::automatic:
      return std::make_shared<NgramDrafter>();
  }
  return nullptr;
}

// Returns the network to draft with; null if there is none, or if the options name another drafter.
DraftNetwork* network_of(const EngineOptions& options, Executor& executor) {
  const DrafterKind kind = options.drafting.drafter;
  const bool is_named = kind == DrafterKind::network || kind == DrafterKind::automatic;
  return is_named && options.drafter == nullptr ? executor.draft_network() : nullptr;
}

// True if each lane of the step computes its next token and its drafts.
bool only_generates(const StepPlan& plan) {
  return std::all_of(plan.lanes.begin(), plan.lanes.end(), [](const PlannedLane& planned) {
    return planned.num_tokens == 1 + planned.lane->num_candidates;
  });
}

// Runs an action and returns whether it succeeded. Drafts are optional, so the step goes on if there is no
// memory for them. Rethrows the loss of the device.
template <typename Action>
bool contain_drafts(const Action& action) {
  return contain("no memory for drafts", action, [](ErrorCode code, std::string_view) {
    if (code == ErrorCode::device_lost) throw;
  });
}

}  // namespace

Drafting::Drafting(LiveJobs& jobs, TokenSampling& sampling, Executor& executor, int32_t num_tokens)
    : jobs_(jobs), sampling_(sampling), acceptance_(kWeightOfStepOfAll) {
  const EngineOptions& options = jobs.context().options;
  if (DraftNetwork* const network = network_of(options, executor))
    network_.emplace(*network, jobs, sampling, num_tokens);
  else
    drafter_ = make_drafter(options);
  pace_.first.resize(kNumFirstTimes);
  const auto max_jobs = static_cast<size_t>(jobs.context().policy.max_running_lanes);
  draftees_.reserve(max_jobs);
  requests_.reserve(max_jobs);
  offers_.reserve(max_jobs);
  counts_.reserve(max_jobs);
}

void Drafting::propose() {
  contain_drafts([this] {
    find_draftees();
    if (draftees_.empty()) return;
    if (is_crowded() || looks_ahead()) return set_reasons(DraftReason::costs_more);
    draft();
    choose();
  });
}

void Drafting::set_reasons(DraftReason reason) const {
  for (const Draftee& draftee : draftees_) set_reason(*draftee.job, reason);
}

// Lists the jobs that may have drafts, and counts the step without drafts.
void Drafting::find_draftees() {
  draftees_.clear();
  step_.num_jobs = step_.num_tokens = 0;
  const PolicyLimits& policy = jobs_.context().policy;
  step_.max_tokens = std::min(policy.max_step_tokens, policy.max_logit_rows);
  const bool has_prompts = has_drafter() && computes_prompts();
  for (const auto& entry : jobs_.running()) {
    JobRecord& job = *entry;
    if (!is_generating(job)) continue;
    ++step_.num_jobs;
    step_.num_tokens += job.num_lanes() * (1 + job.lane.num_candidates + job.lane.num_forced);
    if (job.lane.num_candidates > 0) continue;
    if (!has_drafter()) {
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
    if (!job.drafts.acceptance) job.drafts.acceptance.emplace(acceptance_, kWeightOfStep);
    if (!network_ || job.drafts.num_proposed_after != job.num_tokens()) job.drafts.proposal.clear();
    requests_.push_back({job.lane.tokens, job.drafts.num_unchanged, draftee.num_drafts, &job.drafts.state,
                         job.request.name_space, &job.drafts.proposal});
  }
  if (drafter_ != nullptr) drafter_->draft(requests_);
  for (Draftee& draftee : draftees_) {
    JobRecord& job = *draftee.job;
    job.drafts.num_unchanged = job.num_tokens();
    const auto num_drafts = std::min(draftee.num_drafts, static_cast<int32_t>(job.drafts.proposal.size()));
    const auto drafts = gsl::span<const TokenId>(job.drafts.proposal).first(static_cast<size_t>(num_drafts));
    draftee.num_drafts = sampling_.count_possible(job, drafts);
    if (draftee.num_drafts == 0) set_reason(job, reason_without_proposal(job));
  }
}

DraftReason Drafting::reason_without_proposal(const JobRecord& job) const {
  if (!network_ || job.drafts.num_proposed_after == job.num_tokens()) return DraftReason::no_match;
  return network_->has_read(job) ? DraftReason::costs_more : DraftReason::behind;
}

// Decides how many drafts each job gets, and adds them.
void Drafting::choose() {
  offers_.clear();
  for (const Draftee& draftee : draftees_)
    offers_.push_back({draftee.num_drafts, draftee.job->num_lanes(), *draftee.job->drafts.acceptance});
  counts_.assign(offers_.size(), 0);
  step_.time_of = [this](int32_t num_tokens) { return time_of(num_tokens); };
  limit_tokens();
  const double gain = chooser_.choose(offers_, step_, counts_);
  weigh_modes(gain * step_.num_jobs / time_of(step_.num_tokens), step_.num_tokens);
  probe();
  const bool has_drafts =
      std::any_of(counts_.begin(), counts_.end(), [](int32_t count) { return count > 0; });
  const bool knows_plain = is_clock_still() || pace_.others.knows(step_.num_tokens);
  if (has_drafts || (is_probe_due() && knows_plain)) pace_.num_plain_steps = 0;
  for (size_t i = 0; i < offers_.size(); ++i) {
    JobRecord& job = *draftees_[i].job;
    if (offers_[i].num_drafts == 0) continue;
    set_reason(job, counts_[i] > 0 ? DraftReason::drafting : DraftReason::costs_more);
    if (counts_[i] == 0) continue;
    job.drafts.count_step_with_drafts(counts_[i]);
    job.propose(gsl::span<const TokenId>(job.drafts.proposal).first(static_cast<size_t>(counts_[i])));
  }
}

// Limits the tokens of the step by what is known of their time. The time without drafts is measured before
// any are used, and larger steps than those known are tried in small increments.
void Drafting::limit_tokens() {
  if (is_clock_still()) return;
  const int32_t known = std::max(step_.num_tokens, pace_.others.largest_known());
  const int32_t most = pace_.others.knows(step_.num_tokens) ? known + known / 2 + 2 : step_.num_tokens;
  step_.max_tokens = std::min(step_.max_tokens, most);
}

// True if times cannot be measured. Drafts are then assumed to take none.
bool Drafting::is_clock_still() const {
  return pace_.num_still >= kStillSteps;
}

// Gives one draft to jobs that have had none for kProbeInterval steps, while probes take a small share of the
// time. The next probe begins with the first job that could have none.
void Drafting::probe() {
  int32_t num_tokens = step_.num_tokens;
  for (size_t i = 0; i < offers_.size(); ++i) num_tokens += counts_[i] * offers_[i].num_lanes;
  const double loss = num_tokens == step_.num_tokens ? loss_of_look_ahead() : 0.0;
  const double without = time_of(num_tokens) - loss;
  const size_t first = pace_.next_probed;
  // A step that is not issued ahead only for a probe counts whole.
  pace_.seconds_without_probe = prefers_look_ahead() ? time_of(step_.num_tokens) - loss_of_look_ahead() : 0.0;
  for (size_t n = 0; n < offers_.size(); ++n) {
    const size_t i = (first + n) % offers_.size();
    const bool is_due = counts_[i] == 0 && offers_[i].num_drafts > 0 &&
                        draftees_[i].job->drafts.num_plain_steps >= kProbeInterval;
    if (!is_due) continue;
    pace_.next_probed = i;
    const int32_t with = num_tokens + offers_[i].num_lanes;
    if (with > step_.max_tokens || time_of(with) - without > pace_.saved_seconds) return;
    pace_.seconds_without_probe = without;
    counts_[i] = 1;
    num_tokens = with;
  }
}

// Returns the seconds that a step with drafts costs an engine that looks ahead, beside its drafts: neither it
// nor the step after it is issued ahead.
double Drafting::loss_of_look_ahead() const {
  if (!prefers_look_ahead()) return 0.0;
  const Duration ahead = pace_.issued.of(step_.num_tokens);
  const Duration other = pace_.others.of(step_.num_tokens);
  return ahead == Duration{0} ? 0.0 : std::max(0.0, 2.0 * in_seconds(other - ahead));
}

bool Drafting::is_probe_due() const {
  if (pace_.num_plain_steps < kProbeInterval) return false;
  const double cost = time_of(step_.num_tokens + 1) - time_of(step_.num_tokens) + loss_of_look_ahead();
  return cost <= pace_.saved_seconds;
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

bool Drafting::prefers_look_ahead() const {
  return jobs_.context().executor.follows && pace_.gain <= DraftChooser::kLeastGain;
}

// True if so many jobs generate that the automatic drafter is known to make steps slower: on a device that
// looks ahead, and with a network on a processor, where rows of drafts and of the network cost their full
// time.
bool Drafting::is_crowded() const {
  const EngineContext& context = jobs_.context();
  const bool is_automatic =
      context.options.drafter == nullptr && context.options.drafting.drafter == DrafterKind::automatic;
  if (!is_automatic || (!context.executor.follows && !network_)) return false;
  const auto most = context.executor.follows ? kMostJobsAhead : kMostJobsOnHost;
  return std::count_if(jobs_.running().begin(), jobs_.running().end(),
                       [](const auto& job) { return is_generating(*job); }) > most;
}

bool Drafting::looks_ahead() const {
  return prefers_look_ahead() && !is_probe_due();
}

// A network that reads states must compute between two passes of the target. Steps issued ahead are measured
// before drafts are used, if they can be measured.
bool Drafting::holds_back() const noexcept {
  if (!has_drafter() || is_crowded()) return false;
  const bool is_between = network_ && network_->reads_states();
  const bool may_draft = is_probe_due() || is_clock_still() || pace_.issued.knows_any();
  if (!is_between && (looks_ahead() || !may_draft)) return false;
  const DraftingOptions& options = jobs_.context().options.drafting;
  return std::any_of(jobs_.running().begin(), jobs_.running().end(), [&](const auto& job) {
    return job->request.kind == JobKind::generate && job->runnable() && most_drafts(*job, options) > 0;
  });
}

StepCount Drafting::count(const StepPlan& plan) noexcept {
  StepCount step;
  step.num_lanes = static_cast<int32_t>(plan.lanes.size());
  for (const PlannedLane& planned : plan.lanes) {
    step.num_tokens += planned.num_tokens;
    step.num_drafts += planned.lane->num_candidates;
    JobRecord& job = *planned.lane->job;
    if (planned.lane == &job.lane) ++job.drafts.num_plain_steps;
  }
  if (step.num_drafts == 0) ++pace_.num_plain_steps;
  return step;
}

void Drafting::observe(const StepCount& step, std::optional<Duration> period, bool is_issued) noexcept {
  if (!has_drafter()) return;
  const int32_t num_tokens = step.num_tokens;
  // The draft network has measures of its own.
  if (period) *period -= std::min(*period, std::exchange(pace_.by_network, Duration{0}));
  const bool generates = num_tokens == step.num_lanes + step.num_drafts;
  if (!generates || !period) {
    pace_.seconds_without_probe = 0.0;
    return;
  }
  pace_.num_still = *period > Duration{0} ? 0 : pace_.num_still + 1;
  if (*period <= Duration{0}) return;
  const double seconds = in_seconds(*period);
  if (!pace_.others.knows_any()) pace_.saved_seconds = kFirstSaved * seconds;
  pace_.saved_seconds = std::min(pace_.saved_seconds + kShareOfProbes * seconds, kMostSaved * seconds);
  const double without = std::exchange(pace_.seconds_without_probe, 0.0);
  if (without > 0.0) pace_.saved_seconds -= std::max(0.0, seconds - without);
  if (is_issued) return observe_period(pace_.issued, num_tokens, *period);
  Duration& first = pace_.first[index_of_first_time(num_tokens)];
  if (first == Duration{0}) {
    first = *period;
  } else {
    const bool is_known = pace_.others.knows(num_tokens);
    observe_period(pace_.others, num_tokens, is_known ? *period : std::min(first, *period));
  }
}

void Drafting::follow(const StepPlan& plan, const Batch& batch, bool is_followed) {
  if (!network_) return;
  network_->abandon();
  if (is_crowded() || (is_followed && network_->reads_states())) return;
  const bool drafts = !is_followed && wants_drafts(plan);
  if (!drafts && may_be_followed_later(plan, batch)) return;
  const Duration taken = time_network([&] {
    if (!contain_drafts([&] { network_->follow(plan, batch, drafts); })) network_->abandon();
  });
  pace_.follows.observe(network_->num_rows(), taken);
}

// Runs an action of the draft network and returns its time, which is not counted as that of the step.
template <typename Action>
Duration Drafting::time_network(const Action& action) {
  const Clock& clock = jobs_.context().runtime.clock();
  const TimePoint begin = clock.now();
  action();
  const Duration taken = clock.now() - begin;
  pace_.by_network += taken;
  return taken;
}

bool Drafting::wants_drafts(const StepPlan& plan) const {
  return std::any_of(plan.lanes.begin(), plan.lanes.end(), [&](const PlannedLane& planned) {
    const JobRecord& job = *planned.lane->job;
    return planned.lane == &job.lane && num_worth_drafting(job) > 0;
  });
}

// A network that reads tokens alone makes up for steps that only generate when drafts are wanted again.
bool Drafting::may_be_followed_later(const StepPlan& plan, const Batch& batch) const {
  return !network_->reads_states() && batch.copies.empty() && only_generates(plan);
}

void Drafting::propose_by_network() {
  if (!network_) return;
  const bool has_prompts = computes_prompts();
  const Duration taken = time_network([&] {
    contain_drafts([&] {
      network_->propose([&](const JobRecord& job) { return has_prompts ? 0 : num_worth_drafting(job); });
    });
  });
  const int32_t num_passes = network_->num_passes();
  if (num_passes > 0) add_to_average(pace_.pass_seconds, in_seconds(taken) / num_passes);
}

// Returns how many tokens the network drafts for a job: the number with the most expected tokens per time,
// and at least one if its cost is to be measured. A network that reads states follows every step, so that
// only its passes count.
int32_t Drafting::num_worth_drafting(const JobRecord& job) const {
  const int32_t most = most_worth_trying(job);
  const Duration plain = pace_.others.of(step_.num_tokens);
  if (is_clock_still() || plain == Duration{0}) return most;
  const double row = time_of(step_.num_tokens + step_.num_jobs) - time_of(step_.num_tokens);
  const double following = seconds_to_follow(job);
  const double without = in_seconds(plain) + (network_->reads_states() ? following : 0.0);
  const DraftAcceptance& acceptance = job.drafts.acceptance ? *job.drafts.acceptance : acceptance_;
  int32_t best = 0;
  double best_rate = DraftChooser::kLeastGain / without;
  double chance = 1.0;
  double num_expected = 1.0;
  double time = in_seconds(plain) + following;
  for (int32_t i = 0; i < most; ++i) {
    chance *= acceptance.at(i);
    num_expected += chance;
    time += row + (i > 0 ? pace_.pass_seconds : 0.0);
    if (num_expected / time <= best_rate) continue;
    best_rate = num_expected / time;
    best = i + 1;
  }
  const bool is_measured = is_probe_of(job) || job.drafts.num_trials > 0;
  return is_measured ? std::max(best, std::min(most, 1)) : best;
}

bool Drafting::is_probe_of(const JobRecord& job) {
  return job.drafts.num_plain_steps >= job.drafts.probe_interval;
}

// Returns the expected time of the rows that the network must compute before it can propose.
double Drafting::seconds_to_follow(const JobRecord& job) const {
  return in_seconds(pace_.follows.of(std::max(job.num_tokens() - job.lane.num_followed, step_.num_jobs)));
}

// Returns one draft more than were used last, none if none were for some steps, and one for a probe.
int32_t Drafting::most_worth_trying(const JobRecord& job) const {
  constexpr int32_t kPatience = 8;
  if (!is_generating(job) || job.suspect) return 0;
  const int32_t recent = job.drafts.num_plain_steps < kPatience ? job.drafts.num_recent + 1 : 0;
  const int32_t wanted = is_probe_of(job) ? 1 : recent;
  return std::min(room_of(job), wanted);
}

void Drafting::remember(const StepPlan& plan) {
  if (drafter_ == nullptr) return;
  contain_drafts([&] {
    for (const PlannedLane& planned : plan.lanes) {
      const JobRecord& job = *planned.lane->job;
      const bool is_over =
          job.ended && planned.lane == &job.lane && job.result.reason != FinishReason::failed;
      if (!is_over || job.request.kind != JobKind::generate || !job.request.publish_pages) continue;
      drafter_->remember(
          job.request.name_space,
          gsl::span<const TokenId>(job.lane.tokens).subspan(static_cast<size_t>(job.lane.num_prompt_tokens)));
    }
  });
}

void Drafting::learn(const StepPlan& plan) noexcept {
  for (const PlannedLane& planned : plan.lanes) {
    JobRecord& job = *planned.lane->job;
    if (planned.lane != &job.lane || job.lane.num_candidates == 0 || job.step.drawn.empty()) continue;
    const int32_t num_accepted = job.num_accepted_drafts();
    const bool is_refuted =
        num_accepted < std::min(job.lane.num_candidates, static_cast<int32_t>(job.step.drawn.size()));
    if (job.drafts.acceptance) job.drafts.acceptance->observe(num_accepted, is_refuted);
    acceptance_.observe(num_accepted, is_refuted);
  }
}

}  // namespace quire
