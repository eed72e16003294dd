// A stage that is killed or falls silent ends the jobs of its host with a code in at most two seconds; a host
// that is gone frees what it had in the stage.
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/engine/model/model_cache.h"
#include "tests/core/stages/stage_fixture.h"
#include "tests/support/case_stride.h"
#include "tests/support/expect_error.h"

namespace quire::testing {
namespace {

constexpr Duration kPatience = std::chrono::minutes(2);
// A sanitizer makes all threads slower, also those that notice the loss.
constexpr Duration kBound = std::chrono::seconds(kIsSanitized ? 6 : 2);

JobRequest endless_request() {
  JobRequest request;
  request.prompt = {1, 2, 3};
  request.max_new_tokens = 500;
  request.ignore_end_tokens = true;
  return request;
}

std::shared_ptr<Engine> make_cache(const std::shared_ptr<const Model>& model) {
  ModelCacheOptions options;
  options.max_batch_size = 4;
  options.max_tokens = 4 * 512;
  options.max_seq_len = 512;
  return create_model_cache(Runtime::create({}), model, options);
}

void wait_for_tokens(Job& job) {
  while (job.result().new_tokens == 0) ASSERT_TRUE(job.poll(kPatience).has_value());
}

class StageLoss : public ::testing::TestWithParam<int> {
 protected:
  void lose(StageProcess& process) {
    if (GetParam() == SIGKILL) return process.kill();
    process.send_signal(GetParam());
  }
};

TEST_P(StageLoss, EndsTheJobsInBoundedTime) {
  StageProcess process;
  const auto cpu = open_cpu();
  const auto stage = join_stage(process.name());
  const auto alone = load_on(QUIRE_EMBEDDED_MODEL, {cpu});
  const auto bystander = make_cache(alone);
  auto model = load_on(QUIRE_EMBEDDED_MODEL, {cpu, stage}, {3, 5});
  auto cache = make_cache(model);
  std::vector<std::shared_ptr<Job>> jobs;
  for (int32_t i = 0; i < 4; ++i) jobs.push_back(cache->submit(endless_request()));
  for (const auto& job : jobs) wait_for_tokens(*job);
  const TimePoint begin = steady_clock().now();
  lose(process);
  for (const auto& job : jobs) {
    ASSERT_TRUE(job->wait(kPatience));
    if (job->result().error == ErrorCode::ok) continue;  // it was at its end
    EXPECT_EQ(job->result().error, ErrorCode::device_lost);
    EXPECT_NE(job->result().message.find(process.name()), std::string::npos) << job->result().message;
  }
  EXPECT_LE(steady_clock().now() - begin, kBound);
  EXPECT_EQ(jobs.back()->result().error, ErrorCode::device_lost);
  expect_error(ErrorCode::device_lost, {process.name()}, [&] { (void)cache->submit(endless_request()); });

  // All that the host has of the stage can be freed, in bounded time, and other models go on.
  jobs.clear();
  const TimePoint freed = steady_clock().now();
  cache = nullptr;
  model = nullptr;
  EXPECT_LE(steady_clock().now() - freed, 2 * kBound);
  const auto other = bystander->submit(endless_request());
  ASSERT_TRUE(other->wait(kPatience));
  EXPECT_EQ(other->result().error, ErrorCode::ok);
}

INSTANTIATE_TEST_SUITE_P(Signals, StageLoss, ::testing::Values(SIGKILL, SIGSTOP, SIGTERM));

// A load that waits for a stage ends too.
TEST(StageLossOfALoad, IsReported) {
  StageProcess process;
  const auto stage = join_stage(process.name());
  process.send_signal(SIGSTOP);
  const TimePoint begin = steady_clock().now();
  expect_error(ErrorCode::device_lost, {process.name()}, [&] {
    (void)load_on(QUIRE_EMBEDDED_MODEL, {open_cpu(), stage}, {3, 5});
  });
  EXPECT_LE(steady_clock().now() - begin, 2 * kBound);
}

// The device of a stage that was started again at its address can be used again.
TEST(StageLossAndReturn, NeedsNoNewRuntime) {
  StageProcess first;
  const auto stage = join_stage(first.name());
  const auto cpu = open_cpu();
  (void)load_on(QUIRE_EMBEDDED_MODEL, {cpu, stage}, {3, 5});
  first.kill();
  expect_error(ErrorCode::device_lost, {first.name()}, [&] {
    (void)load_on(QUIRE_EMBEDDED_MODEL, {cpu, stage}, {3, 5});
  });
  const StageProcess again(0, "/", {}, first.address());
  EXPECT_NO_THROW((void)load_on(QUIRE_EMBEDDED_MODEL, {cpu, stage}, {3, 5}));
}

// A stage that computes for long is not lost: its other threads send beats. (channel_test does the same
// without a model.)
TEST(StageLossOfAHost, FreesItsMemory) {
  const auto far_cpu = open_cpu();
  StageThread stage(far_cpu);
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  // Another process that has the key: one that holds layers until it is killed.
  const std::string address = stage.name();
  const pid_t host = ::fork();
  if (host == 0) {
    ::execl(QUIRE_TEST_HOST, QUIRE_TEST_HOST, address.c_str(), kStageKey, QUIRE_EMBEDDED_MODEL, nullptr);
    ::_exit(127);
  }
  const auto wait_until = [&](auto condition) {
    const TimePoint deadline = steady_clock().now() + kPatience;
    while (!condition() && steady_clock().now() < deadline) std::this_thread::yield();
    return condition();
  };
  EXPECT_TRUE(wait_until([&] { return stage.server().reserved_bytes() > 0; }));
  const TimePoint killed = steady_clock().now();
  ::kill(host, SIGSTOP);  // silence: the connection stays open
  EXPECT_TRUE(wait_until([&] { return stage.server().reserved_bytes() == 0; }));
  EXPECT_LE(steady_clock().now() - killed, kBound);
  EXPECT_EQ(far_cpu->memory_use().held_bytes, 0U);
  ::kill(host, SIGKILL);
  ::waitpid(host, nullptr, 0);
  EXPECT_NO_THROW((void)load_on(QUIRE_EMBEDDED_MODEL, {open_cpu(), join_stage(stage.name())}, {3, 5}));
}

}  // namespace
}  // namespace quire::testing
