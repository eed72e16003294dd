// Embedding jobs on the fake device: the vector equals the mean, or the last, of the hidden states of a plain
// loop bit for bit, for any chunks of the prompt and any other jobs of the batch.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/support/engine_fakes.h"
#include "tests/support/expect_error.h"

namespace quire::testing {
namespace {

constexpr int32_t kHidden = 6;

FakeEngineOptions options_with(int32_t max_chunk_tokens, int32_t page_tokens = 4) {
  FakeEngineOptions options;
  options.limits.page_tokens = page_tokens;
  options.limits.max_pages_per_sequence = 64;
  options.limits.hidden_size = kHidden;
  options.cache.start_thread = false;
  options.cache.max_chunk_tokens = max_chunk_tokens;
  return options;
}

JobRequest embedding_of(int32_t first_token, int32_t num_tokens, Pooling pooling, bool normalise) {
  JobRequest request;
  request.kind = JobKind::embed;
  for (int32_t i = 0; i < num_tokens; ++i) request.prompt.push_back((first_token + 3 * i) % 64);
  request.pooling = pooling;
  request.normalise = normalise;
  return request;
}

std::vector<float> plain_embedding(const JobRequest& request) {
  std::vector<double> sum(kHidden, 0.0);
  const size_t first = request.pooling == Pooling::last ? request.prompt.size() - 1 : 0;
  for (size_t i = first; i < request.prompt.size(); ++i) {
    std::vector<float> state(kHidden);
    fake_hidden(gsl::span<const TokenId>(request.prompt).first(i + 1), state);
    for (size_t column = 0; column < kHidden; ++column) sum[column] += state[column];
  }
  double square = 0.0;
  for (const double value : sum) square += value * value;
  const double scale =
      request.normalise ? 1.0 / std::sqrt(square) : 1.0 / static_cast<double>(request.prompt.size() - first);
  std::vector<float> embedding;
  for (const double value : sum) embedding.push_back(static_cast<float>(value * scale));
  return embedding;
}

std::vector<float> run_alone(const JobRequest& request, const FakeEngineOptions& options) {
  FakeEngine engine(options);
  const auto job = engine.cache->submit(request);
  engine.run_to_idle();
  EXPECT_EQ(job->result().reason, FinishReason::completed) << job->explain();
  return job->embedding();
}

TEST(EmbeddingTest, IsTheMeanOrTheLastStateForAnyChunksOfThePrompt) {
  for (const Pooling pooling : {Pooling::mean, Pooling::last}) {
    for (const bool normalise : {true, false}) {
      for (const int32_t num_tokens : {1, 5, 40, 100}) {
        const JobRequest request = embedding_of(7, num_tokens, pooling, normalise);
        const std::vector<float> expected = plain_embedding(request);
        for (const int32_t chunk : {1, 3, 7, 64}) {
          EXPECT_EQ(run_alone(request, options_with(chunk)), expected)
              << num_tokens << " tokens in chunks of " << chunk;
        }
      }
    }
  }
}

TEST(EmbeddingTest, TheModelDecidesThePoolingThatARequestLeavesOpen) {
  for (const Pooling declared : {Pooling::mean, Pooling::last}) {
    FakeEngineOptions options = options_with(8);
    options.change_parts = [declared](EngineParts& parts) { parts.rules.pooling = declared; };
    EXPECT_EQ(run_alone(embedding_of(1, 30, Pooling::model, true), options),
              plain_embedding(embedding_of(1, 30, declared, true)));
    EXPECT_EQ(run_alone(embedding_of(1, 30, Pooling::last, true), options),
              plain_embedding(embedding_of(1, 30, Pooling::last, true)));
  }
  FakeEngineOptions options = options_with(8);
  options.change_parts = [](EngineParts& parts) { parts.rules.unsupported_pooling = "cls"; };
  FakeEngine engine(options);
  expect_error(ErrorCode::unsupported, {"pooling", "cls"},
               [&] { engine.cache->submit(embedding_of(1, 30, Pooling::model, true)); });
  EXPECT_EQ(run_alone(embedding_of(1, 30, Pooling::mean, true), options),
            plain_embedding(embedding_of(1, 30, Pooling::mean, true)));
}

TEST(EmbeddingTest, ANormalisedVectorHasLengthOne) {
  const std::vector<float> vector = run_alone(embedding_of(1, 30, Pooling::mean, true), options_with(8));
  double square = 0.0;
  for (const float value : vector) square += double{value} * value;
  EXPECT_NEAR(square, 1.0, 1e-6) << "rounding of six floats";
}

TEST(EmbeddingTest, OtherJobsAndACachedPrefixChangeNothing) {
  FakeEngine engine(options_with(16));
  std::vector<JobRequest> requests;
  std::vector<std::shared_ptr<Job>> jobs;
  for (int32_t i = 0; i < 8; ++i) {
    requests.push_back(
        embedding_of(i % 3, 30 + 5 * i, i % 2 == 0 ? Pooling::mean : Pooling::last, i % 4 < 2));
    jobs.push_back(engine.cache->submit(requests.back()));
    JobRequest generation = requests.back();
    generation.kind = JobKind::generate;
    generation.sampling.temperature = 0.0F;
    generation.max_new_tokens = 20;
    jobs.push_back(engine.cache->submit(generation));
  }
  engine.run_to_idle();
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(jobs[2 * i]->embedding(), plain_embedding(requests[i])) << i;
    EXPECT_EQ(read_all(*jobs[2 * i + 1]).tokens, fake_greedy(requests[i].prompt, 20, 64)) << i;
  }
  const auto again = engine.cache->submit(embedding_of(0, 30, Pooling::last, true));
  engine.run_to_idle();
  EXPECT_EQ(again->embedding(), plain_embedding(embedding_of(0, 30, Pooling::last, true)));
  EXPECT_GE(again->result().cached_tokens, 28) << "the last state alone does not need the prompt again";
}

TEST(EmbeddingTest, AJobThatLostItsPagesStartsOver) {
  FakeEngineOptions options = options_with(8);
  options.limits.num_pages = 14;
  FakeEngine engine(options);
  const JobRequest request = embedding_of(5, 40, Pooling::mean, true);
  const auto job = engine.cache->submit(request);
  for (int32_t i = 0; i < 4; ++i) engine.cache->thread().run_once();
  job->pause();  // so that it loses its pages to the next job that needs them
  const JobRequest other = embedding_of(9, 44, Pooling::mean, true);
  const auto taker = engine.cache->submit(other);
  engine.run_to_idle();
  job->resume();
  engine.run_to_idle();
  EXPECT_GE(job->result().preemptions, 1);
  EXPECT_EQ(job->embedding(), plain_embedding(request));
  EXPECT_EQ(taker->embedding(), plain_embedding(other));
}

TEST(EmbeddingTest, StatesThatAreNotFiniteEndOnlyTheirJob) {
  FakeEngine engine(options_with(8));
  engine.executor->nan_token = 50;
  JobRequest bad = embedding_of(0, 10, Pooling::mean, true);
  bad.prompt[4] = 50;
  const auto failed = engine.cache->submit(bad);
  const JobRequest good = embedding_of(1, 10, Pooling::mean, true);
  const auto sound = engine.cache->submit(good);
  engine.run_to_idle();
  EXPECT_EQ(failed->result().error, ErrorCode::numeric);
  EXPECT_TRUE(failed->embedding().empty());
  EXPECT_EQ(sound->embedding(), plain_embedding(good));
}

TEST(EmbeddingTest, IsRefusedByAnExecutorWithoutStates) {
  FakeEngineOptions options = options_with(8);
  options.limits.hidden_size = 0;
  FakeEngine engine(options);
  expect_error(ErrorCode::unsupported, {"kind"},
               [&] { engine.cache->submit(embedding_of(1, 3, Pooling::mean, true)); });
}

}  // namespace
}  // namespace quire::testing
