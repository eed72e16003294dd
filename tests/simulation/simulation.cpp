#include "tests/simulation/simulation.h"

#include <algorithm>

#include <fmt/core.h>

namespace quire::testing {

namespace {

constexpr int32_t kVocab = 24;
constexpr TokenId kPoison = kVocab - 1;
constexpr int32_t kMaxSeqLen = 72;
constexpr int32_t kMaxSettleSteps = 200000;

}  // namespace

Simulation::Simulation(uint64_t seed) : seed_(seed), random_(seed) {
  sampler_ = std::make_unique<Sampler>(kVocab);
  limits_.page_tokens = static_cast<int32_t>(1 + below(6));
  if (chance(3)) limits_.page_tokens = 4;
  limits_.max_pages_per_sequence = (kMaxSeqLen + limits_.page_tokens - 1) / limits_.page_tokens;
  limits_.num_pages = limits_.max_pages_per_sequence / 2 + static_cast<int32_t>(below(100)) + 2;
  limits_.max_sequences = static_cast<int32_t>(1 + below(10));
  limits_.max_tokens = limits_.max_sequences + static_cast<int32_t>(below(40));
  limits_.max_logit_rows = limits_.max_sequences + static_cast<int32_t>(below(10));
  limits_.vocab_size = kVocab;
  cache_options_.start_thread = false;
  cache_options_.max_queued_jobs = static_cast<int32_t>(4 + below(30));
  cache_options_.max_overtakes = static_cast<int32_t>(below(6));
  cache_options_.ageing_interval = std::chrono::milliseconds(chance(2) ? 0 : 50);
  cache_options_.prefix_hash_bits = chance(2) ? 4 : 64;
  cache_options_.max_pinned_pages =
      static_cast<int32_t>(below(static_cast<uint32_t>(limits_.num_pages) / 3 + 1));
  if (chance(2)) {
    NamespaceOptions limited{"b", {}};
    limited.quota.max_running_jobs = static_cast<int32_t>(1 + below(3));
    limited.quota.max_pages = chance(2) ? limits_.num_pages / 2 + 1 : 0;
    limited.quota.weight = 0.5;
    cache_options_.namespaces.push_back(limited);
  }
  if (chance(3)) end_tokens_ = {2};
  for (int32_t i = 0; i < 5; ++i) {
    TokenIds prefix;
    for (uint32_t n = below(40); n > 0; --n) prefix.push_back(static_cast<TokenId>(below(kVocab - 1)));
    prefixes_.push_back(prefix);
  }
  make_engine();
}

void Simulation::make_engine() {
  FakeEngineOptions options;
  options.limits = limits_;
  options.cache = cache_options_;
  options.max_seq_len = kMaxSeqLen;
  options.end_tokens = end_tokens_;
  options.clock = &clock_;
  engine_ = std::make_unique<FakeEngine>(options);
  queue_ = std::make_shared<EventQueue>(clock_);
  engine_->executor->nan_token = kPoison;
  engine_->executor->before_step = [this](const Batch&) {
    if (std::exchange(lose_device_, false)) {
      device_lost_ = true;
      throw Error(ErrorCode::device_lost, "injected");
    }
    if (faults_armed_ > 0 && --faults_armed_ == 0) throw Error(ErrorCode::out_of_memory, "injected");
  };
  device_lost_ = false;
  faults_armed_ = 0;
}

void Simulation::violation(const std::string& what) {
  if (violation_.empty()) violation_ = fmt::format("seed {}, event {}: {}", seed_, stats_.events, what);
}

std::string Simulation::run(uint64_t num_events) {
  for (uint64_t i = 0; i < num_events && violation_.empty(); ++i) {
    event();
    ++stats_.events;
    check_pages();
    check_sequences();
    if (device_lost_) {
      settle();
      stats_.preemptions += engine_->cache->stats().preemptions;
      make_engine();
    }
  }
  if (violation_.empty()) settle();
  const CacheStats stats = engine_->cache->stats();
  stats_.preemptions += stats.preemptions;
  stats_.deduplicated += stats.pages_deduplicated;
  stats_.cached_tokens += stats.prompt_tokens_cached;
  if (violation_.empty()) {
    engine_->cache->close();
    if (engine_->cache->core().queue().num_live() != 0) violation("jobs are alive behind close");
  }
  return violation_;
}

void Simulation::event() {
  const uint32_t kind = below(100);
  Model* model = any_model();
  if (kind < 12) return submit();
  if (kind < 14) return arm_fault();
  if (kind < 16) return pin_or_query();
  if (kind < 18) return clock_.advance(std::chrono::milliseconds(below(20)));
  if (kind < 22) return drain_queue(1 + below(20));
  if (model == nullptr || kind >= 45) return step();
  if (kind < 24) return cancel(*model);
  if (kind < 26) return toggle_pause(*model);
  if (kind < 27) return fork(*model);
  if (kind < 28) return rewind(*model);
  if (kind < 29) return model->job->set_priority(static_cast<int32_t>(below(3)));
  if (kind < 30) {
    model->dropped = true;
    model->job.reset();
    return;
  }
  read(*model, 1 + below(8));
}

Simulation::Model* Simulation::any_model() {
  forget_finished();
  if (models_.empty()) return nullptr;
  auto entry = models_.begin();
  std::advance(entry, below(static_cast<uint32_t>(models_.size())));
  return entry->second.job == nullptr ? nullptr : &entry->second;
}

TokenIds Simulation::random_prompt() {
  TokenIds prompt = prefixes_[below(static_cast<uint32_t>(prefixes_.size()))];
  prompt.resize(prompt.size() - below(static_cast<uint32_t>(prompt.size()) + 1) / 2);
  for (uint32_t n = below(8); n > 0; --n) prompt.push_back(static_cast<TokenId>(below(kVocab - 1)));
  if (prompt.empty()) prompt.push_back(1);
  if (chance(40)) prompt[below(static_cast<uint32_t>(prompt.size()))] = kPoison;
  return prompt;
}

JobRequest Simulation::random_request() {
  JobRequest request;
  request.prompt = random_prompt();
  request.tag = ++last_tag_;
  const uint32_t kind = below(12);
  request.kind = kind == 0 ? JobKind::score : kind == 1 ? JobKind::warm : JobKind::generate;
  request.max_new_tokens = static_cast<int32_t>(1 + below(30));
  if (chance(4))
    request.min_new_tokens = static_cast<int32_t>(below(static_cast<uint32_t>(request.max_new_tokens)));
  request.ignore_end_tokens = chance(4);
  request.sampling.temperature = chance(2) ? 0.0F : 1.0F;
  request.sampling.seed = below(1000);
  if (chance(4)) request.sampling.repetition_penalty = 1.3F;
  if (chance(5)) request.sampling.banned_tokens = {static_cast<TokenId>(below(kVocab))};
  request.want_log_probs = chance(5);
  request.priority = static_cast<int32_t>(below(3));
  request.reserve_whole = chance(6);
  request.reuse_prefix = !chance(8);
  request.publish_pages = !chance(8);
  request.name_space = chance(3) ? "b" : "";
  request.want_progress = chance(4);
  request.slow_reader = static_cast<SlowReaderPolicy>(below(chance(4) ? 3 : 2));
  request.max_unread_events = static_cast<int32_t>(2 + below(6));
  if (chance(10)) request.total_deadline = std::chrono::milliseconds(1 + below(200));
  if (chance(10)) request.queue_deadline = std::chrono::milliseconds(1 + below(100));
  if (chance(2)) request.queue = queue_;
  return request;
}

void Simulation::submit() {
  Model model;
  model.request = random_request();
  if (chance(50)) model.request.prompt.resize(kMaxSeqLen + 5, 1);
  if (chance(60)) model.request.prompt.push_back(kVocab);
  const CacheStats before = engine_->cache->stats();
  const int32_t queued = engine_->cache->core().queue().num_queued();
  try {
    model.job = engine_->cache->submit(model.request);
  } catch (const Error&) {
    ++stats_.rejected;
    const bool residue = engine_->cache->core().queue().num_queued() != queued ||
                         engine_->cache->stats().pages.referenced != before.pages.referenced;
    if (residue) violation("a refused job left something behind");
    return;
  }
  for (const TokenId token : model.request.prompt) {
    if (token < 0 || token >= kVocab) violation("a token that does not exist was taken");
  }
  model.announced_to_queue = model.request.queue != nullptr;
  model.request.queue = nullptr;
  model.may_expire = model.request.total_deadline > Duration{0} || model.request.queue_deadline > Duration{0};
  fill_expected(model);
  ++stats_.jobs;
  models_.emplace(model.request.tag, std::move(model));
}

// What the job must say, found by running it alone through the same sampler.
void Simulation::fill_expected(Model& model) {
  TokenIds tokens = model.request.prompt;
  model.expect_numeric = std::find(tokens.begin(), tokens.end(), kPoison) != tokens.end();
  if (model.request.kind != JobKind::generate || model.expect_numeric) return;
  SamplerState state(model.request.sampling, kVocab);
  state.append(tokens);
  TokenIds stops = model.request.stop_tokens;
  if (!model.request.ignore_end_tokens) stops.insert(stops.end(), end_tokens_.begin(), end_tokens_.end());
  std::vector<float> logits(kVocab);
  while (static_cast<int32_t>(model.expected.size()) < model.request.max_new_tokens &&
         static_cast<int32_t>(tokens.size()) < kMaxSeqLen) {
    fake_logits(tokens, logits);
    SampleRequest request{logits, &state};
    if (static_cast<int32_t>(model.expected.size()) < model.request.min_new_tokens) request.banned = stops;
    const SampledToken sampled = sampler_->sample(request);
    tokens.push_back(sampled.token);
    model.expected.push_back(sampled.token);
    state.append(sampled.token);
    if (std::find(stops.begin(), stops.end(), sampled.token) != stops.end()) return;
    if (sampled.token == kPoison) break;
  }
  // The last token is never read back.
  const bool more = static_cast<int32_t>(model.expected.size()) < model.request.max_new_tokens &&
                    static_cast<int32_t>(tokens.size()) < kMaxSeqLen;
  model.expect_numeric = more;
}

void Simulation::cancel(Model& model) {
  model.job->cancel();
  model.cancelled = true;
  ++stats_.cancels;
}

void Simulation::toggle_pause(Model& model) {
  try {
    if (model.paused) {
      model.job->resume();
    } else {
      model.job->pause();
    }
    model.paused = !model.paused;
  } catch (const Error&) {
    if (!device_lost_) violation("pause failed");
  }
}

// Tasks run before the next step, so the parent is then where it is now.
void Simulation::fork(Model& parent) {
  if (parent.request.kind != JobKind::generate || parent.job->state() == JobState::finished) return;
  if (parent.cancelled || parent.may_expire || parent.expect_numeric) return;
  Model child;
  child.request = parent.request;
  child.request.tag = ++last_tag_;
  const auto num_new = static_cast<size_t>(parent.job->result().new_tokens);
  child.request.prompt.insert(child.request.prompt.end(), parent.expected.begin(),
                              parent.expected.begin() + static_cast<ptrdiff_t>(num_new));
  child.request.max_new_tokens = parent.request.max_new_tokens - static_cast<int32_t>(num_new);
  child.request.min_new_tokens = std::max(0, parent.request.min_new_tokens - static_cast<int32_t>(num_new));
  child.request.sampling.seed = below(1000);
  ForkOptions options;
  options.seed = child.request.sampling.seed;
  options.tag = child.request.tag;
  try {
    child.job = parent.job->fork(options);
  } catch (const Error&) {
    ++stats_.rejected;
    return;
  }
  child.forked = true;
  fill_expected(child);
  ++stats_.forks;
  models_.emplace(child.request.tag, std::move(child));
}

void Simulation::rewind(Model& model) {
  if (model.request.kind != JobKind::generate || model.job->state() == JobState::finished) return;
  const auto num_new = static_cast<size_t>(model.job->result().new_tokens);
  if (num_new == 0 || model.cancelled || num_new <= model.base) return;
  const size_t target = below(static_cast<uint32_t>(num_new));
  try {
    model.job->rewind(static_cast<int32_t>(target));
  } catch (const Error&) {
    return;
  }
  model.emitted_before += num_new - model.base;
  model.base = target;
  model.jumps.emplace_back(model.emitted_before, target);
  ++stats_.rewinds;
  step();  // applied before anything else is asked
}

void Simulation::take(Model& model, Event event) {
  if (event.kind == EventKind::text && event.token_ids.empty()) violation("a text event without tokens");
  if (!event.log_probs.empty() && event.log_probs.size() != event.token_ids.size())
    violation("log_probs per token");
  add_event(model.seen, std::move(event));
  if (model.seen.num_terminal > 1 || model.seen.num_after_terminal > 0)
    violation("an event behind the last one");
  if (model.seen.num_terminal == 1) check_terminal(model);
}

void Simulation::read(Model& model, uint32_t max_events) {
  for (uint32_t i = 0; i < max_events; ++i) {
    auto event = model.job->poll(Duration{0});
    if (!event.has_value()) return;
    take(model, std::move(*event));
  }
}

void Simulation::drain_queue(uint32_t max_events) {
  for (Event& event : queue_->drain(max_events, Duration{0})) {
    const auto entry = models_.find(event.tag);
    if (entry == models_.end() || entry->second.dropped) {
      violation("an event of a job without a reader");
      return;
    }
    if (!entry->second.announced_to_queue) violation("an event in a queue that was not asked for");
    take(entry->second, std::move(event));
  }
}

void Simulation::step() {
  engine_->cache->core().run_once();
  clock_.advance(std::chrono::microseconds(200));
  check_cancelled();
}

void Simulation::arm_fault() {
  if (chance(400)) {
    lose_device_ = true;
    ++stats_.faults;
  } else if (chance(3)) {
    faults_armed_ = 1 + below(5);
    ++stats_.faults;
  }
}

void Simulation::pin_or_query() {
  StepLoop& loop = engine_->cache->core().loop();
  const TokenIds prompt = random_prompt();
  const std::string name_space = chance(2) ? "b" : "";
  if (chance(2)) {
    const int32_t found = loop.query_prefix(prompt, name_space);
    if (found < 0 || found >= static_cast<int32_t>(prompt.size())) violation("query_prefix is out of range");
    return;
  }
  try {
    pins_.push_back(loop.pin(prompt, name_space, std::chrono::milliseconds(below(50))));
  } catch (const Error&) {  // nothing cached, or over the quota
  }
  if (pins_.size() > 3) {
    loop.unpin(pins_.front());
    pins_.erase(pins_.begin());
  }
}

// Readers catch up, nobody is paused, no more faults: every job has to come to its end.
void Simulation::settle() {
  faults_armed_ = 0;
  lose_device_ = false;
  for (auto& [tag, model] : models_) {
    if (model.paused && model.job != nullptr) toggle_pause(model);
  }
  int32_t steps = 0;
  int32_t idle = 0;
  while (violation_.empty() && !models_.empty()) {
    step();
    drain_queue(1000);
    for (auto& [tag, model] : models_) {
      if (model.job != nullptr) read(model, 1000);
    }
    forget_finished();
    check_pages();
    const size_t num_live = models_.size();
    idle = engine_->cache->core().queue().num_live() == 0 ? idle + 1 : 0;
    if (++steps > kMaxSettleSteps) return violation(fmt::format("{} jobs make no progress", num_live));
    if (idle > 3 && !models_.empty()) return violation("a job ended without a terminal event");
  }
  for (const PinId pin : std::exchange(pins_, {})) engine_->cache->core().loop().unpin(pin);
  step();
  if (engine_->cache->stats().pages.referenced != 0) violation("pages are held when no job lives");
  if (engine_->cache->core().queue().num_queued() != 0) violation("the queue counts jobs that are gone");
}

void Simulation::check_terminal(Model& model) {
  ++stats_.finished;
  const Event& terminal = model.seen.terminal;
  const FinishReason reason = terminal.reason;
  if (reason == FinishReason::cancelled && !model.cancelled) violation("cancelled by nobody");
  if (reason == FinishReason::failed) {
    const bool expected =
        (terminal.error == ErrorCode::numeric && model.expect_numeric) ||
        (terminal.error == ErrorCode::out_of_memory && stats_.faults > 0) ||
        (terminal.error == ErrorCode::device_lost && device_lost_) ||
        (terminal.error == ErrorCode::deadline && model.may_expire) ||
        (terminal.error == ErrorCode::closed) ||
        (terminal.error == ErrorCode::capacity && model.request.slow_reader == SlowReaderPolicy::end);
    if (!expected)
      violation(fmt::format("failed with {}: {}", error_code_name(terminal.error), terminal.message));
  }
  if (reason == FinishReason::completed && model.request.kind == JobKind::generate) violation("completed");
  if (reason != FinishReason::failed && reason != FinishReason::cancelled && model.expect_numeric) {
    violation("a poisoned job came through");
  }
  check_tokens(model);
}

std::string Simulation::describe(const Model& model) const {
  return fmt::format("prompt {}, {} new, temperature {}, reuse {}, publish {}, {} rewinds, fork {}, {}",
                     model.request.prompt.size(), model.expected.size(), model.request.sampling.temperature,
                     model.request.reuse_prefix, model.request.publish_pages, model.jumps.size(),
                     model.forked, model.job == nullptr ? "dropped" : model.job->explain());
}

// Whatever company it had, a job says what it says alone.
void Simulation::check_tokens(Model& model) {
  const TokenIds& seen = model.seen.tokens;
  size_t position = 0;
  size_t jump = 0;
  for (size_t i = 0; i < seen.size(); ++i) {
    while (jump < model.jumps.size() && model.jumps[jump].first == i) position = model.jumps[jump++].second;
    if (position >= model.expected.size() || seen[i] != model.expected[position]) {
      return violation(fmt::format("job {} ({}): token {} is {}, alone it is {}", model.request.tag,
                                   describe(model), i, seen[i],
                                   position < model.expected.size() ? model.expected[position] : -1));
    }
    ++position;
  }
  while (jump < model.jumps.size() && model.jumps[jump].first == seen.size())
    position = model.jumps[jump++].second;
  const FinishReason reason = model.seen.terminal.reason;
  const bool whole = reason != FinishReason::failed && reason != FinishReason::cancelled;
  if (whole && model.request.kind == JobKind::generate && position != model.expected.size()) {
    violation(fmt::format("job {} ended behind {} of {} tokens", model.request.tag, position,
                          model.expected.size()));
  }
}

void Simulation::check_pages() {
  const KvCache& kv = engine_->cache->core().loop().kv();
  if (engine_->executor->num_bad_reads() > 0) violation("a sequence was read from a wrong place");
  const std::string problem = kv.audit();
  if (!problem.empty()) violation(problem);
  for (int32_t slot = 0; slot < limits_.num_pages; ++slot) {
    const PageId page{slot};
    if (kv.pool().is_free(page)) engine_->executor->poison(page);
    const auto tokens = kv.pool().tokens(page);
    if (!engine_->executor->holds(page, tokens)) violation("a page does not hold what is on record");
    if (!kv.pool().is_cached(page)) continue;
    if (std::find(tokens.begin(), tokens.end(), kPoison) != tokens.end())
      violation("a poisoned page is shared");
  }
}

// What every running job has in the cache is its own tokens.
void Simulation::check_sequences() {
  StepLoop& loop = engine_->cache->core().loop();
  for (const auto& [tag, model] : models_) {
    const JobRecord* record = model.job == nullptr ? nullptr : loop.find(model.job->id());
    if (record == nullptr || !record->sequence) continue;
    const auto length = static_cast<size_t>(loop.kv().length(*record->sequence));
    const auto tokens = gsl::span<const TokenId>(record->tokens).first(length);
    if (!engine_->executor->holds_sequence(loop.kv().pages(*record->sequence), tokens)) {
      violation(
          fmt::format("the pages of job {} ({}) do not hold its {} tokens", tag, describe(model), length));
    }
  }
}

void Simulation::check_cancelled() {
  for (auto& [tag, model] : models_) {
    if (model.cancelled && model.job != nullptr && model.job->state() != JobState::finished) {
      violation("a cancelled job lives on behind a step");
    }
  }
}

void Simulation::forget_finished() {
  for (auto entry = models_.begin(); entry != models_.end();) {
    const Model& model = entry->second;
    const bool done = model.dropped || model.seen.num_terminal > 0;
    entry = done ? models_.erase(entry) : std::next(entry);
  }
}

}  // namespace quire::testing
