// Links between two contexts: of two cards, or of one emulated card, with the emulated NCCL.
#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/kernels/cuda/cuda_device.h"

namespace quire::kernels {
namespace {

bool is_emulated() {
  return *QUIRE_EMULATED_NCCL_LIBRARY != '\0';
}

class LinksTest : public CudaTest {
 protected:
  static constexpr int32_t kColumns = 257;
  static constexpr int32_t kMostRows = 512;

  void SetUp() override {
    if (is_emulated()) {
      ASSERT_NE(dlopen(QUIRE_EMULATED_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
    }
    CudaTest::SetUp();
    if (device_ == nullptr) return;
    char why[512] = {};
    const int32_t num_cards = cuda_backend()->num_devices(why, sizeof why);
    if (num_cards < 2 && !is_emulated()) GTEST_SKIP() << "two cards are needed";
    LinkSupport support;
    if (const Status s = table_->open_links(device_, &support); s != Status::ok) GTEST_SKIP() << s.words;
    link_bytes_ = support.bytes;
    EXPECT_EQ(std::string(support.library).substr(0, 5), "NCCL ");
    ASSERT_EQ(cuda_backend()->open_device(num_cards < 2 ? 0 : 1, nullptr, &other_), Status::ok);
    const ContextLimits limits = small_limits();
    ASSERT_EQ(cuda_backend()->table(other_)->create_context(other_, &limits, &far_), Status::ok);
    ASSERT_EQ(
        cuda_backend()->table(other_)->allocate(other_, kMostRows * kColumns * sizeof(float), &far_memory_),
        Status::ok);
  }
  void TearDown() override {
    release();
    if (other_ != nullptr) {
      const KernelTable& table = *cuda_backend()->table(other_);
      table.release(other_, far_memory_);
      if (far_ != nullptr) table.release_context(far_);
      cuda_backend()->close_device(other_);
    }
    CudaTest::TearDown();
  }

  // Polls both ends until they are as far as `state`, or one fails.
  Status settle(LinkState state) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    for (;;) {
      LinkState near = LinkState::busy, far = LinkState::busy;
      for (const auto& [link, now] : {std::pair(near_link_, &near), std::pair(far_link_, &far)}) {
        if (const Status s = table_->poll_link(link, now); s != Status::ok) return s;
      }
      if (near >= state && far >= state) return Status::ok;
      if (std::chrono::steady_clock::now() > end)
        return failed(Status::device_lost, "the test waited too long");
      std::this_thread::yield();
    }
  }
  Status link() {
    LinkId id;
    if (const Status s = table_->make_link_id(device_, &id); s != Status::ok) return s;
    if (const Status s = table_->create_link(context_, &id, 0, &near_link_); s != Status::ok) return s;
    if (const Status s = table_->create_link(far_, &id, 1, &far_link_); s != Status::ok) return s;
    return settle(LinkState::done);
  }
  void release() {
    table_->release_link(std::exchange(near_link_, nullptr));
    table_->release_link(std::exchange(far_link_, nullptr));
  }
  std::vector<float> far_rows(size_t count) {
    std::vector<float> values(count);
    EXPECT_EQ(table_->synchronize(far_), Status::ok);
    EXPECT_EQ(table_->download(other_, values.data(), far_memory_, count * sizeof(float)), Status::ok);
    return values;
  }

  uint64_t link_bytes_ = 0;
  Device* other_ = nullptr;
  Context* far_ = nullptr;
  void* far_memory_ = nullptr;
  Link* near_link_ = nullptr;
  Link* far_link_ = nullptr;
};

TEST_F(LinksTest, RowsArriveUnchangedInBothDirections) {
  ASSERT_EQ(link(), Status::ok);
  std::mt19937 random(3);
  auto* const far_floats = static_cast<float*>(far_memory_);
  for (const int32_t rows : {1, 2, 32, 33, kMostRows, 1, 7}) {
    SCOPED_TRACE(rows);
    const size_t count = static_cast<size_t>(rows) * kColumns;
    const std::vector<float> values = random_floats(count, random);
    float* const here = to_device(values);
    ASSERT_EQ(table_->send_by_link(near_link_, here, rows, kColumns), Status::ok);
    ASSERT_EQ(table_->receive_by_link(far_link_, far_floats, rows, kColumns), Status::ok);
    ASSERT_EQ(settle(LinkState::done), Status::ok);
    EXPECT_TRUE(far_rows(count) == values);
    float* const back = poisoned<float>(count);
    ASSERT_EQ(table_->send_by_link(far_link_, far_floats, rows, kColumns), Status::ok);
    ASSERT_EQ(table_->receive_by_link(near_link_, back, rows, kColumns), Status::ok);
    ASSERT_EQ(settle(LinkState::done), Status::ok);
    EXPECT_TRUE(from_device(back, count) == values);
  }
}

// A receive that nothing answers ends with its link, and the context goes on.
TEST_F(LinksTest, AReleaseEndsATransferThatWaits) {
  ASSERT_EQ(link(), Status::ok);
  ASSERT_EQ(table_->receive_by_link(near_link_, poisoned<float>(kColumns), 1, kColumns), Status::ok);
  for (int i = 0; i < 1000; ++i) {
    LinkState state = LinkState::done;
    ASSERT_EQ(table_->poll_link(near_link_, &state), Status::ok);
    ASSERT_NE(state, LinkState::done);
  }
  const auto begin = std::chrono::steady_clock::now();
  table_->release_link(std::exchange(near_link_, nullptr));
  EXPECT_EQ(table_->synchronize(context_), Status::ok);
  EXPECT_LE(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
  const std::vector<float> values = {1.0F, 2.0F};
  EXPECT_TRUE(from_device(to_device(values), 2) == values);
}

TEST_F(LinksTest, MemoryIsPlannedAndCounted) {
  ContextLimits limits = small_limits();
  MemoryUse without, with, before, linked, after;
  ASSERT_EQ(table_->plan_context(device_, &limits, &without), Status::ok);
  limits.num_links = 2;
  ASSERT_EQ(table_->plan_context(device_, &limits, &with), Status::ok);
  EXPECT_EQ(with.held_bytes, without.held_bytes + 2 * link_bytes_);
  table_->memory_use(device_, &before);
  ASSERT_EQ(link(), Status::ok);
  table_->memory_use(device_, &linked);
  EXPECT_EQ(linked.held_bytes, before.held_bytes + link_bytes_);
  release();
  table_->memory_use(device_, &after);
  EXPECT_EQ(after.held_bytes, before.held_bytes);
}

TEST_F(LinksTest, WithoutMemoryThereIsNone) {
  MemoryUse use;
  DeviceOptions options;
  table_->memory_use(device_, &use);
  options.memory_limit_bytes = use.held_bytes + link_bytes_ - 1;
  Device* small = nullptr;
  ASSERT_EQ(cuda_backend()->open_device(0, &options, &small), Status::ok);
  const KernelTable& table = *cuda_backend()->table(small);
  const ContextLimits limits = small_limits();
  Context* context = nullptr;
  ASSERT_EQ(table.create_context(small, &limits, &context), Status::ok);
  LinkId id;
  LinkSupport support;
  ASSERT_EQ(table.open_links(small, &support), Status::ok);
  ASSERT_EQ(table.make_link_id(small, &id), Status::ok);
  EXPECT_EQ(table.create_link(context, &id, 0, &near_link_), Status::out_of_memory);
  EXPECT_EQ(near_link_, nullptr);
  table.release_context(context);
  table.memory_use(small, &use);
  EXPECT_EQ(use.held_bytes, 0U);
  cuda_backend()->close_device(small);
}

// One thing at a time, after the link is connected.
TEST_F(LinksTest, CallsOutOfOrderAreRefused) {
  LinkId id;
  ASSERT_EQ(table_->make_link_id(device_, &id), Status::ok);
  ASSERT_EQ(table_->create_link(context_, &id, 0, &near_link_), Status::ok);
  float* const row = poisoned<float>(kColumns);
  EXPECT_EQ(table_->send_by_link(near_link_, row, 1, kColumns), Status::invalid_argument);
  ASSERT_EQ(table_->create_link(far_, &id, 1, &far_link_), Status::ok);
  ASSERT_EQ(settle(LinkState::done), Status::ok);
  EXPECT_EQ(table_->send_by_link(near_link_, row, -1, kColumns), Status::invalid_argument);
  ASSERT_EQ(table_->receive_by_link(near_link_, row, 1, kColumns), Status::ok);
  EXPECT_EQ(table_->send_by_link(near_link_, row, 1, kColumns), Status::invalid_argument);
}

TEST_F(LinksTest, AnotherSizeIsAFailure) {
  if (!is_emulated()) GTEST_SKIP() << "NCCL leaves it undefined";
  ASSERT_EQ(link(), Status::ok);
  ASSERT_EQ(table_->send_by_link(near_link_, poisoned<float>(kColumns), 1, kColumns - 1), Status::ok);
  ASSERT_EQ(table_->receive_by_link(far_link_, static_cast<float*>(far_memory_), 1, kColumns), Status::ok);
  const Status status = settle(LinkState::done);
  EXPECT_EQ(status, Status::device_lost);
  EXPECT_NE(std::string(status.words).find("NCCL 2.27.3"), std::string::npos) << status.words;
}

TEST_F(LinksTest, AFaultyLibraryIsRefused) {
  if (!is_emulated()) GTEST_SKIP() << "needs the emulated NCCL";
  ::setenv("QUIRE_EMULATED_NCCL", "refuse", 1);
  const Status refused = link();
  ::setenv("QUIRE_EMULATED_NCCL", "old", 1);
  Device* another = nullptr;
  ASSERT_EQ(cuda_backend()->open_device(0, nullptr, &another), Status::ok);
  LinkSupport support;
  const Status old = table_->open_links(another, &support);
  ::unsetenv("QUIRE_EMULATED_NCCL");
  EXPECT_EQ(refused, Status::unsupported);
  EXPECT_EQ(near_link_, nullptr);
  EXPECT_EQ(old, Status::unsupported);
  EXPECT_NE(std::string(old.words).find("2.17.1 is too old"), std::string::npos) << old.words;
  const Status again = table_->open_links(another, &support);
  EXPECT_EQ(std::string(again.words), old.words);  // what was found at first stays
  cuda_backend()->close_device(another);
}

}  // namespace
}  // namespace quire::kernels
