// Shards and device faults: out of memory, a lost device, weights that are evicted and loaded back.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/engine/model/model_cache.h"
#include "core/engine/model/resident_model.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/case_stride.h"
#include "tests/support/job_tokens.h"
#include "tests/support/wrapped_backend.h"

namespace quire::testing {
namespace {

ModelPlanOptions shards_on(const std::shared_ptr<Device>& device, int32_t num_shards) {
  ModelPlanOptions options;
  options.source = open_model_source(posix_file_system(), QUIRE_EMBEDDED_MODEL);
  options.devices.push_back({"cpu", device});
  options.num_shards = num_shards;
  return options;
}

std::shared_ptr<const Model> load_on(const std::shared_ptr<Device>& device) {
  ModelOptions options;
  options.source = open_model_source(posix_file_system(), QUIRE_EMBEDDED_MODEL);
  options.devices = {device};
  options.num_shards = 2;
  return Model::load(options);
}

ModelCacheOptions small_cache() {
  ModelCacheOptions options;
  options.page_tokens = 8;
  options.max_batch_size = 4;
  options.max_chunk_tokens = 32;
  options.max_tokens = 1024;
  options.max_seq_len = 256;
  return options;
}

JobRequest request_of(int32_t num_tokens) {
  JobRequest request;
  request.prompt = {1, 2, 3, 4, 5};
  request.max_new_tokens = num_tokens;
  request.ignore_end_tokens = true;
  return request;
}

// Each allocation on the device (weights, pages and contexts) fails in turn.
TEST(ShardFaults, AFailedAllocationFreesEverything) {
  WrappedBackend poor(kernels::cpu_backend());
  const auto device = Device::open(poor.backend(), 0, {});
  const auto run = [&] { return TransformerRunner(load_on(device), {}).logits({1, 2, 3}, 3); };
  const std::vector<float> expected = run();
  int64_t count = 0;
  for (;; count += stride_if_sanitized(5)) {
    poor.allow_allocations(count);
    std::vector<float> logits;
    try {
      logits = run();
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::out_of_memory) << error.what();
    }
    ASSERT_EQ(poor.num_live(), 0) << count;
    ASSERT_EQ(device->memory_use().held_bytes, 0U) << count;
    if (logits.empty()) continue;
    EXPECT_TRUE(logits == expected);
    break;
  }
  EXPECT_GT(count, 30);
}

// Every shard fails, or waits for one that has failed; the reported error is that the device is lost.
TEST(ShardFaults, ALostDeviceEndsAllJobsByName) {
  WrappedBackend posing(kernels::cpu_backend());
  const auto model = load_on(Device::open(posing.backend(), 0, {}));
  const auto busy = create_model_cache(Runtime::create({}), model, small_cache());
  const auto idle = create_model_cache(Runtime::create({}), model, small_cache());
  std::vector<std::shared_ptr<Job>> jobs;
  for (int i = 0; i < 4; ++i) jobs.push_back(busy->submit(request_of(240)));
  ASSERT_TRUE(jobs.front()->poll(kPatience).has_value());
  posing.lose(true);
  for (const auto& job : jobs) {
    ASSERT_TRUE(job->wait(kPatience));
    // Finished jobs are unaffected.
    if (job->result().reason == FinishReason::max_new_tokens) continue;
    EXPECT_EQ(job->result().error, ErrorCode::device_lost) << job->result().message;
    EXPECT_NE(job->result().message.find("lost"), std::string::npos) << job->result().message;
  }
  const auto late = idle->submit(request_of(4));
  ASSERT_TRUE(late->wait(kPatience));
  EXPECT_EQ(late->result().error, ErrorCode::device_lost) << late->result().message;
  posing.lose(false);
}

TEST(ShardFaults, AFailedStepIsRepeated) {
  WrappedBackend posing(kernels::cpu_backend());
  TransformerRunner runner(load_on(Device::open(posing.backend(), 0, {})), {});
  const std::vector<float> expected = runner.logits({1, 2, 3}, 3);
  for (int round = 0; round < 20; ++round) {
    posing.lose(true);
    try {
      (void)runner.logits({1, 2, 3}, 3);
      ADD_FAILURE() << "a lost device went on";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::device_lost) << error.what();
    }
    posing.lose(false);
    EXPECT_TRUE(runner.logits({1, 2, 3}, 3) == expected);
  }
}

class ShardResidency : public ::testing::TestWithParam<int32_t> {
 protected:
  uint64_t held() const { return device->memory_use().held_bytes; }
  std::shared_ptr<const ResidentModel> load(bool is_lazy = false) const {
    ResidentModelOptions options;
    options.plan = shards_on(device, GetParam());
    options.is_lazy = is_lazy;
    return ResidentModel::load(runtime, options);
  }
  std::shared_ptr<Engine> make_cache(const std::shared_ptr<const ResidentModel>& home) const {
    return create_model_cache(runtime, home->model(), small_cache(), home);
  }

  std::shared_ptr<Device> device = open_test_device();
  std::shared_ptr<Runtime> runtime = Runtime::create({});
};

TEST_P(ShardResidency, WeightsAreEvictedCompletelyAndComputeTheSameWhenReloaded) {
  ModelPlanOptions planned = shards_on(device, GetParam());
  planned.cache = small_cache();
  const ModelPlan plan = plan_model(planned);
  const TokenIds expected = [&] {
    const auto one = create_model_cache(Runtime::create({}), load_model(QUIRE_EMBEDDED_MODEL), small_cache());
    return tokens_of(*one->submit(request_of(24)));
  }();
  {
    const auto home = load();
    EXPECT_EQ(held(), plan.memory.total().weights());
    EXPECT_EQ(runtime->leased_bytes("cpu"), plan.memory.total().weights());
    const auto cache = make_cache(home);
    EXPECT_EQ(held(), plan.memory.total().total());
    EXPECT_EQ(tokens_of(*cache->submit(request_of(24))), expected);
    for (const ResidencyState to : {ResidencyState::standing_by, ResidencyState::on_disk}) {
      ASSERT_EQ(home->residency().evict(to, kPatience), WaitEnd::ready);
      EXPECT_EQ(held(), plan.memory.total().cache());
      EXPECT_EQ(runtime->leased_bytes("cpu"), plan.memory.total().cache());
      EXPECT_EQ(tokens_of(*cache->submit(request_of(24))), expected);  // from cached pages
      EXPECT_EQ(held(), plan.memory.total().total());
      EXPECT_EQ(tokens_of(*make_cache(home)->submit(request_of(24))), expected);
    }
  }
  EXPECT_EQ(held(), 0U);
  EXPECT_EQ(runtime->leased_bytes("cpu"), 0U);
}

TEST_P(ShardResidency, ALazyModelIsSplitAsPlanned) {
  const auto home = load(true);
  EXPECT_EQ(held(), 0U);
  const auto cache = make_cache(home);
  EXPECT_EQ(tokens_of(*cache->submit(request_of(8))).size(), 8U);
  EXPECT_EQ(home->model()->weights()->shard.num_shards, GetParam());
  EXPECT_EQ(home->model()->weights()->peers.size(), static_cast<size_t>(GetParam() - 1));
}

INSTANTIATE_TEST_SUITE_P(Counts, ShardResidency, ::testing::Values(2, 3));

}  // namespace
}  // namespace quire::testing
