// All-gathers of shards, against a plain copy, and their faults.
#include <atomic>
#include <chrono>

#include "tests/kernels/cuda/gather_fixture.h"

namespace quire::kernels {
namespace {

// Widths that divide into units of each size, and rows from none to more than a block has threads.
TEST_P(GatherTest, SmallResultsEqualACopy) {
  for (int32_t shards = 2; shards <= max_shards(); ++shards) {
    connect(shards, 1 << 16);
    for (const DType dtype : {DType::f16, DType::f32}) {
      std::vector<Result> results;
      for (const int32_t columns : {shards, shards + 1, 17, 64, 250, 256})
        for (const int32_t rows : {1, 5}) results.push_back({even_starts(columns, shards), rows, dtype});
      expect_gathered(results);
    }
  }
}

TEST_P(GatherTest, UnevenAndEmptySlicesEqualACopy) {
  connect(max_shards(), 1 << 18);
  const auto last = static_cast<size_t>(max_shards());
  std::vector<Result> results;
  for (const int32_t first : {0, 1, 8, 255, 256}) {
    std::vector<int32_t> starts(last + 1, first);
    starts.front() = 0;
    starts.back() = 256;
    for (const int32_t rows : {1, 5, 40}) {
      results.push_back({starts, rows, DType::f32});
      results.push_back({starts, rows, DType::f16});
    }
  }
  expect_gathered(results);
}

// Results around the largest one whose words carry the epoch, and of several rounds.
TEST_P(GatherTest, LargeResultsEqualACopy) {
  const int32_t shards = max_shards();
  connect(shards, kRoundBytes);
  const auto columns = static_cast<int32_t>(256 * shards);
  constexpr auto kInlineRows = static_cast<int32_t>(kInlineBytes / 1024);
  std::vector<Result> results;
  for (const int32_t rows : {kInlineRows, kInlineRows + 1, 1})
    results.push_back({even_starts(columns, shards), rows, DType::f32});
  expect_gathered(results);
  const auto round_rows = static_cast<int32_t>(kRoundBytes / static_cast<uint64_t>(4 * columns));
  expect_gathered({{even_starts(columns, shards), 2 * round_rows + 3, DType::f32},
                   {even_starts(columns - 1, shards), 3 * round_rows / 2, DType::f16},
                   {even_starts(columns, shards), 2, DType::f32}});
}

// A small memory makes small results take the way of large ones.
TEST_P(GatherTest, RoundsOfFewRowsEqualACopy) {
  for (int32_t shards = 2; shards <= max_shards(); ++shards) {
    connect(shards, 4096);
    std::vector<Result> results;
    for (const int32_t columns : {64, 250, 512})
      for (const int32_t rows : {1, 7, 33}) {
        results.push_back({even_starts(columns, shards), rows, DType::f32});
        results.push_back({even_starts(columns + 1, shards), rows, DType::f16});
      }
    expect_gathered(results);
  }
}

// The first shard has all columns: a broadcast in place. Another result goes to the first shard only.
TEST_P(GatherTest, BroadcastsAndResultsOfOneShard) {
  connect(max_shards(), 1 << 16);
  const Result spread = {[&] {
                           std::vector<int32_t> starts(num_shards() + 1, 96);
                           starts.front() = 0;
                           return starts;
                         }(),
                         5, DType::f32};
  const Result head = {even_starts(300, max_shards()), 3, DType::f32};
  std::vector<void*> rows;
  std::vector<Buffers> heads;
  for (size_t r = 0; r < num_shards(); ++r) {
    rows.push_back(take(r, spread.bytes()));
    heads.push_back(take_buffers(r, head));
    if (r > 0) heads.back().output = nullptr;
  }
  for (uint32_t round = 1; round <= 20; ++round) {
    upload(0, spread, round, rows[0]);
    for (size_t r = 0; r < num_shards(); ++r) upload(r, head, round, heads[r].input);
    each_shard([&](size_t r) {
      EXPECT_EQ(gather(r, spread, {rows[r], rows[r]}), Status::ok);
      EXPECT_EQ(gather(r, head, heads[r]), Status::ok);
      EXPECT_EQ(synchronize(r), Status::ok);
    });
    for (size_t r = 0; r < num_shards(); ++r)
      ASSERT_TRUE(download(r, spread, rows[r]) == whole(spread, round)) << r << " in round " << round;
    ASSERT_TRUE(download(0, head, heads[0].output) == whole(head, round)) << round;
  }
}

BatchView batch_of(const std::vector<int32_t>& numbers) {
  BatchView batch;
  batch.num_tokens = batch.num_sequences = 1;
  batch.page_table_stride = batch.num_page_tables = 1;
  batch.max_query_tokens = batch.max_kv_tokens = 1;
  batch.token_ids = batch.positions = batch.sequence_of_token = batch.kv_lengths = batch.page_table =
      batch.logit_rows = batch.sequence_starts = numbers.data();
  return batch;
}

// The same step many times: it is recorded and replayed, with inputs that change.
TEST_P(GatherTest, ReplayedStepsCountTheirGathers) {
  connect(max_shards(), 8192);
  const std::vector<Result> results = {{even_starts(64, max_shards()), 2, DType::f16},
                                       {even_starts(512, max_shards()), 20, DType::f32},
                                       {even_starts(96, max_shards()), 1, DType::f32}};
  std::vector<std::vector<Buffers>> buffers(num_shards());
  for (size_t r = 0; r < num_shards(); ++r)
    for (const Result& result : results) buffers[r].push_back(take_buffers(r, result));
  const std::vector<int32_t> numbers = {0, 1};
  bool any_replayed = false;
  for (uint32_t round = 1; round <= 12; ++round) {
    for (size_t r = 0; r < num_shards(); ++r)
      for (size_t i = 0; i < results.size(); ++i) upload(r, results[i], round, buffers[r][i].input);
    each_shard([&](size_t r) {
      Context* const context = shards_[r].context;
      const BatchView host = batch_of(numbers);
      BatchView view;
      ASSERT_EQ(table().bind_batch(context, &host, &view), Status::ok);
      StepAction action = StepAction::run;
      ASSERT_EQ(table().begin_step(context, &view, &action), Status::ok);
      if (action == StepAction::replayed) {
        if (r == 0) any_replayed = true;
      } else {
        for (size_t i = 0; i < results.size(); ++i)
          EXPECT_EQ(gather(r, results[i], buffers[r][i]), Status::ok);
        EXPECT_EQ(table().end_step(context, &action), Status::ok);
      }
      EXPECT_EQ(synchronize(r), Status::ok);
    });
    for (size_t i = 0; i < results.size(); ++i)
      for (size_t r = 0; r < num_shards(); ++r)
        ASSERT_TRUE(download(r, results[i], buffers[r][i].output) == whole(results[i], round))
            << r << " in round " << round;
  }
  EXPECT_TRUE(any_replayed);
}

// Lets the time of waits pass on emulated cards, by steps of the given size, while it lives.
class PassingTime {
 public:
  explicit PassingTime(std::chrono::milliseconds step)
      : pass_(emulated_function<void(uint64_t)>("quire_emulated_pass_wait_time")), thread_([this, step] {
          while (pass_ != nullptr && !is_over_) {
            pass_(static_cast<uint64_t>(std::chrono::nanoseconds(step).count()));
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
        }) {}
  ~PassingTime() {
    is_over_ = true;
    thread_.join();
  }

 private:
  void (*pass_)(uint64_t);
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

TEST_P(GatherTest, AShardThatNeverComesEndsTheStepWithinTwoSeconds) {
  for (const int32_t rows : {1, 32}) {  // without and with flags
    connect(max_shards(), 4096);
    const Result result = {even_starts(512, max_shards()), rows, DType::f32};
    const Buffers buffers = take_buffers(0, result);
    const auto begin = std::chrono::steady_clock::now();
    Status status = Status::ok;
    {
      const PassingTime time(std::chrono::milliseconds(100));
      EXPECT_EQ(gather(0, result, buffers), Status::ok);
      status = synchronize(0);
    }
    if (!is_emulated_) {
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
    }
    EXPECT_EQ(status, Status::device_lost);
    EXPECT_NE(std::string(status.words).find("waited too long"), std::string::npos) << status.words;
    for (size_t r = 0; r < num_shards(); ++r)
      EXPECT_EQ(gather(r, result, take_buffers(r, result)), Status::device_lost) << r;
    each_shard([&](size_t r) { EXPECT_EQ(synchronize(r), Status::device_lost); });
  }
}

// A step that begins while weights return from host memory may come late, which its peers are told.
TEST_P(GatherTest, AShardThatAwaitsWeightsIsWaitedForLonger) {
  if (!is_emulated_) GTEST_SKIP() << "weights of a real card return at once";
  connect(2, 4096);
  stages_weights_ = true;
  constexpr int32_t kRows = 64, kColumns = 16384;
  const std::vector<uint16_t> values(size_t{kRows} * kColumns, 0x3c00);
  WeightSource source;
  source.format = WeightFormat::dense;
  source.num_in = kRows;
  source.num_out = source.padded_out = kColumns;
  source.dense.data = values.data();
  source.dense.dtype = DType::f16;
  Device* const device = shards_[1].device;
  Weight* weight = nullptr;
  ASSERT_EQ(prepare_weight(table(), device, &source, 1, &weight), Status::ok);
  ASSERT_EQ(table().copy_weight(device, weight), Status::ok);
  ASSERT_GT(table().park_weight(device, weight), 0U);
  ASSERT_EQ(table().bring_weight(device, weight), Status::ok);

  const Result result = {even_starts(512, 2), 1, DType::f32};
  const Buffers buffers[] = {take_buffers(0, result), take_buffers(1, result)};
  for (const size_t r : {0, 1}) upload(r, result, 5, buffers[r].input);
  const std::vector<int32_t> numbers = {0, 1};
  const BatchView host = batch_of(numbers);
  BatchView view;
  StepAction action = StepAction::replayed;
  ASSERT_EQ(table().bind_batch(shards_[1].context, &host, &view), Status::ok);
  ASSERT_EQ(table().begin_step(shards_[1].context, &view, &action), Status::ok);
  EXPECT_EQ(action, StepAction::run);
  std::atomic<bool> is_over{false};
  std::thread waiting([&] {
    EXPECT_EQ(gather(0, result, buffers[0]), Status::ok);
    EXPECT_EQ(synchronize(0), Status::ok);
    is_over = true;
  });
  const auto pass = emulated_function<void(uint64_t)>("quire_emulated_pass_wait_time");
  for (int step = 0; step < 50; ++step) {  // 5 s of waits
    pass(100'000'000);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(is_over);
  EXPECT_EQ(gather(1, result, buffers[1]), Status::ok);
  EXPECT_EQ(table().end_step(shards_[1].context, &action), Status::ok);
  EXPECT_EQ(synchronize(1), Status::ok);
  waiting.join();
  EXPECT_TRUE(download(0, result, buffers[0].output) == whole(result, 5));
  // After the step the shard is waited for as any other.
  const PassingTime time(std::chrono::milliseconds(10));
  EXPECT_EQ(gather(0, result, buffers[0]), Status::ok);
  EXPECT_EQ(synchronize(0), Status::device_lost);
  EXPECT_EQ(table().synchronize(shards_[1].context), Status::device_lost);
  table().release_weight(device, weight);
}

TEST_P(GatherTest, AnInterruptionEndsGathersUntilTheyResume) {
  connect(max_shards(), 1 << 14);
  const Result result = {even_starts(200, max_shards()), 3, DType::f32};
  for (int round = 0; round < 3; ++round) {
    const Buffers buffers = take_buffers(0, result);
    // The interruption comes before the gathers, between them, or while one waits.
    std::thread waiting([&] {
      for (int i = 0; i <= round; ++i) {
        const Status status = gather(0, result, buffers);
        EXPECT_TRUE(status == Status::ok || status == Status::interrupted) << status.words;
      }
      EXPECT_EQ(synchronize(0), Status::ok);
    });
    if (round > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    table().interrupt_shards(communicator_);
    waiting.join();
    EXPECT_EQ(gather(1, result, take_buffers(1, result)), Status::interrupted);
    table().resume_shards(communicator_);
    expect_gathered({result, result, result});
  }
}

TEST_P(GatherTest, ALostCardEndsTheStepsOfTheOthers) {
  const auto lose = emulated_function<void(int, bool)>("quire_emulated_lose");
  if (lose == nullptr || GetParam().one_card) GTEST_SKIP() << "only emulated cards are lost";
  connect(max_shards(), 1 << 14);
  const Result result = {even_starts(200, max_shards()), 3, DType::f32};
  const Buffers first = take_buffers(0, result), second = take_buffers(1, result);
  lose(1, true);
  // The emulated kernel runs within the call that issues it, so another thread finds that the card is lost.
  std::thread waiting([&] { EXPECT_NE(gather(0, result, first), Status::device_lost); });
  EXPECT_EQ(synchronize(1), Status::device_lost);
  table().interrupt_shards(communicator_);
  waiting.join();
  EXPECT_EQ(gather(1, result, second), Status::interrupted);
  lose(1, false);
}

TEST_P(GatherTest, OtherContextsThanConnectedOnesAreRefused) {
  connect(2, 4096);
  AllGatherParams params;
  const std::vector<int32_t> three = even_starts(64, 3);
  params.columns = {three.data(), 3, 0};
  params.rows = 1;
  EXPECT_EQ(table().all_gather(shards_[0].context, &params), Status::invalid_argument);
  params.columns = {three.data(), 2, 1};  // the rank of the other shard
  EXPECT_EQ(table().all_gather(shards_[0].context, &params), Status::invalid_argument);
  const std::vector<int32_t> wide = even_starts(1 << 20, 2);
  params.columns = {wide.data(), 2, 0};
  EXPECT_EQ(table().all_gather(shards_[0].context, &params), Status::invalid_argument);
  Communicator* second = nullptr;
  Context* contexts[] = {shards_[0].context, shards_[1].context};
  EXPECT_EQ(table().connect_shards(contexts, 2, &second), Status::invalid_argument);
  EXPECT_EQ(second, nullptr);
}

TEST_P(GatherTest, TooManyShardsAreRefused) {
  connect(2, 4096);
  ContextLimits limits;
  limits.max_tokens = limits.max_sequences = limits.max_pages_per_sequence = 1;
  limits.num_shards = kMaxGatherShards + 1;
  MemoryUse use;
  EXPECT_EQ(table().plan_context(shards_[0].device, &limits, &use), Status::unsupported);
}

TEST_P(GatherTest, DevicesReachEachOtherUnlessTheMachineRefuses) {
  connect(2, 4096);
  EXPECT_EQ(table().reaches(shards_[0].device, shards_[0].device), 1);
  const bool is_refused = GetParam().through_host && is_emulated_;
  EXPECT_EQ(table().reaches(shards_[0].device, shards_[1].device), is_refused ? 0 : 1);
}

INSTANTIATE_TEST_SUITE_P(Places, GatherTest, ::testing::ValuesIn(kPlaces), place_name);

}  // namespace
}  // namespace quire::kernels
