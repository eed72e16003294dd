// Caches that take turns on one device, stepped by hand on a simulated clock, and with threads.
#include "core/engine/turns/turn_arbiter.h"

#include <atomic>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "tests/support/engine_fakes.h"

namespace quire::testing {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

FakeEngineOptions on_device(const std::shared_ptr<Runtime>& runtime, const std::string& device) {
  FakeEngineOptions options;
  options.runtime = runtime;
  options.devices = {device};
  return options;
}

bool is_over(const Job& job) {
  return job.state() == JobState::finished;
}

TokenIds prompt_of(int32_t first, int32_t num_tokens) {
  TokenIds prompt;
  for (int32_t i = 0; i < num_tokens; ++i) prompt.push_back((first + 7 * i) % kVocab);
  return prompt;
}

// Turns of the arbiter alone, without engines.
class DeviceTurnTest : public ::testing::Test {
 protected:
  std::unique_ptr<DeviceTurn> make(const std::vector<std::string>& devices = {"cuda:0"}) {
    return std::make_unique<DeviceTurn>(arbiter_, devices, 1.0, std::make_shared<EngineSignal>());
  }

  SimulatedClock clock_;
  std::shared_ptr<TurnArbiter> arbiter_ = std::make_shared<TurnArbiter>(clock_);
  const std::unique_ptr<DeviceTurn> first_ = make();
  const std::unique_ptr<DeviceTurn> second_ = make();
};

TEST_F(DeviceTurnTest, TheNextCacheMayIssueWhileTheEndOfATurnIsComputed) {
  ASSERT_TRUE(first_->ask({}));
  ASSERT_FALSE(second_->ask({}));
  first_->pass_on();
  EXPECT_FALSE(first_->holds());
  EXPECT_TRUE(second_->holds());
  const auto third = make();
  EXPECT_FALSE(third->ask({})) << "one at a time";
  clock_.advance(milliseconds(20));
  first_->end();
  clock_.advance(milliseconds(20));
  second_->end();
  EXPECT_TRUE(third->ask({}));
}

TEST_F(DeviceTurnTest, ACacheThatJoinsWhileTheEndOfATurnIsComputedNeedNotWait) {
  ASSERT_TRUE(first_->ask({}));
  first_->pass_on();
  EXPECT_TRUE(second_->ask({}));
}

TEST_F(DeviceTurnTest, TheEndsOfTwoTurnsAreNotComputedAtOnce) {
  const auto third = make();
  ASSERT_TRUE(first_->ask({}));
  ASSERT_FALSE(second_->ask({}));
  ASSERT_FALSE(third->ask({}));
  clock_.advance(milliseconds(20));
  first_->pass_on();
  ASSERT_TRUE(second_->holds());
  clock_.advance(milliseconds(20));
  second_->pass_on();
  EXPECT_TRUE(second_->holds());
  EXPECT_FALSE(third->holds());
  first_->end();
  second_->pass_on();
  EXPECT_TRUE(third->holds());
}

TEST_F(DeviceTurnTest, ATurnDoesNotAffectOtherDevices) {
  const auto elsewhere = make({"cuda:1"});
  ASSERT_TRUE(first_->ask({}));
  ASSERT_TRUE(elsewhere->ask({}));
  first_->pass_on();
  elsewhere->pass_on();
  EXPECT_FALSE(elsewhere->holds());
}

TEST_F(DeviceTurnTest, TheEndOfATurnIsChargedToItAlone) {
  ASSERT_TRUE(first_->ask({}));
  ASSERT_FALSE(second_->ask({}));
  clock_.advance(milliseconds(1));
  first_->pass_on();
  clock_.advance(milliseconds(2));
  first_->end();
  clock_.advance(milliseconds(4));
  second_->end();
  EXPECT_DOUBLE_EQ(first_->seconds(), 0.003);
  EXPECT_DOUBLE_EQ(second_->seconds(), 0.004);
  EXPECT_EQ(first_->last_turn(), milliseconds(3));
  EXPECT_EQ(second_->last_turn(), milliseconds(4));
}

TEST_F(DeviceTurnTest, AnIdleCacheIsNotChargedForTheEndOfThePreviousTurn) {
  ASSERT_TRUE(first_->ask({}));
  ASSERT_FALSE(second_->ask({}));
  clock_.advance(milliseconds(1));
  first_->pass_on();
  clock_.advance(milliseconds(2));
  second_->end();
  clock_.advance(milliseconds(4));
  first_->end();
  EXPECT_DOUBLE_EQ(first_->seconds(), 0.007);
  EXPECT_DOUBLE_EQ(second_->seconds(), 0.0);
  EXPECT_EQ(first_->last_turn(), milliseconds(7));
}

TEST_F(DeviceTurnTest, ACacheThatWithdrawsWhileItsEndIsComputedDelaysNoOther) {
  ASSERT_TRUE(first_->ask({}));
  ASSERT_FALSE(second_->ask({}));
  first_->pass_on();
  first_->withdraw();
  first_->end();
  second_->pass_on();
  EXPECT_FALSE(second_->holds()) << "it has passed its turn on";
}

// Engines without threads, whose devices advance the simulated clock.
class SteppedTurnTest : public ::testing::Test {
 protected:
  struct Member {
    std::unique_ptr<FakeEngine> engine;
    std::vector<std::shared_ptr<Job>> jobs;
    Duration step{0};
    int64_t num_steps = 0;

    DeviceTurn& device_turn() const { return engine->cache->thread().loop().step_timing().device_turn(); }
  };

  FakeEngineOptions stepped(const std::string& device) {
    FakeEngineOptions options = on_device(runtime_, device);
    options.cache.start_thread = false;
    return options;
  }

  Member& add(const FakeEngineOptions& options, Duration step) {
    auto member = std::make_unique<Member>();
    member->engine = std::make_unique<FakeEngine>(options);
    member->step = step;
    Member* const raw = member.get();
    raw->engine->executor->before_step = [this, raw](const Batch&) {
      clock_.advance(raw->step);
      ++raw->num_steps;
    };
    members_.push_back(std::move(member));
    return *raw;
  }

  void keep_busy(Member& member) {
    if (member.engine->cache->thread().queue().num_live() > 0) return;
    member.jobs.push_back(member.engine->cache->submit(greedy(prompt_of(3, 4), 40)));
  }

  // Runs each engine once, in any order.
  void run_round() {
    for (const auto& member : members_) {
      keep_busy(*member);
      clock_.advance(microseconds(20));  // time spent by the host
      member->engine->cache->thread().run_once();
    }
  }

  SimulatedClock clock_;
  std::shared_ptr<Runtime> runtime_ = [this] {
    FakeEngineOptions options;
    options.clock = &clock_;
    return FakeEngine::make_runtime(options);
  }();
  std::vector<std::unique_ptr<Member>> members_;
};

TEST_F(SteppedTurnTest, ShareTheTimeOfADeviceByWeight) {
  FakeEngineOptions options = stepped("cpu");
  Member& small = add(options, microseconds(700));
  options.cache.device_weight = 3.0;
  Member& large = add(options, milliseconds(22));
  for (int i = 0; i < 20000; ++i) run_round();
  EXPECT_NEAR(large.device_turn().seconds() / small.device_turn().seconds(), 3.0, 0.1);
  large.device_turn().set_weight(1.0);
  const double small_before = small.device_turn().seconds();
  const double large_before = large.device_turn().seconds();
  for (int i = 0; i < 20000; ++i) run_round();
  EXPECT_NEAR((large.device_turn().seconds() - large_before) / (small.device_turn().seconds() - small_before),
              1.0, 0.05);
}

TEST_F(SteppedTurnTest, OnDifferentDevicesDoNotWait) {
  Member& cpu = add(stepped("cpu"), milliseconds(1));
  Member& card = add(stepped("cuda:0"), milliseconds(50));
  for (int i = 0; i < 1000; ++i) {
    run_round();
    ASSERT_FALSE(cpu.device_turn().neighbours().any);
  }
  EXPECT_EQ(cpu.num_steps, card.num_steps);
}

TEST_F(SteppedTurnTest, ACacheThatWasIdleHasNoCredit) {
  Member& first = add(stepped("cpu"), milliseconds(1));
  for (int i = 0; i < 5000; ++i) run_round();
  Member& late = add(stepped("cpu"), milliseconds(1));
  const double before = first.device_turn().seconds();
  for (int i = 0; i < 2000; ++i) run_round();
  EXPECT_NEAR((first.device_turn().seconds() - before) / late.device_turn().seconds(), 1.0, 0.05);
}

TEST_F(SteppedTurnTest, AnIdleCacheDelaysNoOther) {
  Member& idle = add(stepped("cpu"), milliseconds(1));
  const auto job = idle.engine->cache->submit(greedy(prompt_of(3, 4), 2));
  while (idle.engine->cache->thread().run_once() == StepOutcome::advanced) {
  }
  Member& busy = add(stepped("cpu"), milliseconds(1));
  for (int i = 0; i < 100; ++i) {
    keep_busy(busy);
    EXPECT_EQ(busy.engine->cache->thread().run_once(), StepOutcome::advanced);
  }
  EXPECT_FALSE(busy.device_turn().neighbours().any);
}

// A cache that has the next turn but does not request it, because its host is delayed.
TEST_F(SteppedTurnTest, ACacheThatMissesItsTurnLosesIt) {
  Member& absent = add(stepped("cpu"), milliseconds(1));
  Member& waits = add(stepped("cpu"), milliseconds(40));
  for (int i = 0; i < 50; ++i) run_round();
  while (waits.engine->cache->thread().run_once() == StepOutcome::advanced) {
  }
  ASSERT_EQ(absent.engine->cache->thread().run_once(), StepOutcome::advanced) << "and comes no more";
  ASSERT_EQ(waits.engine->cache->thread().run_once(), StepOutcome::idle);
  const TimePoint again = waits.engine->cache->thread().next_event();
  ASSERT_LT(again, TimePoint::max());
  clock_.advance(again - clock_.now());
  keep_busy(waits);
  EXPECT_EQ(waits.engine->cache->thread().run_once(), StepOutcome::advanced);
}

// Steps that are short compared with a slice: the device continues without the host. Shares are met over any
// 1,000 steps.
TEST_F(SteppedTurnTest, ACacheThatKeepsItsTurnIssuesItsNextPassAtOnce) {
  FakeEngineOptions options = stepped("cuda:0");
  make_drawing(options.limits);
  Member& one = add(options, microseconds(150));
  options.cache.device_weight = 3.0;
  Member& three = add(options, microseconds(250));
  run_round();
  for (int window = 0; window < 20; ++window) {
    const double one_before = one.device_turn().seconds();
    const double three_before = three.device_turn().seconds();
    const int64_t steps_before = one.num_steps + three.num_steps;
    while (one.num_steps + three.num_steps < steps_before + 1000) run_round();
    const double ratio =
        (three.device_turn().seconds() - three_before) / (one.device_turn().seconds() - one_before);
    EXPECT_NEAR(ratio, 3.0, 0.3) << "window " << window;
  }
  // Jobs with the same prompt replace their pages by equal ones, so passes issued on the old pages are
  // discarded.
  for (const Member* member : {&one, &three})
    EXPECT_GT(member->engine->executor->num_followed(), member->num_steps / 2);
}

// After each of its steps the cache with the small share is far ahead of its share.
TEST_F(SteppedTurnTest, NoPassIsIssuedIntoTheTurnOfAnother) {
  FakeEngineOptions options = stepped("cuda:0");
  make_drawing(options.limits);
  Member& little = add(options, milliseconds(10));
  options.cache.device_weight = 10.0;
  Member& much = add(options, milliseconds(10));
  for (Member* member : {&little, &much})
    member->jobs.push_back(member->engine->cache->submit(greedy(prompt_of(3, 4), 190)));
  for (int i = 0; i < 10; ++i) run_round();
  const int64_t little_before = little.engine->executor->num_followed();
  const int64_t little_steps = little.num_steps;
  const int64_t much_before = much.engine->executor->num_followed();
  for (int i = 0; i < 150; ++i) run_round();
  ASSERT_FALSE(is_over(*little.jobs.front()) || is_over(*much.jobs.front()));
  EXPECT_GT(little.num_steps, little_steps + 5);
  EXPECT_EQ(little.engine->executor->num_followed(), little_before);
  EXPECT_GT(much.engine->executor->num_followed(), much_before + 100);
}

// Between the turns of two caches the device does not wait for the host.
TEST_F(SteppedTurnTest, TheNextCacheIssuesItsFirstPassBeforeThePreviousOneHasFinished) {
  FakeEngineOptions options = stepped("cuda:0");
  make_drawing(options.limits);
  Member& one = add(options, microseconds(700));
  options.cache.device_weight = 2.0;
  Member& two = add(options, microseconds(900));
  int64_t num_early = 0;
  int64_t num_turns = 0;
  const Member* last = nullptr;
  for (Member* member : {&one, &two}) {
    Member* const other = member == &one ? &two : &one;
    const auto step = member->engine->executor->before_step;
    member->engine->executor->before_step = [&, member, step](const Batch& batch) {
      num_turns += std::exchange(last, member) == member ? 0 : 1;
      step(batch);
    };
    member->engine->executor->before_wait = [this, other, &num_early] {
      if (!other->device_turn().holds()) return;
      keep_busy(*other);
      if (other->engine->cache->thread().run_once() == StepOutcome::advanced) ++num_early;
    };
  }
  for (int i = 0; i < 10000; ++i) run_round();
  EXPECT_GT(num_turns, 500);
  EXPECT_GT(num_early, num_turns * 9 / 10);
  EXPECT_NEAR(two.device_turn().seconds() / one.device_turn().seconds(), 2.0, 0.1);
  EXPECT_EQ(one.engine->executor->num_bad_reads() + two.engine->executor->num_bad_reads(), 0);
}

// A cache that joins while a pass is issued waits until the pass is computed.
TEST_F(SteppedTurnTest, ACacheThatJoinsWaitsForTheIssuedPass) {
  FakeEngineOptions options = stepped("cuda:0");
  make_drawing(options.limits);
  Member& first = add(options, milliseconds(10));
  for (int i = 0; i < 5; ++i) run_round();
  ASSERT_GT(first.engine->executor->num_followed(), 0);
  Member& late = add(options, milliseconds(10));
  keep_busy(late);
  EXPECT_EQ(late.engine->cache->thread().run_once(), StepOutcome::idle);
  keep_busy(first);
  EXPECT_EQ(first.engine->cache->thread().run_once(), StepOutcome::advanced);
  EXPECT_EQ(late.engine->cache->thread().run_once(), StepOutcome::advanced);
  EXPECT_EQ(first.engine->executor->num_discarded(), 0);
}

TEST_F(SteppedTurnTest, AnUrgentJobOfOneCacheRunsBeforeAnother) {
  Member& calm = add(stepped("cpu"), milliseconds(10));
  Member& urgent = add(stepped("cpu"), milliseconds(10));
  for (int i = 0; i < 100; ++i) run_round();
  JobRequest request = greedy(prompt_of(9, 4), 5);
  request.priority = 5;
  const auto job = urgent.engine->cache->submit(std::move(request));
  const int64_t calm_before = calm.num_steps;
  while (!is_over(*job)) run_round();
  EXPECT_LE(calm.num_steps - calm_before, 3) << "of the five steps that it took";
}

TEST_F(SteppedTurnTest, AClosedCacheLeavesTheQueue) {
  Member& closed = add(stepped("cpu"), milliseconds(1));
  Member& stays = add(stepped("cpu"), milliseconds(1));
  for (int i = 0; i < 101; ++i) run_round();
  closed.engine->cache->close();
  for (int i = 0; i < 30; ++i) {
    keep_busy(stays);
    EXPECT_EQ(stays.engine->cache->thread().run_once(), StepOutcome::advanced);
  }
  EXPECT_FALSE(stays.device_turn().neighbours().any);
}

// With threads. The device detects if two caches compute on it at the same time.
class ThreadedTurnTest : public ::testing::Test {
 protected:
  struct Exclusive {
    std::atomic<int> inside{0};
    std::atomic<int> clashes{0};
  };

  std::unique_ptr<FakeEngine> make(const FakeEngineOptions& options, Exclusive& device, Duration piece) {
    auto engine = std::make_unique<FakeEngine>(options);
    const auto work = [&device, piece] {
      if (++device.inside > 1) ++device.clashes;
      std::this_thread::sleep_for(piece);
      --device.inside;
    };
    engine->executor->before_step = [work](const Batch&) { work(); };
    engine->executor->before_break = work;
    return engine;
  }

  std::shared_ptr<Runtime> runtime_ = FakeEngine::make_runtime({});
};

TEST_F(ThreadedTurnTest, ComputeOneAtATimeAndAllGetTheirTexts) {
  Exclusive device;
  std::vector<std::unique_ptr<FakeEngine>> engines;
  for (int i = 0; i < 4; ++i) {
    FakeEngineOptions options = on_device(runtime_, "cpu");
    options.limits.num_breaks = i;
    engines.push_back(make(options, device, microseconds(50 + 100 * i)));
  }
  std::vector<std::thread> callers;
  callers.reserve(engines.size());
  for (const auto& engine : engines) {
    callers.emplace_back([&engine] {
      for (int i = 0; i < 12; ++i) {
        const TokenIds prompt = prompt_of(i, 5);
        const auto job = engine->cache->submit(greedy(prompt, 20));
        EXPECT_EQ(read_all(*job, std::chrono::seconds(20)).tokens, fake_greedy(prompt, 20, kVocab));
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(device.clashes, 0);
}

TEST_F(ThreadedTurnTest, MayCloseWhileTheyWaitAndWhileTheyCompute) {
  Exclusive device;
  FakeEngineOptions options = on_device(runtime_, "cpu");
  options.limits.num_breaks = 4;
  const auto stays = make(options, device, microseconds(200));
  const auto job = stays->cache->submit(greedy(prompt_of(1, 5), 150));
  for (int i = 0; i < 20; ++i) {
    const auto goes = make(options, device, microseconds(200));
    const auto other = goes->cache->submit(greedy(prompt_of(2, 5), 100));
    std::this_thread::sleep_for(microseconds(300 * i));
    goes->cache->close();
  }
  EXPECT_EQ(read_all(*job, std::chrono::seconds(20)).tokens, fake_greedy(prompt_of(1, 5), 150, kVocab));
  EXPECT_EQ(device.clashes, 0);
}

// On a device that computes within the call, and on an asynchronous one.
class StepBreakTest : public ThreadedTurnTest, public ::testing::WithParamInterface<bool> {
 protected:
  FakeEngineOptions options() const {
    FakeEngineOptions options = on_device(runtime_, "device");
    if (GetParam()) make_drawing(options.limits);
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, StepBreakTest, ::testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "that_compute_on_their_own" : "that_compute_within_the_call");
});

TEST_P(StepBreakTest, AShortStepRunsBetweenTheBlocksOfALongOne) {
  Exclusive device;
  FakeEngineOptions options = this->options();
  options.limits.num_breaks = 100;
  const auto slow = make(options, device, milliseconds(4));  // 0.4 s per step
  options.limits.num_breaks = 0;
  const auto quick = make(options, device, milliseconds(1));
  const auto long_job = slow->cache->submit(greedy(prompt_of(1, 5), 100));
  std::this_thread::sleep_for(milliseconds(50));
  const auto start = std::chrono::steady_clock::now();
  const auto job = quick->cache->submit(greedy(prompt_of(2, 5), 20));
  EXPECT_EQ(read_all(*job, std::chrono::seconds(20)).tokens.size(), 20U);
  const int64_t slow_steps = slow->executor->num_steps();
  EXPECT_LE(slow_steps, 2) << "twenty short steps, "
                           << std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()
                           << " s";
  long_job->cancel();
  EXPECT_EQ(device.clashes, 0);
}

// A break requires waiting for the device.
TEST_F(ThreadedTurnTest, AnAsynchronousDevicePausesOnlyBesideOthers) {
  Exclusive device;
  FakeEngineOptions options = on_device(runtime_, "device");
  make_drawing(options.limits);
  options.limits.num_breaks = 10;
  const auto slow = make(options, device, milliseconds(2));
  read_all(*slow->cache->submit(greedy(prompt_of(1, 60), 3)), std::chrono::seconds(20));
  EXPECT_EQ(slow->executor->num_breaks_taken(), 0);
  options.limits.num_breaks = 0;
  const auto quick = make(options, device, milliseconds(1));
  const auto long_job = quick->cache->submit(greedy(prompt_of(2, 5), 150));
  read_all(*slow->cache->submit(greedy(prompt_of(3, 60), 3)), std::chrono::seconds(20));
  EXPECT_GT(slow->executor->num_breaks_taken(), 0);
  long_job->cancel();
}

// A hung device blocks its own cache, and no other.
TEST_F(ThreadedTurnTest, AnAbandonedCacheFreesItsTurn) {
  Exclusive device;
  FakeEngineOptions options = on_device(runtime_, "cpu");
  options.cache.close_timeout = milliseconds(20);
  std::atomic<bool> hangs{true};
  auto hung = std::make_unique<FakeEngine>(options);
  hung->executor->before_step = [&](const Batch&) {
    while (hangs) std::this_thread::sleep_for(milliseconds(1));
  };
  const auto job = hung->cache->submit(greedy(prompt_of(1, 5), 10));
  std::this_thread::sleep_for(milliseconds(20));
  const auto other = make(options, device, microseconds(10));
  const auto waiting = other->cache->submit(greedy(prompt_of(2, 5), 10));
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(is_over(*waiting));
  hung->cache->close();
  EXPECT_EQ(read_all(*waiting, std::chrono::seconds(20)).tokens, fake_greedy(prompt_of(2, 5), 10, kVocab));
  hangs = false;
  std::this_thread::sleep_for(milliseconds(50));
}

// Steps are aborted between two blocks of a layer.
class AbortedStepTest : public ThreadedTurnTest {
 protected:
  AbortedStepTest() {
    FakeEngineOptions options = on_device(runtime_, "cpu");
    options.limits.num_breaks = 1000;
    engine_ = make(options, device_, milliseconds(2));  // two seconds per step
  }

  Exclusive device_;
  std::unique_ptr<FakeEngine> engine_;
};

TEST_F(AbortedStepTest, EndIfTheJobIsCancelled) {
  const auto job = engine_->cache->submit(greedy(prompt_of(1, 60), 10));
  std::this_thread::sleep_for(milliseconds(30));
  job->cancel();
  read_all(*job, std::chrono::seconds(20));
  EXPECT_TRUE(is_over(*job));
  EXPECT_EQ(engine_->cache->stats().prompt_tokens_computed, 0U) << "the step did not come to its end";
}

TEST_F(AbortedStepTest, EndIfTheCacheIsClosed) {
  const auto job = engine_->cache->submit(greedy(prompt_of(1, 60), 10));
  std::this_thread::sleep_for(milliseconds(30));
  engine_->cache->close();
  EXPECT_EQ(read_all(*job).terminal.error, ErrorCode::closed);
  EXPECT_EQ(engine_->cache->stats().steps, 1U);
}

TEST_F(AbortedStepTest, DoNotChangeOtherJobsOfTheStep) {
  engine_->executor->before_break = nullptr;
  const auto warm = engine_->cache->submit(greedy(prompt_of(5, 3), 1));
  read_all(*warm, std::chrono::seconds(20));
  std::atomic<bool> holds{true};
  engine_->executor->before_break = [&] {
    while (holds) std::this_thread::sleep_for(microseconds(100));
  };
  const auto jobs = engine_->cache->submit_many(greedy(prompt_of(2, 4), 6), 1);
  const auto large = engine_->cache->submit(greedy(prompt_of(30, 50), 10));
  std::this_thread::sleep_for(milliseconds(20));
  large->cancel();
  holds = false;
  EXPECT_EQ(read_all(*jobs.front(), std::chrono::seconds(20)).tokens,
            fake_greedy(prompt_of(2, 4), 6, kVocab));
  read_all(*large, std::chrono::seconds(20));
  EXPECT_TRUE(is_over(*large));
}

}  // namespace
}  // namespace quire::testing
