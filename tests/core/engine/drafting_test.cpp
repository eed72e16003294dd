// Speculative decoding on the fake device: no drafter changes a bit, right drafts save steps, and drafts that
// cost more than they save are given up.
#include <algorithm>
#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "tests/core/engine/drafting_requests.h"
#include "tests/support/case_stride.h"
#include "tests/support/fake_drafter.h"
#include "tests/support/one_text.h"

namespace quire::testing {
namespace {

const TokenIds kPrompt{1, 2, 3, 4, 5};

TokenIds text_of(const JobRequest& request, const TokenIds& answer) {
  TokenIds text = request.prompt;
  text.insert(text.end(), answer.begin(), answer.end());
  return text;
}

// Makes the engine draft with `known` texts.
void draft_known(FakeEngineOptions& options, std::shared_ptr<KnownTexts> known, int32_t max_drafts = 4,
                 uint64_t seed = 1) {
  options.cache.drafting = {DrafterKind::automatic, max_drafts};
  options.cache.drafter = std::make_shared<FakeDrafter>(std::move(known), kVocab, seed);
}

std::shared_ptr<KnownTexts> texts_of(const std::vector<KnownJob>& known, double chance) {
  auto texts = std::make_shared<KnownTexts>();
  texts->chance = chance;
  for (const KnownJob& job : known) texts->texts.push_back(text_of(job.request, job.alone.said.tokens));
  return texts;
}

TEST(DraftingTest, NoDrafterChangesTheOutputOfAJobAlone) {
  const std::vector<KnownJob> known = thin_if_sanitized(known_jobs(), 4);
  for (const bool draws : {false, true}) {
    for (const double chance : {0.0, 0.5, 0.9, 1.0}) {
      for (const int32_t max_drafts : {1, 4, kMaxDrafts}) {
        int64_t num_accepted = 0;
        for (const KnownJob& job : known) {
          FakeEngineOptions options = roomy();
          if (draws) make_drawing(options.limits);
          options.limits.follows = false;
          draft_known(options, texts_of(known, chance), max_drafts);
          FakeEngine engine(options);
          ASSERT_EQ(difference(run_alone(*engine.cache, job.request), job.alone), "")
              << "job " << &job - known.data() << ", chance " << chance << ", " << max_drafts
              << " drafts, draws " << draws;
          num_accepted += static_cast<int64_t>(engine.cache->stats().draft_tokens_accepted);
        }
        if (chance > 0.4) {
          EXPECT_GT(num_accepted, 200 / stride_if_sanitized(4))
              << "chance " << chance << ", " << max_drafts << " drafts";
        }
      }
    }
  }
}

TEST(DraftingTest, NoDrafterChangesTheOutputInAnyCompany) {
  const std::vector<KnownJob> known = known_jobs();
  CompanyTotals totals;
  for (uint64_t seed = 1; seed <= 300; seed += stride_if_sanitized(10)) {
    std::mt19937_64 random(seed);
    FakeEngineOptions options = any_memory(random);
    const auto texts = texts_of(known, 0.8);
    draft_known(options, texts, 1 + static_cast<int32_t>(random() % kMaxDrafts), seed);
    if (random() % 4 == 0) options.cache.drafter = nullptr;  // n-grams
    SimulatedClock clock;
    FakeEngine engine(on_clock(options, clock));
    ASSERT_EQ(run_in_company(engine, clock, known, random, totals), "") << "seed " << seed;
    ASSERT_EQ(texts->num_broken, 0) << "seed " << seed;
  }
  EXPECT_GT(totals.num_accepted, 1000U / stride_if_sanitized(10));
  EXPECT_GT(totals.num_drafts - totals.num_accepted, 1000U / stride_if_sanitized(10));
  EXPECT_GT(totals.num_preemptions, 100U / stride_if_sanitized(10));
}

// A text that repeats a sentence of nine tokens, which the constraint makes the only one.
JobRequest repetitive(int32_t max_new_tokens) {
  const TokenIds sentence{20, 21, 22, 23, 24, 25, 26, 27, 28};
  TokenIds text;
  while (text.size() < 200) text.insert(text.end(), sentence.begin(), sentence.end());
  JobRequest request = greedy({1, 2, 3}, max_new_tokens);
  request.constraint = std::make_shared<OneText>(text);
  return request;
}

double tokens_per_step(FakeEngine& engine, const JobRequest& request) {
  const auto job = engine.cache->submit(request);
  const int32_t num_steps = engine.run_to_idle();
  EXPECT_EQ(job->result().reason, FinishReason::max_new_tokens) << job->result().message;
  return static_cast<double>(job->result().new_tokens) / num_steps;
}

// A drafter whose proposals were lost on the way, or are all equal, would pass every test of equality.
TEST(DraftingTest, RepetitiveTextIsAcceptedAndAPaddedControlIsNot) {
  FakeEngineOptions options = roomy();
  options.cache.drafting = {DrafterKind::ngram, 4};
  FakeEngine ngram(options);
  EXPECT_GT(tokens_per_step(ngram, repetitive(100)), 3.0);
  const CacheStats stats = ngram.cache->stats();
  EXPECT_GT(stats.draft_tokens_accepted, 60U);
  EXPECT_GT(stats.accepted_by_position[3], 15U);
  EXPECT_EQ(stats.accepted_by_position[4], 0U);

  class Padded final : public Drafter {
   public:
    void draft(gsl::span<const DraftRequest> requests) override {
      for (const DraftRequest& request : requests)
        request.drafts->assign(static_cast<size_t>(request.max_drafts), request.history.back());
    }
    uint64_t memory_bytes() const override { return 0; }
  };
  options.cache.drafter = std::make_shared<Padded>();
  FakeEngine padded(options);
  EXPECT_EQ(tokens_per_step(padded, repetitive(100)), 1.0);
  EXPECT_EQ(padded.cache->stats().draft_tokens, 0U) << "the constraint refuses each of them";
}

TEST(DraftingTest, RightDraftsSaveStepsAndWrongOnesDoNot) {
  const JobRequest request = greedy(kPrompt, 81);
  const auto run = [&](double chance) {
    auto known = std::make_shared<KnownTexts>();
    known->texts = {text_of(request, fake_greedy(kPrompt, 81, kVocab))};
    known->chance = chance;
    FakeEngineOptions options = roomy();
    draft_known(options, known);
    FakeEngine engine(options);
    return tokens_per_step(engine, request);
  };
  EXPECT_GT(run(1.0), 3.0);
  EXPECT_LT(run(0.0), 1.1);
}

TEST(DraftingTest, NothingIsProposedIfTheRequestOrTheEngineForbidsIt) {
  auto known = std::make_shared<KnownTexts>();
  FakeEngineOptions options = roomy();
  draft_known(options, known);
  FakeEngine engine(options);
  JobRequest request = greedy(kPrompt, 20);
  request.max_drafts = 0;
  const auto job = engine.cache->submit(request);
  for (int32_t i = 0; i < 4; ++i) engine.cache->thread().run_once();
  EXPECT_NE(job->explain().find("no drafts: max_drafts of the request is 0"), std::string::npos)
      << job->explain();
  engine.run_to_idle();
  EXPECT_EQ(known->num_asked, 0);
  FakeEngine off(roomy());
  const auto other = off.cache->submit(greedy(kPrompt, 20));
  for (int32_t i = 0; i < 4; ++i) off.cache->thread().run_once();
  EXPECT_NE(other->explain().find("no drafts: the cache has no drafter"), std::string::npos)
      << other->explain();
}

TEST(DraftingTest, ARequestLimitsItsDrafts) {
  auto known = std::make_shared<KnownTexts>();
  known->texts = {text_of(greedy(kPrompt, 0), fake_greedy(kPrompt, 60, kVocab))};
  FakeEngineOptions options = roomy();
  draft_known(options, known, 8);
  FakeEngine engine(options);
  JobRequest request = greedy(kPrompt, 60);
  request.max_drafts = 2;
  const auto job = engine.cache->submit(request);
  engine.run_to_idle();
  EXPECT_GT(job->result().accepted_by_position[1], 0);
  EXPECT_EQ(job->result().accepted_by_position[2], 0);
  EXPECT_EQ(read_all(*job).tokens, fake_greedy(kPrompt, 60, kVocab));
}

// Proposes tokens of which the first is always wrong.
class WrongDrafter final : public Drafter {
 public:
  void draft(gsl::span<const DraftRequest> requests) override {
    for (const DraftRequest& request : requests) {
      const TokenId wrong = (fake_next_token(request.history, kVocab) + 1) % kVocab;
      request.drafts->assign(static_cast<size_t>(request.max_drafts), wrong);
    }
  }
  uint64_t memory_bytes() const override { return 0; }
};

// Runs two jobs, the second one later, on a cache that is too small for both at their full lengths. Returns
// the preemptions.
uint64_t preemptions_of_two(int32_t num_pages, bool drafts) {
  FakeEngineOptions options = roomy();
  options.limits.page_tokens = 2;
  options.limits.max_pages_per_sequence = 60;
  options.limits.num_pages = num_pages;
  options.cache.drafting.max_drafts = kMaxDrafts;
  if (drafts) options.cache.drafter = std::make_shared<WrongDrafter>();
  FakeEngine engine(options);
  const auto first = engine.cache->submit(greedy(kPrompt, 19));  // 12 pages
  for (int32_t i = 0; i < 8; ++i) engine.cache->thread().run_once();
  const auto second = engine.cache->submit(greedy({9, 8}, 22));  // 12 pages
  engine.run_to_idle();
  EXPECT_EQ(read_all(*first).tokens, fake_greedy(kPrompt, 19, kVocab));
  EXPECT_EQ(read_all(*second).tokens, fake_greedy({9, 8}, 22, kVocab));
  return engine.cache->stats().preemptions;
}

// If a page is missing, drafts go and no job does.
TEST(DraftingTest, DraftsNeverPreemptAJob) {
  int32_t num_tight = 0;
  for (int32_t num_pages = 13; num_pages < 26; ++num_pages) {
    if (preemptions_of_two(num_pages, false) > 0) continue;
    EXPECT_EQ(preemptions_of_two(num_pages, true), 0U) << num_pages << " pages";
    num_tight += num_pages < 24 ? 1 : 0;
  }
  EXPECT_GE(num_tight, 3);
}

// A fork has the history of its parent, and a rewind takes some back.
TEST(DraftingTest, ForksAndRewindsKeepTheirTokens) {
  FakeEngineOptions options = roomy();
  options.cache.drafting = {DrafterKind::ngram, 4};
  FakeEngine engine(options);
  const JobRequest request = repetitive(90);
  const auto job = engine.cache->submit(request);
  for (int32_t i = 0; i < 14; ++i) engine.cache->thread().run_once();
  const auto child = job->fork({});
  job->rewind(7);
  engine.run_to_idle();
  const auto said = read_all(*job).tokens;
  EXPECT_EQ(job->result().new_tokens, 90);
  EXPECT_EQ(child->result().reason, FinishReason::max_new_tokens);
  EXPECT_GT(child->result().accepted_draft_tokens, 40);
  for (size_t i = 1; i < said.size(); ++i)
    EXPECT_TRUE(said[i] == said[i - 1] + 1 || said[i] == 20 || said[i] == 27);
}

// A device whose steps take a time that depends on the number of tokens.
class TimedDevice {
 public:
  TimedDevice(double chance, bool follows, std::function<int64_t(int32_t)> microseconds)
      : known(std::make_shared<KnownTexts>()) {
    known->chance = chance;
    FakeEngineOptions options = roomy();
    if (follows) make_drawing(options.limits);
    options.clock = &clock;
    draft_known(options, known);
    engine = std::make_unique<FakeEngine>(options);
    engine->executor->before_step = [this](const Batch& batch) { num_tokens = batch.num_tokens(); };
    engine->executor->before_wait = [this, microseconds] {
      clock.advance(std::chrono::microseconds(microseconds(num_tokens)));
    };
  }

  // Runs a job of each prompt; returns the new tokens per step.
  double run(const std::vector<TokenIds>& prompts, int32_t max_new_tokens) {
    std::vector<std::shared_ptr<Job>> jobs;
    for (const TokenIds& prompt : prompts) {
      known->texts.push_back(text_of(greedy(prompt, 0), fake_greedy(prompt, max_new_tokens, kVocab)));
      jobs.push_back(engine->cache->submit(greedy(prompt, max_new_tokens)));
    }
    const int32_t num_steps = engine->run_to_idle();
    for (size_t i = 0; i < jobs.size(); ++i)
      EXPECT_EQ(read_all(*jobs[i]).tokens, fake_greedy(prompts[i], max_new_tokens, kVocab));
    return static_cast<double>(max_new_tokens) * static_cast<double>(prompts.size()) / num_steps;
  }
  double share_of_drafts() const {
    const CacheStats stats = engine->cache->stats();
    return static_cast<double>(stats.draft_tokens) / static_cast<double>(stats.new_tokens);
  }

  SimulatedClock clock;
  std::shared_ptr<KnownTexts> known;
  std::unique_ptr<FakeEngine> engine;
  int32_t num_tokens = 0;
};

TEST(DraftingTest, DraftsThatCostMoreThanTheySaveAreGivenUpAndTriedAgain) {
  TimedDevice dear(0.5, false, [](int32_t num_tokens) { return 1000 * num_tokens; });
  dear.run({kPrompt}, 110);
  const CacheStats stats = dear.engine->cache->stats();
  EXPECT_LT(stats.draft_tokens, 30U);
  EXPECT_GE(stats.draft_tokens, 3U) << "one in 32 steps tries";
  TimedDevice cheap(0.5, false, [](int32_t num_tokens) { return 1000 + num_tokens; });
  EXPECT_GT(cheap.run({kPrompt}, 110), 1.4);
  EXPECT_GT(cheap.engine->cache->stats().draft_tokens, 100U);
}

TEST(DraftingTest, TheReasonIsTheCost) {
  TimedDevice dear(0.2, false, [](int32_t num_tokens) { return 1000 * num_tokens; });
  dear.known->texts = {text_of(greedy(kPrompt, 0), fake_greedy(kPrompt, 100, kVocab))};
  const auto job = dear.engine->cache->submit(greedy(kPrompt, 100));
  bool is_given_up = false;
  for (int32_t i = 0; i < 60; ++i) {
    dear.engine->cache->thread().run_once();
    is_given_up = is_given_up || job->explain().find("cost more time than they save") != std::string::npos;
  }
  EXPECT_TRUE(is_given_up);
}

// Steps with drafts cannot be issued ahead.
TEST(DraftingTest, ADeviceLooksAheadUnlessDraftsSaveMore) {
  TimedDevice wrong(0.0, true, [](int32_t num_tokens) { return 1000 + 100 * num_tokens; });
  wrong.run({kPrompt, {9, 8}, {7, 7, 7}}, 110);
  EXPECT_GT(wrong.engine->executor->num_followed(), 70);
  EXPECT_EQ(wrong.engine->executor->num_discarded(), 0) << "no pass is in vain";
  TimedDevice right(0.95, true, [](int32_t num_tokens) { return 1000 + 20 * num_tokens; });
  EXPECT_GT(right.run({kPrompt, {9, 8}, {7, 7, 7}}, 110), 3.0 * 1.5);
  EXPECT_GT(right.share_of_drafts(), 0.5);
  EXPECT_EQ(right.engine->executor->num_discarded(), 0);
}

// A job whose request forbids drafts keeps its look-ahead.
TEST(DraftingTest, JobsWithoutDraftsKeepTheLookAhead) {
  TimedDevice device(1.0, true, [](int32_t num_tokens) { return 1000 + num_tokens; });
  JobRequest request = greedy(kPrompt, 60);
  request.max_drafts = 0;
  const auto job = device.engine->cache->submit(request);
  const int32_t num_steps = device.engine->run_to_idle();
  EXPECT_EQ(num_steps, 60);
  EXPECT_EQ(device.engine->executor->num_followed(), 59);
  EXPECT_EQ(read_all(*job).tokens, fake_greedy(kPrompt, 60, kVocab));
}

// Runs jobs that write one token again and again, on a device that looks ahead; each element is the number of
// new tokens of a job. Returns the number of draft tokens.
uint64_t drafts_of_jobs(DrafterKind drafter, const std::vector<int32_t>& lengths) {
  FakeEngineOptions options = roomy();
  make_drawing(options.limits);
  options.cache.drafting.drafter = drafter;
  FakeEngine engine(options);
  std::vector<std::shared_ptr<Job>> jobs;
  for (const int32_t length : lengths) {
    JobRequest request = greedy({static_cast<TokenId>(jobs.size()), 1, 2}, length);
    request.sampling.logit_bias = {{5, 1000.0F}};
    jobs.push_back(engine.cache->submit(request));
  }
  engine.run_to_idle();
  for (size_t i = 0; i < jobs.size(); ++i)
    EXPECT_EQ(read_all(*jobs[i]).tokens, TokenIds(static_cast<size_t>(lengths[i]), 5));
  return engine.cache->stats().draft_tokens;
}

TEST(DraftingTest, TheAutomaticDrafterLeavesManyJobsToTheLookAhead) {
  EXPECT_GT(drafts_of_jobs(DrafterKind::automatic, std::vector<int32_t>(8, 60)), 100U);
  EXPECT_EQ(drafts_of_jobs(DrafterKind::automatic, std::vector<int32_t>(9, 60)), 0U);
  EXPECT_GT(drafts_of_jobs(DrafterKind::ngram, std::vector<int32_t>(9, 60)), 100U);
}

TEST(DraftingTest, TheAutomaticDrafterBeginsOnceFewJobsAreLeft) {
  std::vector<int32_t> lengths(9, 50);
  lengths.back() = 100;
  EXPECT_GT(drafts_of_jobs(DrafterKind::automatic, lengths), 20U);
}

// Time of a step in microseconds by its number of tokens.
struct CostModel {
  const char* name;
  double (*of)(double num_tokens);
};

constexpr CostModel kCosts[] = {
    // A card that reads weights: rows are nearly free until its arithmetic is full.
    {"card", [](double n) { return std::max(3000.0 + 4.0 * n, 25.0 * n); }},
    {"tiles", [](double n) { return 1000.0 + 400.0 * std::ceil(n / 64.0); }},
    {"experts", [](double n) { return 1000.0 + 150.0 * std::sqrt(n); }},
    {"processor", [](double n) { return 200.0 + 100.0 * n; }},
    {"linear", [](double n) { return 100.0 * n; }},
};

// Runs num_jobs jobs twice and returns the tokens per second of the second time, until the first job ends.
double rate_of_jobs(const CostModel& cost, bool follows, int32_t num_jobs, double chance, bool drafts) {
  constexpr int32_t kNewTokens = 300;
  constexpr double kHostTime = 60.0;  // between two steps, if the second was not issued ahead
  SimulatedClock clock;
  auto known = std::make_shared<KnownTexts>();
  known->chance = chance;
  FakeEngineOptions options;
  options.limits = {2048, 256, 2048, 30, 256 * 30, 16, kVocab};
  if (follows) make_drawing(options.limits);
  options.max_seq_len = 480;
  options.cache.start_thread = false;
  options.cache.check_invariants = false;
  options.clock = &clock;
  if (drafts) draft_known(options, known);
  FakeEngine engine(options);
  engine.executor->shallow = true;
  int32_t num_tokens = 0;
  bool is_ahead = false;
  engine.executor->before_step = [&](const Batch& batch) {
    num_tokens = batch.num_tokens();
    is_ahead = engine.executor->runs_ahead();
  };
  engine.executor->before_wait = [&] {
    const double took = cost.of(num_tokens) + (is_ahead ? 0.0 : kHostTime);
    clock.advance(std::chrono::nanoseconds(static_cast<int64_t>(took * 1e3)));
  };
  const auto run = [&](int32_t first) {
    std::vector<std::shared_ptr<Job>> jobs;
    for (int32_t i = first; i < first + num_jobs; ++i) {
      const TokenIds prompt{i % kVocab, i / kVocab, 1};
      jobs.push_back(engine.cache->submit(greedy(prompt, kNewTokens)));
      TokenIds text = prompt;  // a row depends on the last token only
      while (text.size() < prompt.size() + kNewTokens)
        text.push_back(fake_next_token(gsl::span<const TokenId>(text).last(1), kVocab));
      known->texts.push_back(std::move(text));
    }
    const TimePoint start = clock.now();
    const auto is_over = [](const auto& job) { return job->state() == JobState::finished; };
    while (std::none_of(jobs.begin(), jobs.end(), is_over)) engine.cache->thread().run_once();
    const double seconds = std::chrono::duration<double>(clock.now() - start).count();
    double num_new = 0.0;
    for (const auto& job : jobs) num_new += job->result().new_tokens;
    engine.run_to_idle();
    for (const auto& job : jobs) EXPECT_EQ(job->result().new_tokens, kNewTokens) << job->explain();
    return num_new / seconds;
  };
  run(0);  // the cache measures its steps
  return run(num_jobs);
}

// A drafter may stay on: jobs never take noticeably longer, whatever the device and the acceptance are.
TEST(DraftingTest, DraftsNeverSlowDownAndRightOnesSpeedUp) {
  for (const CostModel& cost : kCosts) {
    for (const bool follows : {false, true}) {
      for (const int32_t num_jobs : {1, 4, 32, 64, 256}) {
        if (num_jobs == 256 && &cost != &kCosts[0]) continue;
        if (num_jobs > 4 && kIsSanitized) continue;
        const double plain = rate_of_jobs(cost, follows, num_jobs, 0.0, false);
        for (const double chance : {0.0, 0.3, 0.8}) {
          const double speed = rate_of_jobs(cost, follows, num_jobs, chance, true) / plain;
          EXPECT_GE(speed, 0.97) << cost.name << ", follows " << follows << ", " << num_jobs
                                 << " jobs, chance " << chance;
          if (std::getenv("QUIRE_PRINT") != nullptr)
            std::printf("%-10s %d %4d jobs %.1f: %.3f\n", cost.name, follows, num_jobs, chance, speed);
          if (chance == 0.8 && num_jobs <= 32 && &cost == &kCosts[0]) {
            EXPECT_GE(speed, 1.25) << num_jobs;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace quire::testing
