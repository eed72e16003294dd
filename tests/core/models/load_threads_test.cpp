// A model is the same with any number of loading threads, and its progress is reported in order on the
// calling thread.
#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "tests/core/models/transformer_runner.h"

namespace quire::testing {
namespace {

std::vector<float> logits_of(const std::shared_ptr<const Model>& model) {
  return TransformerRunner(model, {}).logits({5, 60, 700, 8, 9, 1000, 11}, 3);
}

TEST(LoadThreads, LoadTheSameModelInAnyNumber) {
  const std::vector<float> alone = logits_of(load_model(QUIRE_EMBEDDED_MODEL));
  for (const int32_t num_helpers : {1, 3, 20}) {
    SCOPED_TRACE(num_helpers);
    ModelOptions options;
    options.source = open_model_source(posix_file_system(), QUIRE_EMBEDDED_MODEL);
    options.devices = {open_test_device(), open_second_test_device()};
    options.placement = {{0, 0, 0, 1, 1, 1, 1, 1}};
    options.num_helpers = num_helpers;
    uint64_t last = 0;
    uint64_t total = 0;
    const auto teller = std::this_thread::get_id();
    options.monitor.progress = [&](const LoadProgress& progress) {
      EXPECT_EQ(std::this_thread::get_id(), teller);
      EXPECT_GE(progress.done_bytes, last);
      last = progress.done_bytes;
      total = progress.total_bytes;
    };
    const std::vector<float> logits = logits_of(Model::load(options));
    ASSERT_EQ(logits.size(), alone.size());
    EXPECT_EQ(std::memcmp(logits.data(), alone.data(), alone.size() * sizeof(float)), 0);
    EXPECT_EQ(last, total);
  }
}

}  // namespace
}  // namespace quire::testing
