// Jobs with guidance (two lanes) on the fake device, stepped by hand, compared with two sequences computed
// separately.
#include <cmath>

#include <gtest/gtest.h>

#include "core/sampling/sampler.h"
#include "tests/support/engine_fakes.h"

namespace quire::testing {
namespace {

// Computes the logits after both texts and mixes them, without the engine's arithmetic.
std::vector<float> plain_mix(const TokenIds& tokens, const TokenIds& guide, float scale) {
  const auto log_softmax = [](const TokenIds& of) {
    std::vector<float> logits(kVocab);
    fake_logits(of, logits);
    double sum = 0.0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    std::vector<double> result;
    for (const float logit : logits) result.push_back(logit - std::log(sum));
    return result;
  };
  const auto positive = log_softmax(tokens), negative = log_softmax(guide);
  std::vector<float> mixed;
  for (size_t i = 0; i < positive.size(); ++i)
    mixed.push_back(static_cast<float>(negative[i] + scale * (positive[i] - negative[i])));
  return mixed;
}

TokenIds plain_tokens(const JobRequest& request) {
  TokenIds tokens = request.prompt, guide = request.negative_prompt, drawn;
  Sampler sampler(kVocab);
  SamplerState state(request.sampling, kVocab);
  state.append(tokens);
  while (static_cast<int32_t>(drawn.size()) < request.max_new_tokens) {
    const std::vector<float> mixed = plain_mix(tokens, guide, request.guidance_scale);
    const TokenId token = sampler.sample({mixed, &state}).token;
    state.append(token);
    for (TokenIds* const of : {&tokens, &guide, &drawn}) of->push_back(token);
  }
  return drawn;
}

JobRequest guided(TokenIds prompt, TokenIds negative_prompt, float scale, int32_t max_new_tokens) {
  JobRequest request = greedy(std::move(prompt), max_new_tokens);
  request.negative_prompt = std::move(negative_prompt);
  request.guidance_scale = scale;
  return request;
}

FakeEngineOptions by_hand(bool draws = false) {
  FakeEngineOptions options;
  if (draws) make_drawing(options.limits);
  options.cache.start_thread = false;
  return options;
}

ErrorCode code_of(FakeEngine& engine, const JobRequest& request) {
  try {
    engine.cache->submit(request);
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::ok;
}

TEST(GuidedJobTest, GeneratesTheTokensOfTwoSequencesWithMixedLogits) {
  for (const bool draws : {false, true}) {
    for (const float scale : {0.0F, 0.5F, 1.5F, 4.0F}) {
      for (const float temperature : {0.0F, 1.0F}) {
        FakeEngine engine(by_hand(draws));
        JobRequest request = guided({1, 2, 3, 4, 5, 6, 7}, {9, 8}, scale, 20);
        request.sampling.temperature = temperature;
        const auto job = engine.cache->submit(request);
        engine.run_to_idle();
        EXPECT_EQ(read_all(*job).tokens, plain_tokens(request)) << scale << ", " << temperature;
        EXPECT_EQ(engine.cache->stats().pages.referenced, 0);
      }
    }
  }
}

TEST(GuidedJobTest, GeneratesTheSameTokensWithOtherJobsAndInChunks) {
  std::vector<JobRequest> requests;
  for (TokenId i = 0; i < 6; ++i) {
    TokenIds prompt, negative;
    for (TokenId n = 0; n < 5 + 3 * i; ++n) prompt.push_back((7 * n + i) % kVocab);
    for (TokenId n = 0; n < 20 - 3 * i; ++n) negative.push_back((5 * n + 2 * i) % kVocab);
    requests.push_back(i % 3 == 2 ? greedy(prompt, 15) : guided(prompt, negative, 1.5F, 15));
  }
  for (const int32_t chunk : {2, 3, 7, 64}) {
    FakeEngineOptions options = by_hand(chunk % 2 == 1);
    options.cache.max_chunk_tokens = chunk;
    FakeEngine engine(options);
    std::vector<std::shared_ptr<Job>> jobs;
    for (const JobRequest& request : requests) jobs.push_back(engine.cache->submit(request));
    engine.run_to_idle();
    for (size_t i = 0; i < jobs.size(); ++i) {
      const TokenIds expected = requests[i].negative_prompt.empty()
                                    ? fake_greedy(requests[i].prompt, 15, kVocab)
                                    : plain_tokens(requests[i]);
      EXPECT_EQ(read_all(*jobs[i]).tokens, expected) << "job " << i << ", chunks of " << chunk;
    }
  }
}

// Eight lanes fit, and the ninth sequence would have three tokens: the two lanes of a job start together.
TEST(GuidedJobTest, UsesTwoLanesAndTwiceThePages) {
  FakeEngine engine(by_hand());
  std::vector<std::shared_ptr<Job>> jobs;
  for (TokenId i = 0; i < 5; ++i) jobs.push_back(engine.cache->submit(guided({i, 1, 2, 3}, {i, 5}, 1.5F, 3)));
  engine.cache->thread().run_once();
  EXPECT_EQ(engine.cache->stats().running_jobs, 4);
  EXPECT_EQ(engine.cache->stats().queued_jobs, 1);
  EXPECT_EQ(engine.cache->stats().pages.referenced, 8);
  engine.run_to_idle();
  for (const auto& job : jobs) EXPECT_EQ(job->result().reason, FinishReason::max_new_tokens);
}

TEST(GuidedJobTest, AForkContinuesWithBothLanes) {
  FakeEngine engine(by_hand());
  const JobRequest request = guided({1, 2, 3, 4, 5}, {9, 8}, 2.0F, 12);
  const auto parent = engine.cache->submit(request);
  for (int32_t i = 0; i < 5; ++i) engine.cache->thread().run_once();
  const auto child = parent->fork({});
  engine.run_to_idle();
  const TokenIds expected = plain_tokens(request);
  EXPECT_EQ(read_all(*parent).tokens, expected);
  EXPECT_EQ(read_all(*child).tokens, TokenIds(expected.begin() + 5, expected.end()));
}

TEST(GuidedJobTest, ARewindRewindsBothLanes) {
  FakeEngine engine(by_hand());
  const JobRequest request = guided({1, 2, 3, 4, 5}, {9, 8}, 2.0F, 12);
  const auto job = engine.cache->submit(request);
  for (int32_t i = 0; i < 7; ++i) engine.cache->thread().run_once();
  job->rewind(2);
  engine.run_to_idle();
  const TokenIds expected = plain_tokens(request);
  TokenIds said(expected.begin(), expected.begin() + 7);
  said.insert(said.end(), expected.begin() + 2, expected.end());
  EXPECT_EQ(read_all(*job).tokens, said);
}

TEST(GuidedJobTest, ALanePastTheEndOfItsSequenceEndsTheJob) {
  FakeEngineOptions options = by_hand();
  options.max_seq_len = 20;
  FakeEngine engine(options);
  const auto job = engine.cache->submit(guided({1}, TokenIds(12, 5), 1.5F, 100));
  engine.run_to_idle();
  EXPECT_EQ(job->result().reason, FinishReason::max_seq_len);
  EXPECT_EQ(job->result().new_tokens, 8);
}

TEST(GuidedJobTest, UnsupportedRequestsAreRefusedByName) {
  FakeEngine engine(by_hand());
  EXPECT_EQ(code_of(engine, guided({1}, {2}, -0.5F, 3)), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of(engine, guided({1}, {2}, std::nanf(""), 3)), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of(engine, guided({1}, {2}, 1.0F, 3)), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of(engine, guided({1}, {}, 1.5F, 3)), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of(engine, guided({1}, {kVocab}, 1.5F, 3)), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of(engine, guided({1}, TokenIds(200, 3), 1.5F, 3)), ErrorCode::too_large);
  JobRequest whole = guided({1}, {2}, 1.5F, 3);
  whole.reserve_whole = true;
  EXPECT_EQ(code_of(engine, whole), ErrorCode::unsupported);
  EXPECT_EQ(code_of(engine, greedy(TokenIds(150, 3), 20)), ErrorCode::ok);
  EXPECT_EQ(code_of(engine, guided(TokenIds(150, 3), TokenIds(100, 3), 1.5F, 20)), ErrorCode::too_large)
      << "pages are counted for both";

  FakeEngineOptions single = by_hand();
  single.cache.max_running_jobs = 1;
  FakeEngine narrow(single);
  EXPECT_EQ(code_of(narrow, guided({1}, {2}, 1.5F, 3)), ErrorCode::too_large);
}

TEST(GuidedJobTest, ARowOfEitherLaneThatIsNotFiniteEndsOnlyItsJob) {
  for (const bool of_guide : {false, true}) {
    FakeEngine engine(by_hand());
    engine.executor->nan_token = 60;
    JobRequest request = guided({1, 2}, {3, 4}, 1.5F, 5);
    (of_guide ? request.negative_prompt : request.prompt).push_back(60);
    const auto job = engine.cache->submit(request);
    const auto other = engine.cache->submit(greedy({5, 6}, 5));
    engine.run_to_idle();
    EXPECT_EQ(job->result().error, ErrorCode::numeric);
    EXPECT_EQ(read_all(*other).tokens, fake_greedy({5, 6}, 5, kVocab));
  }
}

// The host draws its tokens, so it skips one step after each; the others do not wait for it.
TEST(GuidedJobTest, TakesPartInEverySecondOfTheStepsThatAreIssuedAhead) {
  FakeEngine engine(by_hand(true));
  const JobRequest request = guided({1, 2, 3}, {4, 5}, 1.5F, 10);
  const auto job = engine.cache->submit(request);
  const auto other = engine.cache->submit(greedy({5, 6}, 40));
  engine.run_to_idle();
  EXPECT_EQ(read_all(*job).tokens, plain_tokens(request));
  EXPECT_EQ(read_all(*other).tokens, fake_greedy({5, 6}, 40, kVocab));
  EXPECT_EQ(engine.executor->num_steps(), 40);
  EXPECT_GE(engine.executor->num_followed(), 36);
}

}  // namespace
}  // namespace quire::testing
