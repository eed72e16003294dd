// Plans of models with host experts: they equal the memory of both devices, and an automatic choice is the
// smallest that fits.
#include <algorithm>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/engine/model/model_fingerprint.h"
#include "core/engine/model/model_plan.h"
#include "core/models/drafting_executor.h"
#include "core/models/stage_sizes.h"
#include "tests/core/models/exl2_experts.h"
#include "tests/support/case_stride.h"
#include "tests/support/expect_error.h"
#include "tests/support/golden_families.h"

namespace quire::testing {
namespace {

constexpr int32_t kAll = std::numeric_limits<int32_t>::max();

ModelPlanOptions options_of(std::shared_ptr<ModelSource> source, const CardAndHost& rig,
                            HostExpertsChoice choice) {
  ModelPlanOptions options;
  options.source = std::move(source);
  options.devices.push_back({"card", rig.card()});
  options.devices.push_back({"cpu", rig.host()});
  options.devices.back().takes_layers = false;
  options.host_experts = choice;
  options.cache.emplace();
  options.cache->max_tokens = 300;
  options.cache->page_tokens = 16;
  options.cache->max_chunk_tokens = 64;
  options.cache->max_batch_size = 4;
  return options;
}

ModelPlanOptions options_of(const std::string& path, const CardAndHost& rig, HostExpertsChoice choice) {
  return options_of(open_model_source(posix_file_system(), path), rig, choice);
}

// Returns the bytes of a slot for experts of the model; 0 if its card has none.
uint64_t slot_bytes_of(const ModelPlanOptions& options) {
  const ModelConfig& config = options.source->config();
  const auto outline = build_outline(*options.source, {options.devices[0].device, options.devices[1].device},
                                     experts_apart(config.num_layers, layers_with_experts(config.spec)));
  return position_of_stage(*outline, 0).packed.slot_bytes;
}

// Returns the number of layers with host experts.
int32_t num_apart(const ModelPlan& plan) {
  const Placement& placement = plan.memory.placement;
  int32_t count = 0;
  for (size_t i = 0; i < placement.device_of_layer.size(); ++i)
    count += has_host_experts(placement, static_cast<int32_t>(i)) ? 1 : 0;
  return count;
}

// Checks the memory of both devices after the model is loaded and a cache is made on it.
void expect_as_planned(const ModelPlanOptions& options, const ModelPlan& plan) {
  const auto held = [&](size_t i) { return options.devices[i].device->memory_use().held_bytes; };
  ModelOptions load;
  load.source = options.source;
  load.devices = {options.devices[0].device, options.devices[1].device};
  load.placement = plan.memory.placement;
  const auto model = Model::load(load);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(held(i), plan.memory.devices[i].weights()) << i;
  EXPECT_EQ(model->weight_bytes(), plan.memory.total().weights());
  EXPECT_EQ(model->shard_bytes(), std::vector<uint64_t>{plan.memory.total().weights()});
  const TransformerExecutorOptions sizes = executor_options(model->config(), plan.cache);
  const auto executor = make_executor(model->transformer(), sizes, nullptr);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(held(i), plan.memory.devices[i].total()) << i;
    EXPECT_EQ(options.devices[i].device->memory_use().pinned_bytes, plan.memory.devices[i].staging) << i;
  }
  EXPECT_EQ(plan_shards(*model->transformer(), sizes).front(), plan.memory.total().cache());
  uint64_t step_bytes = 0;
  for (const uint64_t bytes : plan.memory.step_bytes) step_bytes += bytes;
  EXPECT_EQ(step_bytes, model->transformer()->step_bytes(1));
}

TEST(HostExpertsPlan, EqualsTheMemoryOfEveryFamily) {
  int32_t num_families = 0;
  for (const std::string& name : thin_if_sanitized(golden_families(), 4)) {
    SCOPED_TRACE(name);
    const FamilyDirectory family(name);
    if (!refusal_of(family.path()).empty()) continue;
    const auto num_layers = static_cast<int32_t>(movable_layers(family.path()).size());
    if (num_layers == 0) continue;
    ++num_families;
    for (const int32_t count : {1, kAll}) {
      const CardAndHost rig;
      const ModelPlanOptions options = options_of(family.path(), rig, {false, count});
      const ModelPlan plan = plan_model(options);
      EXPECT_EQ(num_apart(plan), std::min(count, num_layers));
      EXPECT_GT(plan.memory.devices[1].layers, 0U);
      EXPECT_GT(plan.memory.step_bytes[1], 0U);
      expect_as_planned(options, plan);
    }
  }
  EXPECT_GT(num_families, 5);
}

TEST(HostExpertsPlan, TakesTheFirstLayersWithExperts) {
  const FamilyDirectory family("deepseek_v3");  // its first layer is dense
  const CardAndHost rig;
  const std::vector<int32_t> layers = movable_layers(family.path());
  ASSERT_GT(layers.front(), 0);
  const ModelPlan plan = plan_model(options_of(family.path(), rig, {false, 1}));
  EXPECT_EQ(num_apart(plan), 1);
  EXPECT_TRUE(has_host_experts(plan.memory.placement, layers.front()));
}

TEST(HostExpertsPlan, NoneIsAsWithoutTheHost) {
  const FamilyDirectory family("qwen3_moe");
  const CardAndHost rig;
  const ModelPlan plan = plan_model(options_of(family.path(), rig, {}));
  EXPECT_EQ(num_apart(plan), 0);
  EXPECT_EQ(plan.memory.devices[1].total(), 0U);
}

// For each number of bytes between what all and what no host experts need, the automatic choice is the
// smallest number of layers that fits.
TEST(HostExpertsPlan, TheAutomaticChoiceIsTheSmallestThatFits) {
  const FamilyDirectory family("qwen3_moe");
  const auto num_layers = static_cast<int32_t>(movable_layers(family.path()).size());
  std::vector<uint64_t> needed;  // on the card, by the number of layers
  for (int32_t count = 0; count <= num_layers; ++count) {
    const CardAndHost rig;
    needed.push_back(plan_model(options_of(family.path(), rig, {false, count})).memory.devices[0].total());
  }
  ASSERT_TRUE(std::is_sorted(needed.rbegin(), needed.rend()));
  for (int32_t count = 0; count <= num_layers; ++count) {
    for (const uint64_t more : {uint64_t{0}, uint64_t{100}}) {
      const CardAndHost rig(needed[static_cast<size_t>(count)] + more);
      const ModelPlanOptions options = options_of(family.path(), rig, {true, 0});
      const ModelPlan plan = plan_model(options);
      EXPECT_EQ(num_apart(plan), count) << more;
      EXPECT_TRUE(fits(plan, options));
      if (rig.card()->is_host() || open_test_device()->is_host()) expect_as_planned(options, plan);
    }
  }
  // The plan shows all host experts if even they do not suffice.
  const CardAndHost rig(needed.back() - 1);
  const ModelPlanOptions options = options_of(family.path(), rig, {true, 0});
  const ModelPlan plan = plan_model(options);
  EXPECT_EQ(num_apart(plan), num_layers);
  EXPECT_FALSE(fits(plan, options));
}

TEST(HostExpertsPlan, AHostWithoutMemoryDoesNotFit) {
  const FamilyDirectory family("qwen3_moe");
  const CardAndHost rig(0, 1000);
  const ModelPlanOptions options = options_of(family.path(), rig, {false, kAll});
  EXPECT_FALSE(fits(plan_model(options), options));
}

// Beside the host as a device for layers: experts leave the card before whole layers do.
TEST(HostExpertsPlan, TheAutomaticChoicePrefersExpertsToLayersOnTheHost) {
  const FamilyDirectory family("qwen3_moe");
  uint64_t limit = 0;
  {
    const CardAndHost rig;
    limit = plan_model(options_of(family.path(), rig, {false, 1})).memory.devices[0].total();
  }
  const CardAndHost rig(limit);
  ModelPlanOptions options = options_of(family.path(), rig, {true, 0});
  options.devices.back().takes_layers = true;
  const ModelPlan plan = plan_model(options);
  EXPECT_EQ(layer_ranges(plan.memory.placement).size(), 1U);
  EXPECT_EQ(num_apart(plan), 1);
  options.host_experts = {};
  EXPECT_EQ(layer_ranges(plan_model(options).memory.placement).size(), 2U) << "the split without the choice";
}

TEST(HostExpertsPlan, GoesWithASplitByLayers) {
  const FamilyDirectory family("qwen3_moe");
  const CardAndHost rig;
  ModelPlanOptions options = options_of(family.path(), rig, {false, kAll});
  const int32_t num_layers = options.source->config().num_layers;
  options.split = {num_layers};
  EXPECT_EQ(num_apart(plan_model(options)), static_cast<int32_t>(movable_layers(family.path()).size()));
  options.devices.back().takes_layers = true;
  options.split = {num_layers - 1, 1};
  const ModelPlan plan = plan_model(options);
  EXPECT_EQ(num_apart(plan), num_layers - 1) << "the last layer is on the host itself";
  expect_as_planned(options, plan);
}

// Slots are a part of the cache, and the bytes that a token reads move to them.
TEST(HostExpertsPlan, CountsTheSlotsOfTheCard) {
  const CardAndHost rig;
  ModelPlanOptions options = options_of(std::make_shared<Exl2ExpertsSource>("qwen3_moe"), rig, {false, kAll});
  const MemoryPlan without = plan_model(options).memory;
  const auto two_slots = static_cast<int64_t>(2 * slot_bytes_of(options));
  options.cache->card_expert_bytes = two_slots;
  const ModelPlan some = plan_model(options);
  options.cache->card_expert_bytes = INT64_MAX;
  const ModelPlan all = plan_model(options);
  for (const ModelPlan* plan : {&some, &all}) expect_as_planned(options, *plan);
  if (!rig.card()->has(kernels::kCapabilityPackedExperts)) {
    EXPECT_EQ(all.memory.devices[0].total(), without.devices[0].total());
    return;
  }
  EXPECT_GT(some.memory.devices[0].total(), without.devices[0].total());
  EXPECT_EQ(some.memory.devices[0].total(),
            without.devices[0].total() + rig.card()->table().taken_bytes(static_cast<uint64_t>(two_slots)));
  EXPECT_GT(all.memory.devices[0].total(), some.memory.devices[0].total());
  EXPECT_LT(some.memory.step_bytes[1], without.step_bytes[1]);
  EXPECT_LT(all.memory.step_bytes[1], some.memory.step_bytes[1]);
}

TEST(HostExpertsPlan, FitsOnlyWithItsSlots) {
  const auto source = std::make_shared<Exl2ExpertsSource>("qwen3_moe");
  uint64_t limit = 0;
  {
    const CardAndHost rig;
    if (!rig.card()->has(kernels::kCapabilityPackedExperts)) GTEST_SKIP() << "the card has no packed experts";
    limit = plan_model(options_of(source, rig, {false, kAll})).memory.devices[0].total();
  }
  const CardAndHost rig(limit);
  ModelPlanOptions options = options_of(source, rig, {false, kAll});
  EXPECT_TRUE(fits(plan_model(options), options));
  options.cache->card_expert_bytes = INT64_MAX;
  EXPECT_FALSE(fits(plan_model(options), options));
}

TEST(HostExpertsPlan, RefusesADenseModel) {
  const FamilyDirectory family("llama3");
  const CardAndHost rig;
  expect_error(ErrorCode::unsupported, {"host_experts", "has no experts"}, [&] {
    (void)plan_model(options_of(family.path(), rig, {false, 1}));
  });
  EXPECT_EQ(num_apart(plan_model(options_of(family.path(), rig, {true, 0}))), 0);
}

TEST(HostExpertsPlan, NeedsAHost) {
  const FamilyDirectory family("qwen3_moe");
  const CardAndHost rig;
  ModelPlanOptions options = options_of(family.path(), rig, {false, 1});
  options.devices.pop_back();
  expect_error(ErrorCode::invalid_argument, {"host_experts", "name cpu"}, [&] { (void)plan_model(options); });
}

// Pages and files of prefixes belong to a placement: results on the two places differ in their last bits.
TEST(HostExpertsFingerprint, NamesThePlacement) {
  const FamilyDirectory family("qwen3_moe");
  const CardAndHost rig;
  const std::vector<int32_t> layers = movable_layers(family.path());
  ASSERT_GT(layers.size(), 1U);
  std::vector<std::string> names;
  for (const std::vector<int32_t>& apart : {std::vector<int32_t>(), {layers[0]}, {layers[1]}, layers}) {
    const auto model = load_placed(
        family.path(), {rig.card(), rig.host()},
        experts_apart(open_model_source(posix_file_system(), family.path())->config().num_layers, apart));
    ModelCacheOptions cache;
    cache.max_tokens = cache.max_seq_len = 64;
    names.push_back(model_fingerprint(posix_file_system(), *model, executor_options(model->config(), cache)));
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
}

TEST(HostExpertsChoiceText, IsANameOrANumber) {
  for (const char* const text : {"", "none", "0"}) EXPECT_FALSE(parse_host_experts(text).any()) << text;
  EXPECT_EQ(parse_host_experts("all").num_layers, kAll);
  EXPECT_TRUE(parse_host_experts("auto").is_automatic);
  EXPECT_EQ(parse_host_experts("24").num_layers, 24);
  for (const char* const text : {"-1", "some", "24 ", "99999999999", "1.5", "All"})
    expect_error(ErrorCode::invalid_argument, {"host_experts", "none, all, auto or a number"},
                 [&] { (void)parse_host_experts(text); });
}

}  // namespace
}  // namespace quire::testing
