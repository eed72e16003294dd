// Released pages, slots of windows and state slots hold NaN; those in use or in the prefix cache do not
// change.
#include "core/engine/loop/freed_memory.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/support/engine_fakes.h"

namespace quire::testing {
namespace {

constexpr std::byte kPoison{0xff}, kContent{0x11};

class FreedMemoryTest : public ::testing::Test {
 protected:
  FreedMemoryTest() { fill(); }

  static ExecutorLimits limits() {
    ExecutorLimits limits = small_device();
    limits.num_pages = 16;
    limits.windows = {{4, 8}};
    limits.num_state_slots = 3;
    return limits;
  }
  static KvCacheOptions options() {
    KvCacheOptions options{{16, 4, 64}, 16, 8, limits().windows};
    options.num_state_slots = limits().num_state_slots;
    return options;
  }

  // Writes other bytes to all memory, as steps do.
  void fill() {
    std::vector<std::byte> bytes(4096, kContent);
    const auto content = gsl::span<const std::byte>(bytes);
    const auto page = content.first(static_cast<size_t>(executor_.page_bytes(0)));
    const auto slot = content.first(static_cast<size_t>(executor_.page_bytes(1)));
    const auto bank = content.first(static_cast<size_t>(executor_.state_bytes()));
    for (int32_t i = 0; i < 16; ++i) executor_.write_page(0, PageId{i}, page);
    for (int32_t i = 0; i < 8; ++i) executor_.write_page(1, PageId{i}, slot);
    for (int32_t i = 0; i < 6; ++i) executor_.write_state(i / 2, i % 2, bank);
  }
  bool is_all(gsl::span<const std::byte> bytes, std::byte expected) const {
    return std::all_of(bytes.begin(), bytes.end(), [=](std::byte byte) { return byte == expected; });
  }
  std::byte page(int32_t table, int32_t page) {
    std::vector<std::byte> bytes(static_cast<size_t>(executor_.page_bytes(table)));
    executor_.read_page(table, PageId{page}, bytes);
    EXPECT_TRUE(is_all(bytes, bytes.front()));
    return bytes.front();
  }
  std::byte state(int32_t slot) {
    std::vector<std::byte> banks[2];
    for (int32_t bank = 0; bank < 2; ++bank) {
      banks[bank].resize(static_cast<size_t>(executor_.state_bytes()));
      executor_.read_state(slot, bank, banks[bank]);
    }
    EXPECT_TRUE(is_all(banks[0], banks[0].front()) && is_all(banks[1], banks[0].front()));
    return banks[0].front();
  }
  int32_t num_pages(int32_t table, std::byte value) {
    int32_t count = 0;
    for (int32_t i = 0; i < (table == 0 ? 16 : 8); ++i) count += page(table, i) == value ? 1 : 0;
    return count;
  }
  int32_t num_states(std::byte value) {
    int32_t count = 0;
    for (int32_t i = 0; i < 3; ++i) count += state(i) == value ? 1 : 0;
    return count;
  }

  // Runs the bookkeeping of a step over 20 tokens from `first` on.
  void step(SequenceId sequence, TokenId first = 1) {
    Lane lane;
    for (TokenId i = 0; i < 20; ++i) lane.tokens.push_back(first + i);
    lane.num_prompt_tokens = 20;
    lane.sequence = sequence;
    StepPlan plan;
    plan.lanes.emplace_back();
    plan.lanes[0].lane = &lane;
    plan.lanes[0].max_tokens = 20;
    Reservation reservation = kv_.reserve(plan);
    freed_memory_.poison_begun(plan, reservation.state_copies());
    begun_ = state(plan.lanes[0].state_slot);
    plan.lanes[0].num_accepted = plan.lanes[0].num_tokens;
    reservation.commit();
  }

  FakeExecutor executor_{limits()};
  KvCache kv_{options()};
  FreedMemory freed_memory_{executor_, kv_};
  std::byte begun_{0};  // in the state slot of the last step, before its pass
};

TEST_F(FreedMemoryTest, IsPoisonedOnceAfterEachRelease) {
  freed_memory_.poison();
  EXPECT_EQ(num_pages(0, kPoison), 16);
  EXPECT_EQ(num_pages(1, kPoison), 8);
  EXPECT_EQ(num_states(kPoison), 3);
  for (int32_t time = 0; time < 2; ++time) {
    const SequenceId sequence = kv_.create({{}, false, false});
    step(sequence);
    fill();
    freed_memory_.poison();
    EXPECT_EQ(num_pages(0, kContent), 16) << "the free ones were poisoned before";
    kv_.destroy(sequence);
    freed_memory_.poison();
    EXPECT_EQ(num_pages(0, kPoison), 5);
    EXPECT_EQ(num_pages(1, kPoison), 5);
    EXPECT_EQ(num_states(kPoison), 1);
  }
}

TEST_F(FreedMemoryTest, WhatCanBeFoundIsKept) {
  const SequenceId sequence = kv_.create({{}, true, true});
  step(sequence);
  fill();
  kv_.destroy(sequence);
  freed_memory_.poison();
  EXPECT_EQ(num_pages(0, kContent), 5);
  EXPECT_EQ(num_states(kContent), 1) << "a snapshot";
  EXPECT_EQ(num_pages(1, kContent), 5);
}

// The slots of dropped snapshots are given away within a step.
TEST_F(FreedMemoryTest, ALaneBeginsInAPoisonedSlot) {
  for (TokenId first = 1; first < 200; first += 30) {
    const SequenceId sequence = kv_.create({{}, true, true});
    step(sequence, first);
    EXPECT_EQ(begun_, kPoison);
    kv_.destroy(sequence);
    fill();
  }
}

}  // namespace
}  // namespace quire::testing
