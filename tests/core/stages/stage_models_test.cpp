// A model of which stages lie in other processes gives the same bits as in one process, for every family.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/models/golden_file.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/core/stages/stage_fixture.h"
#include "tests/support/case_stride.h"
#include "tests/support/expect_error.h"
#include "tests/support/golden_families.h"

namespace quire::testing {
namespace {

// Devices of this process and of three others. The last one has two shards.
struct Group {
  StageProcess first_process, second_process;
  StageProcess sharded_process{StageDeviceChoice{"cpu:0", {}, 2}};
  std::shared_ptr<Device> cpu = open_cpu();
  std::shared_ptr<Device> first = join_stage(first_process.name());
  std::shared_ptr<Device> second = join_stage(second_process.name());
  std::shared_ptr<Device> sharded = join_stage(sharded_process.name());
};

class StageFamilies : public ::testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() { group_ = std::make_unique<Group>(); }
  static void TearDownTestSuite() { group_ = nullptr; }
  static std::unique_ptr<Group> group_;
};

std::unique_ptr<Group> StageFamilies::group_;

// Returns the layers of each of `count` devices.
std::vector<int32_t> evenly(int32_t num_layers, int32_t count) {
  std::vector<int32_t> split(static_cast<size_t>(count), num_layers / count);
  split.back() += num_layers % count;
  return split;
}

TEST_P(StageFamilies, EqualOneProcess) {
  const FamilyDirectory family(GetParam());
  const Group& group = *group_;
  TokenIds ids = read_ids(family.golden(), "input_ids");
  const auto whole = load_on(family.path(), {group.cpu});
  const int32_t num_layers = whole->config().num_layers;
  try {  // some families use data of an earlier layer everywhere
    (void)load_on(family.path(), {group.cpu, open_cpu()}, evenly(num_layers, 2));
  } catch (const Error& error) {
    ASSERT_EQ(error.code(), ErrorCode::unsupported);
    expect_error(ErrorCode::unsupported, {"earlier layer", "one device"}, [&] {
      (void)load_on(family.path(), {group.cpu, group.first}, evenly(num_layers, 2));
    });
    GTEST_SKIP() << error.what();
  }
  const std::vector<float> expected = TransformerRunner(whole, {}).logits(ids, 512);
  const auto expect_equal = [&](const std::vector<std::shared_ptr<Device>>& devices,
                                const std::vector<int32_t>& split, int32_t num_shards = 1) {
    const auto model = load_on(family.path(), devices, split, num_shards);
    EXPECT_TRUE(TransformerRunner(model, {}).logits(ids, 512) == expected)
        << model->transformer()->stages.size() << " stages, " << num_shards << " shards here";
    RunnerOptions small;
    small.page_tokens = 4;
    small.num_pages = 8 * 128;
    EXPECT_TRUE(TransformerRunner(model, small).logits(ids, 7, 3) == expected);
  };
  expect_equal({group.cpu, group.first}, {0, num_layers});
  expect_equal({group.cpu, group.first}, evenly(num_layers, 2));
  expect_equal({group.first, group.cpu}, evenly(num_layers, 2));
  if (num_layers >= 3) expect_equal({group.first, group.cpu, group.second}, evenly(num_layers, 3));
  expect_equal({group.first, group.second, group.cpu}, {num_layers / 2, num_layers - num_layers / 2, 0});
  // Each process has its own number of shards.
  expect_equal({group.cpu, group.sharded}, evenly(num_layers, 2));
  expect_equal({group.sharded, group.cpu}, evenly(num_layers, 2), 2);
  expect_equal({group.cpu, group.first}, evenly(num_layers, 2), 2);
}

INSTANTIATE_TEST_SUITE_P(Golden, StageFamilies, ::testing::ValuesIn(thin_if_sanitized(golden_families(), 12)),
                         [](const auto& family) { return family.param; });

class StageModels : public ::testing::Test {
 protected:
  StageProcess process_;
  std::shared_ptr<Device> cpu_ = open_cpu();
};

TEST_F(StageModels, ManySequencesAndForksChangeNothing) {
  const auto stage = join_stage(process_.name());
  TokenIds ids(70);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(5 * i + 1);
  RunnerOptions options;
  options.page_tokens = 16;
  options.num_pages = 8 * 16;
  const auto run = [&](const std::shared_ptr<const Model>& model) {
    TransformerRunner runner(model, options);
    std::vector<float> all = runner.step({{0, 0, ids}, {3, 0, {7, 8, 9}}});
    runner.fork(0, 1, 40);
    for (const auto& part :
         {runner.step({{1, 40, {1, 2}}, {3, 3, {4}}}), runner.step({{0, 70, {5}}, {1, 42, {6}}})})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  };
  EXPECT_TRUE(run(load_on(QUIRE_EMBEDDED_MODEL, {cpu_, stage}, {3, 5})) ==
              run(load_on(QUIRE_EMBEDDED_MODEL, {cpu_})));
}

TEST_F(StageModels, AnotherKeyIsRefused) {
  expect_error(ErrorCode::invalid_argument, {process_.name(), "another key"},
               [&] { (void)join_stage(process_.name(), "another key of at least 32 bytes"); });
  EXPECT_NO_THROW((void)join_stage(process_.name()));
}

TEST_F(StageModels, NobodyListens) {
  process_.kill();
  expect_error(ErrorCode::device_lost, {process_.name(), "cannot be reached"},
               [&] { (void)join_stage(process_.name()); });
}

TEST_F(StageModels, OtherFilesAreRefused) {
  const TempDirectory mine, theirs;
  std::filesystem::copy(QUIRE_EMBEDDED_MODEL, mine.path() + "/model");
  std::filesystem::copy(QUIRE_EMBEDDED_MODEL, theirs.path() + "/model");
  const StageProcess stage(0, theirs.path());
  const auto device = join_stage(stage.name());
  const auto load = [&] { return load_on(mine.path() + "/model", {cpu_, device}, {4, 4}); };
  EXPECT_NO_THROW((void)load());
  {  // one weight of one tensor
    std::fstream file(theirs.path() + "/model/output.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-1, std::ios::end);
    const auto last = static_cast<char>(file.get() ^ 1);
    file.seekp(-1, std::ios::end);
    file.put(last);
  }
  expect_error(ErrorCode::format, {"other files", "model"}, [&] { (void)load(); });
  std::filesystem::remove_all(theirs.path() + "/model");
  expect_error(ErrorCode::not_found, {"no model", "--models"}, [&] { (void)load(); });
}

TEST_F(StageModels, NeedADeviceOfThisProcess) {
  const auto stage = join_stage(process_.name());
  expect_error(ErrorCode::invalid_argument, {stage->name(), "such as cpu"},
               [&] { (void)load_on(QUIRE_EMBEDDED_MODEL, {stage}); });
}

// A draft network lies beside the head, in this process.
TEST_F(StageModels, ADraftNetworkIsLocal) {
  const auto stage = join_stage(process_.name());
  ModelPlanOptions options = options_on(QUIRE_EMBEDDED_MODEL, {cpu_, stage}, {2, 6});
  options.drafter = QUIRE_EMBEDDED_MODEL;
  open_drafter(posix_file_system(), options);
  const auto model = load_planned(options);
  ASSERT_NE(model->transformer()->drafter, nullptr);
  EXPECT_FALSE(model->transformer()->drafter->network.stages.front().device->is_remote());
}

// Weights are dropped and loaded again, and the cache stays.
TEST_F(StageModels, WeightsLeaveAndReturn) {
  const StageProcess process(uint64_t{256} << 20);
  const auto stage = join_stage(process.name());
  ModelPlanOptions options = options_on(QUIRE_EMBEDDED_MODEL, {cpu_, stage}, {3, 5});
  const auto model = load_planned(options);
  const uint64_t before = stage->info().free_bytes;
  model->release_weights(*options.source);
  EXPECT_EQ(model->weights(), nullptr);
  EXPECT_GT(stage->info().free_bytes, before);
  ModelOptions load;
  load.source = options.source;
  load.devices = {cpu_, stage};
  model->acquire_weights(load);
  const TokenIds ids = {1, 2, 3, 4, 5};
  EXPECT_TRUE(TransformerRunner(model, {}).logits(ids, 5) ==
              TransformerRunner(load_on(QUIRE_EMBEDDED_MODEL, {cpu_}), {}).logits(ids, 5));
}

}  // namespace
}  // namespace quire::testing
