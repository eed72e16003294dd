#include "core/engine/scheduler/step_sizing.h"

#include <random>

#include <gtest/gtest.h>

namespace quire {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// A device whose steps take a fixed time and a time per token.
struct DeviceTimes {
  double start_ms = 20.0;
  double token_ms = 4.0;
  Duration takes(int32_t num_tokens) const {
    return microseconds(static_cast<int64_t>(1e3 * (start_ms + token_ms * num_tokens)));
  }
};

TEST(StepTimes, AreUnknownBeforeTheFirstStep) {
  const StepTimes times;
  EXPECT_EQ(times.of(8), Duration{0});
  EXPECT_EQ(times.tokens_within(milliseconds(1), 512), 512);
}

TEST(StepTimes, InterpolateBetweenSizes) {
  StepTimes times;
  times.observe(8, milliseconds(50));
  times.observe(64, milliseconds(274));
  const auto ms_of = [&](int32_t tokens) {
    return std::chrono::duration<double, std::milli>(times.of(tokens)).count();
  };
  EXPECT_NEAR(ms_of(8), 50.0, 1e-3);
  EXPECT_NEAR(ms_of(36), 162.0, 1e-3);
  EXPECT_NEAR(ms_of(4), 25.0, 1e-3) << "in proportion";
  EXPECT_NEAR(ms_of(128), 548.0, 1e-3) << "in proportion";
  EXPECT_EQ(times.tokens_within(microseconds(162001), 512), 36);
  EXPECT_EQ(times.tokens_within(microseconds(548001), 512), 128);
  EXPECT_EQ(times.tokens_within(milliseconds(548), 100), 100);
}

TEST(StepTimes, ForgetOutliers) {
  StepTimes times;
  times.observe(64, milliseconds(900));
  for (int i = 0; i < 200; ++i) times.observe(8, milliseconds(50));
  EXPECT_NEAR(double(times.of(64).count()), 400e6, 1.0);
}

StepSizing sizing(double stretch, int32_t max_tokens = 512) {
  return StepSizing({stretch, max_tokens});
}

TEST(StepSizing, IsUnboundedIfTurnedOff) {
  StepSizing off = sizing(0.0);
  off.observe(512, 0, std::chrono::seconds(5));
  EXPECT_EQ(off.tokens({8, 1, 60, true, milliseconds(1)}), 512);
}

TEST(StepSizing, KeepsTheStepTimeOfStreamsOnAnyDevice) {
  for (const DeviceTimes device :
       {DeviceTimes{20.0, 4.0}, DeviceTimes{1.0, 3.0}, DeviceTimes{8.0, 0.05}, DeviceTimes{100.0, 90.0}}) {
    for (const int32_t num_streams : {1, 8, 64}) {
      StepSizing steps = sizing(2.5);
      for (int i = 0; i < 5; ++i) steps.observe(num_streams, num_streams, device.takes(num_streams));
      int32_t tokens = 0;
      double longest_ratio = 0.0;
      for (int i = 0; i < 100; ++i) {
        tokens = steps.tokens({num_streams, 1, 0, false, Duration{0}});
        ASSERT_GE(tokens, num_streams + 8);
        const double ratio = double(device.takes(tokens).count()) / double(device.takes(num_streams).count());
        if (tokens > num_streams + 8) longest_ratio = std::max(longest_ratio, ratio);
        steps.observe(tokens, num_streams + 1, device.takes(tokens));
      }
      const bool is_noise = 2.5 * device.takes(num_streams) < milliseconds(5);
      if (!is_noise) {
        EXPECT_LE(longest_ratio, 3.0) << device.start_ms << " " << num_streams;
      }
      const double last = double(device.takes(tokens).count()) / double(device.takes(num_streams).count());
      if (tokens < 512 && tokens > num_streams + 8) {
        EXPECT_GE(last, 2.0) << "no more is given up than necessary";
      }
    }
  }
}

TEST(StepSizing, RecoversAfterASlowPeriod) {
  StepSizing steps = sizing(2.5);
  const DeviceTimes slow{20.0, 40.0};
  const DeviceTimes fast{20.0, 4.0};
  for (int i = 0; i < 5; ++i) steps.observe(8, 8, fast.takes(8));
  const auto run = [&](const DeviceTimes& device, int num_steps) {
    int32_t tokens = 0;
    for (int i = 0; i < num_steps; ++i) {
      tokens = steps.tokens({8, 1, 0, false, Duration{0}});
      steps.observe(tokens, 9, device.takes(tokens));
    }
    return tokens;
  };
  EXPECT_EQ(run(slow, 50), 16) << "the fewest";
  EXPECT_GT(run(fast, 400), 24);
}

// Returns the time of a step of an 8B model on a GPU, where matrix products use tiles of 32, 64 and 128
// tokens.
Duration takes_in_tiles(int32_t num_tokens) {
  const double ms = num_tokens <= 8    ? 2.4
                    : num_tokens <= 32 ? 2.9
                    : num_tokens <= 64 ? 6.2
                                       : 8.8 * ((num_tokens + 127) / 128);
  return microseconds(static_cast<int64_t>(1e3 * ms));
}

TEST(StepSizing, FillsATileInsteadOfBeginningTheNext) {
  StepSizing steps = sizing(2.5, 2048);
  for (int i = 0; i < 5; ++i) steps.observe(8, 8, takes_in_tiles(8));
  double num_prompt_tokens = 0.0;
  int num_long = 0;
  Duration time{0};
  for (int i = 0; i < 400; ++i) {
    const int32_t tokens = steps.tokens({8, 1, 0, false, Duration{0}});
    const Duration took = takes_in_tiles(tokens);
    if (i >= 20) {
      num_prompt_tokens += tokens - 8;
      time += took;
    }
    num_long += took > 3 * takes_in_tiles(8) ? 1 : 0;
    steps.observe(tokens, 9, took);
  }
  EXPECT_LE(num_long, 3) << "a larger tile is tried sometimes";
  const double rate = num_prompt_tokens / std::chrono::duration<double, std::milli>(time).count();
  EXPECT_GE(rate, 24 / 2.9 * 0.9) << "tokens a millisecond; 28 tokens in 6.2 ms if a new tile is started";
}

TEST(StepSizing, PromptsCatchUpIfMoreJobsWaitThanGenerate) {
  StepSizing steps = sizing(2.5, 2048);
  for (const int32_t tokens : {8, 32, 64, 128, 2048}) steps.observe(tokens, tokens, takes_in_tiles(tokens));
  EXPECT_LE(takes_in_tiles(steps.tokens({8, 8, 0, false, Duration{0}})), milliseconds(7));
  const int32_t many = steps.tokens({8, 9, 0, false, Duration{0}});
  EXPECT_GT(takes_in_tiles(many), milliseconds(80));
  EXPECT_LE(takes_in_tiles(many), milliseconds(110));
  EXPECT_EQ(steps.tokens({15, 2, 0, false, Duration{0}}), many) << "until few wait";
  EXPECT_LE(takes_in_tiles(steps.tokens({16, 2, 0, false, Duration{0}})), milliseconds(10));
  EXPECT_LE(takes_in_tiles(steps.tokens({15, 2, 0, false, Duration{0}})), milliseconds(10));
}

// Streams that all ended during a long prompt and started again get their usual step time back.
TEST(StepSizing, OneLongPromptDoesNotCountAsABacklog) {
  StepSizing steps = sizing(2.5, 2048);
  for (const int32_t tokens : {8, 32, 64, 128, 2048}) steps.observe(tokens, tokens, takes_in_tiles(tokens));
  EXPECT_GT(takes_in_tiles(steps.tokens({0, 9, 0, false, Duration{0}})), milliseconds(80));
  EXPECT_LE(takes_in_tiles(steps.tokens({8, 1, 0, false, Duration{0}})), milliseconds(7));
}

TEST(StepSizing, AStepAloneTakesASecondAtMost) {
  StepSizing steps = sizing(2.5);
  const DeviceTimes device{20.0, 10.0};
  steps.observe(512, 0, device.takes(512));
  int32_t tokens = 0;
  for (int i = 0; i < 20; ++i) {
    tokens = steps.tokens({0, 1, 0, false, Duration{0}});
    steps.observe(tokens, 0, device.takes(tokens));
  }
  EXPECT_LE(device.takes(tokens), milliseconds(1050));
  EXPECT_GE(device.takes(tokens), milliseconds(900));
}

TEST(StepSizing, BesideAnotherCacheTheTimeBetweenTwoBreaksCounts) {
  StepSizing steps = sizing(2.5);
  const DeviceTimes device{20.0, 4.0};
  for (const int32_t tokens : {1, 16, 64, 512}) steps.observe(tokens, 0, device.takes(tokens));
  const int32_t whole = steps.tokens({0, 1, 0, true, milliseconds(40)});
  EXPECT_LE(device.takes(whole), milliseconds(61));
  const int32_t in_pieces = steps.tokens({0, 1, 10, true, milliseconds(40)});
  EXPECT_GT(device.takes(in_pieces), milliseconds(500));
  EXPECT_LE(device.takes(in_pieces), milliseconds(610));
}

TEST(StepSizing, BreaksAreSpacedByAFewMilliseconds) {
  StepSizing steps = sizing(2.5);
  EXPECT_EQ(steps.breaks_of_a_piece(100, 64), 1) << "nothing is known";
  steps.observe(512, 0, milliseconds(32));
  EXPECT_EQ(steps.breaks_of_a_piece(512, 64), 8) << "of half a millisecond each";
  EXPECT_EQ(steps.breaks_of_a_piece(512, 2), 1);
  EXPECT_EQ(steps.breaks_of_a_piece(32, 64), 64) << "it is short itself";
}

// For any measurements the resulting size is in the allowed range.
TEST(StepSizing, StaysInRangeUnderAnyMeasurements) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    const auto max_tokens = static_cast<int32_t>(1 + random() % 600);
    StepSizing steps({1.0 + double(random() % 100) / 10.0, max_tokens});
    for (int i = 0; i < 200; ++i) {
      const auto took = Duration(static_cast<int64_t>(random() % (uint64_t{1} << (random() % 62))) - 5);
      steps.observe(static_cast<int32_t>(random() % 70000), static_cast<int32_t>(random() % 70), took);
      const int32_t tokens =
          steps.tokens({static_cast<int32_t>(random() % 70), static_cast<int32_t>(random() % 90),
                        static_cast<int32_t>(random() % 100), random() % 2 == 0,
                        Duration(static_cast<int64_t>(random() % 100000000))});
      ASSERT_GE(tokens, 1);
      ASSERT_LE(tokens, max_tokens);
    }
  }
}

}  // namespace
}  // namespace quire
