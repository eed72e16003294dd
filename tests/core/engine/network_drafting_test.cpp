// Draft networks on the fake device: their rows follow every step, their proposals are drawn as the target
// draws, and no network changes a bit.
#include <cmath>
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
    const std::vector<KnownJob> known = thin_if_sanitized(known_jobs(), 4);
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
  const std::vector<KnownJob> known = thin_if_sanitized(known_jobs(), 8);
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
  CompanyTotals totals;
  for (uint64_t seed = 1; seed <= 300; seed += stride_if_sanitized(10)) {
    std::mt19937_64 random(seed);
    FakeEngineOptions options = any_memory(random);
    FakeNetworkOptions network{random() % 2 == 0, 0.8};
    if (random() % 3 == 0) network.max_positions = 5 + static_cast<int32_t>(random() % 100);
    if (random() % 3 == 0) network.token_of = {1, 3, 5, 7, 20, 21, 22, 23, 24, 40, 41, 42, 43, 62};
    options.network = network;
    options.cache.drafting = {DrafterKind::network, 1 + static_cast<int32_t>(random() % kMaxDrafts)};
    SimulatedClock clock;
    FakeEngine engine(on_clock(options, clock));
    ASSERT_EQ(run_in_company(engine, clock, known, random, totals), "") << "seed " << seed;
    ASSERT_EQ(engine.executor->network->violation(), "") << "seed " << seed;
  }
  EXPECT_GT(totals.num_accepted, 1000U / stride_if_sanitized(10));
  EXPECT_GT(totals.num_drafts - totals.num_accepted, 300U / stride_if_sanitized(10));
  EXPECT_GT(totals.num_preemptions, 100U / stride_if_sanitized(10));
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

// A draft model may have a smaller vocabulary, such as one with less padding.
TEST(NetworkDraftingTest, ANetworkThatLacksTheLastTokensGoesOn) {
  FakeNetworkOptions network;
  network.vocab_size = kVocab - 20;
  FakeEngine engine(with_network(network));
  const JobRequest request = greedy({1, 2, kVocab - 1}, 100);
  const KnownJob known{request, run_alone(*FakeEngine(roomy()).cache, request)};
  ASSERT_EQ(difference(run_alone(*engine.cache, request), known.alone), "");
  EXPECT_EQ(engine.executor->network->violation(), "");
  EXPECT_GT(engine.cache->stats().draft_tokens, 10U);
}

// Logits on a coarse grid have many ties, which the lowest id wins in every path.
TEST(NetworkDraftingTest, TiesAreBrokenAlikeWithAndWithoutDrafts) {
  const auto coarsen = [](const Batch&, gsl::span<float> rows) {
    for (float& value : rows) value = std::floor(value);
  };
  for (const float temperature : {0.0F, 1.0F}) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      JobRequest request = greedy(random_tokens(seed, 12), 60);
      request.sampling.temperature = temperature;
      request.sampling.seed = seed;
      FakeEngine plain(roomy());
      plain.executor->change_logits = coarsen;
      const KnownJob known{request, run_alone(*plain.cache, request)};
      FakeEngine drafting(with_network({seed % 2 == 0, 0.8}));
      drafting.executor->change_logits = coarsen;
      ASSERT_EQ(difference(run_alone(*drafting.cache, request), known.alone), "") << seed;
      EXPECT_GT(drafting.cache->stats().draft_tokens, 5U);
    }
  }
}

// A fork continues on pages of its parent, and a rewound job on its own, with the rows of the network in
// them.
TEST(NetworkDraftingTest, ForksAndRewindsKeepTheRowsOfTheNetwork) {
  for (const bool reads_states : {false, true}) {
    FakeEngine engine(with_network({reads_states}));
    const auto parent = engine.cache->submit(greedy(random_tokens(3, 30), 50));
    while (parent->result().new_tokens < 25) engine.cache->thread().run_once();
    const auto child = parent->fork({});
    engine.cache->thread().run_once();
    parent->rewind(10);
    engine.run_to_idle();
    for (const auto& job : {parent, child}) {
      EXPECT_EQ(job->result().draft_tokens, job->result().accepted_draft_tokens);
      EXPECT_GT(job->result().accepted_draft_tokens, 10);
    }
    EXPECT_EQ(engine.executor->network->num_missing(), 0);
    EXPECT_EQ(engine.executor->network->violation(), "");
  }
}

// A network that reads states cannot make up for the steps of a crowd on a device that looks ahead.
TEST(NetworkDraftingTest, AJobOfACrowdIsToldWhyItHasNoDrafts) {
  FakeEngineOptions options = with_network({true});
  make_drawing(options.limits);
  FakeEngine engine(options);
  std::vector<std::shared_ptr<Job>> jobs;
  for (uint64_t seed = 0; seed < 12; ++seed)
    jobs.push_back(engine.cache->submit(greedy(random_tokens(seed, 9), seed == 0 ? 80 : 12)));
  while (jobs[11]->result().new_tokens < 12) engine.cache->thread().run_once();
  for (int32_t i = 0; i < 20; ++i) engine.cache->thread().run_once();
  EXPECT_NE(jobs[0]->explain().find("the draft network has not read"), std::string::npos)
      << jobs[0]->explain();
  engine.run_to_idle();
  EXPECT_EQ(jobs[0]->result().new_tokens, 80);
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
