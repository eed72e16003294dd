// Actions of callers and readers.
#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "core/engine/scheduler/scheduler_policy.h"
#include "tests/simulation/simulation.h"
#include "tests/simulation/sums_constraint.h"
#include "tests/simulation/world.h"

namespace quire::testing {

template <typename Call>
ErrorCode Simulation::attempt(Call&& call) {
  const bool fails = allocations_fail_ && chance(4);
  const auto span = chance(2) ? FaultSpan::once : FaultSpan::for_ever;
  const int64_t nth = 1 + int_below(30);
  ErrorCode code = ErrorCode::ok;
  {
    std::optional<AllocationFault> fault;
    if (fails) fault.emplace(nth, span);
    try {
      call();
    } catch (const Error& error) {
      code = error.code();
    } catch (const std::bad_alloc&) {
      code = ErrorCode::out_of_memory;
    }
    if (fails) failed_allocations_ += fault->num_failed();
  }
  stats_.failed_allocations += static_cast<uint64_t>(failed_allocations_);
  if (code == ErrorCode::out_of_memory && failed_allocations_ == 0)
    violation("a call failed with out_of_memory although no allocation failed");
  return code;
}

SimulatedJob* Simulation::any_job() {
  if (jobs_.empty()) return nullptr;
  auto entry = jobs_.begin();
  std::advance(entry, below(static_cast<uint32_t>(jobs_.size())));
  return &entry->second;
}

SimulatedJob* Simulation::any_live_job() {
  SimulatedJob* const first = any_job();
  if (first == nullptr || !first->ended) return first;
  const auto live =
      std::find_if(jobs_.begin(), jobs_.end(), [](const auto& entry) { return !entry.second.ended; });
  return live == jobs_.end() ? nullptr : &live->second;
}

TokenIds Simulation::random_prompt() {
  TokenIds prompt = prefixes_[below(static_cast<uint32_t>(prefixes_.size()))];
  prompt.resize(prompt.size() - below(static_cast<uint32_t>(prompt.size()) + 1) / 2);
  for (uint32_t n = below(8); n > 0; --n) prompt.push_back(int_below(kFirstSpecial));
  if (prompt.empty()) prompt.push_back(1);
  if (chance(40)) prompt[below(static_cast<uint32_t>(prompt.size()))] = kFirstSpecial + int_below(3);
  return prompt;
}

void Simulation::random_limits(JobRequest& request) {
  request.priority = int_below(3);
  request.reserve_whole = chance(6);
  request.reuse_prefix = !chance(8);
  request.publish_pages = !chance(8);
  request.name_space = chance(3) ? kOtherSpace : "";
  request.want_progress = chance(4);
  request.slow_reader = static_cast<SlowReaderPolicy>(below(chance(4) ? 3 : 2));
  request.max_unread_events = 2 + int_below(6);
  if (chance(12)) request.total_deadline = std::chrono::milliseconds(1 + below(200));
  if (chance(12)) request.first_token_deadline = std::chrono::milliseconds(1 + below(150));
  if (chance(12)) request.queue_deadline = std::chrono::milliseconds(1 + below(100));
  if (chance(2)) request.queue = queue_;
}

JobRequest Simulation::random_request() {
  JobRequest request;
  request.prompt = random_prompt();
  request.tag = ++last_tag_;
  const uint32_t kind = below(12);
  request.kind = kind == 0 ? JobKind::score : kind == 1 ? JobKind::warm : JobKind::generate;
  request.max_new_tokens = chance(50) ? 1 << 29 : 1 + int_below(30);
  request.ignore_end_tokens = chance(4);
  if (chance(6)) request.stop_tokens = {int_below(kWorldVocab), int_below(kWorldVocab)};
  for (uint32_t n = chance(4) ? 1 + below(3) : 0; n > 0; --n) {
    TokenIds letters;
    for (uint32_t size = 1 + below(3); size > 0; --size) letters.push_back(int_below(chance(2) ? 4 : 26));
    request.stop_strings.push_back(fake_text(letters));
  }
  request.sampling.temperature = chance(2) ? 0.0F : 1.0F;
  request.sampling.seed = below(1000);
  request.want_log_probs = chance(5);
  if (!is_roomy_ || chance(30)) random_edits(request);
  random_limits(request);
  if (request.kind == JobKind::generate && chance(guided_one_in_)) guide(request);
  return request;
}

// Adds a second lane, whose prompt may equal that of other jobs.
void Simulation::guide(JobRequest& request) {
  constexpr std::array kScales{0.0F, 0.5F, 1.5F, 3.0F};
  request.negative_prompt = random_prompt();
  request.guidance_scale = kScales[below(kScales.size())];
  request.reserve_whole = false;
}

// Adds random settings that edit the logits of each draw.
void Simulation::random_edits(JobRequest& request) {
  if (chance(4)) request.min_new_tokens = std::min(int_below(30), request.max_new_tokens - 1);
  if (chance(4)) request.sampling.repetition_penalty = 1.3F;
  if (chance(4)) request.sampling.penalty_range = int_below(20);
  if (chance(5)) request.sampling.banned_tokens = {int_below(kWorldVocab)};
  if (request.kind == JobKind::generate && chance(3))
    request.constraint = std::make_shared<SumsConstraint>(1 + int_below(kMaxSeqLen));
}

// Returns the number of lanes that can take part in one step.
int32_t Simulation::num_places() const {
  int32_t places = std::min(limits_.max_sequences, limits_.max_tokens);
  if (cache_options_.max_chunk_tokens > 0) places = std::min(places, cache_options_.max_chunk_tokens);
  if (cache_options_.max_running_jobs > 0) places = std::min(places, cache_options_.max_running_jobs);
  return places;
}

// Returns the error for requests that no state of the engine can accept.
ErrorCode Simulation::must_refuse(const JobRequest& request) const {
  const bool generates = request.kind == JobKind::generate;
  const bool is_guided = !request.negative_prompt.empty();
  const size_t longest = std::max(request.prompt.size(), request.negative_prompt.size());
  if (longest > kMaxSeqLen - (generates ? 1 : 0)) return ErrorCode::too_large;
  for (const TokenId token : request.prompt) {
    if (token >= kWorldVocab) return ErrorCode::invalid_argument;
  }
  if (is_guided && num_places() < 2) return ErrorCode::too_large;
  const int32_t num_new =
      generates ? std::min(request.max_new_tokens, kMaxSeqLen - static_cast<int32_t>(longest)) : 0;
  const auto pages_of = [&](const TokenIds& prompt) {
    return pages_of_whole_job(static_cast<int32_t>(prompt.size()) + num_new, limits_.page_tokens);
  };
  const int32_t pages = pages_of(request.prompt) + (is_guided ? pages_of(request.negative_prompt) : 0);
  for (const WindowGroup& window : limits_.windows) {
    const auto slots_of = [&](const TokenIds& prompt) {
      return slots_of_whole_job(static_cast<int32_t>(prompt.size()) + num_new, window.window,
                                limits_.page_tokens);
    };
    const int32_t slots = slots_of(request.prompt) + (is_guided ? slots_of(request.negative_prompt) : 0);
    if (slots > window.num_slots) return ErrorCode::too_large;
  }
  if (pages > limits_.guaranteed_pages()) return ErrorCode::too_large;
  for (const NamespaceOptions& space : cache_options_.namespaces) {
    const int32_t most = space.quota.max_pages;
    if (space.name == request.name_space && most > 0 && pages > most) return ErrorCode::too_large;
  }
  return ErrorCode::ok;
}

void Simulation::refuse(const JobRequest& request, ErrorCode code) {
  ++stats_.rejected;
  const ErrorCode must = must_refuse(request);
  const bool full = code == ErrorCode::capacity || code == ErrorCode::quota || code == ErrorCode::too_large;
  const bool for_memory = code == ErrorCode::out_of_memory && failed_allocations_ > 0;
  if (code != must && !for_memory && !(must == ErrorCode::ok && full)) {
    violation(fmt::format("refused with {} instead of {}", error_code_name(code), error_code_name(must)));
  }
}

SimulatedJob& Simulation::add_job(std::shared_ptr<Job> job, JobRequest request, std::string held_text,
                                  int32_t num_said) {
  SimulatedJob model;
  model.id = job->id();
  model.job = std::move(job);
  model.in_queue = std::exchange(request.queue, nullptr) != nullptr;
  model.request = std::move(request);
  model.submitted = clock_.now();
  model.expected = oracle_->expect(model.request, held_text, num_said);
  model.held_text = std::move(held_text);
  model.num_said = num_said;
  ++stats_.jobs;
  if (model.request.constraint != nullptr) ++stats_.constrained;
  if (!model.request.negative_prompt.empty()) ++stats_.guided;
  const uint64_t tag = model.request.tag;
  return jobs_.emplace(tag, std::move(model)).first->second;
}

void Simulation::submit() {
  JobRequest request = random_request();
  if (chance(50)) request.prompt.resize(kMaxSeqLen + 5, 1);
  if (chance(60)) request.prompt.push_back(kWorldVocab);
  std::shared_ptr<Job> job;
  const ErrorCode code = attempt([&] { job = engine_->cache->submit(request); });
  if (code != ErrorCode::ok) return refuse(request, code);
  if (must_refuse(request) != ErrorCode::ok) violation("a job that can never run was accepted");
  add_job(std::move(job), std::move(request), {});
}

void Simulation::submit_many() {
  JobRequest request = random_request();
  // The queue identifies jobs by their tags, which are all the same here.
  request.queue = nullptr;
  const int32_t num_jobs = 1 + int_below(4);
  std::vector<std::shared_ptr<Job>> jobs;
  const ErrorCode code = attempt([&] { jobs = engine_->cache->submit_many(request, num_jobs); });
  if (code != ErrorCode::ok) return refuse(request, code);
  if (static_cast<int32_t>(jobs.size()) != num_jobs) violation("submit_many returned a wrong number of jobs");
  for (auto& job : jobs) {
    add_job(std::move(job), request, {});
    request.tag = ++last_tag_;
    ++request.sampling.seed;
  }
}

void Simulation::fork() {
  SimulatedJob* const parent = any_job();
  if (parent == nullptr || parent->ended || parent->never_fits) return;
  if (parent->request.kind == JobKind::generate) return fork_from(*parent);
  if (attempt([&] { parent->job->fork({}); }) == ErrorCode::ok)
    violation("a job that does not generate was forked");
}

// Tasks run before the next step, so the parent has the same tokens then.
void Simulation::fork_from(SimulatedJob& parent) {
  const auto num_new = static_cast<size_t>(parent.job->result().new_tokens);
  const TokenIds grown(parent.expected.tokens.begin(),
                       parent.expected.tokens.begin() + static_cast<ptrdiff_t>(num_new));
  JobRequest request = parent.request;
  request.tag = ++last_tag_;
  request.prompt.insert(request.prompt.end(), grown.begin(), grown.end());
  if (!request.negative_prompt.empty())
    request.negative_prompt.insert(request.negative_prompt.end(), grown.begin(), grown.end());
  ForkOptions options;
  options.seed = request.sampling.seed = below(1000);
  options.tag = request.tag;
  options.max_new_tokens = chance(3) ? 1 + int_below(60) : 0;
  if (chance(2)) options.queue = request.queue = queue_;
  request.max_new_tokens = options.max_new_tokens > 0
                               ? options.max_new_tokens
                               : request.max_new_tokens - static_cast<int32_t>(num_new);
  request.min_new_tokens = std::max(0, request.min_new_tokens - static_cast<int32_t>(num_new));
  request.queue_deadline = request.first_token_deadline = request.total_deadline = Duration{0};
  std::shared_ptr<Job> job;
  if (attempt([&] { job = parent.job->fork(options); }) != ErrorCode::ok) {
    ++stats_.rejected;
    return;
  }
  SimulatedJob& child =
      add_job(std::move(job), std::move(request),
              Oracle::deferred(parent.held_text + fake_text(grown), parent.request.stop_strings),
              parent.num_said + static_cast<int32_t>(num_new));
  child.forked = true;
  child.never_fits = must_refuse(child.request) != ErrorCode::ok;
  ++stats_.forks;
}

// Takes effect with the next step, before which no other call is made.
void Simulation::rewind() {
  SimulatedJob* const model = any_job();
  if (model == nullptr || model->ended || model->cancelled) return;
  const JobRecord* const record = loop().jobs().find(model->id);
  if (record == nullptr || record->num_new_tokens() == 0) return;
  const auto num_new = static_cast<size_t>(record->num_new_tokens());
  const size_t num_emitted = num_new - record->text.num_pending_tokens();
  const size_t target = below(static_cast<uint32_t>(num_new));
  model->job->rewind(static_cast<int32_t>(target));
  model->was_rewound = true;
  if (target < num_emitted) {
    model->emitted_before += num_emitted - model->base;
    model->base = target;
    model->jumps.emplace_back(model->emitted_before, target);
  }
  ++stats_.rewinds;
  step();
}

// Proposes draft tokens for a running job, right and wrong ones. Other actions may affect the job before the
// step that verifies them.
void Simulation::propose() {
  SimulatedJob* const model = any_live_job();
  if (model == nullptr) return;
  JobRecord* const record = loop().jobs().find(model->id);
  if (record == nullptr || !record->holds_pages() || record->lane.num_candidates > 0) return;
  if (record->request.kind != JobKind::generate || !record->first_token) return;
  const auto num_new = static_cast<size_t>(record->num_new_tokens());
  const int32_t room = std::min(record->request.max_new_tokens - record->num_new_tokens(),
                                record->max_tokens - record->num_tokens());
  const int32_t places = num_places() / record->num_lanes() - 1;
  const int32_t most = std::min({room - 1, places, 4});
  if (most < 1) return;
  TokenIds candidates;
  for (int32_t n = 1 + int_below(static_cast<uint32_t>(most)); n > 0; --n) {
    const size_t place = num_new + candidates.size();
    const bool is_right = place < model->expected.tokens.size() && !chance(5);
    candidates.push_back(is_right ? model->expected.tokens[place] : int_below(kFirstSpecial));
  }
  record->propose(candidates);
  model->had_candidates = true;
}

// Proposes the expected tokens of a job, with mistakes.
class SimulatedDrafter final : public Drafter {
 public:
  using Propose = std::function<void(const DraftRequest&)>;
  explicit SimulatedDrafter(Propose propose) : propose_(std::move(propose)) {}
  void draft(gsl::span<const DraftRequest> requests) override {
    for (const DraftRequest& request : requests) propose_(request);
  }
  uint64_t memory_bytes() const override { return 0; }

 private:
  Propose propose_;
};

std::shared_ptr<Drafter> Simulation::make_drafter() {
  return std::make_shared<SimulatedDrafter>([this](const DraftRequest& request) {
    const auto answer = std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& entry) {
      const SimulatedJob& model = entry.second;
      const size_t num_prompt = model.request.prompt.size();
      return request.history.size() > num_prompt &&
             std::equal(model.request.prompt.begin(), model.request.prompt.end(), request.history.begin()) &&
             request.history.size() - num_prompt <= model.expected.tokens.size() &&
             std::equal(request.history.begin() + static_cast<ptrdiff_t>(num_prompt), request.history.end(),
                        model.expected.tokens.begin());
    });
    const int32_t num_drafts = int_below(static_cast<uint32_t>(request.max_drafts) + 1);
    for (int32_t i = 0; i < num_drafts; ++i) {
      const TokenIds* const expected = answer == jobs_.end() ? nullptr : &answer->second.expected.tokens;
      const size_t place =
          expected == nullptr
              ? 0
              : request.history.size() - answer->second.request.prompt.size() + static_cast<size_t>(i);
      const bool is_right = expected != nullptr && place < expected->size() && !chance(6);
      request.drafts->push_back(is_right ? (*expected)[place] : int_below(kWorldVocab));
    }
  });
}

void Simulation::cancel() {
  SimulatedJob* const model = chance(10) ? any_job() : any_live_job();
  if (model == nullptr) return;
  ++stats_.cancels[static_cast<size_t>(model->job->state())];
  model->job->cancel();
  model->cancelled = !model->ended;
}

// Cancels a job during a step, as another thread would.
void Simulation::cancel_within_step() {
  SimulatedJob* const model = any_live_job();
  if (model == nullptr) return;
  const JobState state = model->job->state();
  cancel_in_step_ = model->job.get();
  step();
  // There was no step during which to cancel it.
  if (std::exchange(cancel_in_step_, nullptr) != nullptr) return;
  ++stats_.cancels[static_cast<size_t>(state)];
  model->cancelled = !model->ended;
}

void Simulation::toggle_pause() {
  SimulatedJob* const model = any_job();
  if (model == nullptr) return;
  const ErrorCode code = attempt([&] { model->paused ? model->job->resume() : model->job->pause(); });
  if (code == ErrorCode::ok) model->paused = !model->paused;
}

void Simulation::change_priority() {
  SimulatedJob* const model = any_job();
  if (model != nullptr) attempt([&, priority = int_below(3)] { model->job->set_priority(priority); });
}

void Simulation::drop() {
  SimulatedJob* const model = any_job();
  if (model == nullptr) return;
  if (!model->ended) dropped_.push_back(model->id);
  jobs_.erase(model->request.tag);
}

void Simulation::read_some() {
  if (SimulatedJob* const model = any_job()) read(*model, 1 + below(8));
}

void Simulation::drain_some() {
  drain(1 + below(20));
}

void Simulation::read(SimulatedJob& model, uint32_t max_events) {
  for (uint32_t i = 0; i < max_events; ++i) {
    auto event = model.job->poll(Duration{0});
    if (!event.has_value()) return;
    take(model, std::move(*event));
  }
}

void Simulation::drain(uint32_t max_events) {
  std::vector<Event> events;
  attempt([&] { events = queue_->drain(max_events, Duration{0}); });
  for (Event& event : events) {
    const auto entry = jobs_.find(event.tag);
    if (entry == jobs_.end()) return violation("an event of a job without a reader");
    if (!entry->second.in_queue) violation("an event arrived in the queue of another reader");
    take(entry->second, std::move(event));
  }
}

void Simulation::pass_time() {
  clock_.advance(chance(20) ? std::chrono::hours(1) : millis_below(20));
}

void Simulation::arm_fault() {
  if (chance(100)) return faults_->arm_device();
  if (num_shards_ > 1 && chance(2)) return faults_->arm_shard();
  if (chance(2)) return faults_->arm_row();
  faults_->arm_step(1 + int_below(5));
}

void Simulation::fail_allocation_of_step() {
  if (!allocations_fail_) return;
  all_allocations_failed_ = chance(4);
  const int64_t nth = 1 + int_below(60);
  step_may_lack_memory_ = true;
  StepOutcome outcome = StepOutcome::idle;
  {
    const AllocationFault fault(nth, all_allocations_failed_ ? FaultSpan::for_ever : FaultSpan::once);
    outcome = engine_->cache->thread().run_once();
    failed_allocations_ = fault.num_failed();
  }
  stats_.failed_allocations += static_cast<uint64_t>(failed_allocations_);
  check_step(outcome);
}

void Simulation::pin() {
  if (!pins_.empty() && chance(2)) {
    const size_t idx = below(static_cast<uint32_t>(pins_.size()));
    if (attempt([&] { engine_->cache->unpin(pins_[idx]); }) == ErrorCode::ok) {
      pins_.erase(pins_.begin() + static_cast<ptrdiff_t>(idx));
    }
    return;
  }
  // There may be no cached prefix, or the quota may be used up.
  const TokenIds prompt = random_prompt();
  const std::string name_space = chance(2) ? kOtherSpace : "";
  const Duration time_to_live = millis_below(50);
  PinId pin;
  if (attempt([&] { pin = loop().jobs().pin(prompt, name_space, time_to_live); }) == ErrorCode::ok)
    pins_.push_back(pin);
}

void Simulation::query() {
  const TokenIds prompt = random_prompt();
  int32_t found = 0;
  const std::string name_space = chance(2) ? kOtherSpace : "";
  attempt([&] { found = loop().jobs().query_prefix(prompt, name_space); });
  if (found < 0 || found >= static_cast<int32_t>(prompt.size())) violation("query_prefix is out of range");
}

// Another user allocates device memory: caches release unused memory and keep the promised part.
void Simulation::allocate_for_others() {
  const uint64_t bytes = 10 * static_cast<uint64_t>(1 + int_below(20));
  attempt([&] { loop().reclaim("card:0", bytes); });
  std::optional<MemoryLease> lease;
  attempt([&] {
    others_.reserve(others_.size() + 1);
    lease = engine_->cache->runtime()->try_lease_free({"card:0", bytes, "others"});
  });
  if (lease) others_.push_back(std::move(*lease));
}

void Simulation::others_leave() {
  if (others_.empty()) return;
  std::swap(others_[below(static_cast<uint32_t>(others_.size()))], others_.back());
  others_.pop_back();
}

void Simulation::close() {
  engine_->cache->close();
  dropped_.clear();
  engine_ended_ = ErrorCode::closed;
  ++stats_.closes;
}

}  // namespace quire::testing
