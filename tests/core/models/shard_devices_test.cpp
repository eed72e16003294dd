// Shards on a device each: the same bits as on one device, memory to the byte on each, faults on any of them.
// Devices are those of the backend under test, or several CPUs that pose as cards.
#include <algorithm>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/engine/model/backends.h"
#include "core/engine/model/model_cache.h"
#include "core/engine/model/resident_model.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/core/models/golden_file.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/case_stride.h"
#include "tests/support/golden_families.h"
#include "tests/support/job_tokens.h"
#include "tests/support/wrapped_backend.h"

namespace quire::testing {
namespace {

// Opens devices that take shards of their own.
class Cards {
 public:
  // `cpu` is what poses as cards if the test device is the CPU.
  explicit Cards(const kernels::Backend& cpu = kernels::cpu_backend()) : backend_(cpu) {
    backend_.name = "card";
    for (const BackendReport& report : find_backends()) {
      if (open_test_device()->is_host() || report.name != open_test_device()->backend_name()) continue;
      backend_ = *report.backend;
      num_cards_ = report.num_devices;
    }
  }

  int32_t num_cards() const { return num_cards_; }
  std::shared_ptr<Device> open(int32_t index, uint64_t limit_bytes = 0) const {
    kernels::DeviceOptions options;
    options.num_threads = 1;
    options.memory_limit_bytes = limit_bytes;
    kernels::Device* handle = nullptr;
    const bool poses = std::string_view(backend_.name) == "card";
    EXPECT_EQ(backend_.open_device(poses ? 0 : index, &options, &handle), kernels::Status::ok);
    return std::make_shared<Device>(backend_, handle, index);
  }
  std::vector<std::shared_ptr<Device>> open_all(int32_t count) const {
    std::vector<std::shared_ptr<Device>> devices;
    for (int32_t i = 0; i < count; ++i) devices.push_back(open(i));
    return devices;
  }

 private:
  kernels::Backend backend_;
  int32_t num_cards_ = 8;
};

std::shared_ptr<const Model> load_spread(const std::string& path,
                                         const std::vector<std::shared_ptr<Device>>& devices,
                                         const std::vector<int32_t>& shares = {}) {
  ModelOptions options;
  options.source = open_model_source(posix_file_system(), path);
  options.devices = devices;
  options.num_shards = static_cast<int32_t>(devices.size());
  options.placement.spreads.assign(devices.size(), false);
  options.placement.spreads.front() = true;
  options.placement.shares = shares;
  return Model::load(options);
}

TokenIds some_ids(size_t count) {
  TokenIds ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = static_cast<TokenId>(5 * i + 1);
  return ids;
}

class SpreadFamilies : public ::testing::TestWithParam<std::string> {};

TEST_P(SpreadFamilies, EqualOneDevice) {
  const Cards cards;
  const FamilyDirectory family{GetParam()};
  if (cards.num_cards() < 2) GTEST_SKIP() << "one card";
  if (const std::string refusal = refusal_of(family.path()); !refusal.empty()) GTEST_SKIP() << refusal;
  const TokenIds ids = read_ids(family.golden(), "input_ids");
  const std::vector<float> whole = TransformerRunner(load_model(family.path()), {}).logits(ids, 512);
  TransformerRunner two(load_spread(family.path(), cards.open_all(2)), {});
  EXPECT_TRUE(two.logits(ids, 512) == whole);
  EXPECT_TRUE(two.logits(ids, 7, 1) == whole);
  TransformerRunner uneven(load_spread(family.path(), cards.open_all(2), {1, 3}), {});
  EXPECT_TRUE(uneven.logits(ids, 512) == whole);
}

INSTANTIATE_TEST_SUITE_P(Golden, SpreadFamilies,
                         ::testing::ValuesIn(thin_if_sanitized(golden_families(), 12)),
                         [](const auto& family) { return family.param; });

TEST(SpreadShards, EqualOneDeviceInAnyNumber) {
  const Cards cards;
  // An emulated card is slow, and so is a sanitizer.
  const TokenIds ids = some_ids(open_test_device()->is_host() && !kIsSanitized ? 70 : 12);
  const std::vector<float> whole = TransformerRunner(load_model(QUIRE_EMBEDDED_MODEL), {}).logits(ids, 512);
  for (int32_t count = 2; count <= std::min(cards.num_cards(), 4); ++count) {
    TransformerRunner runner(load_spread(QUIRE_EMBEDDED_MODEL, cards.open_all(count)), {});
    EXPECT_TRUE(runner.logits(ids, 512) == whole) << count;
    for (int round = 0; round < 3; ++round)  // the same steps again: cards replay them
      EXPECT_TRUE(runner.logits(ids, 4, 1) == whole) << count;
  }
}

ModelCacheOptions cache_of_cards() {
  ModelCacheOptions options;
  options.page_tokens = 8;
  options.max_batch_size = 4;
  options.max_chunk_tokens = 32;
  options.max_tokens = 1024;
  options.max_seq_len = 256;
  return options;
}

ModelPlanOptions plan_on_cards(const std::vector<std::shared_ptr<Device>>& devices, int32_t num_shards) {
  ModelPlanOptions options;
  options.source = open_model_source(posix_file_system(), QUIRE_EMBEDDED_MODEL);
  for (const std::shared_ptr<Device>& device : devices) options.devices.push_back({device->name(), device});
  options.num_shards = num_shards;
  options.cache = cache_of_cards();
  return options;
}

void expect_held(const ModelPlanOptions& options, const ModelPlan& plan, uint64_t (*of)(const MemoryBytes&)) {
  for (size_t i = 0; i < options.devices.size(); ++i) {
    EXPECT_EQ(options.devices[i].device->memory_use().held_bytes, of(plan.memory.devices[i])) << i;
  }
}

// Stages of shards: two cards are one stage of two shards, four are two stages.
TEST(SpreadShards, TakeThePlannedMemoryOnEachDevice) {
  const Cards cards;
  for (const int32_t count : {2, 4}) {
    if (cards.num_cards() < count) continue;
    SCOPED_TRACE(count);
    ModelPlanOptions options = plan_on_cards(cards.open_all(count), 2);
    if (count == 4) options.split = {3, options.source->config().num_layers - 3};
    const ModelPlan plan = plan_model(options);
    EXPECT_EQ(plan.memory.placement.spreads[0], true);
    EXPECT_EQ(plan.memory.num_layers_on(0), plan.memory.num_layers_on(1));
    EXPECT_GT(plan.memory.num_layers_on(0), 0);
    ModelOptions load;
    load.source = options.source;
    for (const ModelDevice& device : options.devices) load.devices.push_back(device.device);
    load.placement = plan.memory.placement;
    load.num_shards = 2;
    const auto model = Model::load(load);
    expect_held(options, plan, [](const MemoryBytes& bytes) { return bytes.weights(); });
    for (const MemoryBytes& bytes : plan.memory.devices) EXPECT_GT(bytes.weights(), 0U);
    const auto cache = create_model_cache(Runtime::create({}), model, cache_of_cards());
    expect_held(options, plan, [](const MemoryBytes& bytes) { return bytes.total(); });
    for (size_t i = 0; i < options.devices.size(); ++i)
      EXPECT_EQ(options.devices[i].device->memory_use().pinned_bytes, plan.memory.devices[i].staging) << i;
    EXPECT_EQ(model->weight_bytes(), plan.memory.total().weights());
  }
}

// A card with less memory gets fewer columns, if equal shards do not fit.
TEST(SpreadShards, AreUnevenIfOnlyThenTheyFit) {
  const Cards cards;
  if (cards.num_cards() < 2) GTEST_SKIP() << "one card";
  ModelPlanOptions options = plan_on_cards(cards.open_all(2), 2);
  const ModelPlan even = plan_model(options);
  EXPECT_TRUE(even.memory.placement.shares.empty());
  const uint64_t first = even.memory.devices[0].total(), second = even.memory.devices[1].total();
  options.devices[0].budget_bytes = first + second;
  options.devices[1].budget_bytes = second - even.memory.devices[1].weights() / 8;
  const ModelPlan uneven = plan_model(options);
  ASSERT_EQ(uneven.memory.placement.shares.size(), 2U);
  EXPECT_TRUE(fits(uneven, options));
  EXPECT_LT(uneven.memory.devices[1].total(), second);
}

TEST(SpreadShards, NeedAMultipleOfTheirNumberOfCards) {
  const Cards cards;
  if (cards.num_cards() < 3) GTEST_SKIP() << "too few cards";
  try {
    (void)plan_model(plan_on_cards(cards.open_all(3), 2));
    ADD_FAILURE() << "a card was left over";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("num_shards is 2, but 3 cards"), std::string::npos)
        << error.what();
  }
}

JobRequest request_to_cards(int32_t num_tokens) {
  JobRequest request;
  request.prompt = {1, 2, 3, 4, 5};
  request.max_new_tokens = num_tokens;
  request.ignore_end_tokens = true;
  return request;
}

// Returns a number of tokens for the device: an emulated card takes seconds for a token.
int32_t num_tokens(int32_t on_cpu) {
  return open_test_device()->is_host() ? on_cpu / stride_if_sanitized(3) : 4;
}

TokenIds expected_tokens(int32_t num_tokens) {
  const auto cache =
      create_model_cache(Runtime::create({}), load_model(QUIRE_EMBEDDED_MODEL), cache_of_cards());
  return tokens_of(*cache->submit(request_to_cards(num_tokens)));
}

TEST(SpreadShards, AreEvictedFromAllDevicesAndComeBack) {
  const Cards cards;
  if (cards.num_cards() < 2) GTEST_SKIP() << "one card";
  ResidentModelOptions load;
  load.plan = plan_on_cards(cards.open_all(2), 2);
  const ModelPlan plan = plan_model(load.plan);
  const auto runtime = Runtime::create({});
  const TokenIds expected = expected_tokens(num_tokens(24));
  const auto home = ResidentModel::load(runtime, load);
  const auto cache = create_model_cache(runtime, home->model(), cache_of_cards(), home);
  expect_held(load.plan, plan, [](const MemoryBytes& bytes) { return bytes.total(); });
  for (size_t i = 0; i < load.plan.devices.size(); ++i)
    EXPECT_EQ(runtime->leased_bytes(load.plan.devices[i].name), plan.memory.devices[i].total());
  EXPECT_EQ(tokens_of(*cache->submit(request_to_cards(num_tokens(24)))), expected);
  for (const ResidencyState to : {ResidencyState::standing_by, ResidencyState::on_disk}) {
    ASSERT_EQ(home->residency().evict(to, kPatience), WaitEnd::ready);
    if (to == ResidencyState::on_disk)
      expect_held(load.plan, plan, [](const MemoryBytes& bytes) { return bytes.cache(); });
    EXPECT_EQ(tokens_of(*cache->submit(request_to_cards(num_tokens(24)))), expected);
    expect_held(load.plan, plan, [](const MemoryBytes& bytes) { return bytes.total(); });
  }
}

TEST(SpreadShards, JobsOfTwoCachesGetTheTokensOfOneDevice) {
  const Cards cards;
  if (cards.num_cards() < 2) GTEST_SKIP() << "one card";
  const TokenIds expected = expected_tokens(num_tokens(40));
  const auto model = load_spread(QUIRE_EMBEDDED_MODEL, cards.open_all(2));
  const auto runtime = Runtime::create({});
  const auto first = create_model_cache(runtime, model, cache_of_cards());
  const auto second = create_model_cache(runtime, model, cache_of_cards());
  std::vector<std::shared_ptr<Job>> jobs;
  for (int32_t i = 0; i < num_tokens(40) / 4; ++i) {
    jobs.push_back(first->submit(request_to_cards(num_tokens(40))));
    jobs.push_back(second->submit(request_to_cards(num_tokens(40))));
  }
  for (const auto& job : jobs) EXPECT_EQ(tokens_of(*job), expected);
}

// Pages leave to host memory and return to the devices of their shards.
TEST(SpreadShards, PrefixesReturnFromHostMemory) {
  const Cards cards;
  if (cards.num_cards() < 2) GTEST_SKIP() << "one card";
  const auto model = load_spread(QUIRE_EMBEDDED_MODEL, cards.open_all(2));
  ModelCacheOptions options = cache_of_cards();
  options.max_tokens = options.max_seq_len = open_test_device()->is_host() ? 256 : 32;
  options.engine.prefixes.host_bytes = uint64_t{64} << 20;
  const auto cache = create_model_cache(Runtime::create({}), model, options);
  JobRequest request = request_to_cards(4);
  request.prompt = some_ids(open_test_device()->is_host() ? 150 : 20);
  const TokenIds expected = tokens_of(*cache->submit(request));
  JobRequest other = request;
  for (TokenId& id : other.prompt) id += 3;
  (void)tokens_of(*cache->submit(other));
  EXPECT_EQ(tokens_of(*cache->submit(request)), expected);
  EXPECT_GT(cache->stats().prefixes.pages_restored, 0);
}

// Each allocation on any of the devices fails in turn.
TEST(SpreadShards, AFailedAllocationFreesEverything) {
  WrappedBackend poor(kernels::cpu_backend());
  const Cards cards(poor.backend());
  if (!open_test_device()->is_host()) GTEST_SKIP() << "faults are injected on the CPU";
  const std::vector<std::shared_ptr<Device>> devices = cards.open_all(2);
  const auto run = [&] {
    return TransformerRunner(load_spread(QUIRE_EMBEDDED_MODEL, devices), {}).logits({1, 2, 3}, 3);
  };
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
    for (const auto& device : devices) ASSERT_EQ(device->memory_use().held_bytes, 0U) << count;
    if (logits.empty()) continue;
    EXPECT_TRUE(logits == expected);
    break;
  }
  EXPECT_GT(count, 30);
}

TEST(SpreadShards, ALostDeviceEndsAllJobsByName) {
  WrappedBackend posing(kernels::cpu_backend());
  const Cards cards(posing.backend());
  if (!open_test_device()->is_host()) GTEST_SKIP() << "faults are injected on the CPU";
  const auto model = load_spread(QUIRE_EMBEDDED_MODEL, cards.open_all(2));
  const auto cache = create_model_cache(Runtime::create({}), model, cache_of_cards());
  const auto job = cache->submit(request_to_cards(240));
  ASSERT_TRUE(job->poll(kPatience).has_value());
  posing.lose(true);
  ASSERT_TRUE(job->wait(kPatience));
  const JobResult result = job->result();
  EXPECT_TRUE(result.reason == FinishReason::max_new_tokens || result.error == ErrorCode::device_lost)
      << result.message;
  posing.lose(false);
}

}  // namespace
}  // namespace quire::testing
