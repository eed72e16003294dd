// A GPU that fails while jobs run: a kernel writes to an invalid address, after which CUDA is unusable in the
// process. A program of its own, because nothing can run on the GPU afterwards.
#include <iostream>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/engine/model/model_cache.h"
#include "tests/core/models/transformer_runner.h"

namespace quire::testing {
namespace {

constexpr Duration kPatience = std::chrono::minutes(5);
constexpr int32_t kJobs = 8;

std::shared_ptr<Engine> make_cache(const std::shared_ptr<const Model>& model) {
  ModelCacheOptions options;
  options.max_batch_size = kJobs;
  options.max_tokens = 512 * kJobs;
  options.max_seq_len = 512;
  return create_model_cache(Runtime::create({}), model, options);
}

// Returns a request that runs until it is stopped.
JobRequest endless_request() {
  JobRequest request;
  request.prompt = {1, 2, 3};
  request.max_new_tokens = 509;
  request.ignore_end_tokens = true;
  return request;
}

void break_device(const std::shared_ptr<Device>& device) {
  kernels::ContextLimits limits;
  limits.max_tokens = limits.max_sequences = limits.max_pages_per_sequence = limits.max_columns = 1;
  const DeviceContext context(device, limits);
  auto* nowhere = reinterpret_cast<float*>(uintptr_t{0x1000});
  EXPECT_EQ(context.table().scale_logits(context.handle(), nowhere, 64, 2.0F, 0.0F), kernels::Status::ok);
  EXPECT_EQ(context.table().synchronize(context.handle()), kernels::Status::device_lost);
}

void expect_lost(const std::string& message) {
  EXPECT_NE(message.find("cudaErrorIllegalAddress"), std::string::npos) << message;
}

TEST(DeviceLoss, EndsAllJobsWithTheErrorByName) {
  const auto model = load_model(QUIRE_EMBEDDED_MODEL);
  const std::shared_ptr<Device>& device = model->transformer()->stages.front().device;
  if (device->backend_name() != "cuda") GTEST_SKIP() << "QUIRE_TEST_DEVICE names no card";
  const auto busy = make_cache(model);
  const auto idle = make_cache(model);
  std::vector<std::shared_ptr<Job>> jobs;
  for (int32_t i = 0; i < kJobs; ++i) jobs.push_back(busy->submit(endless_request()));
  for (const auto& job : jobs) {
    while (job->result().new_tokens == 0) ASSERT_TRUE(job->poll(kPatience).has_value());
  }
  const TimePoint broken = steady_clock().now();
  break_device(device);
  for (const auto& job : jobs) {
    ASSERT_TRUE(job->wait(kPatience));
    EXPECT_EQ(job->result().error, ErrorCode::device_lost);
    expect_lost(job->result().message);
  }
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(steady_clock().now() - broken);
  std::cout << "all jobs were over " << took.count() << " us after the error\n";
  RecordProperty("microseconds", std::to_string(took.count()));

  try {
    (void)busy->submit(endless_request());
    ADD_FAILURE() << "a job was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device_lost);
    expect_lost(error.what());
  }
  // An idle cache reports the loss with its next job.
  const auto late = idle->submit(endless_request());
  ASSERT_TRUE(late->wait(kPatience));
  EXPECT_EQ(late->result().error, ErrorCode::device_lost);
  expect_lost(late->result().message);
}

}  // namespace
}  // namespace quire::testing
