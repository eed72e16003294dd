// The output of a job depends on its request alone: compares a thousand random schedules with each job alone.
#include <gtest/gtest.h>

#include "tests/support/case_stride.h"
#include "tests/support/random_schedule.h"

namespace quire::testing {
namespace {

constexpr int32_t kMaxSeqLen = 120;

// Returns every kind of job, with every setting that affects tokens, and prefixes that some of them share.
std::vector<JobRequest> requests() {
  std::vector<JobRequest> all;
  std::mt19937_64 random(3);
  TokenIds story;
  for (int32_t i = 0; i < 70; ++i) story.push_back(static_cast<TokenId>(random() % kVocab));
  for (int32_t i = 0; i < 14; ++i) {
    JobRequest request;
    request.prompt.assign(story.begin(), story.begin() + 1 + i * 5);
    if (i % 3 == 0) request.prompt.push_back(i);
    request.max_new_tokens = 3 + 3 * i;
    request.sampling.seed = static_cast<uint64_t>(i);
    request.sampling.temperature = i % 2 == 0 ? 0.0F : 0.8F;
    if (i % 4 == 1) request.sampling.top_p = 0.7F;
    if (i % 5 == 2) request.sampling.repetition_penalty = 1.4F;
    if (i % 4 == 3) request.stop_strings = {"ab", "q"};
    if (i % 4 == 2) request.stop_tokens = {static_cast<TokenId>(i), 40, 41};
    if (i % 6 == 4) request.min_new_tokens = request.max_new_tokens / 2;
    request.want_log_probs = i % 3 == 1;
    request.num_top_log_probs = i % 3 == 2 ? 4 : 0;
    request.want_progress = i % 2 == 1;
    if (i % 7 == 5) {
      request.kind = JobKind::score;
      request.want_raw_logits = true;
    }
    all.push_back(std::move(request));
  }
  return all;
}

FakeEngineOptions roomy() {
  FakeEngineOptions options;
  options.limits = {256, 16, 256, kMaxSeqLen, 512, 16, kVocab};
  options.max_seq_len = kMaxSeqLen;
  options.cache.start_thread = false;
  return options;
}

// Returns any_shape with any policy, and with n-grams or without.
FakeEngineOptions any_options(std::mt19937_64& random) {
  FakeEngineOptions options = any_shape(roomy(), 1, random);
  options.limits.max_draw_edits = options.limits.makes_draws ? static_cast<int32_t>(random() % 60) : 0;
  options.cache.max_overtakes = static_cast<int32_t>(random() % 5);
  options.cache.prefix_hash_bits = random() % 2 == 0 ? 4 : 64;
  if (random() % 2 == 0)
    options.cache.drafting = {DrafterKind::ngram, 1 + static_cast<int32_t>(random() % kMaxDrafts)};
  return options;
}

TEST(SchedulesTest, TheOutputOfAJobDoesNotDependOnTheSchedule) {
  std::vector<KnownJob> known;
  for (const JobRequest& request : requests()) {
    known.push_back({request, run_alone(*FakeEngine(roomy()).cache, request)});
  }
  uint64_t preemptions = 0;
  uint64_t cached_tokens = 0;
  for (uint64_t seed = 1; seed <= 1000; seed += stride_if_sanitized(10)) {
    std::mt19937_64 random(seed);
    FakeEngine engine(any_options(random));
    ASSERT_EQ(run_random_schedule(*engine.cache, known, random), "") << "seed " << seed;
    ASSERT_EQ(engine.cache->stats().pages.referenced, 0) << "seed " << seed;
    preemptions += engine.cache->stats().preemptions;
    cached_tokens += engine.cache->stats().prompt_tokens_cached;
  }
  EXPECT_GT(preemptions, 1000U / stride_if_sanitized(10));
  EXPECT_GT(cached_tokens, 1000U / stride_if_sanitized(10));
}

}  // namespace
}  // namespace quire::testing
