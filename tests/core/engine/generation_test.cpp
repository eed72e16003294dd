// Jobs on the fake device, stepped by hand: every token is compared with the oracle.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/support/engine_fakes.h"
#include "tests/support/expect_error.h"

namespace quire::testing {
namespace {

FakeEngineOptions threadless() {
  FakeEngineOptions options;
  options.cache.start_thread = false;
  return options;
}

TokenIds counting(int32_t from, int32_t count) {
  TokenIds tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back((from + i) % kVocab);
  return tokens;
}

TEST(GenerationTest, OneJobGivesTheTokensOfTheModel) {
  FakeEngine engine(threadless());
  const TokenIds prompt = counting(3, 10);
  const auto job = engine.cache->submit(greedy(prompt, 20));
  engine.run_to_idle();
  const Transcript transcript = read_all(*job);
  EXPECT_EQ(transcript.tokens, fake_greedy(prompt, 20, kVocab));
  EXPECT_EQ(transcript.text, fake_text(transcript.tokens));
  EXPECT_EQ(transcript.terminal.reason, FinishReason::max_new_tokens);
  EXPECT_EQ(transcript.num_started, 1);
  EXPECT_EQ(transcript.num_terminal, 1);
  EXPECT_EQ(job->result().new_tokens, 20);
  EXPECT_EQ(job->result().prompt_tokens, 10);
  EXPECT_EQ(engine.cache->stats().pages.referenced, 0);
}

TEST(GenerationTest, ALongPromptIsComputedInChunksBesideDecodingJobs) {
  FakeEngineOptions options = threadless();
  options.cache.max_chunk_tokens = 8;
  FakeEngine engine(options);
  const auto decoding = engine.cache->submit(greedy(counting(1, 3), 60));
  engine.cache->thread().run_once();
  const TokenIds prompt = counting(7, 100);
  const auto prefilling = engine.cache->submit(greedy(prompt, 4));
  int32_t before = decoding->result().new_tokens;
  for (int32_t step = 0; step < 10; ++step) {
    engine.cache->thread().run_once();
    EXPECT_EQ(decoding->result().new_tokens, before + 1) << "a decode step was skipped at " << step;
    before = decoding->result().new_tokens;
  }
  EXPECT_EQ(prefilling->state(), JobState::prefill);
  engine.run_to_idle();
  EXPECT_EQ(read_all(*prefilling).tokens, fake_greedy(prompt, 4, kVocab));
  EXPECT_EQ(read_all(*decoding).tokens, fake_greedy(counting(1, 3), 60, kVocab));
}

TEST(GenerationTest, JobsThatShareAPromptComputeItOnce) {
  FakeEngineOptions options = threadless();
  options.limits = {128, 32, 64, 512, 2048, 16, kVocab};
  options.max_seq_len = 2000;
  FakeEngine engine(options);
  const TokenIds prompt = counting(0, 1500);
  const auto jobs = engine.cache->submit_many(greedy(prompt, 8), 32);
  engine.run_to_idle();
  const TokenIds expected = fake_greedy(prompt, 8, kVocab);
  for (const auto& job : jobs) EXPECT_EQ(read_all(*job).tokens, expected);
  const uint64_t num_computed = engine.cache->stats().prompt_tokens_computed;
  RecordProperty("prompt_tokens_computed", std::to_string(num_computed));
  EXPECT_LE(num_computed, 1650U);
}

TEST(GenerationTest, ASecondJobFindsThePromptInTheCache) {
  FakeEngine engine(threadless());
  const TokenIds prompt = counting(5, 30);
  const auto first = engine.cache->submit(greedy(prompt, 6));
  engine.run_to_idle();
  const auto second = engine.cache->submit(greedy(prompt, 6));
  engine.run_to_idle();
  EXPECT_EQ(second->result().cached_tokens, 29);
  EXPECT_EQ(read_all(*second).tokens, fake_greedy(prompt, 6, kVocab));
}

TEST(GenerationTest, NamespacesDoNotShare) {
  FakeEngine engine(threadless());
  const TokenIds prompt = counting(5, 30);
  JobRequest request = greedy(prompt, 6);
  request.name_space = "a";
  const auto first = engine.cache->submit(request);
  engine.run_to_idle();
  request.name_space = "b";
  const auto second = engine.cache->submit(request);
  engine.run_to_idle();
  EXPECT_EQ(second->result().cached_tokens, 0);
  EXPECT_EQ(read_all(*second).tokens, fake_greedy(prompt, 6, kVocab));
}

TEST(GenerationTest, PreemptedJobsContinueWithTheSameTokens) {
  FakeEngineOptions options = threadless();
  options.limits.num_pages = 20;  // 80 tokens for three jobs of up to 50
  FakeEngine engine(options);
  std::vector<std::shared_ptr<Job>> jobs;
  for (int32_t i = 0; i < 3; ++i) jobs.push_back(engine.cache->submit(greedy(counting(i * 7, 10), 40)));
  engine.run_to_idle();
  EXPECT_GT(engine.cache->stats().preemptions, 0U);
  for (int32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read_all(*jobs[static_cast<size_t>(i)]).tokens, fake_greedy(counting(i * 7, 10), 40, kVocab));
  }
}

TEST(GenerationTest, CancelTakesEffectWithTheNextStep) {
  FakeEngine engine(threadless());
  const auto job = engine.cache->submit(greedy(counting(0, 10), 100));
  for (int32_t i = 0; i < 5; ++i) engine.cache->thread().run_once();
  job->cancel();
  engine.cache->thread().run_once();
  const Transcript transcript = read_all(*job);
  EXPECT_EQ(transcript.terminal.reason, FinishReason::cancelled);
  EXPECT_EQ(engine.cache->stats().pages.referenced, 0);
  EXPECT_EQ(engine.cache->stats().running_jobs, 0);
}

TEST(GenerationTest, ADroppedJobIsCancelled) {
  FakeEngine engine(threadless());
  auto job = engine.cache->submit(greedy(counting(0, 10), 100));
  engine.cache->thread().run_once();
  job.reset();
  engine.cache->thread().run_once();
  EXPECT_EQ(engine.cache->stats().cancelled_jobs, 1U);
  EXPECT_EQ(engine.cache->stats().pages.referenced, 0);
}

TEST(GenerationTest, StopTokensEndAJobAndEndTokensAreImplied) {
  const TokenIds prompt = counting(9, 12);
  const TokenIds expected = fake_greedy(prompt, 10, kVocab);
  FakeEngineOptions options = threadless();
  options.end_tokens = {expected[4]};
  FakeEngine engine(options);
  const auto job = engine.cache->submit(greedy(prompt, 10));
  JobRequest ignoring = greedy(prompt, 10);
  ignoring.ignore_end_tokens = true;
  const auto other = engine.cache->submit(ignoring);
  engine.run_to_idle();
  const Transcript transcript = read_all(*job);
  EXPECT_EQ(transcript.terminal.reason, FinishReason::stop_token);
  EXPECT_EQ(job->result().stop_token, expected[4]);
  EXPECT_EQ(read_all(*other).terminal.reason, FinishReason::max_new_tokens);
}

TEST(GenerationTest, TokensThatTheModelBansAreNeverSampled) {
  const TokenIds prompt = counting(9, 12);
  const TokenIds plain = fake_greedy(prompt, 10, kVocab);
  for (const bool only_first : {false, true}) {
    FakeEngineOptions options = threadless();
    options.change_parts = [&](EngineParts& parts) {
      (only_first ? parts.rules.first_banned_tokens : parts.rules.banned_tokens) = TokenIds{plain[0]};
    };
    FakeEngine engine(options);
    const auto job = engine.cache->submit(greedy(prompt, 10));
    engine.run_to_idle();
    const TokenIds tokens = read_all(*job).tokens;
    ASSERT_EQ(tokens.size(), 10U);
    EXPECT_NE(tokens[0], plain[0]);
    if (!only_first) {
      EXPECT_EQ(std::count(tokens.begin(), tokens.end(), plain[0]), 0);
    }
  }
}

TEST(GenerationTest, AModelWithoutAHeadOnlyEmbeds) {
  FakeEngineOptions options = threadless();
  options.change_parts = [](EngineParts& parts) { parts.rules.has_head = false; };
  FakeEngine engine(options);
  JobRequest request = greedy(counting(9, 12), 10);
  for (const JobKind kind : {JobKind::generate, JobKind::score}) {
    request.kind = kind;
    expect_error(ErrorCode::unsupported, {"vocabulary"}, [&] { engine.cache->submit(request); });
    expect_error(ErrorCode::unsupported, {"vocabulary"}, [&] { engine.cache->submit_many(request, 1); });
  }
}

TEST(GenerationTest, AStopStringIsFoundBeforeTheLastTokenAndNeverShown) {
  const TokenIds prompt = counting(2, 12);
  const std::string text = fake_text(fake_greedy(prompt, 8, kVocab));
  FakeEngine engine(threadless());
  JobRequest request = greedy(prompt, 8);
  request.stop_strings = {text.substr(5, 3)};
  const auto job = engine.cache->submit(request);
  engine.run_to_idle();
  const Transcript transcript = read_all(*job);
  EXPECT_EQ(transcript.terminal.reason, FinishReason::stop_string);
  EXPECT_EQ(transcript.text, text.substr(0, text.find(request.stop_strings[0])));
  EXPECT_EQ(job->result().stop_string, request.stop_strings[0]);
}

TEST(GenerationTest, AJobWithNonFiniteLogitsEndsAloneAndItsPagesAreNotShared) {
  FakeEngine engine(threadless());
  engine.executor->nan_token = 50;
  TokenIds poisoned = counting(0, 20);
  poisoned.push_back(50);
  const auto bad = engine.cache->submit(greedy(poisoned, 10));
  const auto good = engine.cache->submit(greedy(counting(20, 9), 10));
  engine.run_to_idle();
  EXPECT_EQ(read_all(*bad).terminal.error, ErrorCode::numeric);
  EXPECT_EQ(read_all(*good).tokens.size(), 10U);
  engine.executor->nan_token = -1;
  EXPECT_EQ(engine.cache->thread().loop().jobs().query_prefix(poisoned, ""), 0);
}

TEST(GenerationTest, AThrowingCodecEndsOnlyItsJob) {
  const TokenIds expected = fake_greedy(counting(0, 9), 10, kVocab);
  FakeEngine engine(threadless());
  engine.codec->broken_token = expected[3];
  const auto bad = engine.cache->submit(greedy(counting(0, 9), 10));
  engine.run_to_idle();
  EXPECT_EQ(read_all(*bad).terminal.error, ErrorCode::internal);
  EXPECT_EQ(engine.cache->stats().pages.referenced, 0);
}

TEST(GenerationTest, AFailureOfAWholeStepIsTracedToItsJob) {
  FakeEngine engine(threadless());
  engine.executor->before_step = [](const Batch& batch) {
    for (const TokenId token : batch.token_ids) {
      if (token == 60) throw Error(ErrorCode::out_of_memory, "token 60 is too much");
    }
  };
  const TokenIds prompt{1, 2, 3};
  std::vector<std::shared_ptr<Job>> jobs;
  for (int32_t i = 0; i < 4; ++i) jobs.push_back(engine.cache->submit(greedy(counting(10 * i, 5), 3)));
  const auto bad = engine.cache->submit(greedy({60}, 3));
  engine.run_to_idle();
  EXPECT_EQ(read_all(*bad).terminal.error, ErrorCode::out_of_memory);
  for (int32_t i = 0; i < 4; ++i) {
    const TokenIds expected = fake_greedy(counting(10 * i, 5), 3, kVocab);
    const Transcript transcript = read_all(*jobs[static_cast<size_t>(i)]);
    if (std::find(expected.begin(), expected.end() - 1, 60) == expected.end() - 1) {
      EXPECT_EQ(transcript.tokens, expected);
    }
  }
}

TEST(GenerationTest, ADeviceFaultEndsAllJobsWithOneStatus) {
  FakeEngine engine(threadless());
  std::vector<std::shared_ptr<Job>> jobs;
  for (int32_t i = 0; i < 12; ++i) jobs.push_back(engine.cache->submit(greedy(counting(i, 5), 30)));
  engine.cache->thread().run_once();
  engine.executor->before_step = [](const Batch&) {
    throw Error(ErrorCode::device_lost, "the device is gone");
  };
  engine.cache->thread().run_once();
  for (const auto& job : jobs) EXPECT_EQ(read_all(*job).terminal.error, ErrorCode::device_lost);
  try {
    engine.cache->submit(greedy({1}, 1));
    ADD_FAILURE() << "a job was accepted on a lost device";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device_lost);
  }
  EXPECT_EQ(engine.cache->stats().pages.referenced, 0);
}

TEST(GenerationTest, ScoringGivesTheLogProbabilitiesOfThePrompt) {
  FakeEngineOptions options = threadless();
  options.cache.max_chunk_tokens = 7;
  FakeEngine engine(options);
  JobRequest request;
  request.kind = JobKind::score;
  request.prompt = counting(11, 33);
  request.want_raw_logits = true;
  const auto job = engine.cache->submit(request);
  engine.run_to_idle();
  EXPECT_EQ(read_all(*job).terminal.reason, FinishReason::completed);
  const std::vector<float> scores = job->scores();
  const std::vector<float> raw = job->raw_logits();
  ASSERT_EQ(scores.size(), 32U);
  ASSERT_EQ(raw.size(), 33U * kVocab);
  for (size_t i = 0; i < scores.size(); ++i) {
    std::vector<float> logits(kVocab);
    fake_logits(gsl::span<const TokenId>(request.prompt).first(i + 1), logits);
    double sum = 0.0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    EXPECT_NEAR(scores[i], logits[static_cast<size_t>(request.prompt[i + 1])] - std::log(sum), 1e-5);
    EXPECT_EQ(raw[i * kVocab + 3], logits[3]);
  }
}

TEST(GenerationTest, AForkContinuesFromTheTokensOfItsParent) {
  FakeEngine engine(threadless());
  const TokenIds prompt = counting(4, 9);
  const auto parent = engine.cache->submit(greedy(prompt, 20));
  for (int32_t i = 0; i < 6; ++i) engine.cache->thread().run_once();
  const auto child = parent->fork({});
  engine.run_to_idle();
  const TokenIds expected = fake_greedy(prompt, 20, kVocab);
  EXPECT_EQ(read_all(*parent).tokens, expected);
  const Transcript transcript = read_all(*child);
  EXPECT_EQ(transcript.tokens, TokenIds(expected.begin() + 6, expected.end()));
  EXPECT_EQ(engine.cache->stats().pages.referenced, 0);
}

TEST(GenerationTest, AForkWithoutASeedTakesThatOfItsParent) {
  FakeEngine engine(threadless());
  JobRequest request = greedy(counting(4, 9), 20);
  request.sampling.temperature = 5.0F;
  request.sampling.seed = 77;
  const auto parent = engine.cache->submit(request);
  for (int32_t i = 0; i < 6; ++i) engine.cache->thread().run_once();
  ForkOptions of_zero;
  of_zero.seed = 0;
  ForkOptions random;
  random.random_seed = true;
  const auto as_parent = parent->fork({});
  const auto other = parent->fork(of_zero);
  const auto by_chance = parent->fork(random);
  const auto by_chance_again = parent->fork(random);
  engine.run_to_idle();
  EXPECT_EQ(as_parent->seed(), 77U);
  EXPECT_EQ(other->seed(), 0U);
  EXPECT_NE(by_chance->seed(), by_chance_again->seed());
  const TokenIds whole = read_all(*parent).tokens;
  const TokenIds rest(whole.begin() + 6, whole.end());
  EXPECT_EQ(read_all(*as_parent).tokens, rest);
  EXPECT_NE(read_all(*other).tokens, rest);
}

TEST(GenerationTest, OnlyAGeneratingJobCanBeForked) {
  FakeEngineOptions options = threadless();
  options.cache.max_chunk_tokens = 4;
  FakeEngine engine(options);
  JobRequest request;
  request.kind = JobKind::score;
  request.prompt = counting(0, 20);
  const auto job = engine.cache->submit(request);
  engine.cache->thread().run_once();
  try {
    job->fork({});
    ADD_FAILURE() << "a fork without tokens was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
  }
  engine.run_to_idle();
  EXPECT_EQ(read_all(*job).terminal.reason, FinishReason::completed);
}

// A limit of 2^29 new tokens is valid: the job generates as many as fit in max_seq_len.
TEST(GenerationTest, AForkOfAJobWithoutLimitReservesNoMoreMemoryThanItCanUse) {
  FakeEngine engine(threadless());
  const TokenIds prompt = counting(0, 20);
  const auto parent = engine.cache->submit(greedy(prompt, 1 << 29));
  for (int32_t i = 0; i < 3; ++i) engine.cache->thread().run_once();
  const auto child = parent->fork({});
  engine.cache->thread().run_once();
  ASSERT_NE(engine.cache->thread().loop().jobs().find(child->id()), nullptr);
  EXPECT_LE(engine.cache->thread().loop().jobs().find(child->id())->lane.tokens.capacity(), 201U);
  engine.run_to_idle();
  EXPECT_EQ(read_all(*child).terminal.reason, FinishReason::max_seq_len);
}

TEST(GenerationTest, AForkThatCanNeverFitIsRefused) {
  FakeEngineOptions options = threadless();
  options.limits.num_pages = 10;
  FakeEngine engine(options);
  const auto parent = engine.cache->submit(greedy(counting(0, 20), 8));
  engine.cache->thread().run_once();
  ForkOptions fork;
  fork.max_new_tokens = 30;
  const auto child = parent->fork(fork);
  engine.run_to_idle();
  EXPECT_EQ(read_all(*child).terminal.error, ErrorCode::too_large);
  EXPECT_EQ(read_all(*parent).tokens, fake_greedy(counting(0, 20), 8, kVocab));
}

TEST(GenerationTest, AForkRespectsTheQuotaOfItsNamespace) {
  FakeEngineOptions options = threadless();
  options.cache.default_quota.max_running_jobs = 1;
  FakeEngine engine(options);
  const auto parent = engine.cache->submit(greedy(counting(0, 20), 8));
  engine.cache->thread().run_once();
  const auto child = parent->fork({});
  engine.cache->thread().run_once();
  EXPECT_EQ(child->state(), JobState::queued);
  engine.run_to_idle();
  EXPECT_EQ(read_all(*child).tokens.size(), 7U);
}

TEST(GenerationTest, ARewoundJobGeneratesTheSameTokensAgain) {
  FakeEngine engine(threadless());
  const TokenIds prompt = counting(4, 9);
  const auto job = engine.cache->submit(greedy(prompt, 20));
  for (int32_t i = 0; i < 10; ++i) engine.cache->thread().run_once();
  job->rewind(3);
  engine.run_to_idle();
  const TokenIds expected = fake_greedy(prompt, 20, kVocab);
  const TokenIds tokens = read_all(*job).tokens;
  ASSERT_EQ(tokens.size(), 27U);
  EXPECT_EQ(TokenIds(tokens.begin() + 10, tokens.end()), TokenIds(expected.begin() + 3, expected.end()));
}

TEST(GenerationTest, APausedJobIsNotComputedUntilItIsResumed) {
  FakeEngine engine(threadless());
  const auto job = engine.cache->submit(greedy(counting(4, 9), 20));
  for (int32_t i = 0; i < 3; ++i) engine.cache->thread().run_once();
  job->pause();
  engine.run_to_idle();
  EXPECT_EQ(job->state(), JobState::paused);
  EXPECT_EQ(job->result().new_tokens, 3);
  job->resume();
  engine.run_to_idle();
  EXPECT_EQ(read_all(*job).tokens, fake_greedy(counting(4, 9), 20, kVocab));
}

TEST(GenerationTest, StatsIncludeAPinAtOnce) {
  FakeEngine engine(threadless());
  const TokenIds prompt = counting(3, 40);
  const auto job = engine.cache->submit(greedy(prompt, 2));
  engine.run_to_idle();
  const PinId pin = engine.cache->pin_prefix(prompt, "", Duration{0}, Duration{std::chrono::seconds(30)});
  EXPECT_GT(engine.cache->stats().pages.pinned, 0);
  engine.cache->unpin(pin);
  engine.cache->thread().run_once();
  EXPECT_EQ(engine.cache->stats().pages.pinned, 0);
}

// A failed step leaves its jobs running but without pages, and pins may have taken the pages since.
TEST(GenerationTest, PinsAreReleasedForAJobThatLostItsPagesInAFailedStep) {
  FakeEngineOptions options = threadless();
  options.limits.num_pages = 13;
  options.cache.max_pinned_pages = 13;
  FakeEngine engine(options);
  TokenIds prefix = counting(0, 10);
  const auto other = engine.cache->submit(greedy(prefix, 25));
  const TokenIds generated = fake_greedy(prefix, 25, kVocab);
  prefix.insert(prefix.end(), generated.begin(), generated.end());
  JobRequest whole = greedy(counting(20, 8), 18);
  whole.reserve_whole = true;
  const auto job = engine.cache->submit(whole);
  bool failed = false;
  engine.executor->before_step = [&](const Batch& batch) {
    if (batch.num_sequences() == 2 && !std::exchange(failed, true)) throw Error(ErrorCode::internal, "once");
  };
  engine.cache->thread().run_once();
  ASSERT_TRUE(failed);
  job->pause();
  engine.run_to_idle();
  ASSERT_EQ(other->state(), JobState::finished);
  engine.cache->pin_prefix(prefix, "", Duration{0}, Duration{std::chrono::seconds(30)});
  ASSERT_EQ(engine.cache->stats().pages.pinned, 8);
  job->resume();
  engine.run_to_idle();
  EXPECT_EQ(read_all(*job).tokens, fake_greedy(counting(20, 8), 18, kVocab));
}

TEST(GenerationTest, ThreadedEngineRunsJobsToTheirEnd) {
  FakeEngine engine({});
  std::vector<std::shared_ptr<Job>> jobs;
  for (int32_t i = 0; i < 16; ++i) jobs.push_back(engine.cache->submit(greedy(counting(i, 5 + i), 30)));
  for (size_t i = 0; i < jobs.size(); i += 2) jobs[i]->cancel();
  for (int32_t i = 1; i < 16; i += 2) {
    const Transcript transcript = read_all(*jobs[static_cast<size_t>(i)], std::chrono::seconds(30));
    EXPECT_EQ(transcript.tokens, fake_greedy(counting(i, 5 + i), 30, kVocab));
  }
  engine.cache->close();
  EXPECT_EQ(engine.cache->stats().pages.referenced, 0);
}

TEST(GenerationTest, ARequestHasAtMostTheDraftsOfItsEngine) {
  FakeEngineOptions options = threadless();
  options.cache.drafting.max_drafts = 3;
  FakeEngine engine(options);
  JobRequest request = greedy({1, 2, 3}, 2);
  for (const int32_t allowed : {0, 3}) {
    request.max_drafts = allowed;
    engine.cache->submit(request);
  }
  for (const int32_t refused : {-1, 4}) {
    request.max_drafts = refused;
    expect_error(ErrorCode::invalid_argument, {"max_drafts is " + std::to_string(refused), "0 to 3"},
                 [&] { engine.cache->submit(request); });
  }
  options.cache.drafting.max_drafts = kMaxDrafts + 1;
  expect_error(ErrorCode::invalid_argument, {"max_drafts is 16", "1 to 15"},
               [&] { FakeEngine refused(options); });
}

TEST(Generation, AJobWithoutAnyAllowedTokenIsRefused) {
  FakeEngineOptions options;
  options.end_tokens = {3};
  options.cache.start_thread = false;
  FakeEngine engine{options};
  const auto code_of = [&](const JobRequest& request) {
    try {
      engine.cache->submit(request);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::ok;
  };
  JobRequest request = greedy({1, 2}, 5);
  for (TokenId token = 0; token < options.limits.vocab_size; ++token)
    if (token != 3) request.sampling.banned_tokens.push_back(token);
  EXPECT_EQ(code_of(request), ErrorCode::ok) << "it may end at once";
  request.min_new_tokens = 5;
  EXPECT_EQ(code_of(request), ErrorCode::invalid_argument) << "the end may not be drawn yet";
  request.ignore_end_tokens = true;
  EXPECT_EQ(code_of(request), ErrorCode::ok) << "it does not end the job";
  request.sampling.banned_tokens.push_back(3);
  EXPECT_EQ(code_of(request), ErrorCode::invalid_argument);
}

TEST(Generation, APausedJobThatLosesItsPagesStaysPaused) {
  FakeEngineOptions options;
  options.cache.start_thread = false;
  options.limits.num_pages = 8;  // 4 tokens each
  FakeEngine engine{options};
  JobRequest request = greedy({1, 2}, 28);
  request.reserve_whole = true;
  const auto paused = engine.cache->submit(request);
  engine.run_to_idle(2);
  paused->pause();
  const auto other = engine.cache->submit(request);
  engine.run_to_idle(3);
  EXPECT_EQ(other->state(), JobState::generating);
  EXPECT_EQ(paused->state(), JobState::paused);
  EXPECT_NE(paused->explain().find("paused, preempted"), std::string::npos) << paused->explain();
  paused->resume();
  engine.run_to_idle(1);
  EXPECT_EQ(paused->state(), JobState::queued);
  engine.run_to_idle();
  EXPECT_EQ(read_all(*paused).tokens, fake_greedy({1, 2}, 28, options.limits.vocab_size));
}

}  // namespace
}  // namespace quire::testing
