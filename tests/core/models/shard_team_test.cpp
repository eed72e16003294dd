// Threads that run shards, and the collective operations of their contexts: a shard that cannot continue
// releases the others.
#include "core/models/shard_team.h"

#include <atomic>
#include <numeric>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "kernels/interface/composite.h"
#include "tests/core/models/transformer_runner.h"

namespace quire::testing {
namespace {

TEST(ShardTeam, RunsEachShardOncePerCall) {
  ShardTeam team(system_threads(), 3);
  std::array<std::atomic<int>, 3> runs{};
  for (int call = 0; call < 200; ++call)
    team.run([&](int32_t shard) { ++runs[static_cast<size_t>(shard)]; }, [] { ADD_FAILURE(); });
  for (const auto& count : runs) EXPECT_EQ(count, 200);
}

TEST(ShardTeam, ThrowsTheErrorOfTheFirstFailedShardAndContinues) {
  ShardTeam team(system_threads(), 3);
  for (int32_t failing = 0; failing < 3; ++failing) {
    std::atomic<int> interruptions{0};
    std::atomic<bool> interrupted{false};
    const auto work = [&](int32_t shard) {
      if (shard == failing) throw Error(ErrorCode::numeric, "shard {} failed", shard);
      interrupted.wait(false);
      throw Error(ErrorCode::cancelled, "another shard could not go on");
    };
    const auto interrupt = [&] {
      ++interruptions;
      interrupted = true;
      interrupted.notify_all();
    };
    try {
      team.run(work, interrupt);
      ADD_FAILURE() << "no error was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::numeric);
    }
    EXPECT_EQ(interruptions, 1);
  }
  std::atomic<int> runs{0};
  team.run([&](int32_t) { ++runs; }, [] {});
  EXPECT_EQ(runs, 3);
}

class RefusingThreads final : public ThreadFactory {
 public:
  explicit RefusingThreads(int allowed) : allowed_(allowed) {}
  std::unique_ptr<Thread> start(const std::string& name, std::function<void()> body) const override {
    if (allowed_-- == 0) throw Error(ErrorCode::out_of_memory, "no more threads");
    return system_threads().start(name, std::move(body));
  }

 private:
  mutable int allowed_;
};

TEST(ShardTeam, EndsIfAThreadCannotBeStarted) {
  for (int allowed = 0; allowed < 3; ++allowed) {
    const RefusingThreads threads(allowed);
    EXPECT_THROW(ShardTeam(threads, 4), Error);
  }
}

// Three contexts of one device.
class Gathers : public ::testing::Test {
 protected:
  static constexpr int32_t kShards = 3;

  void SetUp() override {
    device_ = open_test_device();
    if (!device_->is_host()) GTEST_SKIP() << "the shards of this test lie in host memory";
    kernels::ContextLimits limits;
    limits.max_tokens = limits.max_sequences = limits.max_pages_per_sequence = limits.max_columns = 1;
    for (int32_t r = 0; r < kShards; ++r)
      contexts_.push_back(std::make_unique<DeviceContext>(device_, limits));
    communicator_.emplace(
        std::vector<const DeviceContext*>{contexts_[0].get(), contexts_[1].get(), contexts_[2].get()});
  }

  kernels::Status gather(int32_t rank, const std::vector<int32_t>& starts, const std::vector<float>& own,
                         int32_t rows, float* out) {
    kernels::AllGatherParams params;
    params.columns = {starts.data(), kShards, rank};
    params.input = own.data();
    params.rows = rows;
    params.output = out;
    return device_->table().all_gather(contexts_[static_cast<size_t>(rank)]->handle(), &params);
  }

  std::shared_ptr<Device> device_;
  std::vector<std::unique_ptr<DeviceContext>> contexts_;
  std::optional<ShardCommunicator> communicator_;
  ShardTeam team_{system_threads(), kShards};
};

// The columns of a shard lie in the result before, as those of the residual stream do.
TEST_F(Gathers, ColumnsInPlaceAreJoinedByThoseOfOtherShards) {
  for (const std::vector<int32_t>& starts : {std::vector<int32_t>{0, 1, 3, 6}, {0, 4, 4, 5}, {0, 5, 5, 5}}) {
    constexpr int32_t kRows = 4;
    const auto columns = static_cast<size_t>(starts.back());
    std::vector<float> expected(kRows * columns);
    std::iota(expected.begin(), expected.end(), 1.0f);
    team_.run(
        [&](int32_t rank) {
          const auto first = static_cast<size_t>(starts[static_cast<size_t>(rank)]);
          const auto end = static_cast<size_t>(starts[static_cast<size_t>(rank) + 1]);
          std::vector<float> rows(expected.size(), -1.0f);
          for (size_t i = 0; i < rows.size(); ++i)
            if (i % columns >= first && i % columns < end) rows[i] = expected[i];
          EXPECT_EQ(kernels::gather_in_place(contexts_[static_cast<size_t>(rank)]->handle(),
                                             {starts.data(), kShards, rank}, kRows, rows.data()),
                    kernels::Status::ok);
          EXPECT_EQ(rows, expected);
        },
        [] { ADD_FAILURE(); });
  }
}

// Uneven columns, a shard without columns, one that needs no result; the input is rewritten for each gather.
TEST_F(Gathers, PutColumnsSideBySideInTheOrderOfShards) {
  const std::vector<std::vector<int32_t>> splits = {{0, 1, 3, 6}, {0, 4, 4, 5}, {0, 0, 0, 7}, {0, 5, 5, 5}};
  for (int round = 0; round < 300; ++round) {
    const std::vector<int32_t>& starts = splits[static_cast<size_t>(round) % splits.size()];
    const int32_t rows = 1 + round % 5;
    std::vector<float> expected(static_cast<size_t>(rows * starts.back()));
    std::iota(expected.begin(), expected.end(), static_cast<float>(round));
    team_.run(
        [&](int32_t rank) {
          const auto first = static_cast<size_t>(starts[static_cast<size_t>(rank)]);
          const auto end = static_cast<size_t>(starts[static_cast<size_t>(rank) + 1]);
          std::vector<float> own;
          for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
            const auto from =
                expected.begin() + static_cast<ptrdiff_t>(row * static_cast<size_t>(starts.back()));
            own.insert(own.end(), from + static_cast<ptrdiff_t>(first), from + static_cast<ptrdiff_t>(end));
          }
          std::vector<float> out(expected.size(), -1.0f);
          const bool wants = rank != round % 7;
          EXPECT_EQ(gather(rank, starts, own, rows, wants ? out.data() : nullptr), kernels::Status::ok);
          if (wants) {
            EXPECT_EQ(out, expected);
          }
        },
        [] { ADD_FAILURE(); });
  }
}

TEST_F(Gathers, EndIfAShardCannotContinueAndWorkAgainAfterwards) {
  const std::vector<int32_t> starts = {0, 1, 2, 3};
  for (int round = 0; round < 60; ++round) {
    const int32_t failing = round % kShards;
    std::atomic<int> interrupted{0};
    communicator_->resume();
    const auto work = [&](int32_t rank) {
      for (int step = 0; step < 4; ++step) {
        if (rank == failing && step == round % 4) throw Error(ErrorCode::numeric, "cannot go on");
        const std::vector<float> own = {1.0f};
        std::vector<float> out(3);
        const kernels::Status status = gather(rank, starts, own, 1, out.data());
        if (status == kernels::Status::interrupted) ++interrupted;
        contexts_[static_cast<size_t>(rank)]->check(status, "gathering");
      }
    };
    try {
      team_.run(work, [&] { communicator_->interrupt(); });
      ADD_FAILURE() << "no error was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::numeric);
    }
    EXPECT_EQ(interrupted, kShards - 1);
  }
}

TEST_F(Gathers, AreRefusedForContextsThatAreNotShards) {
  const std::vector<int32_t> starts = {0, 1, 2, 3};
  communicator_.reset();
  float out[3];
  EXPECT_EQ(gather(0, starts, {1.0f}, 1, out), kernels::Status::invalid_argument);
}

}  // namespace
}  // namespace quire::testing
