// The embedded model in a cache that grows and shrinks: the budget equals the allocated device memory to the
// byte, and no output depends on it.
#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "core/engine/model/model_cache.h"
#include "core/engine/model/resident_model.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/core/models/golden_file.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/golden_families.h"
#include "tests/support/job_tokens.h"

namespace quire::testing {
namespace {

constexpr int32_t kNumJobs = 12;
// Each job has its own page, longer than its tokens: many bytes for few steps.
constexpr int32_t kPageTokens = 128;
constexpr int64_t kMinTokens = 256;

struct Kind {
  kernels::KvFormat format;
  int32_t num_shards;
};

class ElasticCache : public ::testing::TestWithParam<Kind> {
 protected:
  ElasticCache() { open_device(0); }

  // Opens a device and loads the model on it.
  void open_device(uint64_t limit_bytes) {
    kernels::DeviceOptions options;
    options.num_threads = 2;
    options.memory_limit_bytes = limit_bytes;
    device_ = Device::open(kernels::cpu_backend(), 0, options);
    ModelOptions load;
    load.source = open_model_source(posix_file_system(), QUIRE_EMBEDDED_MODEL);
    load.devices = {device_};
    load.num_shards = GetParam().num_shards;
    model_ = Model::load(load);
    weight_bytes_ = held_bytes();
  }

  uint64_t held_bytes() const { return device_->memory_use().held_bytes; }

  std::shared_ptr<Engine> open(int64_t min_tokens, Duration idle_time = std::chrono::milliseconds(50)) {
    ModelCacheOptions options;
    options.page_tokens = kPageTokens;
    options.max_batch_size = kNumJobs;
    options.max_chunk_tokens = 64;
    options.max_tokens = 4096;
    options.max_seq_len = 256;
    options.min_tokens = min_tokens;
    options.key_format = options.value_format = GetParam().format;
    options.engine.check_invariants = true;
    options.engine.page_idle_time = idle_time;
    return create_model_cache(runtime_, model_, options);
  }

  std::vector<TokenIds> run_jobs(Engine& cache) {
    std::vector<std::shared_ptr<Job>> jobs;
    for (int32_t i = 0; i < kNumJobs; ++i) {
      JobRequest request;
      request.prompt = model_->tokenizer().encode("Chapter " + std::to_string(i) + " of a long story. ");
      request.max_new_tokens = 8 + 2 * i;
      request.ignore_end_tokens = true;
      request.sampling.temperature = 0.0F;
      jobs.push_back(cache.submit(std::move(request)));
    }
    std::vector<TokenIds> answers;
    for (const auto& job : jobs) {
      answers.push_back(tokens_of(*job));
      most_pages_ = std::max(most_pages_, cache.stats().pages.total);
    }
    return answers;
  }

  static TokenIds tokens_of(Job& job) {
    TokenIds tokens;
    while (const auto event = job.poll(kPatience)) {
      tokens.insert(tokens.end(), event->token_ids.begin(), event->token_ids.end());
      if (event->terminal()) break;
    }
    return tokens;
  }

  const std::shared_ptr<Runtime> runtime_ = Runtime::create({});
  std::shared_ptr<Device> device_;
  std::shared_ptr<const Model> model_;
  uint64_t weight_bytes_ = 0;
  int32_t most_pages_ = 0;  // largest number seen while jobs ran
};

TEST_P(ElasticCache, GeneratesTheSameAsAFixedCacheAndTheBudgetEqualsTheDeviceMemory) {
  const std::vector<TokenIds> expected = run_jobs(*open(0));
  const auto cache = open(kMinTokens);
  const int32_t least = cache->stats().pages.total;
  EXPECT_EQ(least, kMinTokens / kPageTokens);
  EXPECT_EQ(runtime_->leased_bytes("cpu"), held_bytes() - weight_bytes_);
  const uint64_t smallest = held_bytes();
  for (int round = 0; round < 2; ++round) {
    most_pages_ = 0;
    EXPECT_EQ(run_jobs(*cache), expected);
    EXPECT_GT(most_pages_, least);
    EXPECT_EQ(cache->stats().preemptions, 0U);
    const TimePoint end = steady_clock().now() + std::chrono::seconds(20);
    while (cache->stats().pages.total > least && steady_clock().now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(cache->stats().pages.total, least);
    EXPECT_EQ(held_bytes(), smallest);
    EXPECT_EQ(runtime_->leased_bytes("cpu"), smallest - weight_bytes_);
  }
}

TEST_P(ElasticCache, ReleasesUnusedMemoryForALoad) {
  const auto cache = open(kMinTokens, Duration{0});
  const uint64_t smallest = runtime_->leased_bytes("cpu");
  run_jobs(*cache);
  const uint64_t budget = smallest + (uint64_t{64} << 20);
  runtime_->set_memory_budget("cpu", budget);
  const MemoryLease load = runtime_->lease_memory({"cpu", budget - smallest, "the weights of b"});
  EXPECT_EQ(runtime_->leased_bytes("cpu"), budget);
  EXPECT_EQ(run_jobs(*cache).size(), size_t{kNumJobs}) << "one after another";
  EXPECT_EQ(runtime_->leased_bytes("cpu"), budget);
}

// Without a budget, the limit is the device's own memory.
TEST_P(ElasticCache, ReleasesMemoryForALoadIfTheDeviceHasNoMore) {
  auto cache = open(kMinTokens, std::chrono::hours(1));
  const uint64_t smallest = held_bytes();
  run_jobs(*cache);
  const uint64_t grown = held_bytes();
  ASSERT_GT(grown, smallest);
  cache.reset();
  open_device(smallest + weight_bytes_ + (grown - smallest) / 2);
  cache = open(kMinTokens, Duration{0});
  run_jobs(*cache);
  ResidentModelOptions options;
  options.plan.source = open_model_source(posix_file_system(), QUIRE_EMBEDDED_MODEL);
  options.plan.devices.push_back({"cpu", device_});
  options.plan.num_shards = GetParam().num_shards;
  const auto other = ResidentModel::load(runtime_, options);
  EXPECT_TRUE(other->model()->is_loaded());
  EXPECT_EQ(run_jobs(*cache).size(), size_t{kNumJobs});
}

// The slots of recurrent states grow and shrink with the pages, to the byte.
TEST(ElasticStates, GenerateTheSameAsAFixedCacheAndTheBudgetEqualsTheDeviceMemory) {
  for (const char* family : {"qwen3_5", "recurrent_gemma", "mamba2"}) {
    for (const int32_t num_shards : {1, 2}) {
      SCOPED_TRACE(::testing::Message() << family << " in " << num_shards);
      kernels::DeviceOptions device_options;
      device_options.num_threads = 2;
      const auto device = Device::open(kernels::cpu_backend(), 0, device_options);
      const FamilyDirectory directory(family);
      ModelOptions load;
      load.source = open_model_source(posix_file_system(), directory.path());
      load.devices = {device};
      load.num_shards = num_shards;
      const std::shared_ptr<const Model> model = Model::load(load);
      const auto runtime = Runtime::create({});
      const uint64_t weights = device->memory_use().held_bytes;
      const auto cache_bytes = [&] { return device->memory_use().held_bytes - weights; };
      ModelCacheOptions options;
      options.page_tokens = 16;
      options.max_batch_size = kNumJobs;
      options.max_chunk_tokens = 64;
      options.max_tokens = 4096;
      options.max_seq_len = 128;
      options.engine.check_invariants = true;
      options.engine.page_idle_time = std::chrono::milliseconds(50);
      uint64_t most = 0;  // bytes while jobs ran
      const auto run = [&](Engine& cache) {
        std::vector<std::shared_ptr<Job>> jobs;
        for (int32_t i = 0; i < kNumJobs; ++i) {
          JobRequest request;
          for (int32_t token = 0; token < 20 + i; ++token) request.prompt.push_back((token * 7 + i) % 160);
          request.max_new_tokens = 20;
          request.ignore_end_tokens = true;
          request.sampling.temperature = 0.0F;
          jobs.push_back(cache.submit(std::move(request)));
        }
        std::vector<TokenIds> answers;
        for (const auto& job : jobs) {
          answers.emplace_back();
          while (const auto event = job->poll(kPatience)) {
            answers.back().insert(answers.back().end(), event->token_ids.begin(), event->token_ids.end());
            if (event->terminal()) break;
            most = std::max(most, cache_bytes());
          }
        }
        return answers;
      };
      const std::vector<TokenIds> expected = run(*create_model_cache(runtime, model, options));
      options.min_tokens = 256;
      const auto cache = create_model_cache(runtime, model, options);
      const uint64_t smallest = cache_bytes();
      EXPECT_EQ(runtime->leased_bytes("cpu"), smallest);
      most = 0;
      for (int32_t round = 0; round < 2; ++round) {
        EXPECT_EQ(run(*cache), expected);
        const TimePoint end = steady_clock().now() + std::chrono::seconds(20);
        while (cache_bytes() > smallest && steady_clock().now() < end)
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
        EXPECT_EQ(cache_bytes(), smallest);
        EXPECT_EQ(runtime->leased_bytes("cpu"), smallest);
      }
      EXPECT_GT(most, smallest);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ElasticCache,
                         ::testing::Values(Kind{kernels::KvFormat::f16, 1}, Kind{kernels::KvFormat::q4, 1},
                                           Kind{kernels::KvFormat::q8, 2}));

}  // namespace
}  // namespace quire::testing
