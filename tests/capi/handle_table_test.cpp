// The handle table: every 64-bit number that is not a live handle of the right type is refused, and an object
// lives exactly as long as a caller may use it.
#include "capi/src/handle_table.h"

#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace quire::capi {
namespace {

struct Probe : Object {
  explicit Probe(std::atomic<int>& the_alive) : alive(the_alive) { ++alive; }
  ~Probe() override { --alive; }
  void close() noexcept override { ++num_closed; }
  std::atomic<int>& alive;
  std::atomic<int> num_closed{0};
};

class HandleTableTest : public ::testing::Test {
 protected:
  uint64_t insert(HandleType type = HandleType::job) {
    return table.insert(type, std::make_unique<Probe>(alive));
  }
  void free(uint64_t token, HandleType type = HandleType::job) {
    ASSERT_NE(table.pin(token, type), nullptr);
    EXPECT_TRUE(table.close(token));
    table.unpin(token);
  }

  HandleTable& table = HandleTable::instance();
  std::atomic<int> alive{0};
};

TEST_F(HandleTableTest, ALiveHandleIsFound) {
  const uint64_t token = insert();
  Object* const object = table.pin(token, HandleType::job);
  ASSERT_NE(object, nullptr);
  table.unpin(token);
  EXPECT_EQ(table.type_of(token), HandleType::job);
  free(token);
  EXPECT_EQ(alive, 0);
}

TEST_F(HandleTableTest, ATokenIsNoAddress) {
  const uint64_t token = insert();
  // Canonical addresses of x86-64 have equal bits 47 to 63.
  const uint64_t top = token >> 47;
  EXPECT_NE(top, 0u);
  EXPECT_NE(top, (uint64_t{1} << 17) - 1);
  free(token);
}

TEST_F(HandleTableTest, AFreedHandleIsRefusedAfterItsSlotIsReused) {
  std::vector<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t token = insert();
    for (const uint64_t old : seen) EXPECT_EQ(table.pin(old, HandleType::job), nullptr);
    free(token);
    EXPECT_EQ(table.pin(token, HandleType::job), nullptr);
    if (i % 50 == 0) seen.push_back(token);
  }
}

TEST_F(HandleTableTest, AnotherTypeIsRefused) {
  const uint64_t token = insert(HandleType::queue);
  for (size_t i = 0; i < kNumHandleTypes; ++i) {
    const auto type = static_cast<HandleType>(i);
    EXPECT_EQ(table.pin(token, type) != nullptr, type == HandleType::queue);
  }
  // A token with a forged type is refused too.
  const uint64_t forged =
      (token & 0x00ffffffffffffffU) | uint64_t{0x40 | static_cast<unsigned>(HandleType::job)} << 56;
  EXPECT_EQ(table.pin(forged, HandleType::job), nullptr);
  EXPECT_EQ(table.type_of(forged), HandleType::none);
  table.unpin(token);
  free(token, HandleType::queue);
  EXPECT_EQ(alive, 0);
}

TEST_F(HandleTableTest, EveryFlippedBitIsRefused) {
  std::vector<uint64_t> live;
  for (int i = 0; i < 3000; ++i) live.push_back(insert());
  for (const uint64_t token : live) {
    for (int bit = 0; bit < 64; ++bit) {
      ASSERT_EQ(table.pin(token ^ uint64_t{1} << bit, HandleType::job), nullptr) << "bit " << bit;
    }
  }
  for (const uint64_t token : live) free(token);
  EXPECT_EQ(alive, 0);
}

TEST_F(HandleTableTest, RandomNumbersAreRefused) {
  const uint64_t token = insert();
  std::mt19937_64 random(7);
  for (int i = 0; i < 1000000; ++i) ASSERT_EQ(table.type_of(random()), HandleType::none);
  free(token);
}

TEST_F(HandleTableTest, TheSecondCloseIsRefusedAndTheObjectIsClosedOnce) {
  const uint64_t token = insert();
  auto* const probe = static_cast<Probe*>(table.pin(token, HandleType::job));
  EXPECT_TRUE(table.close(token));
  EXPECT_FALSE(table.close(token));
  EXPECT_EQ(probe->num_closed, 1);
  EXPECT_EQ(alive, 1) << "the pin keeps it";
  EXPECT_EQ(table.pin(token, HandleType::job), nullptr) << "no new pin once closed";
  table.unpin(token);
  EXPECT_EQ(alive, 0);
}

TEST_F(HandleTableTest, CountsLiveHandles) {
  const int64_t events = table.num_live(HandleType::event);
  const int64_t objects = table.num_live_objects();
  const uint64_t event = insert(HandleType::event);
  const uint64_t error = insert(HandleType::error);
  EXPECT_EQ(table.num_live(HandleType::event), events + 1);
  EXPECT_EQ(table.num_live_objects(), objects + 1) << "errors stand alone";
  free(event, HandleType::event);
  free(error, HandleType::error);
  EXPECT_EQ(table.num_live(HandleType::event), events);
}

// Some threads use and others free the same handles, while slots are reused all the time.
TEST_F(HandleTableTest, UseAndFreeFromManyThreads) {
  constexpr int kNumHandles = 64;
  constexpr int kRounds = 2000;
  std::vector<std::atomic<uint64_t>> tokens(kNumHandles);
  for (auto& token : tokens) token = insert();
  std::atomic<int> num_used{0};
  std::atomic<int> num_freed{0};
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < kRounds; ++i) {
      std::atomic<uint64_t>& place = tokens[random() % kNumHandles];
      const uint64_t token = place;
      auto* const probe = static_cast<Probe*>(table.pin(token, HandleType::job));
      if (probe == nullptr) continue;
      EXPECT_GE(probe->alive.load(), 1);
      ++num_used;
      if (random() % 4 == 0 && table.close(token)) {
        ++num_freed;
        place = insert();
      }
      table.unpin(token);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) threads.emplace_back(work, seed);
  for (auto& thread : threads) thread.join();
  EXPECT_GT(num_used, 0);
  EXPECT_GT(num_freed, 0);
  EXPECT_EQ(alive, kNumHandles);
  for (const auto& token : tokens) free(token);
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace quire::capi
