// Host experts in slots of the card: whichever are there, and whichever device multiplies them, their sums
// have the bits of the CPU backend.
#include "tests/kernels/cuda/packed_experts_fixture.h"

namespace quire::kernels {
namespace {

TEST_F(PackedExpertsTest, ExpertsInSlotsGiveTheSameBits) {
  num_slots_ = 5;
  Experts experts = make_experts(11, small_form());
  const Step step = make_step(experts, 20, 4);
  for (const int32_t at_once : {1, 3, 11}) {
    make_packed_context(experts, step, at_once);
    for (const std::vector<int32_t>& with_slots :
         {std::vector<int32_t>{3}, {0, 4, 9}, {10, 1}, {2, 5, 6, 7, 8}, {8, 6, 2, 0, 1}}) {
      give_slots(experts, with_slots);
      expect_same(experts, step);
      mark_filled(experts);
      expect_same(experts, step);
      expect_same(experts, make_step(experts, 7, 4));
      expect_equal(at_both(experts, step), on_cpu(experts, step));
      expect_same(experts, step);
    }
  }
}

TEST_F(PackedExpertsTest, SlotsAreFilledWithoutRows) {
  num_slots_ = 4;
  Experts experts = make_experts(9, small_form());
  const Step step = make_step(experts, 16, 2);
  for (const int32_t at_once : {1, 9}) {
    make_packed_context(experts, step, at_once);
    for (const std::vector<int32_t>& with_slots : {std::vector<int32_t>{1, 2, 3, 4}, {7, 2}, {0, 5, 6, 3}}) {
      give_slots(experts, with_slots);
      PackedExpertsParams p = params_of(experts, step);
      p.tokens = 0;
      ASSERT_EQ(table_->fill_expert_slots(context_, &p), Status::ok);
      mark_filled(experts);
      expect_equal(at_both(experts, step), on_cpu(experts, step));
    }
  }
}

TEST_F(PackedExpertsTest, ScaledInputsOfExpertsInSlotsGiveTheSameBits) {
  num_slots_ = 2;
  Experts experts = make_experts(4, small_form());
  Step step = make_step(experts, 9, 1);
  step.scales_input = true;
  make_packed_context(experts, step, 4);
  give_slots(experts, {0, 2});
  expect_same(experts, step);
  mark_filled(experts);
  expect_equal(at_both(experts, step), on_cpu(experts, step));
}

TEST_F(PackedExpertsTest, OutputsOfManyRowsReturn) {
  num_slots_ = 3;
  Experts experts = make_experts(3, small_form());
  const Step step = make_step(experts, kMaxSlotTokens, 2);
  make_packed_context(experts, step, 3);
  give_slots(experts, {0, 1, 2});
  expect_same(experts, step);
  mark_filled(experts);
  expect_equal(at_both(experts, step), on_cpu(experts, step));
}

// No expert of the step is there: nothing is started, and nothing returns.
TEST_F(PackedExpertsTest, NothingIsStartedWithoutExpertsInSlots) {
  num_slots_ = 1;
  Experts experts = make_experts(4, small_form());
  const Step step = make_step(experts, 5, 2);
  make_packed_context(experts, step, 4);
  give_slots(experts, {3});
  mark_filled(experts);
  expect_equal(at_both(experts, step), on_cpu(experts, step));
  std::vector<float> outputs(10 * 48, 0.5f);
  EXPECT_EQ(table_->finish_slot_experts(context_, outputs.data()), Status::ok);
  EXPECT_EQ(outputs, std::vector<float>(10 * 48, 0.5f));
}

// A step may end between start and finish.
TEST_F(PackedExpertsTest, ACallThatIsNotFinishedHarmsNoOther) {
  num_slots_ = 3;
  Experts experts = make_experts(6, small_form());
  const Step step = make_step(experts, 12, 3), other = make_step(experts, 12, 3);
  make_packed_context(experts, step, 2);
  give_slots(experts, {0, 1, 2});
  expect_same(experts, step);
  mark_filled(experts);
  const PackedExpertsParams started = params_of(experts, other);
  EXPECT_EQ(table_->start_slot_experts(context_, &started), Status::ok);
  expect_same(experts, step);
  EXPECT_EQ(table_->start_slot_experts(context_, &started), Status::ok);
  expect_equal(at_both(experts, step), on_cpu(experts, step));
  EXPECT_EQ(table_->start_slot_experts(context_, &started), Status::ok);
}

TEST_F(PackedExpertsTest, FailuresWithSlotsLeaveTheContextUsable) {
  num_slots_ = 2;
  Experts experts = make_experts(5, small_form());
  Step step = make_step(experts, 16, 2);
  step.experts[0] = 2;
  make_packed_context(experts, step, 1);
  give_slots(experts, {2, 3});
  const auto fill = [&] {
    PackedExpertsParams p = params_of(experts, step);
    p.tokens = 0;
    return table_->fill_expert_slots(context_, &p);
  };
  experts.places[1].slot = 2;
  EXPECT_EQ(fill(), Status::invalid_argument) << "a slot that is not there";
  experts.places[1].slot = -1;
  experts.failing_describe = 2;
  EXPECT_EQ(fill(), Status::unsupported);
  experts.failing_describe = -1;
  for (int32_t allowed = 0; allowed < 2; ++allowed) {
    experts.copies_left = allowed;
    EXPECT_EQ(fill(), Status::unsupported);
  }
  experts.copies_left = -1;
  EXPECT_EQ(fill(), Status::ok);
  mark_filled(experts);
  Step wrong = step;
  wrong.experts[3] = 5;
  PackedExpertsParams p = params_of(experts, wrong);
  EXPECT_EQ(table_->start_slot_experts(context_, &p), Status::invalid_argument);
  Step many = make_step(experts, kMaxSlotTokens + 1, 1);
  p = params_of(experts, many);
  EXPECT_EQ(table_->start_slot_experts(context_, &p), Status::invalid_argument) << "too many tokens";
  experts.copies_left = 0;
  p = params_of(experts, step);
  EXPECT_EQ(table_->start_slot_experts(context_, &p), Status::unsupported);
  experts.copies_left = -1;
  expect_equal(at_both(experts, step), on_cpu(experts, step));
  expect_same(experts, step);
}

}  // namespace
}  // namespace quire::kernels
