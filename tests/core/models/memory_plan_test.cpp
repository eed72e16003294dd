// The planned memory equals the allocated memory to the byte, for any split. A load that does not fit is
// rejected with the number of bytes, and a smaller one then succeeds in the same process.
#include "core/models/memory_plan.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/engine/model/model_plan.h"
#include "core/models/drafting_executor.h"
#include "core/models/transformer_shape.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/case_stride.h"
#include "tests/support/golden_families.h"

namespace quire::testing {
namespace {

std::shared_ptr<Device> device_with_limit(uint64_t limit_bytes) {
  kernels::DeviceOptions options;
  options.num_threads = 2;
  options.memory_limit_bytes = limit_bytes;
  return open_device_like_test_device(options);
}

ModelPlanOptions plan_options(const std::string& path, std::vector<std::shared_ptr<Device>> devices) {
  ModelPlanOptions options;
  options.source = open_model_source(posix_file_system(), path);
  for (size_t i = 0; i < devices.size(); ++i) options.devices.push_back({std::to_string(i), devices[i]});
  options.cache.emplace();
  options.cache->max_tokens = 300;
  options.cache->page_tokens = 16;
  options.cache->max_chunk_tokens = 64;
  options.cache->max_batch_size = 4;
  return options;
}

std::shared_ptr<const Model> load(const ModelPlanOptions& options, const Placement& placement) {
  ModelOptions model;
  model.source = options.source;
  for (const ModelDevice& device : options.devices) model.devices.push_back(device.device);
  model.placement = placement;
  model.num_shards = options.num_shards;
  model.drafter = options.draft_source;
  return Model::load(model);
}

uint64_t bytes_of_groups(const MemoryPlan& plan) {
  uint64_t bytes = 0;
  for (const CacheGroupPlan& group : plan.cache_groups) bytes += group.bytes;
  return bytes;
}

// Checks that every shard has a part, and that the parts add up to the total.
void expect_shares(const std::vector<uint64_t>& of_shards, int32_t num_shards, uint64_t total) {
  EXPECT_EQ(of_shards.size(), static_cast<size_t>(num_shards));
  EXPECT_TRUE(std::all_of(of_shards.begin(), of_shards.end(), [](uint64_t bytes) { return bytes > 0; }));
  EXPECT_EQ(std::accumulate(of_shards.begin(), of_shards.end(), uint64_t{0}), total);
}

// Checks the memory of each device after the model is loaded and a cache is made on it.
void expect_as_planned(const ModelPlanOptions& options, const ModelPlan& plan) {
  const auto model = load(options, plan.memory.placement);
  for (size_t i = 0; i < options.devices.size(); ++i) {
    EXPECT_EQ(options.devices[i].device->memory_use().held_bytes, plan.memory.devices[i].weights()) << i;
    EXPECT_EQ(options.devices[i].device->memory_use().pinned_bytes, 0U) << i;
  }
  EXPECT_EQ(model->weight_bytes(), plan.memory.total().weights());
  expect_shares(model->shard_bytes(), options.num_shards, plan.memory.total().weights());
  EXPECT_EQ(bytes_of_groups(plan.memory), plan.memory.total().kv);
  const TransformerExecutorOptions sizes = executor_options(model->config(), *options.cache);
  expect_shares(plan_shards(*model->transformer(), sizes), options.num_shards, plan.memory.total().cache());
  const auto executor = make_executor(model->transformer(), sizes, nullptr);
  for (size_t i = 0; i < options.devices.size(); ++i) {
    EXPECT_EQ(options.devices[i].device->memory_use().held_bytes, plan.memory.devices[i].total()) << i;
    EXPECT_EQ(options.devices[i].device->memory_use().pinned_bytes, plan.memory.devices[i].staging) << i;
  }
}

TEST(MemoryPlan, EqualsTheMemoryOfTheEmbeddedModel) {
  const ModelPlanOptions options = plan_options(QUIRE_EMBEDDED_MODEL, {device_with_limit(0)});
  expect_as_planned(options, plan_model(options));
}

TEST(MemoryPlan, EqualsTheMemoryOfEveryFamily) {
  for (const std::string& name : thin_if_sanitized(golden_families(), 4)) {
    SCOPED_TRACE(name);
    const FamilyDirectory family(name);
    if (!refusal_of(family.path()).empty()) continue;  // this card does not run it
    const ModelPlanOptions options = plan_options(family.path(), {device_with_limit(0)});
    expect_as_planned(options, plan_model(options));
  }
}

TEST(MemoryPlan, EqualsTheMemoryOfShards) {
  if (!device_with_limit(0)->has(kernels::kCapabilityShards))
    GTEST_SKIP() << "this device does not split layers";
  for (const std::string& name : thin_if_sanitized(golden_families(), 4)) {
    const FamilyDirectory family(name);
    if (!refusal_of(family.path()).empty()) continue;
    for (const int32_t num_shards : {2, 3}) {
      SCOPED_TRACE(name + ", shards: " + std::to_string(num_shards));
      ModelPlanOptions options = plan_options(family.path(), {device_with_limit(0)});
      options.num_shards = num_shards;
      expect_as_planned(options, plan_model(options));
    }
  }
}

// The embedded model beside itself, and modules that borrow the embedding and the head of their target.
TEST(MemoryPlan, EqualsTheMemoryOfDraftNetworks) {
  std::vector<std::pair<std::string, std::string>> networks = {{QUIRE_EMBEDDED_MODEL, QUIRE_EMBEDDED_MODEL}};
  const std::string golden = std::string(QUIRE_SHARED_DIR) + "/golden/mtp/";
  if (posix_file_system().is_directory(golden)) {
    for (const char* name : {"deepseek_v3", "qwen3_5"}) networks.emplace_back(golden + name, "mtp");
    networks.emplace_back(golden + "eagle3/target", golden + "eagle3/draft");
  }
  for (const auto& [target, drafter] : networks) {
    for (const int32_t num_shards : {1, 2}) {
      SCOPED_TRACE(target + ", shards: " + std::to_string(num_shards));
      ModelPlanOptions options = plan_options(target, {device_with_limit(0)});
      if (num_shards > 1 && !options.devices[0].device->has(kernels::kCapabilityShards)) continue;
      options.num_shards = num_shards;
      options.drafter = drafter;
      const uint64_t without = plan_model(options).memory.total().total();
      open_drafter(posix_file_system(), options);
      const ModelPlan plan = plan_model(options);
      EXPECT_GT(plan.memory.total().drafter, 0U);
      EXPECT_GT(plan.memory.total().total(), without + plan.memory.total().drafter);
      expect_as_planned(options, plan);
    }
  }
}

// Computes the group independently: keys and values in f16 for each page of each layer.
void expect_group(const CacheGroupPlan& group, const ModelPlanOptions& options, int32_t window) {
  const TransformerShape shape = transformer_shape(options.source->config().spec);
  const Device& device = *options.devices.front().device;
  uint64_t bytes = 0;
  int32_t num_layers = 0;
  for (const LayerCacheSize& layer : shape.caches) {
    if (layer.window != window) continue;
    ++num_layers;
    const auto numbers = [&](int32_t dim) {
      return uint64_t{2} * static_cast<uint64_t>(group.num_pages * options.cache->page_tokens) *
             static_cast<uint64_t>(layer.num_kv_heads * dim);
    };
    bytes += device.taken_bytes(numbers(layer.head_dim)) + device.taken_bytes(numbers(layer.value_dim));
  }
  EXPECT_GT(num_layers, 0);
  EXPECT_EQ(group.window, window);
  EXPECT_EQ(group.num_layers, num_layers);
  EXPECT_EQ(group.bytes, bytes);
}

TEST(MemoryPlan, ListsTheBytesOfEachCacheGroup) {
  const FamilyDirectory family("gemma3");
  ModelPlanOptions options = plan_options(family.path(), {device_with_limit(0)});
  options.cache->max_tokens = 4096;
  options.cache->page_tokens = 4;
  options.cache->max_batch_size = 2;
  options.cache->max_chunk_tokens = 16;
  const ModelPlan plan = plan_model(options);
  expect_as_planned(options, plan);
  const std::vector<CacheGroupPlan>& groups = plan.memory.cache_groups;
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].num_pages, 1024);
  EXPECT_LT(groups[1].num_pages, 100);
  expect_group(groups[0], options, 0);
  expect_group(groups[1], options, transformer_shape(options.source->config().spec).caches.front().window);
}

TEST(MemoryPlan, EqualsTheMemoryOfEveryCacheFormat) {
  using kernels::KvFormat;
  for (const KvFormat format : {KvFormat::f16, KvFormat::fp8, KvFormat::q8, KvFormat::q4}) {
    ModelPlanOptions options = plan_options(QUIRE_EMBEDDED_MODEL, {device_with_limit(0)});
    options.cache->key_format = format;
    options.cache->value_format = KvFormat::q4;
    expect_as_planned(options, plan_model(options));
  }
}

TEST(MemoryPlan, EqualsTheMemoryOnEachOfSeveralDevices) {
  for (const std::vector<int32_t>& split : {std::vector<int32_t>{8, 0, 0}, {3, 4, 1}, {0, 1, 7}}) {
    ModelPlanOptions options = plan_options(
        QUIRE_EMBEDDED_MODEL, {device_with_limit(0), device_with_limit(0), device_with_limit(0)});
    options.split = split;
    expect_as_planned(options, plan_model(options));
  }
}

TEST(MemoryPlan, EqualsTheMemoryOfASyntheticModel) {
  // The smallest of the shapes needs a gigabyte, so only its plan is checked, which allocates nothing.
  for (const char* format : {"exl2", "gptq", "fp8", "f16"}) {
    const auto device = device_with_limit(0);
    const ModelPlanOptions options =
        plan_options(std::string("synthetic:llama-3.2-1b,format=") + format, {device});
    const ModelPlan plan = plan_model(options);
    EXPECT_EQ(plan.memory.layer_bytes.size(), 16U);
    EXPECT_GT(plan.memory.total().weights(), uint64_t{900} << 20);
    EXPECT_EQ(device->memory_use().held_bytes, 0U);
  }
}

// 24 layers with 32 heads of 128 x 128 f32, in two banks, with the rows and convolution inputs of a line.
TEST(MemoryPlan, NamesTheStatesOfAHybrid) {
  const auto device = device_with_limit(0);
  const ModelPlan plan = plan_model(plan_options("synthetic:qwen3.5-9b,format=exl2,bits=4", {device}));
  const StateGroupPlan& states = plan.memory.states;
  EXPECT_EQ(states.num_layers, 24);
  EXPECT_EQ(states.bytes, plan.memory.total().states);
  const uint64_t state = uint64_t{32} * 128 * 128 * 4;
  const uint64_t rows = uint64_t{16} * (16 * 128 + 32 * 128 + 32) * 4;
  const uint64_t inputs = uint64_t{16 + 3} * (2 * 16 * 128 + 32 * 128) * 4;
  const auto num_slots = static_cast<uint64_t>(states.num_slots);
  EXPECT_GT(num_slots, 0U);
  const uint64_t least = 24 * 2 * (state + rows + inputs) * num_slots;
  EXPECT_GE(states.bytes, least);
  EXPECT_LE(states.bytes, least + least / 64) << "a backend aligns banks";
}

TEST(MemoryPlan, CountsPagesAndWeightsOfLayers) {
  const ModelPlanOptions options = plan_options(QUIRE_EMBEDDED_MODEL, {device_with_limit(0)});
  const MemoryPlan memory = plan_model(options).memory;
  uint64_t layers = 0;
  for (const uint64_t bytes : memory.layer_bytes) layers += bytes;
  const uint64_t shared_by_layers = memory.total().layers + memory.total().kv - layers;
  EXPECT_LT(shared_by_layers, 1024U);  // the rotary frequencies
}

// If each device has memory for two thirds of the layers, both are used and the plan fits.
TEST(MemoryPlan, AnAutomaticSplitFitsOnEachDevice) {
  const MemoryBytes whole =
      plan_model(plan_options(QUIRE_EMBEDDED_MODEL, {device_with_limit(0)})).memory.total();
  const uint64_t limit = whole.workspace + (whole.total() - whole.workspace) * 2 / 3;
  ModelPlanOptions options =
      plan_options(QUIRE_EMBEDDED_MODEL, {device_with_limit(limit), device_with_limit(limit)});
  const ModelPlan plan = plan_model(options);
  EXPECT_EQ(layer_ranges(plan.memory.placement).size(), 2U);
  expect_as_planned(options, plan);
}

// The same for larger devices with a limit.
TEST(MemoryPlan, ASplitByBytesRespectsThem) {
  const MemoryBytes whole =
      plan_model(plan_options(QUIRE_EMBEDDED_MODEL, {device_with_limit(0)})).memory.total();
  const uint64_t budget = whole.workspace + (whole.total() - whole.workspace) * 2 / 3;
  ModelPlanOptions options = plan_options(QUIRE_EMBEDDED_MODEL, {device_with_limit(0), device_with_limit(0)});
  for (ModelDevice& device : options.devices) device.budget_bytes = budget;
  const ModelPlan plan = plan_model(options);
  EXPECT_EQ(layer_ranges(plan.memory.placement).size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(plan.usable_bytes[i], budget);
    EXPECT_LE(plan.memory.devices[i].total(), budget);
  }
  expect_as_planned(options, plan);
}

// Also for the CPU, whose available memory is checked when bytes are leased.
TEST(MemoryPlan, ABudgetOfOneDeviceIsKept) {
  ModelPlanOptions options = plan_options(QUIRE_EMBEDDED_MODEL, {device_with_limit(0)});
  const uint64_t needed = plan_model(options).memory.total().total();
  options.devices.front().budget_bytes = needed;
  EXPECT_NO_THROW((void)plan_model(options));
  options.devices.front().budget_bytes = needed - 1;
  try {
    (void)plan_model(options);
    FAIL() << "a model of " << needed << " bytes in one less";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_NE(std::string(error.what()).find(std::to_string(needed)), std::string::npos) << error.what();
  }
}

TEST(MemoryPlan, AModelThatDoesNotFitIsRefusedAndASmallerOneLoads) {
  ModelPlanOptions options = plan_options(QUIRE_EMBEDDED_MODEL, {device_with_limit(0)});
  const MemoryBytes needed = plan_model(options).memory.total();
  const auto device = device_with_limit(needed.total() - 1);
  options.devices.front().device = device;
  const auto model = load(options, place_on_one_device(8));
  const auto make_cache = [&](int64_t tokens) {
    ModelCacheOptions cache = *options.cache;
    cache.max_tokens = tokens;
    return TransformerExecutor(model->transformer(), executor_options(model->config(), cache));
  };
  const uint64_t held = device->memory_use().held_bytes;
  try {
    (void)make_cache(300);
    FAIL() << "a cache of one byte more than there is";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    const std::string message = error.what();
    EXPECT_NE(message.find("needed"), std::string::npos) << message;
    EXPECT_NE(message.find("free"), std::string::npos) << message;
  }
  EXPECT_EQ(device->memory_use().held_bytes, held);
  EXPECT_NO_THROW((void)make_cache(200));
}

TEST(MemoryPlan, ALoadThatDoesNotFitFreesEverything) {
  ModelPlanOptions options = plan_options(QUIRE_EMBEDDED_MODEL, {device_with_limit(0)});
  const uint64_t weights = plan_model(options).memory.total().weights();
  const auto device = device_with_limit(weights - 1);
  options.devices.front().device = device;
  EXPECT_THROW((void)load(options, place_on_one_device(8)), Error);
  EXPECT_EQ(device->memory_use().held_bytes, 0U);
  options.source =
      open_model_source(posix_file_system(), std::string(QUIRE_TEST_DATA) + "/architectures/llama3");
  EXPECT_NO_THROW((void)load(options, {}));
}

// A running cache allocates no device memory.
TEST(MemoryUse, IsConstantBetweenCreationAndClose) {
  const auto model = load_model(QUIRE_EMBEDDED_MODEL);
  RunnerOptions options;
  options.wants_hidden = true;
  TransformerRunner runner(model, options);
  const Device& device = *model->transformer()->stages.front().device;
  const kernels::MemoryUse before = device.memory_use();
  TokenIds ids;
  for (int32_t i = 0; i < 300; ++i) ids.push_back(i * 17 % 6000);
  for (const int32_t chunk : {1, 5, 64, 300}) {
    (void)runner.logits(ids, chunk);
    (void)runner.hidden(1);
  }
  EXPECT_EQ(device.memory_use().num_taken, before.num_taken);
  EXPECT_EQ(device.memory_use().held_bytes, before.held_bytes);
  EXPECT_EQ(device.memory_use().pinned_bytes, before.pinned_bytes);
}

}  // namespace
}  // namespace quire::testing
