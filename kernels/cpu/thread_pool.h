// Threads that share the work of one operation at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace quire::kernels {

// Starts a thread that runs `body`; throws where it cannot. Tests give one that fails.
using StartThread = std::function<std::thread(std::function<void()> body)>;

// Blocks all signals in the new thread, so that handlers of the host run on the host's own threads.
std::thread start_worker_thread(std::function<void()> body);

// A pool of num_threads - 1 workers; the caller is the other thread. An operation has the whole pool while it
// runs: callers take turns. Workers spin for some microseconds after an operation, for the next one of the
// same step, and then sleep.
class ThreadPool {
 public:
  // Throws std::system_error where a thread cannot be started; those that were are joined.
  explicit ThreadPool(int32_t num_threads, const StartThread& start = start_worker_thread);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int32_t num_threads() const { return num_threads_; }

  // Calls work(thread) once for each thread 0..num_threads-1 and returns when all have; 0 is the caller.
  // `work` must not throw. It runs with the default floating-point environment whatever the caller's is.
  template <typename Work>
  void run(const Work& work) {
    run_on_all([](const void* w, int32_t thread) { (*static_cast<const Work*>(w))(thread); }, &work);
  }

  // work(thread, first, last) for an even, contiguous share of 0..count-1 each; threads without a share are
  // not called.
  template <typename Work>
  void share(int64_t count, const Work& work) {
    run([&](int32_t thread) {
      const int64_t first = count * thread / num_threads_;
      const int64_t last = count * (thread + 1) / num_threads_;
      if (first < last) work(thread, first, last);
    });
  }

 private:
  using Function = void (*)(const void* work, int32_t thread);

  void run_on_all(Function function, const void* work);
  void worker_loop(int32_t thread);
  void stop();

  int32_t num_threads_;
  std::mutex turn_;  // held by the operation that has the pool
  // Published by a change of generation_; all workers read them and count themselves off before the next.
  Function function_ = nullptr;
  const void* work_ = nullptr;
  bool stopping_ = false;
  alignas(64) std::atomic<uint32_t> generation_{0};
  alignas(64) std::atomic<int32_t> busy_{0};
  std::vector<std::thread> workers_;
};

// The default rounding and no flushing of subnormals while it lives; then what was before.
class DefaultFloatingPoint {
 public:
  DefaultFloatingPoint();
  DefaultFloatingPoint(const DefaultFloatingPoint&) = delete;
  DefaultFloatingPoint& operator=(const DefaultFloatingPoint&) = delete;
  ~DefaultFloatingPoint();

 private:
  uint32_t saved_ = 0;
};

}  // namespace quire::kernels
