// Choice of precision by available memory: the most bits per weight, and the most exact cache format, that
// fit on the device.
#include "core/engine/model/precision.h"

#include <gtest/gtest.h>

#include "core/engine/model/model_plan.h"
#include "core/models/model_variants.h"
#include "tests/core/models/transformer_runner.h"

namespace quire::testing {
namespace {

ModelPlanOptions plan_options(uint64_t limit_bytes) {
  kernels::DeviceOptions device;
  device.num_threads = 1;
  device.memory_limit_bytes = limit_bytes;
  ModelPlanOptions options;
  options.source = open_model_source(posix_file_system(), QUIRE_EMBEDDED_MODEL);
  options.devices.push_back({"0", open_device_like_test_device(device)});
  options.cache.emplace();
  options.cache->picks_kv_format = true;
  return options;
}

TEST(Precision, APlanUsesTheFirstFormatThatFitsOrTheLast) {
  using kernels::KvFormat;
  const ModelPlan whole = plan_model(plan_options(0));
  EXPECT_EQ(whole.cache.key_format, KvFormat::f16);
  const uint64_t total = whole.memory.total().total();
  const uint64_t pages = whole.memory.total().kv;
  const ModelPlan less = plan_model(plan_options(total - 1));
  EXPECT_EQ(less.cache.key_format, KvFormat::q8);
  EXPECT_EQ(less.cache.value_format, KvFormat::q8);
  EXPECT_TRUE(fits(less, plan_options(total - 1)));
  const ModelPlan mixed = plan_model(plan_options(total - pages / 2));
  EXPECT_EQ(mixed.cache.key_format, KvFormat::q8);
  EXPECT_EQ(mixed.cache.value_format, KvFormat::q4);
  const ModelPlan least = plan_model(plan_options(1 << 20));
  EXPECT_EQ(least.cache.key_format, KvFormat::q4);
  EXPECT_FALSE(fits(least, plan_options(1 << 20)));
}

TEST(Precision, TheFirstModelThatFitsInMemoryIsChosen) {
  const std::vector<int> choices = {3, 2, 1};
  std::vector<int> tried;
  const auto take = [&](int most, ErrorCode code) {
    tried.clear();
    return first_that_fits(choices, [&](int choice) {
      tried.push_back(choice);
      if (choice > most) throw Error(code, "{} is too much", choice);
      return choice;
    });
  };
  EXPECT_EQ(take(3, ErrorCode::out_of_memory), 3);
  EXPECT_EQ(take(2, ErrorCode::out_of_memory), 2);
  EXPECT_EQ(tried, (std::vector<int>{3, 2}));
  EXPECT_THROW(take(0, ErrorCode::out_of_memory), Error);
  EXPECT_EQ(tried, choices);
  EXPECT_THROW(take(2, ErrorCode::io), Error);
  EXPECT_EQ(tried, std::vector<int>{3}) << "no other failure is a matter of room";
}

TEST(Precision, AModelIsTheOnlyPrecisionOfItself) {
  for (const std::string path : {QUIRE_EMBEDDED_MODEL, "synthetic:llama-3.2-1b", "/nowhere"})
    EXPECT_EQ(model_variants(posix_file_system(), path), std::vector<std::string>{path});
}

}  // namespace
}  // namespace quire::testing
