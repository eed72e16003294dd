#include "kernels/cpu/thread_pool.h"

#include <csignal>
#include <pthread.h>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace quire::kernels {
namespace {

// About 20 us at 3 GHz. A decode step has about a hundred operations some microseconds apart, and a wake from
// sleep costs 5 to 9 us; longer spinning would burn a core of the host between steps.
constexpr int kSpins = 1000;

void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

template <typename T, typename Done>
void wait_until(const std::atomic<T>& value, Done done) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (done(value.load(std::memory_order_acquire))) return;
    pause_briefly();
  }
  for (T seen = value.load(std::memory_order_acquire); !done(seen);
       seen = value.load(std::memory_order_acquire)) {
    value.wait(seen, std::memory_order_acquire);
  }
}

}  // namespace

DefaultFloatingPoint::DefaultFloatingPoint() {
#if defined(__x86_64__)
  saved_ = _mm_getcsr();
  _mm_setcsr(0x1f80);  // the state a process starts with
#endif
}

DefaultFloatingPoint::~DefaultFloatingPoint() {
#if defined(__x86_64__)
  _mm_setcsr(saved_);
#endif
}

std::thread start_worker_thread(std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  try {
    thread = std::thread(std::move(body));
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread.native_handle(), "quire-cpu");
  return thread;
}

ThreadPool::ThreadPool(int32_t num_threads, const StartThread& start) : num_threads_(num_threads) {
  workers_.reserve(static_cast<size_t>(num_threads));
  try {
    for (int32_t thread = 1; thread < num_threads; ++thread) {
      workers_.push_back(start([this, thread] { worker_loop(thread); }));
    }
  } catch (...) {
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  stop();
}

void ThreadPool::stop() {
  stopping_ = true;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void ThreadPool::worker_loop(int32_t thread) {
  const DefaultFloatingPoint environment;
  for (uint32_t seen = 0;; ++seen) {
    wait_until(generation_, [seen](uint32_t now) { return now != seen; });
    if (stopping_) return;
    function_(work_, thread);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

void ThreadPool::run_on_all(Function function, const void* work) {
  const std::lock_guard<std::mutex> turn(turn_);
  const DefaultFloatingPoint environment;
  if (num_threads_ > 1) {
    function_ = function;
    work_ = work;
    busy_.store(num_threads_ - 1, std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
  }
  function(work, 0);
  if (num_threads_ > 1) wait_until(busy_, [](int32_t busy) { return busy == 0; });
}

}  // namespace quire::kernels
