#include "kernels/cpu/thread_pool.h"

#include <algorithm>
#include <csignal>
#include <pthread.h>
#include <utility>

#include "kernels/cpu/short_wait.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace quire::kernels {
namespace {

constexpr int kPieceBits = 16;  // bits of each half of Lane::unclaimed
constexpr uint32_t kPieceMask = (uint32_t{1} << kPieceBits) - 1;
constexpr int64_t kMaxPieces = kPieceMask;  // limit for an operation, and so for a lane

}  // namespace

DefaultFloatingPoint::DefaultFloatingPoint() {
#if defined(__x86_64__)
  saved_ = _mm_getcsr();
  _mm_setcsr(0x1f80);  // the initial state of a process
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

ThreadPool::ThreadPool(int32_t num_threads, const StartThread& start)
    : num_threads_(num_threads), lanes_(static_cast<size_t>(num_threads)) {
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
  stopping_.store(true, std::memory_order_relaxed);
  opened_.fetch_add(1, std::memory_order_release);
  opened_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void ThreadPool::worker_loop(int32_t thread) {
  const DefaultFloatingPoint environment;
  for (uint32_t seen = 0;;) {
    wait_until(opened_, [seen](uint32_t now) { return now != seen; });
    seen = opened_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return;
    run_all_lanes(thread);
  }
}

void ThreadPool::run_all_lanes(int32_t thread) {
  for (int32_t i = 0; i < num_threads_; ++i) {
    const int32_t done = work_in_lane(lanes_[static_cast<size_t>((thread + i) % num_threads_)], thread);
    if (done != 0) finish_pieces(done);
  }
}

// Works until the lane is empty. Returns the number of pieces done; all belong to one operation, since it
// cannot end before they are counted.
int32_t ThreadPool::work_in_lane(Lane& lane, int32_t thread) {
  int32_t done = 0;
  for (uint32_t seen = lane.unclaimed.load(std::memory_order_acquire);;) {
    const uint32_t next = seen & kPieceMask;
    if (next == seen >> kPieceBits) return done;
    if (!lane.unclaimed.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel,
                                              std::memory_order_acquire)) {
      continue;
    }
    const int64_t first = (lane.first_piece + next) * operation_.piece;
    operation_.call(operation_.work, thread, first, std::min(operation_.count, first + operation_.piece));
    ++done;
    seen = lane.unclaimed.load(std::memory_order_acquire);
  }
}

void ThreadPool::finish_pieces(int32_t num_pieces) {
  if (unfinished_.fetch_sub(num_pieces, std::memory_order_acq_rel) == num_pieces) unfinished_.notify_one();
}

void ThreadPool::open(const Operation& operation, int64_t num_pieces) {
  operation_ = operation;
  unfinished_.store(static_cast<int32_t>(num_pieces), std::memory_order_relaxed);
  for (int32_t l = 0; l < num_threads_; ++l) {
    Lane& lane = lanes_[static_cast<size_t>(l)];
    lane.first_piece = num_pieces * l / num_threads_;
    const int64_t end = num_pieces * (l + 1) / num_threads_;
    lane.unclaimed.store(static_cast<uint32_t>(end - lane.first_piece) << kPieceBits,
                         std::memory_order_release);
  }
  opened_.fetch_add(1, std::memory_order_release);
  opened_.notify_all();
}

void ThreadPool::run(Operation operation) {
  if (operation.count <= 0) return;
  operation.piece = std::max(operation.piece, (operation.count - 1) / kMaxPieces + 1);
  const std::lock_guard<std::mutex> turn(turn_);
  const DefaultFloatingPoint environment;
  const int64_t num_pieces = (operation.count - 1) / operation.piece + 1;
  if (num_pieces == 1) return operation.call(operation.work, 0, 0, operation.count);
  open(operation, num_pieces);
  run_all_lanes(0);
  wait_until(unfinished_, [](int32_t pieces) { return pieces == 0; });
}

}  // namespace quire::kernels
