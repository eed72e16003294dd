// Models with recurrent states on the fake device, which keeps a hash of each sequence in its slot as the
// layers do.
#include <gtest/gtest.h>

#include "tests/support/engine_fakes.h"

namespace quire::testing {
namespace {

constexpr int32_t kVocab = 64;
constexpr int32_t kMaxLength = 600;

FakeEngineOptions with_slots(int32_t num_slots, int32_t page_tokens = 8) {
  FakeEngineOptions options;
  options.cache.start_thread = false;
  options.max_seq_len = kMaxLength;
  ExecutorLimits& limits = options.limits;
  limits.page_tokens = page_tokens;
  limits.num_pages = 4 * kMaxLength / page_tokens;
  limits.max_pages_per_sequence = pages_for(kMaxLength, page_tokens);
  limits.max_sequences = 8;
  limits.max_tokens = limits.max_logit_rows = 64;
  limits.vocab_size = kVocab;
  limits.num_state_slots = num_slots;
  return options;
}

const StatePool& states_of(const FakeEngine& engine) {
  return engine.cache->thread().loop().kv().states();
}

TEST(StatesTest, ATurnComputesItsTokensAndAtMostOneLine) {
  for (const bool draws : {false, true}) {
    for (const int32_t page_tokens : {8, 16, 256}) {
      FakeEngineOptions options = with_slots(4, page_tokens);
      if (draws) make_drawing(options.limits);
      FakeEngine engine(options);
      TokenIds prompt = random_tokens(1, 70);
      int32_t before = 0;
      for (uint64_t turn = 0; turn < 5; ++turn) {
        const auto job = engine.cache->submit(greedy(prompt, 21));
        engine.run_to_idle();
        const Transcript said = read_all(*job);
        EXPECT_EQ(said.tokens, fake_greedy(prompt, 21, kVocab));
        EXPECT_GE(job->result().cached_tokens, before / 16 * 16 - (before > 0 ? 16 : 0)) << "turn " << turn;
        prompt.insert(prompt.end(), said.tokens.begin(), said.tokens.end());
        before = static_cast<int32_t>(prompt.size());
        const TokenIds question = random_tokens(turn + 9, 13);
        prompt.insert(prompt.end(), question.begin(), question.end());
      }
      EXPECT_EQ(engine.executor->num_bad_reads(), 0);
      EXPECT_EQ(states_of(engine).num_used(), 0);
    }
  }
}

TEST(StatesTest, TheSamePromptIsFoundUpToItsLastLine) {
  FakeEngine engine(with_slots(4));
  for (const int32_t length : {17, 32, 33, 100}) {
    const TokenIds prompt = random_tokens(static_cast<uint64_t>(length), length);
    for (int32_t time = 0; time < 2; ++time) {
      const auto job = engine.cache->submit(greedy(prompt, 5));
      engine.run_to_idle();
      EXPECT_EQ(read_all(*job).tokens, fake_greedy(prompt, 5, kVocab));
      EXPECT_EQ(job->result().cached_tokens, time == 0 ? 0 : (length - 1) / 16 * 16) << length;
    }
  }
}

TEST(StatesTest, NoMoreJobsRunThanThereAreSlots) {
  for (const bool draws : {false, true}) {
    FakeEngineOptions options = with_slots(3);
    if (draws) make_drawing(options.limits);
    FakeEngine engine(options);
    std::vector<std::shared_ptr<Job>> jobs;
    std::vector<TokenIds> prompts;
    for (uint64_t i = 0; i < 10; ++i) {
      prompts.push_back(random_tokens(i + 1, 10 + static_cast<int32_t>(i) * 9));
      jobs.push_back(engine.cache->submit(greedy(prompts.back(), 30)));
    }
    int32_t most = 0;
    while (engine.cache->thread().run_once() == StepOutcome::advanced)
      most = std::max(most, states_of(engine).num_used());
    EXPECT_EQ(most, 3);
    for (size_t i = 0; i < jobs.size(); ++i)
      EXPECT_EQ(read_all(*jobs[i]).tokens, fake_greedy(prompts[i], 30, kVocab)) << i;
    EXPECT_EQ(engine.executor->num_bad_reads(), 0);
  }
}

// Preempted jobs leave a snapshot, and continue with the same tokens whether it is still there or not.
TEST(StatesTest, PreemptedJobsContinueWithTheSameTokens) {
  FakeEngineOptions options = with_slots(6);
  options.limits.num_pages = 40;
  options.limits.max_pages_per_sequence = 30;
  options.max_seq_len = 200;
  FakeEngine engine(options);
  std::vector<std::shared_ptr<Job>> jobs;
  std::vector<TokenIds> prompts;
  for (uint64_t i = 0; i < 6; ++i) {
    prompts.push_back(random_tokens(i + 1, 30));
    jobs.push_back(engine.cache->submit(greedy(prompts.back(), 90)));
  }
  engine.run_to_idle();
  int32_t preemptions = 0;
  for (size_t i = 0; i < jobs.size(); ++i) {
    EXPECT_EQ(read_all(*jobs[i]).tokens, fake_greedy(prompts[i], 90, kVocab)) << i;
    preemptions += jobs[i]->result().preemptions;
  }
  EXPECT_GT(preemptions, 0);
  EXPECT_EQ(engine.executor->num_bad_reads(), 0);
}

}  // namespace
}  // namespace quire::testing
