#include "core/models/shard_team.h"

#include <algorithm>
#include <utility>

namespace quire {

ShardTeam::ShardTeam(const ThreadFactory& threads, int32_t num_shards) {
  // Reserves first, because push_back must not throw after a thread has started: the thread would be joined
  // before it is asked to stop.
  threads_.reserve(static_cast<size_t>(std::max(0, num_shards - 1)));
  try {
    for (int32_t shard = 1; shard < num_shards; ++shard)
      threads_.push_back(threads.start("quire-shard", [this, shard] { serve(shard); }));
  } catch (...) {
    stop();
    throw;
  }
}

ShardTeam::~ShardTeam() {
  stop();
}

void ShardTeam::stop() noexcept {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    called_.notify_all();
  }
  threads_.clear();
}

void ShardTeam::run(const std::function<void(int32_t shard)>& work, const std::function<void()>& interrupt) {
  const Call call = {&work, &interrupt};
  {
    const MutexLock lock(mutex_);
    call_ = call;
    num_working_ = threads_.size();
    failure_ = nullptr;
    ++num_calls_;
    called_.notify_all();
  }
  run_shard(0, call);
  std::exception_ptr failure;
  {
    MutexLock lock(mutex_);
    ended_.wait(lock.native(), [this]() QUIRE_NO_THREAD_ANALYSIS { return num_working_ == 0; });
    failure = std::exchange(failure_, nullptr);
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}

void ShardTeam::serve(int32_t shard) noexcept {
  for (uint64_t seen = 0;; ++seen) {
    Call call;
    {
      MutexLock lock(mutex_);
      called_.wait(lock.native(),
                   [this, seen]() QUIRE_NO_THREAD_ANALYSIS { return stopping_ || num_calls_ != seen; });
      if (stopping_) return;
      call = call_;
    }
    run_shard(shard, call);
    const MutexLock lock(mutex_);
    if (--num_working_ == 0) ended_.notify_one();
  }
}

// Keeps the first failure only. Later failures come from shards that waited for the failed one.
void ShardTeam::run_shard(int32_t shard, const Call& call) noexcept {
  try {
    (*call.work)(shard);
  } catch (...) {
    {
      const MutexLock lock(mutex_);
      if (failure_ != nullptr) return;
      failure_ = std::current_exception();
    }
    (*call.interrupt)();
  }
}

}  // namespace quire
