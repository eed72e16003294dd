// Embeddings through the C interface: the shape, the norm, and the same bits for every cache and batch.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

const std::string kText(100, 'q');

OwnedRequest embedding_request(int32_t pooling, int32_t normalize, const std::string& text = kText) {
  OwnedRequest request = make_prompt(text);
  quire_job_request_set_kind(request.get(), QUIRE_JOB_KIND_EMBED, nullptr);
  quire_job_request_set_pooling(request.get(), pooling, nullptr);
  quire_job_request_set_normalize(request.get(), normalize, nullptr);
  return request;
}

std::vector<float> embedding_of(quire_job* job) {
  EXPECT_EQ(collect(job).finish_reason, QUIRE_FINISH_COMPLETED);
  const int64_t size = quire_job_embedding(job, nullptr, 0, nullptr);
  EXPECT_GT(size, 0);
  std::vector<float> values(static_cast<size_t>(size));
  EXPECT_EQ(quire_job_embedding(job, values.data(), values.size(), nullptr), size);
  return values;
}

std::vector<float> embed(quire_cache* cache, const OwnedRequest& request) {
  Report report;
  const OwnedJob job(quire_job_submit(cache, request.get(), report.out()));
  EXPECT_TRUE(job) << report.message();
  return embedding_of(job.get());
}

OwnedCache cache_with_chunks(quire_model* model, int32_t max_chunk_tokens) {
  const OwnedCacheOptions options(quire_cache_options_create(nullptr));
  quire_cache_options_set_page_tokens(options.get(), 4, nullptr);
  quire_cache_options_set_max_tokens(options.get(), 2048, nullptr);
  quire_cache_options_set_max_batch_size(options.get(), 8, nullptr);
  quire_cache_options_set_max_chunk_tokens(options.get(), max_chunk_tokens, nullptr);
  return OwnedCache(quire_cache_create(model, options.get(), nullptr));
}

TEST(Embedding, HasTheSizeOfTheModelAndLengthOne) {
  World world;
  const std::vector<float> vector = embed(world.cache.get(), embedding_request(QUIRE_POOLING_MEAN, 1));
  EXPECT_EQ(vector.size(), static_cast<size_t>(quire_model_hidden_size(world.model.get(), nullptr)));
  double square = 0.0;
  for (const float value : vector) square += double{value} * value;
  EXPECT_NEAR(square, 1.0, 1e-5);
}

TEST(Embedding, HasTheSameDirectionWithAndWithoutNormalization) {
  World world;
  const std::vector<float> unit = embed(world.cache.get(), embedding_request(QUIRE_POOLING_LAST, 1));
  const std::vector<float> raw = embed(world.cache.get(), embedding_request(QUIRE_POOLING_LAST, 0));
  double square = 0.0;
  for (const float value : raw) square += double{value} * value;
  for (size_t i = 0; i < unit.size(); ++i) EXPECT_NEAR(unit[i], raw[i] / std::sqrt(square), 1e-6);
}

// Later tokens do not change a state, so the mean of a text is the mean of the last states of its prefixes.
TEST(Embedding, TheMeanIsTheMeanOfLastStates) {
  World world;
  const std::string text = "The quick brown fox";
  std::vector<double> sum;
  for (size_t end = 1; end <= text.size(); ++end) {
    const std::vector<float> last =
        embed(world.cache.get(), embedding_request(QUIRE_POOLING_LAST, 0, text.substr(0, end)));
    sum.resize(last.size());
    for (size_t i = 0; i < last.size(); ++i) sum[i] += last[i];
  }
  const std::vector<float> mean = embed(world.cache.get(), embedding_request(QUIRE_POOLING_MEAN, 0, text));
  ASSERT_EQ(mean.size(), sum.size());
  for (size_t i = 0; i < mean.size(); ++i) {
    EXPECT_EQ(mean[i], static_cast<float>(sum[i] * (1.0 / static_cast<double>(text.size())))) << i;
  }
}

TEST(Embedding, ChunksBatchAndCacheChangeNoBit) {
  World world;
  for (const int32_t pooling : {QUIRE_POOLING_MEAN, QUIRE_POOLING_LAST}) {
    const OwnedRequest request = embedding_request(pooling, 1);
    const std::vector<float> expected = embed(world.cache.get(), request);
    EXPECT_EQ(embed(world.cache.get(), request), expected) << "its prompt is in the cache now";
    for (const int32_t chunk : {8, 17, 512}) {
      const OwnedCache cache = cache_with_chunks(world.model.get(), chunk);
      std::vector<OwnedJob> company;
      for (int i = 0; i < 6; ++i) {
        const std::string text(static_cast<size_t>(10 + 20 * i), static_cast<char>('a' + i));
        company.emplace_back(quire_job_submit(cache.get(), make_request(text, 50).get(), nullptr));
      }
      EXPECT_EQ(embed(cache.get(), request), expected) << "chunks of " << chunk;
    }
  }
}

TEST(Embedding, OtherJobsHaveNoEmbedding) {
  World world;
  const OwnedJob job(quire_job_submit(world.cache.get(), make_request("abc", 2).get(), nullptr));
  collect(job.get());
  EXPECT_EQ(quire_job_embedding(job.get(), nullptr, 0, nullptr), 0);
}

}  // namespace
}  // namespace quire::testing
