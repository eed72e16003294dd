// A model split over several devices (pipeline parallel) gives bit-identical results to one device. A failure
// on any device fails the whole operation.
#include <cstring>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/wrapped_backend.h"

namespace quire::testing {
namespace {

constexpr int32_t kLayers = 8;  // of the embedded model

std::shared_ptr<const Model> load_split(const std::vector<std::shared_ptr<Device>>& devices,
                                        const std::vector<int32_t>& device_of_layer) {
  ModelOptions options;
  options.source = open_model_source(posix_file_system(), QUIRE_EMBEDDED_MODEL);
  options.devices = devices;
  options.placement = {device_of_layer};
  return Model::load(options);
}

TokenIds some_ids(int32_t count) {
  TokenIds ids;
  for (int32_t i = 0; i < count; ++i) ids.push_back((i * 2654435761U >> 7) % 6144);
  return ids;
}

std::vector<float> logits_of(const std::shared_ptr<const Model>& model, int32_t chunk_tokens) {
  return TransformerRunner(model, {}).logits(some_ids(90), chunk_tokens);
}

void expect_identical(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

class Split : public ::testing::Test {
 protected:
  std::shared_ptr<Device> first_ = open_test_device();
  std::shared_ptr<Device> second_ = open_second_test_device();
  std::vector<float> on_one_ = logits_of(load_model(QUIRE_EMBEDDED_MODEL), 40);
};

TEST_F(Split, AtAnyLayerChangesNothing) {
  for (int32_t at = 1; at < kLayers; ++at) {
    SCOPED_TRACE(at);
    std::vector<int32_t> devices(kLayers, 0);
    for (int32_t layer = at; layer < kLayers; ++layer) devices[static_cast<size_t>(layer)] = 1;
    const auto model = load_split({first_, second_}, devices);
    EXPECT_EQ(model->transformer()->stages.size(), 2U);
    for (const int32_t chunk : {1, 40}) expect_identical(logits_of(model, chunk), on_one_);
  }
}

TEST_F(Split, BackToTheFirstDeviceChangesNothing) {
  const auto model = load_split({first_, second_}, {0, 1, 1, 0, 0, 1, 0, 1});
  EXPECT_EQ(model->transformer()->stages.size(), 6U);
  expect_identical(logits_of(model, 17), on_one_);
}

// Rows are copied through host memory between backends.
TEST_F(Split, OverBackendsChangesNothing) {
  WrappedBackend posing(kernels::cpu_backend());
  const auto stranger = Device::open(posing.backend(), 0, {});
  const auto host = Device::open(kernels::cpu_backend(), 0, {});
  ASSERT_FALSE(stranger->shares_backend(*host));
  const auto alone = load_split({host}, std::vector<int32_t>(kLayers, 0));
  const auto model = load_split({host, stranger}, {0, 0, 1, 1, 1, 0, 0, 0});
  for (const int32_t chunk : {1, 40}) expect_identical(logits_of(model, chunk), logits_of(alone, chunk));
}

TEST_F(Split, GivesTheStatesOfTheLastLayer) {
  const auto states = [&](const std::shared_ptr<const Model>& model) {
    RunnerOptions options;
    options.wants_hidden = true;
    TransformerRunner runner(model, options);
    runner.logits(some_ids(20), 20);
    return runner.hidden(20);
  };
  expect_identical(states(load_split({first_, second_}, {0, 0, 0, 1, 1, 1, 1, 1})),
                   states(load_model(QUIRE_EMBEDDED_MODEL)));
}

TEST_F(Split, IsRefusedIfItDoesNotMatchTheModel) {
  for (const std::vector<int32_t>& devices :
       {std::vector<int32_t>(kLayers - 1, 0), std::vector<int32_t>(kLayers, 2),
        std::vector<int32_t>(kLayers, -1)}) {
    try {
      (void)load_split({first_, second_}, devices);
      ADD_FAILURE() << "a split of " << devices.size() << " layers went through";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    }
  }
}

// Each allocation on either device fails in turn: everything is freed, and a load with enough memory
// succeeds.
TEST(SplitMemory, IsFreedIfItRunsOutOnEitherDevice) {
  WrappedBackend first(kernels::cpu_backend());
  WrappedBackend second(kernels::cpu_backend());
  const std::vector<std::shared_ptr<Device>> devices = {Device::open(first.backend(), 0, {}),
                                                        Device::open(second.backend(), 0, {})};
  const std::vector<int32_t> split = {0, 0, 0, 0, 1, 1, 1, 1};
  for (WrappedBackend* poor : {&first, &second}) {
    for (const int64_t allocations : {0, 1, 5, 13, 20}) {
      poor->allow_allocations(allocations);
      try {
        (void)logits_of(load_split(devices, split), 40);
        ADD_FAILURE() << allocations << " allocations were enough";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::out_of_memory) << error.what();
      }
      poor->allow_allocations(WrappedBackend::kUnlimited);
      EXPECT_EQ(first.num_live(), 0);
      EXPECT_EQ(second.num_live(), 0);
    }
  }
  EXPECT_FALSE(logits_of(load_split(devices, split), 40).empty());
}

// A step that could not be recorded is issued directly, on either device.
TEST(SplitMemory, ForRecordingsIsOptional) {
  WrappedBackend first(kernels::cpu_backend());
  WrappedBackend second(kernels::cpu_backend());
  const auto model = load_split({Device::open(first.backend(), 0, {}), Device::open(second.backend(), 0, {})},
                                {0, 0, 0, 0, 1, 1, 1, 1});
  const std::vector<float> expected = logits_of(model, 40);
  for (WrappedBackend* poor : {&first, &second}) {
    poor->fail_recordings(true);
    EXPECT_EQ(logits_of(model, 40), expected);
    poor->fail_recordings(false);
  }
}

// Backends use the token counts of page tables only for F16 pages.
TEST(TheBatch, HasTheTokensOfAPageIfItHoldsF16) {
  WrappedBackend posing(kernels::cpu_backend());
  const auto model = load_split({Device::open(posing.backend(), 0, {})}, std::vector<int32_t>(kLayers, 0));
  RunnerOptions options;
  TransformerRunner(model, options).logits(some_ids(5), 5);
  EXPECT_EQ(posing.last_page_tokens(), options.page_tokens);
  options.kv_format = kernels::KvFormat::q8;
  TransformerRunner(model, options).logits(some_ids(5), 5);
  EXPECT_EQ(posing.last_page_tokens(), 0);
}

// If any device is lost in the middle of a step, the step ends with that status.
TEST(SplitMemory, ALostDeviceEndsTheStep) {
  WrappedBackend first(kernels::cpu_backend());
  WrappedBackend second(kernels::cpu_backend());
  const auto model = load_split({Device::open(first.backend(), 0, {}), Device::open(second.backend(), 0, {})},
                                {0, 0, 0, 0, 1, 1, 1, 1});
  for (WrappedBackend* lost : {&first, &second}) {
    TransformerRunner runner(model, {});
    EXPECT_FALSE(runner.logits({1, 2, 3}, 3).empty());
    lost->lose(true);
    try {
      (void)runner.logits({1, 2, 3}, 3);
      ADD_FAILURE() << "a lost device went on";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::device_lost) << error.what();
    }
    lost->lose(false);
  }
}

}  // namespace
}  // namespace quire::testing
