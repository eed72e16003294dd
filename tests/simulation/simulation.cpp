// Setup and course of the simulation of one seed.
#include "tests/simulation/simulation.h"

#include <algorithm>

#include <fmt/core.h>

#include "tests/simulation/world.h"

namespace quire::testing {

void SimulationStats::add(const SimulationStats& more) {
  events += more.events;
  steps += more.steps;
  jobs += more.jobs;
  ended += more.ended;
  for (size_t i = 0; i < cancels.size(); ++i) cancels[i] += more.cancels[i];
  rejected += more.rejected;
  preemptions += more.preemptions;
  device_faults += more.device_faults;
  failed_allocations += more.failed_allocations;
  lost_devices += more.lost_devices;
  closes += more.closes;
  forks += more.forks;
  rewinds += more.rewinds;
  full_quotas += more.full_quotas;
  full_windows += more.full_windows;
  snapshots += more.snapshots;
  deduplicated += more.deduplicated;
  cached_tokens += more.cached_tokens;
  pages_restored += more.pages_restored;
  shard_faults += more.shard_faults;
  followed += more.followed;
  in_vain += more.in_vain;
  masked += more.masked;
  constrained += more.constrained;
  guided += more.guided;
  grown += more.grown;
  shrunk += more.shrunk;
  candidates += more.candidates;
  accepted += more.accepted;
  digest = digest * 31 + more.digest;
}

Simulation::Simulation(uint64_t seed, Mixture mixture) : seed_(seed), random_(seed) {
  choose_setup();
  choose_action_weights(mixture);
  make_engine();
}

// Chooses from as few slots as one sequence needs to as many as there are pages.
void Simulation::choose_windows() {
  int32_t window = 0;
  for (uint32_t n = below(3); n > 0; --n) {
    window += 1 + int_below(20);
    const int32_t least =
        std::min(slots_of_window(window, limits_.page_tokens), limits_.max_pages_per_sequence);
    if (least > limits_.num_pages) return;
    const auto more = static_cast<uint32_t>(limits_.num_pages - least + 1);
    limits_.windows.push_back({window, least + int_below(chance(2) ? more : std::min(more, 6U))});
  }
}

void Simulation::choose_setup() {
  num_shards_ = chance(2) ? 1 : 2 + int_below(2);
  guided_one_in_ = chance(2) ? 8 : 2;
  limits_.makes_draws = chance(2);
  limits_.follows = limits_.makes_draws && chance(2);
  is_roomy_ = limits_.follows && chance(2);
  limits_.page_tokens = is_roomy_ ? 8 + int_below(16) : chance(3) ? 4 : 1 + int_below(6);
  limits_.max_pages_per_sequence = (kMaxSeqLen + limits_.page_tokens - 1) / limits_.page_tokens;
  limits_.num_pages = limits_.max_pages_per_sequence / 2 + int_below(100) + 2;
  limits_.max_sequences = 1 + int_below(is_roomy_ ? 40 : 10);
  if (chance(2)) {
    limits_.least_pages = 1 + int_below(static_cast<uint32_t>(limits_.num_pages));
    limits_.chunk_pages = 1 + int_below(std::min(12U, static_cast<uint32_t>(limits_.num_pages)));
  }
  choose_windows();
  if (chance(2)) limits_.num_state_slots = 1 + int_below(static_cast<uint32_t>(limits_.max_sequences) + 4);
  if (limits_.least_pages > 0 && limits_.num_state_slots > 2 && chance(2))
    limits_.least_state_slots = 2 + int_below(static_cast<uint32_t>(limits_.num_state_slots) - 2);
  limits_.max_tokens = limits_.max_sequences + int_below(40);
  limits_.max_logit_rows = limits_.max_sequences + int_below(10);
  limits_.vocab_size = kWorldVocab;
  limits_.max_draw_edits = limits_.makes_draws ? int_below(60) : 0;
  EngineOptions& options = cache_options_;
  options.start_thread = false;
  options.max_queued_jobs = 4 + int_below(30);
  options.max_chunk_tokens = chance(3) ? 1 + int_below(12) : 0;
  options.max_running_jobs = chance(3) ? 1 + int_below(6) : 0;
  options.max_overtakes = int_below(6);
  options.ageing_interval = std::chrono::milliseconds(chance(2) ? 0 : 50);
  options.prefix_hash_bits = chance(2) ? 4 : 64;
  options.page_idle_time = std::chrono::milliseconds(chance(3) ? 0 : 1 + below(200));
  options.max_pinned_pages = int_below(static_cast<uint32_t>(limits_.num_pages) + 1);
  if (chance(2)) {
    NamespaceOptions limited{kOtherSpace, {}};
    limited.quota.max_running_jobs = chance(2) ? 1 + int_below(3) : 0;
    limited.quota.max_queued_jobs = chance(2) ? 2 + int_below(6) : 0;
    const int32_t longest = limits_.max_pages_per_sequence;
    limited.quota.max_pages = chance(2) ? 1 + longest / 2 + int_below(static_cast<uint32_t>(longest)) : 0;
    limited.quota.weight = 0.5;
    options.namespaces.push_back(limited);
  }
  drafts_ = chance(2);
  options.drafting = {drafts_ ? DrafterKind::ngram : DrafterKind::none, 1 + int_below(kMaxDrafts)};
  // Chooses from none to memory for twice the pages of the cache.
  const bool stores = limits_.windows.empty() || limits_.num_state_slots > 0;
  if (stores && chance(2)) options.prefixes.host_bytes = below(60'000);
  if (chance(3)) end_tokens_ = {2};
  for (int32_t i = 0; i < 5; ++i) {
    TokenIds prefix;
    for (uint32_t n = below(40); n > 0; --n) prefix.push_back(int_below(kFirstSpecial));
    prefixes_.push_back(prefix);
  }
  SpecialTokens special;
  if (chance(3)) special.poison = kFirstSpecial;
  if (chance(3)) special.faulty_token = kFirstSpecial + 1;
  if (chance(3)) special.broken = kFirstSpecial + 2;
  special.faulty_token_code = chance(2) ? ErrorCode::out_of_memory : ErrorCode::internal;
  allocations_fail_ = chance(3);
  oracle_ = std::make_unique<Oracle>(kWorldVocab, kMaxSeqLen, end_tokens_, special);
  faults_ = std::make_unique<FaultInjector>(
      special, random_(), [this](const Batch& batch, int32_t sequence) { return owner_of(batch, sequence); });
}

// Each seed does some actions more often than others and some never: errors hidden by a mixture of all
// actions show in a mixture of few.
void Simulation::choose_action_weights(Mixture mixture) {
  const std::pair<uint32_t, Action> base[] = {
      {90, &Simulation::submit},       {10, &Simulation::submit_many},
      {15, &Simulation::fork},         {15, &Simulation::rewind},
      {20, &Simulation::cancel},       {10, &Simulation::cancel_within_step},
      {20, &Simulation::toggle_pause}, {10, &Simulation::change_priority},
      {10, &Simulation::drop},         {80, &Simulation::read_some},
      {40, &Simulation::drain_some},   {20, &Simulation::pass_time},
      {10, &Simulation::arm_fault},    {10, &Simulation::fail_allocation_of_step},
      {10, &Simulation::pin},          {10, &Simulation::query},
      {60, &Simulation::propose},      {10, &Simulation::allocate_for_others},
      {10, &Simulation::others_leave},
  };
  constexpr uint32_t kFactors[] = {0, 1, 3, 9};
  uint32_t total = 0;
  const auto add = [&](uint32_t weight, Action action) {
    total += weight;
    action_weights_.emplace_back(total, action);
  };
  for (const auto& [weight, action] : base) add(weight * kFactors[below(4)], action);
  add(300, &Simulation::submit);
  add(2000, &Simulation::step);
  add(2, &Simulation::close);
  if (mixture == Mixture::cancels) {
    add(1500, &Simulation::submit);
    add(1000, &Simulation::cancel);
    add(300, &Simulation::cancel_within_step);
    add(300, &Simulation::toggle_pause);
  }
}

void Simulation::make_engine() {
  FakeEngineOptions options;
  options.limits = limits_;
  options.cache = cache_options_;
  options.num_shards = num_shards_;
  options.max_seq_len = kMaxSeqLen;
  options.end_tokens = end_tokens_;
  options.clock = &clock_;
  if (drafts_ && chance(2)) {
    options.cache.drafter = make_drafter();
  } else if (drafts_ && chance(2)) {
    options.network = FakeNetworkOptions{chance(2), 0.7};
    options.cache.drafting.drafter = DrafterKind::network;
  }
  options.page_memory = [](int32_t num_pages) {
    return std::vector<MemoryRequest>{{"card:0", 10 * static_cast<uint64_t>(num_pages), "the cache"}};
  };
  options.log = Log(LogLevel::warning, [this](LogLevel, std::string_view line) { note_warning(line); });
  options.runtime = FakeEngine::make_runtime(options);
  others_.clear();
  num_pages_seen_ = limits_.guaranteed_pages();
  options.runtime->set_memory_budget("card:0", 10 * static_cast<uint64_t>(limits_.num_pages));
  engine_ = std::make_unique<FakeEngine>(options);
  engine_->codec->broken_token = oracle_->special().broken;
  FakeExecutor& executor = *engine_->executor;
  executor.nan_token = oracle_->special().poison;
  executor.before_step = [this](const Batch& batch) {
    before_step(batch);
    faults_->before_step(batch);
  };
  executor.before_shard = [this](const Batch& batch) { faults_->before_shard(batch); };
  executor.before_growth = [this] {
    if (chance(5)) throw Error(ErrorCode::out_of_memory, "injected: a chunk");
  };
  executor.before_wait = [this] { faults_->before_wait(); };
  executor.change_logits = [this](const Batch& batch, gsl::span<float> logits) {
    faults_->change_logits(batch, logits);
  };
  queue_ = std::make_shared<EventQueue>(clock_);
  page_queue_ = std::make_shared<EventQueue>(clock_);
  replay_ = {};  // events of the previous cache do not show whether this one is followed
  page_events_may_lack_ = false;
  engine_->cache->follow_pages({page_queue_, std::nullopt, 0});
  faults_->disarm();
  engine_ended_ = ErrorCode::ok;
  steps_without_progress_ = progress_mark_ = 0;
}

void Simulation::violation(const std::string& what) {
  if (violation_.empty()) violation_ = fmt::format("seed {}, event {}: {}", seed_, stats_.events, what);
}

std::string Simulation::run(uint64_t num_events) {
  for (uint64_t i = 0; i < num_events && violation_.empty(); ++i) {
    event();
    ++stats_.events;
    if (const auto& network = engine_->executor->network; network != nullptr && !network->violation().empty())
      violation("the draft network: " + network->violation());
    if (engine_ended_ != ErrorCode::ok && violation_.empty()) {
      end_engine();
      make_engine();
    }
  }
  if (violation_.empty()) settle();
  if (violation_.empty()) close();
  if (violation_.empty()) end_engine();
  stats_.device_faults = faults_->num_struck();
  stats_.shard_faults = faults_->num_shards_struck();
  return violation_;
}

void Simulation::begin_event() {
  faults_->clear_record();
  failed_allocations_ = 0;
  all_allocations_failed_ = step_may_lack_memory_ = false;
  ended_for_memory_ = 0;
}

void Simulation::event() {
  begin_event();
  const uint32_t kind = below(action_weights_.back().first);
  const auto habit = std::find_if(action_weights_.begin(), action_weights_.end(),
                                  [&](const auto& entry) { return kind < entry.first; });
  (this->*habit->second)();
  check_all();
  forget_ended();
}

// The engine has ended: every call fails at once, and the output of its jobs can still be read.
void Simulation::end_engine() {
  const CacheStats stats = engine_->cache->stats();
  stats_.preemptions += stats.preemptions;
  stats_.deduplicated += stats.pages_deduplicated;
  stats_.cached_tokens += stats.prompt_tokens_cached;
  stats_.pages_restored += stats.prefixes.pages_restored;
  stats_.candidates += stats.draft_tokens;
  stats_.accepted += stats.draft_tokens_accepted;
  stats_.followed += static_cast<uint64_t>(engine_->executor->num_followed());
  stats_.in_vain += static_cast<uint64_t>(engine_->executor->num_discarded());
  stats_.masked += static_cast<uint64_t>(engine_->executor->num_rows_masked());
  if (stats.engine_error != engine_ended_) violation("the engine does not report how it ended");
  if (stats.pages.referenced != 0) violation("pages are referenced after the end of the engine");
  if (door().num_live() != 0 || door().num_queued() != 0)
    violation("jobs are alive after the end of the engine");
  const auto fails = [&](const char* what, const std::function<void()>& call) {
    try {
      call();
      violation(fmt::format("{} works behind the end of the engine", what));
    } catch (const Error& error) {
      if (error.code() != engine_ended_)
        violation(fmt::format("{} fails with another code: {}, not {}", what, error.what(),
                              error_code_name(engine_ended_)));
    }
  };
  JobRequest request;
  request.prompt = {1};
  request.max_new_tokens = 1;
  // A job that could never fit is rejected for that reason, whether the engine has ended or not.
  const ExecutorLimits limits = engine_->executor->limits();
  if (int64_t{limits.guaranteed_pages()} * limits.page_tokens >= 2)
    fails("submit", [&] { engine_->cache->submit(request); });
  fails("query_prefix", [&] { engine_->cache->query_prefix({1, 2}, "", Duration{0}); });
  fails("pin_prefix", [&] { engine_->cache->pin_prefix({1, 2}, "", Duration{0}, Duration{0}); });
  if (engine_->cache->thread().run_once() != StepOutcome::idle)
    violation("a step after the end of the engine");
  drain(100000);
  for (auto& [tag, model] : jobs_) read(model, 100000);
  for (const auto& [tag, model] : jobs_) {
    if (model.seen.num_terminal != 1) violation("a job has no terminal event after the end of the engine");
  }
  engine_->cache->close();
  jobs_.clear();
  dropped_.clear();
  pins_.clear();
}

void Simulation::step() {
  check_step(engine_->cache->thread().run_once());
}

void Simulation::check_step(StepOutcome outcome) {
  ++stats_.steps;
  if (faults_->record().device_lost) {
    ++stats_.lost_devices;
    engine_ended_ = ErrorCode::device_lost;
  }
  judge_endings();
  check_progress(outcome);
  for (const JobId id : dropped_) {
    if (loop().jobs().find(id) != nullptr) violation("a dropped job is alive after a step");
  }
  dropped_.clear();
  for (const auto& [tag, model] : jobs_) {
    if (model.cancelled && !model.ended) violation("a cancelled job is alive after a step");
  }
  clock_.advance(std::chrono::microseconds(200));
}

// Readers catch up, no job is paused, and no more faults occur: every job must end.
void Simulation::settle() {
  faults_->disarm();
  int64_t work_left = 64;
  for (auto& [tag, model] : jobs_) {
    if (model.paused) model.job->resume();
    model.paused = false;
    work_left += model.request.negative_prompt.empty() ? kMaxSeqLen : 2 * kMaxSeqLen;
  }
  while (violation_.empty() && !jobs_.empty()) {
    settle_step();
    if (--work_left < 0) violation(fmt::format("{} jobs make no progress", jobs_.size()));
  }
  for (const PinId pin : std::exchange(pins_, {})) loop().jobs().unpin(pin);
  if (violation_.empty()) settle_step();
  if (engine_->cache->stats().pages.referenced != 0) violation("pages are referenced but no job is alive");
  if (door().num_queued() != 0) violation("the queue counts jobs that have ended");
}

void Simulation::settle_step() {
  begin_event();
  step();
  drain(100000);
  for (auto& [tag, model] : jobs_) read(model, 100000);
  check_all();
  forget_ended();
}

}  // namespace quire::testing
