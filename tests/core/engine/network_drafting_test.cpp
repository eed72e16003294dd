// Draft networks on the fake device: their rows follow every step, their proposals are drawn as the target
// draws, and no network changes a bit.
#include <string>

#include <gtest/gtest.h>

#include "tests/core/engine/drafting_requests.h"
#include "tests/support/case_stride.h"

namespace quire::testing {
namespace {

FakeEngineOptions with_network(FakeNetworkOptions network, int32_t max_drafts = 4) {
  FakeEngineOptions options = roomy();
  options.network = std::move(network);
  options.cache.drafting = {DrafterKind::automatic, max_drafts};
  return options;
}

// Logits of the target and its own noise: every proposal is what the target draws, whatever the settings.
TEST(NetworkDraftingTest, ANetworkLikeItsTargetIsAlwaysRight) {
  for (const bool reads_states : {false, true}) {
    const std::vector<KnownJob> known = known_jobs();
    for (const KnownJob& job : known) {
      const ::testing::ScopedTrace trace(
          __FILE__, __LINE__,
          "job " + std::to_string(&job - known.data()) + (reads_states ? ", states" : ""));
      FakeEngine engine(with_network({reads_states}));
      ASSERT_EQ(difference(run_alone(*engine.cache, job.request), job.alone), "");
      const CacheStats stats = engine.cache->stats();
      // Guidance mixes in another row, banned texts take tokens back, and a constraint forces some in place
      // of drafts.
      const bool is_plain = job.request.negative_prompt.empty() && job.request.banned_strings.empty() &&
                            job.request.constraint == nullptr;
      if (is_plain && job.request.stop_strings.empty()) {
        EXPECT_EQ(stats.draft_tokens, stats.draft_tokens_accepted);
      }
      EXPECT_EQ(engine.executor->network->num_missing(), 0);
      if (is_plain && job.request.max_new_tokens == 40 && job.alone.said.tokens.size() > 30) {
        EXPECT_GT(stats.draft_tokens_accepted, 15U) << "reads states " << reads_states;
      }
    }
  }
}

TEST(NetworkDraftingTest, NoNetworkChangesTheOutputOfAJobAlone) {
  const std::vector<KnownJob> known = known_jobs();
  for (const double chance : {0.0, 0.5, 0.9}) {
    for (const int32_t max_drafts : {1, 4, kMaxDrafts}) {
      for (const bool reads_states : {false, true}) {
        for (const KnownJob& job : known) {
          FakeEngine engine(with_network({reads_states, chance}, max_drafts));
          ASSERT_EQ(difference(run_alone(*engine.cache, job.request), job.alone), "")
              << "job " << &job - known.data() << ", chance " << chance << ", " << max_drafts << " drafts";
          ASSERT_EQ(engine.executor->network->violation(), "");
        }
      }
    }
  }
}

TEST(NetworkDraftingTest, NoNetworkChangesTheOutputInAnyCompany) {
  const std::vector<KnownJob> known = known_jobs();
  uint64_t num_drafts = 0;
  uint64_t num_accepted = 0;
  uint64_t num_preemptions = 0;
  for (uint64_t seed = 1; seed <= 300; seed += stride_if_sanitized(10)) {
    std::mt19937_64 random(seed);
    FakeEngineOptions options = any_memory(random);
    FakeNetworkOptions network{random() % 2 == 0, 0.8};
    if (random() % 3 == 0) network.max_positions = 5 + static_cast<int32_t>(random() % 100);
    if (random() % 3 == 0) network.token_of = {1, 3, 5, 7, 20, 21, 22, 23, 24, 40, 41, 42, 43, 62};
    options.network = network;
    options.cache.drafting = {DrafterKind::network, 1 + static_cast<int32_t>(random() % kMaxDrafts)};
    SimulatedClock clock;
    options.clock = &clock;
    FakeEngine engine(options);
    int32_t num_tokens = 0;
    engine.executor->before_step = [&](const Batch& batch) { num_tokens = batch.num_tokens(); };
    engine.executor->before_wait = [&] { clock.advance(std::chrono::microseconds(1000 + num_tokens)); };
    ASSERT_EQ(run_random_schedule(*engine.cache, known, random), "") << "seed " << seed;
    ASSERT_EQ(engine.executor->network->violation(), "") << "seed " << seed;
    const CacheStats stats = engine.cache->stats();
    ASSERT_EQ(stats.pages.referenced, 0) << "seed " << seed;
    num_drafts += stats.draft_tokens;
    num_accepted += stats.draft_tokens_accepted;
    num_preemptions += stats.preemptions;
  }
  EXPECT_GT(num_accepted, 1000U / stride_if_sanitized(10));
  EXPECT_GT(num_drafts - num_accepted, 300U / stride_if_sanitized(10));
  EXPECT_GT(num_preemptions, 100U / stride_if_sanitized(10));
}

// A second job finds the pages of the first, with the rows of the network in them.
TEST(NetworkDraftingTest, ReusedPrefixesHaveTheRowsOfTheNetwork) {
  for (const bool reads_states : {false, true}) {
    FakeEngine engine(with_network({reads_states}));
    const JobRequest first = greedy(random_tokens(5, 40), 30);
    const KnownJob known{first, run_alone(*FakeEngine(roomy()).cache, first)};
    ASSERT_EQ(difference(run_alone(*engine.cache, first), known.alone), "");
    JobRequest second = first;
    second.prompt.insert(second.prompt.end(), known.alone.said.tokens.begin(), known.alone.said.tokens.end());
    second.prompt.push_back(9);
    const auto job = engine.cache->submit(second);
    engine.run_to_idle();
    EXPECT_GT(job->result().cached_tokens, 40);
    EXPECT_EQ(job->result().draft_tokens, job->result().accepted_draft_tokens);
    EXPECT_GT(job->result().accepted_draft_tokens, 15);
    EXPECT_EQ(engine.executor->network->num_missing(), 0);
  }
}

// The tokens that the network cannot write are drawn by the target alone.
TEST(NetworkDraftingTest, ANetworkOfFewerTokensProposesOnlyThose) {
  FakeNetworkOptions network;
  for (TokenId token = 0; token < kVocab; token += 2) network.token_of.push_back(token);
  FakeEngine engine(with_network(network));
  const JobRequest request = greedy({1, 2, 3}, 100);
  const KnownJob known{request, run_alone(*FakeEngine(roomy()).cache, request)};
  ASSERT_EQ(difference(run_alone(*engine.cache, request), known.alone), "");
  EXPECT_GT(engine.cache->stats().draft_tokens_accepted, 10U);
}

}  // namespace
}  // namespace quire::testing
