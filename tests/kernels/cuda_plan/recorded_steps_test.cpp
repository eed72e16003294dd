// Recordings of steps: always limited, and kept for steps that occur often.
#include "kernels/cuda/plan/recorded_steps.h"

#include <algorithm>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace quire::kernels {
namespace {

using Steps = RecordedSteps<int32_t>;
constexpr size_t kKernels = 10;

StepKey step_of(int32_t tokens) {
  return {.num_tokens = tokens,
          .num_sequences = tokens,
          .num_logit_rows = tokens,
          .max_query_tokens = 1,
          .max_kv_tokens = 256,
          .num_single = tokens};
}

// Runs a step as a context does. Recordings are numbers; `live` contains those not evicted.
struct Context {
  explicit Context(size_t most_kernels) : steps(most_kernels) {}

  enum class Way { run, recorded, replayed };
  Way take(int32_t tokens) {
    const StepKey key = step_of(tokens);
    if (const int32_t* recording = steps.find(key); recording != nullptr) {
      EXPECT_EQ(*recording, tokens);
      return Way::replayed;
    }
    if (!steps.should_record(key)) return Way::run;
    for (const int32_t gone : steps.evict_for(kKernels)) live.erase(gone);
    EXPECT_EQ(steps.keep(key, tokens, kKernels), tokens);
    EXPECT_TRUE(live.insert(tokens).second);
    return Way::recorded;
  }

  Steps steps;
  std::set<int32_t> live;
};
using Way = Context::Way;

TEST(RecordedSteps, AStepIsRecordedWhenItRepeats) {
  Context context(100);
  EXPECT_EQ(context.take(3), Way::run);
  EXPECT_EQ(context.take(4), Way::run);
  EXPECT_EQ(context.take(3), Way::recorded);
  EXPECT_EQ(context.take(3), Way::replayed);
  EXPECT_EQ(context.take(4), Way::recorded);
}

TEST(RecordedSteps, TheLeastRecentlyUsedIsEvicted) {
  Context context(2 * kKernels);
  for (const int32_t tokens : {1, 1, 2, 2}) context.take(tokens);
  EXPECT_EQ(context.take(1), Way::replayed);  // so the recording of 2 is the oldest
  for (int32_t i = 0; i < Steps::kRunsBeforeFull; ++i) EXPECT_EQ(context.take(3), Way::run) << i;
  EXPECT_EQ(context.take(3), Way::recorded);
  EXPECT_EQ(context.live, (std::set<int32_t>{1, 3}));
  EXPECT_EQ(context.take(2), Way::run);
}

// More kinds of steps in turn than fit: steps without a recording run plainly instead of evicting each other.
TEST(RecordedSteps, AlternatingKindsBeyondTheLimitDoNotEvictEachOther) {
  Context context(8 * kKernels);
  int32_t num_recorded = 0, num_replayed = 0;
  constexpr int32_t kRounds = 100, kKinds = 12;
  for (int32_t round = 0; round < kRounds; ++round) {
    for (int32_t kind = 1; kind <= kKinds; ++kind) {
      const Way way = context.take(kind);
      num_recorded += way == Way::recorded ? 1 : 0;
      num_replayed += way == Way::replayed ? 1 : 0;
    }
  }
  EXPECT_LE(num_recorded, 8 + kRounds * kKinds / (Steps::kRunsBeforeFull + 1));
  EXPECT_GE(num_replayed, kRounds * kKinds / 3);
}

TEST(RecordedSteps, TheOldestIsEvictedIfMemoryRunsOut) {
  Context context(100 * kKernels);
  for (const int32_t tokens : {1, 1, 2, 2}) context.take(tokens);
  context.take(3);
  context.steps.settle(step_of(3));
  for (int32_t i = 0; i < Steps::kRunsBeforeFull; ++i) EXPECT_EQ(context.take(3), Way::run) << i;
  EXPECT_EQ(context.take(3), Way::recorded);
  EXPECT_EQ(context.live, (std::set<int32_t>{2, 3}));
}

TEST(RecordedSteps, NoneIsRecordedWithoutMemory) {
  Context context(100);
  context.steps.settle(step_of(1));
  for (int32_t i = 0; i < 100; ++i) EXPECT_EQ(context.take(1), Way::run);
}

TEST(RecordedSteps, RandomStepsStayBoundedAndNoneIsLost) {
  std::random_device source;
  const unsigned seed = source();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  Context context(20 * kKernels);
  for (int32_t i = 0; i < 200'000; ++i) {
    // Some steps occur often, most of them rarely.
    const auto kind = static_cast<int32_t>(random() % 3 == 0 ? random() % 10 : random() % 5000);
    context.take(kind);
    ASSERT_LE(context.steps.num_kernels(), 20 * kKernels);
    ASSERT_EQ(context.steps.num_kernels(), context.live.size() * kKernels);
  }
  std::vector<int32_t> rest = context.steps.take_all();
  std::sort(rest.begin(), rest.end());
  EXPECT_EQ(rest, std::vector<int32_t>(context.live.begin(), context.live.end()));
  EXPECT_EQ(context.steps.num_kernels(), 0U);
}

}  // namespace
}  // namespace quire::kernels
