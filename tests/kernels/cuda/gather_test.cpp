// All-gathers of shards on several cards, on one, and through host memory, against a plain copy. On the
// emulated cards, or on as many real ones as there are.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <random>
#include <thread>

#include "kernels/cuda/plan/gather_plan.h"
#include "tests/kernels/cuda/cuda_device.h"

namespace quire::kernels {
namespace {

constexpr int32_t kMaxCards = 4;

template <typename Function>
Function* emulated_function(const char* name) {
  void* library = dlopen(QUIRE_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}

// Where the shards of a test lie.
struct Places {
  const char* name;
  bool one_card = false;
  bool through_host = false;
};
void PrintTo(const Places& places, std::ostream* out) {
  *out << places.name;
}

// A result, cut into slices.
struct Result {
  std::vector<int32_t> starts;  // [shards + 1]
  int32_t rows = 1;
  DType dtype = DType::f32;

  size_t element() const { return dtype_bytes(dtype); }
  size_t row_bytes() const { return static_cast<size_t>(starts.back()) * element(); }
  size_t bytes() const { return row_bytes() * static_cast<size_t>(rows); }
  size_t first(size_t rank) const { return static_cast<size_t>(starts[rank]) * element(); }
  size_t width(size_t rank) const { return first(rank + 1) - first(rank); }
};

std::vector<int32_t> even_starts(int32_t columns, int32_t shards) {
  std::vector<int32_t> starts;
  for (int32_t r = 0; r <= shards; ++r) starts.push_back(columns * r / shards);
  return starts;
}

// Returns the slice of a shard: bytes that depend on their place in the result and on `salt`.
std::vector<uint8_t> slice_of(const Result& result, size_t rank, uint32_t salt) {
  std::vector<uint8_t> slice;
  for (size_t row = 0; row < static_cast<size_t>(result.rows); ++row) {
    for (size_t i = 0; i < result.width(rank); ++i) {
      const size_t place = row * result.row_bytes() + result.first(rank) + i;
      slice.push_back(static_cast<uint8_t>((place * 2654435761U + salt * 40503U) >> 7));
    }
  }
  return slice;
}

std::vector<uint8_t> whole(const Result& result, uint32_t salt) {
  std::vector<uint8_t> all(result.bytes());
  for (size_t r = 0; r + 1 < result.starts.size(); ++r) {
    const std::vector<uint8_t> slice = slice_of(result, r, salt);
    for (size_t row = 0; row < static_cast<size_t>(result.rows) && result.width(r) > 0; ++row)
      std::memcpy(&all[row * result.row_bytes() + result.first(r)], &slice[row * result.width(r)],
                  result.width(r));
  }
  return all;
}

class GatherTest : public ::testing::TestWithParam<Places> {
 protected:
  void SetUp() override {
    is_emulated_ = emulated_function<void(int, bool)>("quire_emulated_lose") != nullptr;
    if (is_emulated_) setenv("QUIRE_EMULATED_CARDS", "4", 1);
    if (is_emulated_ && GetParam().through_host) setenv("QUIRE_EMULATED_NO_PEERS", "1", 1);
    const Backend* backend = cuda_backend();
    ASSERT_NE(backend, nullptr) << dlerror();
    num_cards_ = std::min(backend->num_devices(nullptr, 0), kMaxCards);
    if (max_shards() < 2) GTEST_SKIP() << num_cards_ << " cards";
  }
  void TearDown() override {
    disconnect();
    unsetenv("QUIRE_EMULATED_CARDS");
    unsetenv("QUIRE_EMULATED_NO_PEERS");
  }

  int32_t max_shards() const { return GetParam().one_card ? 2 * std::min(num_cards_, 1) : num_cards_; }

  // Makes contexts of shards, whose gathers have results of up to `gather_bytes`.
  void connect(int32_t num_shards, uint64_t gather_bytes) {
    disconnect();
    ContextLimits limits;
    limits.max_tokens = 64;
    limits.max_sequences = 4;
    limits.max_logit_rows = 4;
    limits.max_pages_per_sequence = 1;
    limits.max_columns = 256;
    limits.vocab_size = 256;
    limits.num_heads = 1;
    limits.head_dim = 64;
    limits.num_shards = num_shards;
    limits.gather_bytes = gather_bytes;
    limits.gathers_on_host = GetParam().through_host ? 1 : 0;
    std::vector<Context*> contexts;
    for (int32_t r = 0; r < num_shards; ++r) {
      Shard& shard = shards_.emplace_back();
      const DeviceOptions options;
      ASSERT_EQ(cuda_backend()->open_device(GetParam().one_card ? 0 : r, &options, &shard.device),
                Status::ok);
      shard.table = cuda_backend()->table(shard.device);
      limits.gather_bytes = gather_bytes + 1000 * static_cast<uint64_t>(r);  // the least counts
      ASSERT_EQ(shard.table->create_context(shard.device, &limits, &shard.context), Status::ok);
      contexts.push_back(shard.context);
      MemoryUse planned, used;
      ASSERT_EQ(shard.table->plan_context(shard.device, &limits, &planned), Status::ok);
      shard.table->memory_use(shard.device, &used);
      EXPECT_EQ(used.held_bytes, planned.held_bytes);
      EXPECT_EQ(used.pinned_bytes, planned.pinned_bytes);
    }
    ASSERT_EQ(table().connect_shards(contexts.data(), num_shards, &communicator_), Status::ok);
  }
  void disconnect() {
    if (communicator_ != nullptr) table().release_communicator(std::exchange(communicator_, nullptr));
    for (const Shard& shard : shards_) {
      for (void* memory : shard.memory) shard.table->release(shard.device, memory);
      shard.table->release_context(shard.context);
      MemoryUse used;
      shard.table->memory_use(shard.device, &used);
      EXPECT_EQ(used.held_bytes + used.pinned_bytes, 0U);
      cuda_backend()->close_device(shard.device);
    }
    shards_.clear();
  }

  const KernelTable& table() const { return *shards_.front().table; }
  size_t num_shards() const { return shards_.size(); }

  // Calls run(rank) on a thread for each shard.
  void each_shard(const std::function<void(size_t)>& run) const {
    std::vector<std::thread> threads;
    for (size_t r = 0; r < num_shards(); ++r) threads.emplace_back(run, r);
    for (std::thread& thread : threads) thread.join();
  }

  // Buffers of one gather on one shard.
  struct Buffers {
    void* input = nullptr;
    void* output = nullptr;
  };
  void* take(size_t rank, size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(table().allocate(shards_[rank].device, std::max<size_t>(bytes, 1), &memory), Status::ok);
    shards_[rank].memory.push_back(memory);
    return memory;
  }
  Buffers take_buffers(size_t rank, const Result& result) {
    return {take(rank, result.width(rank) * static_cast<size_t>(result.rows)), take(rank, result.bytes())};
  }
  void upload(size_t rank, const Result& result, uint32_t salt, void* input) {
    const std::vector<uint8_t> slice = slice_of(result, rank, salt);
    EXPECT_EQ(table().upload(shards_[rank].device, input, slice.data(), slice.size()), Status::ok);
  }
  AllGatherParams gather_of(size_t rank, const Result& result, const Buffers& buffers) const {
    AllGatherParams params;
    params.columns = {result.starts.data(), static_cast<int32_t>(num_shards()), static_cast<int32_t>(rank)};
    params.input = buffers.input;
    params.rows = result.rows;
    params.dtype = result.dtype;
    params.output = buffers.output;
    return params;
  }
  Status gather(size_t rank, const Result& result, const Buffers& buffers) const {
    const AllGatherParams params = gather_of(rank, result, buffers);
    return table().all_gather(shards_[rank].context, &params);
  }
  std::vector<uint8_t> download(size_t rank, const Result& result, const void* output) const {
    std::vector<uint8_t> bytes(result.bytes());
    EXPECT_EQ(table().download(shards_[rank].device, bytes.data(), output, bytes.size()), Status::ok);
    return bytes;
  }
  Status synchronize(size_t rank) const { return table().synchronize(shards_[rank].context); }

  // Gathers several results one after the other and compares them with the whole ones.
  void expect_gathered(const std::vector<Result>& results) {
    std::vector<std::vector<Buffers>> buffers(num_shards());
    for (size_t r = 0; r < num_shards(); ++r) {
      for (const Result& result : results) {
        buffers[r].push_back(take_buffers(r, result));
        upload(r, result, ++salt_, buffers[r].back().input);
      }
      salt_ -= static_cast<uint32_t>(results.size());
    }
    each_shard([&](size_t r) {
      for (size_t i = 0; i < results.size(); ++i) EXPECT_EQ(gather(r, results[i], buffers[r][i]), Status::ok);
      EXPECT_EQ(synchronize(r), Status::ok);
    });
    for (const Result& result : results) {
      const std::vector<uint8_t> expected = whole(result, ++salt_);
      for (size_t r = 0; r < num_shards(); ++r)
        EXPECT_TRUE(download(r, result, buffers[r][static_cast<size_t>(&result - results.data())].output) ==
                    expected)
            << r << " of " << num_shards() << ", " << result.rows << " rows of " << result.starts.back();
    }
  }

  struct Shard {
    Device* device = nullptr;
    const KernelTable* table = nullptr;
    Context* context = nullptr;
    std::vector<void*> memory;
  };
  bool is_emulated_ = false;
  int32_t num_cards_ = 0;
  uint32_t salt_ = 0;
  std::vector<Shard> shards_;
  Communicator* communicator_ = nullptr;
};

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

// Rows of 16-bit elements whose columns go to the row order of a matrix.
TEST_P(GatherTest, PlacedColumnsEqualAPermutedCopy) {
  connect(max_shards(), 1 << 14);
  std::mt19937 random{7};
  for (const int32_t columns : {17, 64, 250, 256}) {
    std::vector<int32_t> place(static_cast<size_t>(columns));
    std::iota(place.begin(), place.end(), 0);
    std::shuffle(place.begin(), place.end(), random);
    for (const int32_t rows : {1, 5, 40}) {  // 40 rows of 250 columns and more take the way of large results
      const Result result = {even_starts(columns, max_shards()), rows, DType::f16};
      std::vector<AllGatherParams> gathers;
      for (size_t r = 0; r < num_shards(); ++r) {
        const Buffers buffers = take_buffers(r, result);
        upload(r, result, 3, buffers.input);
        gathers.push_back(gather_of(r, result, buffers));
        void* const places = take(r, place.size() * sizeof(int32_t));
        EXPECT_EQ(table().upload(shards_[r].device, places, place.data(), place.size() * sizeof(int32_t)),
                  Status::ok);
        gathers.back().place = static_cast<const int32_t*>(places);
      }
      each_shard([&](size_t r) {
        EXPECT_EQ(table().all_gather(shards_[r].context, &gathers[r]), Status::ok);
        EXPECT_EQ(synchronize(r), Status::ok);
      });
      const std::vector<uint8_t> gathered = whole(result, 3);
      std::vector<uint8_t> expected(gathered.size());
      for (size_t row = 0; row < static_cast<size_t>(rows); ++row)
        for (size_t c = 0; c < place.size(); ++c)
          std::memcpy(&expected[row * result.row_bytes() + 2 * static_cast<size_t>(place[c])],
                      &gathered[row * result.row_bytes() + 2 * c], 2);
      for (size_t r = 0; r < num_shards(); ++r)
        EXPECT_TRUE(download(r, result, gathers[r].output) == expected)
            << r << ", " << rows << "x" << columns;
    }
  }
}

// A norm of one shard's result, with all that it reads and writes.
struct NormOfShard {
  AllGatherParams gather;
  NormParams norm;
  std::vector<float> rows;  // this shard's columns of the result in place, NaN elsewhere
  void* output = nullptr;
  size_t output_bytes = 0;
};

// The norm that reads a gathered result gives the same bits whether one kernel gathers and normalizes, or two
// do. The columns of a shard lie in place, as those of the residual stream.
TEST_P(GatherTest, ANormAfterAGatherEqualsOneOfTheGatheredRows) {
  connect(max_shards(), 1 << 20);
  std::mt19937 random{11};
  struct Case {
    int32_t columns, rows;
    NormKind kind;
    int output;  // 0: f16, 1: added to rows, 2: f32
  };
  // Rows of more columns than stay in registers, more rows than blocks, and columns that are not cut by
  // fours.
  const Case cases[] = {{64, 1, NormKind::rms, 0},     {64, 70, NormKind::rms, 0},
                        {192, 3, NormKind::layer, 0},  {192, 3, NormKind::rms, 1},
                        {192, 5, NormKind::none, 2},   {200, 2, NormKind::rms, 0},
                        {250, 3, NormKind::rms, 0},    {5120, 1, NormKind::rms, 0},
                        {5120, 2, NormKind::layer, 2}, {24576, 1, NormKind::rms, 0}};
  for (const Case& test : cases) {
    const Result result = {even_starts(test.columns, max_shards()), test.rows, DType::f32};
    const auto columns = static_cast<size_t>(test.columns), rows = static_cast<size_t>(test.rows);
    const std::vector<float> all = random_floats(rows * columns, random);
    const std::vector<float> weights = random_floats(columns, random),
                             before = random_floats(rows * columns, random);
    std::vector<NormOfShard> shards(num_shards());
    for (size_t r = 0; r < num_shards(); ++r) {
      NormOfShard& shard = shards[r];
      auto* const residual = static_cast<float*>(take(r, result.bytes()));
      shard.rows.assign(all.size(), NAN);
      const auto first = static_cast<size_t>(result.starts[r]),
                 end = static_cast<size_t>(result.starts[r + 1]);
      for (size_t row = 0; row < rows; ++row)
        std::copy_n(&all[row * columns + first], end - first, &shard.rows[row * columns + first]);
      shard.gather = gather_of(r, result, {residual + first, residual});
      shard.gather.input_stride = test.columns;
      void* const weight = take(r, columns * sizeof(float));
      EXPECT_EQ(table().upload(shards_[r].device, weight, weights.data(), columns * sizeof(float)),
                Status::ok);
      shard.output_bytes = rows * columns * (test.output == 0 ? sizeof(uint16_t) : sizeof(float));
      shard.output = take(r, shard.output_bytes);
      shard.norm.columns = test.columns;
      shard.norm.rows = test.rows;
      shard.norm.kind = test.kind;
      shard.norm.weight = static_cast<const float*>(weight);
      shard.norm.input = residual;
      (test.output == 0   ? shard.norm.output
       : test.output == 1 ? reinterpret_cast<void*&>(shard.norm.residual)
                          : reinterpret_cast<void*&>(shard.norm.output_f32)) = shard.output;
    }
    std::vector<std::vector<uint8_t>> outputs[2];
    for (const bool apart : {true, false}) {
      for (size_t r = 0; r < num_shards(); ++r) {
        EXPECT_EQ(
            table().upload(shards_[r].device, shards[r].gather.output, shards[r].rows.data(), result.bytes()),
            Status::ok);
        EXPECT_EQ(table().upload(shards_[r].device, shards[r].output, before.data(), shards[r].output_bytes),
                  Status::ok);
      }
      each_shard([&](size_t r) {
        EXPECT_EQ(table().all_gather(shards_[r].context, &shards[r].gather), Status::ok);
        if (apart) {
          EXPECT_EQ(synchronize(r), Status::ok);
        }
        EXPECT_EQ(table().norm(shards_[r].context, &shards[r].norm), Status::ok);
        EXPECT_EQ(synchronize(r), Status::ok);
      });
      for (size_t r = 0; r < num_shards(); ++r) {
        std::vector<uint8_t>& output = outputs[apart ? 0 : 1].emplace_back(shards[r].output_bytes);
        EXPECT_EQ(table().download(shards_[r].device, output.data(), shards[r].output, output.size()),
                  Status::ok);
        const std::vector<uint8_t> gathered = download(r, result, shards[r].gather.output);
        EXPECT_EQ(std::memcmp(gathered.data(), all.data(), gathered.size()), 0)
            << test.columns << ", " << apart;
      }
    }
    EXPECT_TRUE(outputs[0] == outputs[1]) << test.rows << " rows of " << test.columns;
    for (size_t r = 1; r < num_shards(); ++r) EXPECT_TRUE(outputs[0][r] == outputs[0][0]) << test.columns;
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
  {
    const PassingTime time(std::chrono::milliseconds(100));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // at most 10 s of waits
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

INSTANTIATE_TEST_SUITE_P(Places, GatherTest,
                         ::testing::Values(Places{"cards"}, Places{"one_card", true},
                                           Places{"through_host", false, true}),
                         [](const auto& places) { return places.param.name; });

}  // namespace
}  // namespace quire::kernels
