#include "kernels/cpu/machine_limits.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <unistd.h>

#include "kernels/cpu/device.h"

namespace quire::kernels {
namespace {

constexpr int kRuns = 5;

template <typename Work>
double best_seconds(const Work& work) {
  double best = 1e9;
  for (int run = 0; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::min(best, seconds.count());
  }
  return best;
}

// Several times the last cache, so that a pass finds nothing of the one before.
size_t buffer_bytes() {
  constexpr size_t kLeast = size_t{192} << 20;
  constexpr size_t kMost = size_t{512} << 20;
  const long cache = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return std::clamp(cache > 0 ? 4 * static_cast<size_t>(cache) : 0, kLeast, kMost);
}

double measure_reads(Device* device) {
  const AlignedBuffer buffer(buffer_bytes());
  constexpr size_t kUnit = size_t{1} << 20;
  const auto units = static_cast<int64_t>(buffer.bytes() / kUnit);
  std::atomic<uint32_t> seen{0};
  const double seconds = best_seconds([&] {
    device->pool.share(units, 1, [&](int32_t, int64_t first, int64_t last) {
      const auto bytes = static_cast<size_t>(last - first) * kUnit;
      seen.fetch_or(device->isa.read_once(buffer.as<uint8_t>() + static_cast<size_t>(first) * kUnit, bytes));
    });
  });
  return seen == 0 ? static_cast<double>(buffer.bytes()) / seconds : 0.0;
}

double measure_dots(Device* device) {
  constexpr int64_t kRounds = 10'000;
  constexpr int64_t kPieces = 10;  // for each thread
  const AlignedBuffer activations(static_cast<size_t>(device->isa.max_tile_rows) * kBlockRows *
                                  sizeof(int16_t));
  std::atomic<int64_t> ops{0};
  const double seconds = best_seconds([&] {
    ops = 0;
    device->pool.share(kPieces * device->pool.num_threads(), 1, [&](int32_t, int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        int32_t result = 0;
        ops.fetch_add(device->isa.dot_rounds(activations.as<int16_t>(), kRounds, &result) + result);
      }
    });
  });
  return static_cast<double>(ops) / seconds;
}

}  // namespace

Status measure_machine_limits(Device* device, MachineLimits* limits) {
  return guarded(device, "measuring the machine", [&] {
    limits->read_bytes_per_second = measure_reads(device);
    limits->dot_ops_per_second = measure_dots(device);
    return Status::ok;
  });
}

}  // namespace quire::kernels
