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

// Starts a thread that runs `body`; throws if it cannot. Tests pass one that fails, or one that starts late.
using StartThread = std::function<std::thread(std::function<void()> body)>;

// Starts a thread with all signals blocked, so that signal handlers of the host run on the host's own
// threads.
std::thread start_worker_thread(std::function<void()> body);

// A pool of num_threads - 1 workers; the calling thread is the last one. An operation uses the whole pool
// while it runs; concurrent callers wait for each other.
//
// An operation is cut into pieces, and each thread has a lane of adjacent pieces. A thread claims the pieces
// of its own lane one after the other, then unclaimed pieces of the other lanes. So no operation waits for a
// thread that the system does not schedule: the other threads do its unclaimed pieces. The caller waits only
// for claimed pieces. On an idle machine each thread works through its own lane, which is the same part of a
// matrix in every step and may still be in its cache.
//
// The pieces depend only on the operation, never on the number of threads.
class ThreadPool {
 public:
  // Throws std::system_error if a thread cannot be started; threads that were started are joined.
  explicit ThreadPool(int32_t num_threads, const StartThread& start = start_worker_thread);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int32_t num_threads() const { return num_threads_; }

  // Calls work(thread, first, last) for pieces of `piece` units (the last may be smaller) that make up
  // 0..count-1, and returns when all are done. Calls with the same `thread`, 0..num_threads-1, never overlap.
  // `work` must not throw. It runs with the default floating-point environment, whatever the caller's is.
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

  // `unclaimed` holds the range of the lane's unclaimed pieces: the next one in the low half, the end in the
  // high half. Both are in one word, so that a thread that claims a piece, however late, gets one of the
  // current operation: between operations all lanes are empty.
  struct alignas(64) Lane {
    std::atomic<uint32_t> unclaimed{0};
    int64_t first_piece = 0;  // first piece of the lane within the operation
  };

  void run(Operation operation);
  void open(const Operation& operation, int64_t num_pieces);
  void run_all_lanes(int32_t thread);
  int32_t work_in_lane(Lane& lane, int32_t thread);
  void finish_pieces(int32_t num_pieces);
  void worker_loop(int32_t thread);
  void stop();

  int32_t num_threads_;
  std::mutex turn_;  // held by the caller whose operation runs
  // Read, like Lane::first_piece, by threads that have claimed a piece. It cannot change before they finish,
  // because the operation does not end until then.
  Operation operation_;
  std::vector<Lane> lanes_;  // [threads]
  std::atomic<bool> stopping_{false};
  alignas(64) std::atomic<uint32_t> opened_{0};     // changes when an operation opens; workers wait on it
  alignas(64) std::atomic<int32_t> unfinished_{0};  // pieces; the caller waits on it
  std::vector<std::thread> workers_;
};

// Sets the default rounding mode without flushing of subnormals; the destructor restores the previous state.
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
