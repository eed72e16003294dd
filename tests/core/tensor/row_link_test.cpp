// Waits for a link end: when it is ready, when the other process is lost, and at their bound.
#include "core/tensor/row_link.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/expect_error.h"

namespace quire::testing {
namespace {

// What the entries of links do, in place of a library.
struct FakeLinks {
  int32_t polls_until_issued = 0;
  int32_t polls_until_done = 0;
  kernels::Status failure = kernels::Status::ok;  // of poll_link
  int32_t num_polls = 0;                          // since the last transfer
  int32_t num_live = 0;
};

FakeLinks* fake = nullptr;

kernels::Backend backend_with_links() {
  static const kernels::Backend& cpu = kernels::cpu_backend();
  kernels::Backend backend = cpu;
  backend.name = "card";
  backend.table = [](const kernels::Device* device) -> const KernelTable* {
    static KernelTable table;
    table = *cpu.table(device);
    table.create_link = [](kernels::Context*, const kernels::LinkId*, int32_t, kernels::Link** link) {
      *link = reinterpret_cast<kernels::Link*>(fake);
      ++fake->num_live;
      fake->num_polls = 0;
      return kernels::Status(kernels::Status::ok);
    };
    table.poll_link = [](kernels::Link*, kernels::LinkState* state) {
      ++fake->num_polls;
      *state = fake->num_polls > fake->polls_until_done     ? kernels::LinkState::done
               : fake->num_polls > fake->polls_until_issued ? kernels::LinkState::issued
                                                            : kernels::LinkState::busy;
      return fake->failure;
    };
    table.send_by_link = [](kernels::Link*, const float*, int32_t, int32_t) {
      fake->num_polls = 0;
      return kernels::Status(kernels::Status::ok);
    };
    table.receive_by_link = [](kernels::Link*, float*, int32_t, int32_t) {
      fake->num_polls = 0;
      return kernels::Status(kernels::Status::ok);
    };
    table.release_link = [](kernels::Link*) { --fake->num_live; };
    return &table;
  };
  return backend;
}

class RowLinkTest : public ::testing::Test {
 protected:
  RowLinkTest() { fake = &links_; }

  DeviceContext make_context() {
    static const kernels::Backend backend = backend_with_links();
    kernels::ContextLimits limits;
    limits.max_tokens = limits.max_sequences = limits.max_pages_per_sequence = 1;
    limits.max_columns = 64;
    return DeviceContext(Device::open(backend, 0, {.num_threads = 1}), limits);
  }

  FakeLinks links_;
  std::atomic<bool> is_lost_{false};
  float row_ = 0.0F;
};

TEST_F(RowLinkTest, ASendEndsOnceIssuedAndAReceiveOnceDone) {
  links_.polls_until_issued = 10;
  links_.polls_until_done = 300;
  RowLink link(make_context(), {}, 0);
  link.connect({is_lost_, std::chrono::seconds(20)});
  EXPECT_EQ(links_.num_polls, 301);
  link.send(&row_, 1, 1, is_lost_);
  EXPECT_EQ(links_.num_polls, 11);
  link.receive(&row_, 1, 1, is_lost_);
  EXPECT_EQ(links_.num_polls, 301);
}

TEST_F(RowLinkTest, ALostProcessEndsTheWait) {
  links_.polls_until_done = INT32_MAX;
  RowLink link(make_context(), {}, 0);
  is_lost_ = true;
  const TimePoint begin = steady_clock().now();
  expect_error(ErrorCode::device_lost, {"receiving rows", "lost"},
               [&] { link.receive(&row_, 1, 1, is_lost_); });
  EXPECT_LE(steady_clock().now() - begin, std::chrono::seconds(1));
  EXPECT_NO_THROW(link.send(&row_, 1, 1, is_lost_));  // it is issued already
}

TEST_F(RowLinkTest, AWaitHasABound) {
  links_.polls_until_issued = links_.polls_until_done = INT32_MAX;
  RowLink link(make_context(), {}, 0);
  const auto waited = [&](auto wait) {
    const TimePoint begin = steady_clock().now();
    expect_error(ErrorCode::device_lost, {"nothing has come for"}, wait);
    return steady_clock().now() - begin;
  };
  EXPECT_GE(waited([&] {
              link.connect({is_lost_, std::chrono::milliseconds(30)});
            }),
            std::chrono::milliseconds(30));
  EXPECT_GE(waited([&] { link.send(&row_, 1, 1, is_lost_); }), std::chrono::milliseconds(1300));
  // 25 MB at 50 MB/s take half a second more.
  EXPECT_GE(waited([&] { link.receive(&row_, 6'250'000, 1, is_lost_); }), std::chrono::milliseconds(1800));
}

TEST_F(RowLinkTest, AFailureOfTheBackendEndsTheWaitAndTheEndIsFreed) {
  {
    RowLink link(make_context(), {}, 1);
    links_.failure = kernels::failed(kernels::Status::device_lost, "the network is down");
    expect_error(ErrorCode::device_lost, {"sending rows", "the network is down"},
                 [&] { link.send(&row_, 1, 1, is_lost_); });
    EXPECT_EQ(links_.num_live, 1);
  }
  EXPECT_EQ(links_.num_live, 0);
}

}  // namespace
}  // namespace quire::testing
