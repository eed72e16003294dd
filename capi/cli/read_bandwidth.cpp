#include "capi/cli/read_bandwidth.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <sched.h>
#include <thread>
#include <vector>

namespace quire::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kNumRuns = 10;
constexpr auto kRunTime = std::chrono::milliseconds(25);
constexpr size_t kLanes = 8;  // independent sums, so that loads are all that a pass waits for

uint64_t read_once(const uint64_t* words, size_t num_words) {
  uint64_t sums[kLanes] = {};
  for (size_t idx = 0; idx + kLanes <= num_words; idx += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += words[idx + lane];
  }
  uint64_t total = 0;
  for (const uint64_t sum : sums) total += sum;
  return total;
}

// Words read by one thread until the end of the run.
uint64_t read_until(const uint64_t* words, size_t num_words, Clock::time_point end) {
  uint64_t num_read = 0;
  volatile uint64_t sink = 0;  // what is read is used
  while (Clock::now() < end) {
    sink = sink + read_once(words, num_words);
    asm volatile("" : : "r"(words) : "memory");  // a pass may not stand for another
    num_read += num_words;
  }
  return num_read;
}

double run(const std::vector<uint64_t>& words, int num_threads) {
  const size_t slice = words.size() / static_cast<size_t>(num_threads);
  std::atomic<uint64_t> num_read{0};
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(num_threads));
  const auto start = Clock::now();
  for (size_t idx = 0; idx < static_cast<size_t>(num_threads); ++idx) {
    threads.emplace_back(
        [&, idx] { num_read += read_until(words.data() + idx * slice, slice, start + kRunTime); });
  }
  for (std::thread& thread : threads) thread.join();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return static_cast<double>(num_read.load() * sizeof(uint64_t)) / seconds;
}

}  // namespace

int num_available_cpus() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

double measure_read_bandwidth(size_t num_bytes, int num_threads) {
  const size_t smallest = static_cast<size_t>(num_threads) << 16;
  const std::vector<uint64_t> words(std::max(num_bytes, smallest) / sizeof(uint64_t), 1);
  double best = 0;
  for (int idx = 0; idx < kNumRuns; ++idx) best = std::max(best, run(words, num_threads));
  return best;
}

}  // namespace quire::cli
