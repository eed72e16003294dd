// Waiting for another thread that is usually about to finish: spins first, then sleeps.
#pragma once

#include <atomic>
#include <chrono>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace quire::kernels {

// How long a thread spins before it sleeps. A decode step has some fifty operations a few microseconds apart,
// and a wake from sleep costs 5 to 9 us. Longer spinning would occupy a core of the host between steps.
inline constexpr auto kSpinTime = std::chrono::microseconds(30);
inline constexpr int kSpinsBetweenLooksAtTheClock = 32;

inline void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

template <typename T, typename Done>
bool spin_until(const std::atomic<T>& value, Done done) {
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int spin = 0; spin < kSpinsBetweenLooksAtTheClock; ++spin) {
      if (done(value.load(std::memory_order_acquire))) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

template <typename T, typename Done>
void wait_until(const std::atomic<T>& value, Done done) {
  if (done(value.load(std::memory_order_acquire)) || spin_until(value, done)) return;
  for (T seen = value.load(std::memory_order_acquire); !done(seen);
       seen = value.load(std::memory_order_acquire)) {
    value.wait(seen, std::memory_order_acquire);
  }
}

}  // namespace quire::kernels
