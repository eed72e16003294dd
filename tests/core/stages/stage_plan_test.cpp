// The bytes that a plan gives for each process are those that it takes, to the byte.
#include <algorithm>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/models/drafting_executor.h"
#include "tests/core/stages/stage_fixture.h"
#include "tests/support/case_stride.h"
#include "tests/support/expect_error.h"
#include "tests/support/golden_families.h"

namespace quire::testing {
namespace {

ModelCacheOptions small_cache() {
  ModelCacheOptions cache;
  cache.max_tokens = 300;
  cache.page_tokens = 16;
  cache.max_chunk_tokens = 64;
  cache.max_batch_size = 4;
  return cache;
}

class StagePlans : public ::testing::TestWithParam<std::string> {};

TEST_P(StagePlans, EqualWhatIsTaken) {
  const FamilyDirectory family(GetParam());
  const auto cpu = open_cpu();
  const auto far_cpu = open_cpu();
  StageThread stage(far_cpu);
  const auto device = join_stage(stage.name());
  const int32_t num_layers = open_model_source(posix_file_system(), family.path())->config().num_layers;
  for (const int32_t here : {0, num_layers / 2}) {
    SCOPED_TRACE(here);
    ModelPlanOptions options = options_on(family.path(), {cpu, device}, {here, num_layers - here});
    options.cache = small_cache();
    const ModelPlan plan = plan_model(options);
    const auto model = load_planned(options);
    EXPECT_EQ(cpu->memory_use().held_bytes, plan.memory.devices[0].weights());
    EXPECT_EQ(far_cpu->memory_use().held_bytes, plan.memory.devices[1].weights());
    EXPECT_EQ(stage.server().reserved_bytes(), plan.memory.devices[1].weights());
    const auto executor =
        make_executor(model->transformer(), executor_options(model->config(), plan.cache), nullptr);
    EXPECT_EQ(cpu->memory_use().held_bytes, plan.memory.devices[0].total());
    EXPECT_EQ(far_cpu->memory_use().held_bytes, plan.memory.devices[1].total());
    EXPECT_EQ(stage.server().reserved_bytes(), plan.memory.devices[1].total());
    EXPECT_EQ(plan.memory.devices[1].embedding + plan.memory.devices[1].head, 0U);
    // A token reads the same weights on a device of this process, except the head, which is never on the
    // stage.
    ModelPlanOptions local = options_on(family.path(), {cpu, open_cpu()}, options.split);
    local.cache = small_cache();
    const std::vector<uint64_t> read = plan_model(local).memory.step_bytes;
    EXPECT_LT(plan.memory.step_bytes[1], read[1]);
    EXPECT_GT(plan.memory.step_bytes[1], read[1] / 4);
    // The stages of the ends have frequencies of RoPE of their own.
    EXPECT_NEAR(static_cast<double>(plan.memory.step_bytes[0] + plan.memory.step_bytes[1]),
                static_cast<double>(read[0] + read[1]), 1024.0);
  }
  // All is freed when the calls that free it return.
  EXPECT_EQ(far_cpu->memory_use().held_bytes, 0U);
  EXPECT_EQ(stage.server().reserved_bytes(), 0U);
}

// The same for shards of both processes, with a device for each shard of the stage.
TEST_P(StagePlans, EqualWhatShardsTake) {
  const FamilyDirectory family(GetParam());
  const auto cpu = open_cpu(), first = open_cpu(), second = open_cpu();
  StageThread stage(std::vector{first, second});
  const auto device = join_stage(stage.name());
  const auto held_there = [&] { return first->memory_use().held_bytes + second->memory_use().held_bytes; };
  const int32_t num_layers = open_model_source(posix_file_system(), family.path())->config().num_layers;
  ModelPlanOptions options =
      options_on(family.path(), {cpu, device}, {num_layers / 2, num_layers - num_layers / 2});
  options.cache = small_cache();
  options.num_shards = 2;
  const ModelPlan plan = plan_model(options);
  const auto model = load_planned(options);
  EXPECT_EQ(cpu->memory_use().held_bytes, plan.memory.devices[0].weights());
  EXPECT_EQ(held_there(), plan.memory.devices[1].weights());
  EXPECT_GT(second->memory_use().held_bytes, 0U);
  const auto executor =
      make_executor(model->transformer(), executor_options(model->config(), plan.cache), nullptr);
  EXPECT_EQ(cpu->memory_use().held_bytes, plan.memory.devices[0].total());
  EXPECT_EQ(held_there(), plan.memory.devices[1].total());
  EXPECT_EQ(stage.server().reserved_bytes(), plan.memory.devices[1].total());
}

INSTANTIATE_TEST_SUITE_P(Golden, StagePlans,
                         ::testing::Values("llama3", "gemma3", "mixtral", "qwen3_next", "mamba2"),
                         [](const auto& family) { return family.param; });

class AutomaticSplit : public ::testing::Test {
 protected:
  ModelPlan plan_with(uint64_t here, uint64_t there) {
    const auto cpu = open_cpu(here);
    StageThread stage(open_cpu(), there);
    const auto device = join_stage(stage.name());
    ModelPlanOptions options = options_on(QUIRE_EMBEDDED_MODEL, {cpu, device}, {});
    options.devices[0].budget_bytes = here;
    options.cache = small_cache();
    return plan_model(options);
  }
  static int64_t layers_on(const ModelPlan& plan, int32_t device) {
    const auto& layers = plan.memory.placement.device_of_layer;
    return std::count(layers.begin(), layers.end(), device);
  }
};

TEST_F(AutomaticSplit, FillsTheStageAndKeepsTheEnds) {
  constexpr uint64_t kMuch = uint64_t{1} << 30;
  const ModelPlan plan = plan_with(kMuch, kMuch);
  EXPECT_EQ(layers_on(plan, 1), 8);
  EXPECT_EQ(plan.memory.placement.embedding_device, 0);
  EXPECT_EQ(plan.memory.placement.head_device, 0);
  EXPECT_LE(plan.memory.devices[0].total(), kMuch);
}

TEST_F(AutomaticSplit, KeepsTheBudgetsOfBoth) {
  constexpr uint64_t kMuch = uint64_t{1} << 30;
  const ModelPlan whole = plan_with(kMuch, kMuch);
  const uint64_t there = whole.memory.devices[1].total() * 3 / 4;
  const ModelPlan plan = plan_with(kMuch, there);
  EXPECT_GT(layers_on(plan, 0), 0);
  EXPECT_GT(layers_on(plan, 1), 0);
  EXPECT_LE(plan.memory.devices[1].total(), there);
  expect_error(ErrorCode::out_of_memory, {"tcp://", "bytes free"},
               [&] { (void)plan_with(uint64_t{1} << 20, there); });
}

// The stage has a device for each of its shards. Its memory is that of the smaller one, twice.
TEST_F(AutomaticSplit, KeepsTheMemoryOfAllShards) {
  const auto plan_in_shards = [](uint64_t first_bytes, uint64_t second_bytes) {
    StageThread stage(std::vector{open_cpu(first_bytes), open_cpu(second_bytes)});
    ModelPlanOptions options = options_on(QUIRE_EMBEDDED_MODEL, {open_cpu(), join_stage(stage.name())}, {});
    options.cache = small_cache();
    options.num_shards = 2;
    return plan_model(options);
  };
  constexpr uint64_t kMuch = uint64_t{1} << 30;
  const ModelPlan whole = plan_in_shards(kMuch, kMuch);
  EXPECT_EQ(layers_on(whole, 1), 8);
  const uint64_t smaller = whole.memory.devices[1].total() * 3 / 8;
  const ModelPlan plan = plan_in_shards(kMuch, smaller);
  EXPECT_GT(layers_on(plan, 0), 0);
  EXPECT_GT(layers_on(plan, 1), 0);
  EXPECT_LE(plan.memory.devices[1].total(), 2 * smaller);
}

}  // namespace
}  // namespace quire::testing
