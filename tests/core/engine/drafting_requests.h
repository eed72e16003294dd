// Jobs and devices of the tests of drafting.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "tests/simulation/sums_constraint.h"
#include "tests/support/engine_fakes.h"
#include "tests/support/random_schedule.h"

namespace quire::testing {

inline constexpr int32_t kLongestJob = 120;

// The time of steps is unknown, so that drafts are used whenever there are some.
inline FakeEngineOptions roomy() {
  static const SimulatedClock clock;
  FakeEngineOptions options;
  options.clock = &clock;
  options.limits = {256, 16, 256, kLongestJob, 512, 16, kVocab};
  options.max_seq_len = kLongestJob;
  options.cache.start_thread = false;
  return options;
}

// Each setting that affects tokens, their text or the end of a job, alone and with others.
inline std::vector<JobRequest> requests() {
  std::vector<JobRequest> all;
  const auto add = [&](auto change) {
    JobRequest request = greedy(random_tokens(all.size(), 6 + 3 * static_cast<int32_t>(all.size() % 5)), 40);
    request.sampling.seed = all.size();
    change(request);
    all.push_back(request);
    request.sampling.temperature = 1.1F;
    all.push_back(std::move(request));
  };
  add([](JobRequest&) {});
  add([](JobRequest& of) { of.sampling.top_p = 0.8F, of.sampling.top_k = 20, of.sampling.min_p = 0.02F; });
  add([](JobRequest& of) { of.sampling.repetition_penalty = 1.5F, of.sampling.penalty_range = 7; });
  add([](JobRequest& of) { of.sampling.frequency_penalty = 0.8F, of.sampling.presence_penalty = -0.5F; });
  add([](JobRequest& of) {
    of.sampling.repetition_penalty = 1.5F, of.sampling.penalty_range = 4, of.sampling.penalty_decay = 9;
  });
  add([](JobRequest& of) { of.sampling.dry_multiplier = 1.0F; });
  add([](JobRequest& of) { of.sampling.mirostat_tau = 2.0F; });
  add([](JobRequest& of) { of.sampling.xtc_probability = 0.6F, of.sampling.xtc_threshold = 0.01F; });
  add([](JobRequest& of) {
    of.sampling.logit_bias = {{3, 4.0F}, {9, -4.0F}}, of.sampling.banned_tokens = {5, 6};
  });
  add([](JobRequest& of) { of.stop_tokens = {7, 8, 9, 10, 11, 12}, of.min_new_tokens = 11; });
  add([](JobRequest& of) { of.stop_strings = {"ab", "q", "xyz"}; });
  add([](JobRequest& of) { of.banned_strings = {"a", "bc", "de"}; });
  add([](JobRequest& of) {  // pairs of letters, one in five, so that tokens of earlier steps are taken back
    for (char first = 'a'; first <= 'z'; ++first) {
      for (const char second : {'b', 'd', 'f', 'h', 'k'}) of.banned_strings.push_back({first, second});
    }
  });
  add([](JobRequest& of) { of.want_log_probs = true; });
  add([](JobRequest& of) { of.num_top_log_probs = 5; });
  add([](JobRequest& of) { of.constraint = std::make_shared<SumsConstraint>(40); });
  add([](JobRequest& of) {
    of.constraint = std::make_shared<SumsConstraint>(17), of.sampling.repetition_penalty = 1.3F;
  });
  add([](JobRequest& of) { of.negative_prompt = {9, 9, 8}, of.guidance_scale = 1.5F; });
  add([](JobRequest& of) { of.loop_guard = {3, 2}; });
  add([](JobRequest& of) { of.max_new_tokens = 500; });
  return all;
}

inline std::vector<KnownJob> known_jobs() {
  std::vector<KnownJob> known;
  for (const JobRequest& request : requests())
    known.push_back({request, run_alone(*FakeEngine(roomy()).cache, request)});
  return known;
}

// Returns any_shape with states and windows.
inline FakeEngineOptions any_memory(std::mt19937_64& random) {
  FakeEngineOptions options = any_shape(roomy(), 2, random);
  ExecutorLimits& limits = options.limits;
  limits.max_draw_edits = limits.makes_draws ? static_cast<int32_t>(random() % 120) : 0;
  if (random() % 3 == 0) limits.num_state_slots = limits.max_sequences + 2;
  if (random() % 3 == 0)
    limits.windows.push_back({3 + static_cast<int32_t>(random() % 30), limits.num_pages});
  return options;
}

inline FakeEngineOptions on_clock(FakeEngineOptions options, const SimulatedClock& clock) {
  options.clock = &clock;
  return options;
}

// Sums over several engines.
struct CompanyTotals {
  uint64_t num_drafts = 0;
  uint64_t num_accepted = 0;
  uint64_t num_preemptions = 0;
};

// Runs jobs in a random schedule on a device whose steps take time on `clock`. Returns what is wrong: a text
// that is not that of the job alone, or pages that are still in use.
inline std::string run_in_company(FakeEngine& engine, SimulatedClock& clock,
                                  const std::vector<KnownJob>& known, std::mt19937_64& random,
                                  CompanyTotals& totals) {
  int32_t num_tokens = 0;
  engine.executor->before_step = [&](const Batch& batch) { num_tokens = batch.num_tokens(); };
  engine.executor->before_wait = [&] { clock.advance(std::chrono::microseconds(1000 + num_tokens)); };
  std::string wrong = run_random_schedule(*engine.cache, known, random);
  engine.executor->before_step = nullptr;
  engine.executor->before_wait = nullptr;
  const CacheStats stats = engine.cache->stats();
  totals.num_drafts += stats.draft_tokens;
  totals.num_accepted += stats.draft_tokens_accepted;
  totals.num_preemptions += stats.preemptions;
  return wrong.empty() && stats.pages.referenced != 0 ? "pages are still in use" : wrong;
}

}  // namespace quire::testing
