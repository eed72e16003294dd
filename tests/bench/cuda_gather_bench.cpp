// Measures all-gathers of shards on several cards in replayed steps, as models run them. Usage:
// cuda_gather_bench PLUGIN [SHARDS]
//
// Prints microseconds of one gather, the median of steps of 64 gathers each, by the bytes of the whole
// result.
#include <algorithm>
#include <barrier>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/plugin.h"

namespace {

using namespace quire::kernels;
using namespace quire::bench;

constexpr int32_t kGathersOfStep = 64;
constexpr int32_t kSteps = 40;
constexpr int32_t kColumns = 4096;  // f16
constexpr uint64_t kMostBytes = uint64_t{4} << 20;

struct Shard {
  Device* device = nullptr;
  const KernelTable* table = nullptr;
  Context* context = nullptr;
  void* input = nullptr;
  void* output = nullptr;
};

Shard open_shard(const Backend& backend, int32_t rank, int32_t num_shards) {
  Shard shard;
  const DeviceOptions options;
  check(backend.open_device(rank, &options, &shard.device), "opening a card");
  shard.table = backend.table(shard.device);
  ContextLimits limits;
  limits.max_tokens = 1024;
  limits.max_sequences = 4;
  limits.max_logit_rows = 4;
  limits.max_pages_per_sequence = 1;
  limits.max_columns = kColumns;
  limits.vocab_size = 256;
  limits.num_heads = 1;
  limits.head_dim = 64;
  limits.num_shards = num_shards;
  limits.gather_bytes = kMostBytes;
  check(shard.table->create_context(shard.device, &limits, &shard.context), "making a context");
  check(shard.table->allocate(shard.device, kMostBytes, &shard.input), "allocating");
  check(shard.table->allocate(shard.device, kMostBytes, &shard.output), "allocating");
  return shard;
}

// Runs one step of gathers of `rows` rows; later steps of the same rows are replayed.
void run_step(const Shard& shard, const std::vector<int32_t>& starts, int32_t rank, int32_t rows) {
  const std::vector<int32_t> zeros(static_cast<size_t>(rows), 0);
  const int32_t sequence_starts[2] = {0, rows};
  BatchView host;  // a step of as many tokens, so that other rows are another recording
  host.num_tokens = host.max_query_tokens = host.max_kv_tokens = rows;
  host.num_sequences = host.page_table_stride = host.num_page_tables = 1;
  host.token_ids = host.positions = host.sequence_of_token = host.page_table = host.logit_rows = zeros.data();
  host.sequence_starts = sequence_starts;
  host.kv_lengths = &rows;
  BatchView view;
  check(shard.table->bind_batch(shard.context, &host, &view), "binding a batch");
  StepAction action = StepAction::run;
  check(shard.table->begin_step(shard.context, &view, &action), "beginning a step");
  if (action != StepAction::replayed) {
    AllGatherParams params;
    params.columns = {starts.data(), static_cast<int32_t>(starts.size()) - 1, rank};
    params.input = shard.input;
    params.output = shard.output;
    params.rows = rows;
    params.dtype = DType::f16;
    for (int32_t i = 0; i < kGathersOfStep; ++i)
      check(shard.table->all_gather(shard.context, &params), "gathering");
    check(shard.table->end_step(shard.context, &action), "ending a step");
  }
  check(shard.table->synchronize(shard.context), "waiting");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) stop("usage: cuda_gather_bench PLUGIN [SHARDS]");
  const Backend& backend = open_plugin(argv[1]);
  const int32_t num_shards = argc > 2 ? std::atoi(argv[2]) : 2;
  if (backend.num_devices(nullptr, 0) < num_shards)
    stop("there are fewer than " + std::to_string(num_shards) + " cards");
  std::vector<Shard> shards;
  std::vector<Context*> contexts;
  std::vector<int32_t> starts;
  for (int32_t r = 0; r <= num_shards; ++r) starts.push_back(kColumns * r / num_shards);
  for (int32_t r = 0; r < num_shards; ++r)
    contexts.push_back(shards.emplace_back(open_shard(backend, r, num_shards)).context);
  Communicator* communicator = nullptr;
  check(shards[0].table->connect_shards(contexts.data(), num_shards, &communicator), "connecting");
  for (const int32_t rows : {1, 2, 4, 8, 32, 128, 512}) {
    std::vector<double> times;
    std::barrier meeting(num_shards);
    std::vector<std::thread> threads;
    for (int32_t r = 0; r < num_shards; ++r) {
      threads.emplace_back([&, r] {
        for (int32_t step = 0; step < kSteps; ++step) {
          meeting.arrive_and_wait();
          const double start = seconds();
          run_step(shards[static_cast<size_t>(r)], starts, r, rows);
          if (r == 0 && step >= 8) times.push_back((seconds() - start) * 1e6 / kGathersOfStep);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::sort(times.begin(), times.end());
    std::printf("%d shards, %7d bytes: %6.2f us a gather\n", num_shards, rows * kColumns * 2,
                times[times.size() / 2]);
  }
  shards[0].table->release_communicator(communicator);
  return 0;
}
