// Threads that share the work of one operation at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace quire::kernels {

// Starts a thread that runs `body`; throws where it cannot. Tests give one that fails, or one that comes
// late.
using StartThread = std::function<std::thread(std::function<void()> body)>;

// Blocks all signals in the new thread, so that handlers of the host run on the host's own threads.
std::thread start_worker_thread(std::function<void()> body);

// A pool of num_threads - 1 workers; the caller is the other thread. An operation has the whole pool while it
// runs: callers take turns.
//
// An operation is cut into pieces, and each thread has a lane of adjacent ones. A thread claims the pieces of
// its own lane one after the other, then what is left in the lanes of the others. So no operation waits for a
// thread that the system does not run: what that thread has not claimed, the others do. The caller waits for
// claimed pieces alone. On a machine with nothing else to do each thread works through its own lane, which is
// the same part of a matrix in every step and may still lie in its cache.
//
// The pieces depend on the operation alone, never on the number of threads.
class ThreadPool {
 public:
  // Throws std::system_error where a thread cannot be started; those that were are joined.
  explicit ThreadPool(int32_t num_threads, const StartThread& start = start_worker_thread);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int32_t num_threads() const { return num_threads_; }

  // work(thread, first, last) for pieces of `piece` units (the last may be smaller) that make up 0..count-1;
  // returns when all are done. Calls with the same `thread`, 0..num_threads-1, never overlap. `work` must not
  // throw. It runs with the default floating-point environment whatever the caller's is.
  template <typename Work>
  void share(int64_t count, int64_t piece, const Work& work) {
    const auto call = [](const void* w, int32_t thread, int64_t first, int64_t last) {
      (*static_cast<const Work*>(w))(thread, first, last);
    };
    run({call, &work, count, piece});
  }

 private:
  struct Operation {
    void (*call)(const void* work, int32_t thread, int64_t first, int64_t last) = nullptr;
    const void* work = nullptr;
    int64_t count = 0;
    int64_t piece = 1;
  };

  // `unclaimed` holds the pieces of the lane that nobody has claimed: the next one in the low half, the end
  // in the high half. Both in one word, so that whoever claims a piece, however late, has one of the
  // operation that is open: between operations all lanes are empty.
  struct alignas(64) Lane {
    std::atomic<uint32_t> unclaimed{0};
    int64_t first_piece = 0;  // of the operation
  };

  void run(Operation operation);
  void open(const Operation& operation, int64_t num_pieces);
  void take_part(int32_t thread);
  int32_t work_in_lane(Lane& lane, int32_t thread);
  void finish_pieces(int32_t num_pieces);
  void worker_loop(int32_t thread);
  void stop();

  int32_t num_threads_;
  std::mutex turn_;  // held by the operation that has the pool
  // Read, like Lane::first_piece, by the threads that have claimed a piece: the operation cannot end, and the
  // next one change it, before they have finished that.
  Operation operation_;
  std::vector<Lane> lanes_;  // [threads]
  std::atomic<bool> stopping_{false};
  alignas(64) std::atomic<uint32_t> opened_{0};     // changes when an operation opens; workers wait on it
  alignas(64) std::atomic<int32_t> unfinished_{0};  // pieces; the caller waits on it
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
