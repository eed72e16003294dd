#include "tests/support/sync_points.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>

namespace quire::testing {
namespace {

constexpr int32_t kOthers = 2;      // index for all threads other than the two
constexpr size_t kMaxTrace = 4096;  // points
// Stops are among the first points of a thread; a call passes ten to fifty.
constexpr uint32_t kStopWithin = 48;
constexpr size_t kNumStops = 3;
constexpr int32_t kMaxYields = 24;  // after these the other threads are assumed to wait

// Always relaxed: stronger ordering here would hide races.
constexpr auto kRelaxed = std::memory_order_relaxed;

// Never destroyed, because a thread of an engine may pass a point at any time.
struct State {
  std::atomic<bool> active{false};
  std::atomic<uint64_t> seed{0};
  std::array<std::atomic<uint32_t>, 3> num_passed{};
  std::array<std::atomic<bool>, 2> present{};
  std::atomic<uint32_t> trace_size{0};
  std::array<std::atomic<uint8_t>, kMaxTrace> trace{};
};
constinit State state;

struct Place {
  int32_t which = kOthers;
  uint32_t num_points = 0;
  uint64_t random = 0;
  std::array<uint32_t, kNumStops> stops{};
};
constinit thread_local Place place;

// SplitMix64.
uint64_t next_random(uint64_t& random) noexcept {
  uint64_t z = random += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

uint32_t passed_by_others(int32_t which) noexcept {
  uint32_t sum = 0;
  for (int32_t i = 0; i <= kOthers; ++i) {
    if (i != which) sum += state.num_passed[static_cast<size_t>(i)].load(kRelaxed);
  }
  return sum;
}

bool somebody_else_is_there(int32_t which) noexcept {
  return which == kOthers || state.present[static_cast<size_t>(1 - which)].load(kRelaxed);
}

void stand_aside(uint32_t num_points) noexcept {
  const uint32_t target = passed_by_others(place.which) + num_points;
  for (int32_t i = 0; i < kMaxYields && somebody_else_is_there(place.which); ++i) {
    if (static_cast<int32_t>(passed_by_others(place.which) - target) >= 0) return;
    sched_yield();
  }
}

bool stops_here() noexcept {
  if (place.which == kOthers) return next_random(place.random) % 16 == 0;
  return std::find(place.stops.begin(), place.stops.end(), place.num_points) != place.stops.end();
}

}  // namespace

Schedule::Schedule(uint64_t seed) noexcept {
  for (auto& passed : state.num_passed) passed.store(0, kRelaxed);
  for (auto& present : state.present) present.store(true, kRelaxed);
  state.trace_size.store(0, kRelaxed);
  state.seed.store(seed, kRelaxed);
  state.active.store(true, kRelaxed);
}

Schedule::~Schedule() {
  state.active.store(false, kRelaxed);
}

void Schedule::enter(int32_t which) noexcept {
  place = {};
  place.which = which;
  place.random = state.seed.load(kRelaxed) * 2 + static_cast<uint64_t>(which);
  for (uint32_t& stop : place.stops) stop = static_cast<uint32_t>(next_random(place.random) % kStopWithin);
}

void Schedule::leave() noexcept {
  state.present[static_cast<size_t>(place.which)].store(false, kRelaxed);
  place = {};
}

// FNV-1a over the indices of the threads that passed points, in order.
uint64_t Schedule::order() noexcept {
  uint64_t hash = 0xcbf29ce484222325;
  const size_t size = std::min<size_t>(state.trace_size.load(kRelaxed), kMaxTrace);
  for (size_t i = 0; i < size; ++i) hash = (hash ^ state.trace[i].load(kRelaxed)) * 0x100000001b3;
  return hash;
}

void pass_sync_point() noexcept {
  if (!state.active.load(kRelaxed)) return;
  state.num_passed[static_cast<size_t>(place.which)].fetch_add(1, kRelaxed);
  if (place.which != kOthers) {
    const uint32_t at = state.trace_size.fetch_add(1, kRelaxed);
    if (at < kMaxTrace) state.trace[at].store(static_cast<uint8_t>(1 + place.which), kRelaxed);
  }
  if (stops_here()) stand_aside(1 + static_cast<uint32_t>(next_random(place.random) % 8));
  ++place.num_points;
}

}  // namespace quire::testing

// Sanitizers intercept the same functions to track threads.
#ifndef QUIRE_SANITIZED
namespace {

using MutexFunction = int (*)(pthread_mutex_t*);

MutexFunction next_definition(std::atomic<MutexFunction>& known, const char* name) noexcept {
  MutexFunction function = known.load(std::memory_order_acquire);
  if (function == nullptr) {
    function = reinterpret_cast<MutexFunction>(dlsym(RTLD_NEXT, name));
    known.store(function, std::memory_order_release);
  }
  return function;
}

constinit std::atomic<MutexFunction> next_lock{nullptr};
constinit std::atomic<MutexFunction> next_unlock{nullptr};

}  // namespace

extern "C" {

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  quire::testing::pass_sync_point();
  return next_definition(next_lock, "pthread_mutex_lock")(mutex);
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  const int result = next_definition(next_unlock, "pthread_mutex_unlock")(mutex);
  quire::testing::pass_sync_point();
  return result;
}
}
#endif
