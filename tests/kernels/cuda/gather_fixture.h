// Shards on several cards, on one, and through host memory, and results that they gather. On the emulated
// cards, or on as many real ones as there are.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <thread>

#include "kernels/cuda/plan/gather_plan.h"
#include "tests/kernels/cuda/cuda_device.h"

namespace quire::kernels {

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
inline void PrintTo(const Places& places, std::ostream* out) {
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

inline std::vector<int32_t> even_starts(int32_t columns, int32_t shards) {
  std::vector<int32_t> starts;
  for (int32_t r = 0; r <= shards; ++r) starts.push_back(columns * r / shards);
  return starts;
}

// Returns the slice of a shard: bytes that depend on their place in the result and on `salt`.
inline std::vector<uint8_t> slice_of(const Result& result, size_t rank, uint32_t salt) {
  std::vector<uint8_t> slice;
  for (size_t row = 0; row < static_cast<size_t>(result.rows); ++row) {
    for (size_t i = 0; i < result.width(rank); ++i) {
      const size_t place = row * result.row_bytes() + result.first(rank) + i;
      slice.push_back(static_cast<uint8_t>((place * 2654435761U + salt * 40503U) >> 7));
    }
  }
  return slice;
}

inline std::vector<uint8_t> whole(const Result& result, uint32_t salt) {
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
      if (!stages_weights_) {
        EXPECT_EQ(used.held_bytes + used.pinned_bytes, 0U);
      }
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
  bool stages_weights_ = false;  // a device keeps memory by which weights have been loaded
  std::vector<Shard> shards_;
  Communicator* communicator_ = nullptr;
};

constexpr Places kPlaces[] = {{"cards"}, {"one_card", true}, {"through_host", false, true}};
inline std::string place_name(const ::testing::TestParamInfo<Places>& places) {
  return places.param.name;
}

}  // namespace quire::kernels
