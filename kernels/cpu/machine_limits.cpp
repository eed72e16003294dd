// Peak rates of this machine with the threads of the device. Benchmarks divide by them.
#include <algorithm>
#include <atomic>
#include <chrono>

#include "kernels/cpu/device.h"
#include "kernels/cpu/table_entries.h"

namespace quire::kernels::cpu_entries {
namespace {

using Clock = std::chrono::steady_clock;

// A measurement is the best of many short runs: on a shared machine some of them are undisturbed.
constexpr auto kMeasuringTime = std::chrono::milliseconds(200);
constexpr int kMinRuns = 5;

template <typename Work>
double best_seconds(const Work& work) {
  double best = 1e9;
  const auto end = Clock::now() + kMeasuringTime;
  for (int run = 0; run < kMinRuns || Clock::now() < end; ++run) {
    const auto start = Clock::now();
    work();
    const std::chrono::duration<double> seconds = Clock::now() - start;
    best = std::min(best, seconds.count());
  }
  return best;
}

// Pieces are as large as those of a matrix, and each thread gets the same ones in every pass. What fits into
// the caches of its core stays there, as a thread's part of the weights does from step to step.
constexpr size_t kPieceBytes = size_t{32} << 10;
constexpr size_t kMinBytes = size_t{1} << 20;
constexpr size_t kMaxBytes = size_t{512} << 20;  // larger than all caches

// Returns the number of passes that makes a run long compared with its distribution to the threads.
int passes_of_run(size_t bytes) {
  return static_cast<int>(std::max<size_t>(1, (size_t{8} << 20) / bytes));
}

}  // namespace

Status measure_read_rate(Device* device, uint64_t working_set_bytes, double* bytes_per_second) {
  return guarded(device, "measuring reads", [&] {
    const size_t pieces = std::clamp<uint64_t>(working_set_bytes, kMinBytes, kMaxBytes) / kPieceBytes;
    const AlignedBuffer buffer(device->meter, pieces * kPieceBytes);
    const auto* memory = buffer.as<uint8_t>();
    const int passes = passes_of_run(buffer.bytes());
    const double seconds = best_seconds([&] {
      for (int pass = 0; pass < passes; ++pass) {
        device->pool.share(static_cast<int64_t>(pieces), 1, [&](int32_t, int64_t first, int64_t last) {
          const auto bytes = static_cast<size_t>(last - first) * kPieceBytes;
          device->isa.read_once(memory + static_cast<size_t>(first) * kPieceBytes, bytes);
        });
      }
    });
    *bytes_per_second = static_cast<double>(buffer.bytes()) * passes / seconds;
    return Status::ok;
  });
}

Status measure_op_rate(Device* device, double* ops_per_second) {
  return guarded(device, "measuring arithmetic", [&] {
    constexpr int64_t kRoundsOfPiece = 500;
    constexpr int64_t kPiecesOfThread = 20;
    const AlignedBuffer activations(device->meter,
                                    static_cast<size_t>(device->isa.full.max_tile_rows) * kBlockRows * 2);
    std::atomic<int64_t> ops{0};
    const double seconds = best_seconds([&] {
      ops = 0;
      device->pool.share(kPiecesOfThread * device->pool.num_threads(), 1, [&](int32_t, int64_t, int64_t) {
        int32_t result = 0;
        ops.fetch_add(device->isa.dot_rounds(activations.as<int8_t>(), kRoundsOfPiece, &result),
                      std::memory_order_relaxed);
      });
    });
    *ops_per_second = static_cast<double>(ops) / seconds;
    return Status::ok;
  });
}

}  // namespace quire::kernels::cpu_entries
