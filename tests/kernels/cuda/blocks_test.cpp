// Whole transformer blocks, with and without replay of recorded steps.
#include <algorithm>
#include <numeric>

#include "tests/kernels/cuda/block_fixture.h"
#include "tests/support/exhausted_memory.h"

namespace quire::kernels {
namespace {

TEST_F(BlockTest, ReplayedStepsHaveTheSameBits) {
  make_model(true);
  step({0, 0, 0}, {30, 20, 10}, true);
  bool replayed = false;
  const auto first = step({30, 20, 10}, {1, 1, 1}, true, &replayed);
  EXPECT_FALSE(replayed);
  EXPECT_EQ(step({30, 20, 10}, {1, 1, 1}, true), first);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(step({30, 20, 10}, {1, 1, 1}, true, &replayed), first);
    EXPECT_TRUE(replayed);
  }
  // Other lengths and tokens with the same graph, compared with a separate step that is not recorded.
  const auto later = step({31, 21, 11}, {1, 1, 1}, true, &replayed);
  EXPECT_TRUE(replayed);
  const auto alone = step({31, 21}, {1, 1}, true);
  EXPECT_EQ(std::memcmp(alone.data(), later.data(), alone.size() * sizeof(float)), 0);
}

// Rows leave and return in the middle of a step, for which the host waits: no such step is recorded.
TEST_F(BlockTest, AStepInWhichTheHostWaitsIsNotRecorded) {
  make_model(true);
  const std::vector<int32_t> none(3, 0), past = {30, 20, 10}, ones(3, 1);
  step(none, past, true);
  const auto expected = step(past, ones, true);
  Context* waiting = nullptr;
  ContextLimits limits = small_limits();
  limits.waits_within_steps = 1;
  limits.handed_columns = kHidden;
  ASSERT_EQ(table_->create_context(device_, &limits, &waiting), Status::ok);
  std::swap(context_, waiting);
  std::vector<float> rows(size_t{3} * kHidden);
  for (int round = 0; round < 4; ++round) {
    const BatchView batch = bind(past, ones);
    StepAction action = StepAction::replayed;
    ASSERT_EQ(table_->begin_step(context_, &batch, &action), Status::ok);
    ASSERT_EQ(action, StepAction::run);
    embed(batch);
    ASSERT_EQ(table_->read_rows(context_, space_.hidden, 3, kHidden, rows.data()), Status::ok);
    ASSERT_EQ(table_->synchronize(context_), Status::ok);
    ASSERT_EQ(table_->write_rows(context_, rows.data(), 3, kHidden, space_.hidden), Status::ok);
    issue(batch, true);
    ASSERT_EQ(table_->end_step(context_, &action), Status::ok);
    EXPECT_EQ(action, StepAction::replayed);
    std::vector<float> logits(expected.size());
    EXPECT_EQ(table_->read_rows(context_, space_.logits, 3, kVocabulary, logits.data()), Status::ok);
    EXPECT_EQ(table_->synchronize(context_), Status::ok);
    EXPECT_EQ(logits, expected);
  }
  std::swap(context_, waiting);
  table_->release_context(waiting);
}

// Two contexts share one workspace: the second one's results would be overwritten if the first still ran.
TEST_F(BlockTest, APassWaitsForPassesOfOtherContexts) {
  make_model(true);
  const std::vector<int32_t> none(3, 0), past = {30, 20, 10}, ones(3, 1);
  step(none, past, true);
  const auto expected = step(past, ones, true);
  Context* other = nullptr;
  const ContextLimits limits = small_limits();
  ASSERT_EQ(table_->create_context(device_, &limits, &other), Status::ok);
  for (int round = 0; round < 5; ++round) {  // the last rounds are replayed
    const BatchView batch = bind(none, {20, 20, 20});
    for (int i = 0; i < 8; ++i) run(batch, true);
    std::swap(context_, other);
    step(none, past, true);
    EXPECT_EQ(step(past, ones, true), expected);
    std::swap(context_, other);
  }
  table_->release_context(other);
  EXPECT_EQ(step(none, past, true).empty(), false) << "the other context issued work last";
  EXPECT_EQ(step(past, ones, true), expected);
}

// Weights come back in the order of the step, which begins before the last has arrived; recorded steps stay
// valid.
TEST_F(BlockTest, OffloadedWeightsComeBackUnchanged) {
  if (!parks()) GTEST_SKIP() << "this card cannot map memory";
  leaves_ = true;
  make_model(true);
  bool replayed = false;
  std::vector<float> expected;
  ASSERT_NO_FATAL_FAILURE(record_step(expected));
  std::rotate(weights_.begin(), weights_.end() - 1, weights_.end());  // the embedding is read first
  MemoryUse at_first, copied, again;
  table_->memory_use(device_, &at_first);
  const uint64_t parked = offload_all();
  EXPECT_EQ(parked % (uint64_t{2} << 20), 0U);
  EXPECT_GE(parked, uint64_t{12} << 20) << "six memory blocks";
  table_->memory_use(device_, &copied);
  EXPECT_EQ(copied.pinned_bytes - at_first.pinned_bytes, parked);
  for (const bool fused : {true, false}) {
    restore_all();
    restore_all();  // a second call copies nothing
    if (num_copies_in_flight()) {
      EXPECT_EQ(num_copies_in_flight(), 6);
      embed(bind({30, 20, 10}, {1, 1, 1}));
      EXPECT_EQ(num_copies_in_flight(), 5) << "the step must not wait for the other weights";
    }
    const auto streamed = step({30, 20, 10}, {1, 1, 1}, fused, &replayed);
    EXPECT_FALSE(replayed && num_copies_in_flight()) << "a recorded step waits for nothing";
    if (fused) {
      EXPECT_EQ(streamed, expected);
    }
    EXPECT_LT(relative_error(streamed, expected), 3e-3);
    EXPECT_EQ(num_copies_in_flight().value_or(0), 0);
    EXPECT_EQ(step({30, 20, 10}, {1, 1, 1}, true, &replayed), expected);
    EXPECT_TRUE(replayed);
    EXPECT_EQ(offload_all(), parked);
    table_->memory_use(device_, &again);
    EXPECT_EQ(again.pinned_bytes, copied.pinned_bytes) << "copied once";
  }
  // Release some weights while they are offloaded, and some while they are being copied.
  for (size_t i = 0; i < weights_.size(); i += 2)
    EXPECT_EQ(table_->bring_weight(device_, weights_[i]), Status::ok);
  for (Weight* weight : weights_) table_->release_weight(device_, weight);
  weights_.clear();
  table_->memory_use(device_, &again);
  EXPECT_EQ(again.pinned_bytes, at_first.pinned_bytes);
  EXPECT_EQ(num_copies_in_flight().value_or(0), 0);
}

// Only the model that is coming back waits for its weights; others on the card replay their steps.
TEST_F(BlockTest, StepsReplayWhileAnotherModelIsCopied) {
  if (!parks()) GTEST_SKIP() << "this card cannot map memory";
  leaves_ = true;
  make_model(true);
  bool replayed = false;
  std::vector<float> expected;
  ASSERT_NO_FATAL_FAILURE(record_step(expected));
  const auto table = to_halves(random_floats(size_t{4096} * kHidden, random_));
  Weight* other = nullptr;
  const TableSource source = {DType::f16, 4096, kHidden, table.data(), nullptr};
  ASSERT_EQ(table_->prepare_table(device_, &source, &other), Status::ok);
  ASSERT_EQ(table_->copy_weight(device_, other), Status::ok);
  ASSERT_GT(table_->park_weight(device_, other), 0U);
  ASSERT_EQ(table_->bring_weight(device_, other), Status::ok);
  EXPECT_EQ(num_copies_in_flight().value_or(1), 1);
  EXPECT_EQ(step({30, 20, 10}, {1, 1, 1}, true, &replayed), expected);
  EXPECT_TRUE(replayed);
  // A step of another kind is not recorded during that time, because its weights are not known yet.
  for (int i = 0; i < 3; ++i) step({30, 20}, {1, 1}, true, &replayed);
  EXPECT_FALSE(replayed && num_copies_in_flight());
  EXPECT_EQ(num_copies_in_flight().value_or(1), 1) << "the step must not wait for the other weight";
  table_->release_weight(device_, other);
  EXPECT_EQ(step({30, 20, 10}, {1, 1, 1}, true, &replayed), expected);
  EXPECT_TRUE(replayed);
}

TEST_F(BlockTest, AMatrixIsReadOnlyAfterItsCopy) {
  if (!parks()) GTEST_SKIP() << "this card cannot map memory";
  leaves_ = true;
  make_model(true);
  std::vector<float> before(size_t{kHidden} * 2 * kInner), after(before.size());
  ASSERT_EQ(table_->dequantize(device_, gate_up_, before.data()), Status::ok);
  offload_all();
  restore_all();
  ASSERT_EQ(table_->dequantize(device_, gate_up_, after.data()), Status::ok);
  EXPECT_EQ(before, after);
}

// Steps allocate no memory of the card: they do without optional allocations such as recordings.
TEST_F(BlockTest, OutOfMemoryStepsAreUnchanged) {
  make_model(true);
  const auto steps = [&] {
    std::vector<std::vector<float>> all;
    all.push_back(step({0, 0, 0}, {100, 30, 20}, true));
    all.push_back(step({0}, {300}, true));
    all.push_back(step({0, 0, 0}, {30, 20, 10}, true));
    // Each multiple of chunks is another kind of step.
    for (int32_t bound = 0; bound <= 60000; bound += 1000) {
      kv_bound_ = bound;
      for (int i = 0; i < 3; ++i) all.push_back(step({30, 20, 10}, {1, 1, 1}, true));
    }
    kv_bound_ = 0;
    return all;
  };
  {
    const ExhaustedMemory taken(*table_, device_);
    EXPECT_EQ(steps(), steps());
  }
  MemoryUse before, after;
  table_->memory_use(device_, &before);
  steps();
  table_->memory_use(device_, &after);
  EXPECT_EQ(after.num_taken, before.num_taken);
}

// With products of cuBLASLt, too, whose kernels may not fit on a full card.
TEST_F(BlockTest, OutOfMemoryStepsOfTheFastModeSucceed) {
  close();
  open(false);
  if (device_ == nullptr) return;
  make_context(small_limits());
  make_model(true);
  std::vector<float> full;
  {
    const ExhaustedMemory taken(*table_, device_);
    full = step({0}, {300}, true);
  }
  EXPECT_LT(relative_error(full, step({0}, {300}, true)), 3e-3);
}

// More kinds of steps than recordings are stored, each run plainly, recorded and replayed.
TEST_F(BlockTest, ManyKindsOfStepsHaveTheSameBits) {
  make_model(true);
  for (int32_t tokens = 1; tokens <= 64; ++tokens) {
    const auto expected = step({0}, {tokens}, true);
    for (int32_t bound = 0; bound <= 60000; bound += 1000) {
      kv_bound_ = bound;
      for (int i = 0; i < 3; ++i) ASSERT_EQ(step({0}, {tokens}, true), expected) << tokens << ", " << bound;
    }
    kv_bound_ = 0;
  }
}

TEST_F(BlockTest, AFailedOperationDuringRecordingDoesNotAffectLaterSteps) {
  make_model(true);
  step({0, 0}, {30, 20}, true);
  const auto expected = step({30, 20}, {1, 1}, true);
  for (int i = 0; i < 2; ++i) {
    const BatchView batch = bind({30, 20}, {1, 1});
    StepAction action = StepAction::replayed;
    ASSERT_EQ(table_->begin_step(context_, &batch, &action), Status::ok);
    ASSERT_EQ(action, StepAction::run);  // the second of its kind: it is recorded
    embed(batch);
    LinearParams product;
    product.weight = embedding_;
    product.rows = batch.num_tokens;
    const Status refused = table_->linear(context_, &product);
    EXPECT_EQ(refused, Status::invalid_argument);
    EXPECT_STREQ(refused.words, "linear: the weight is not a matrix");
  }
  bool replayed = true;
  EXPECT_EQ(step({30, 20}, {1, 1}, true, &replayed), expected);
  EXPECT_FALSE(replayed);
  EXPECT_EQ(step({30, 20}, {1, 1}, true, &replayed), expected);
  EXPECT_TRUE(replayed);
}

}  // namespace
}  // namespace quire::kernels
