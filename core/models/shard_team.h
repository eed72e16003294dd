// Threads that run the shards of a model in parallel.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/thread.h"

namespace quire {

// Threads of the shards. The caller runs shard 0; each other shard has a thread that sleeps between calls.
class ShardTeam {
 public:
  // Throws ErrorCode::out_of_memory if a thread cannot be started.
  ShardTeam(const ThreadFactory& threads, int32_t num_shards);
  ShardTeam(const ShardTeam&) = delete;
  ShardTeam& operator=(const ShardTeam&) = delete;
  ~ShardTeam();

  // Runs work(shard) for each shard and returns when all have ended. If one throws, `interrupt` is called
  // once on its thread so that the others end too, and `run` rethrows the exception. One call at a time.
  void run(const std::function<void(int32_t shard)>& work, const std::function<void()>& interrupt);

 private:
  struct Call {
    const std::function<void(int32_t shard)>* work = nullptr;
    const std::function<void()>* interrupt = nullptr;
  };

  void serve(int32_t shard) noexcept;
  void run_shard(int32_t shard, const Call& call) noexcept;
  void stop() noexcept;

  Mutex mutex_;
  std::condition_variable called_;  // a call has begun, or the team stops
  std::condition_variable ended_;   // the last thread has finished a call
  Call call_ QUIRE_GUARDED_BY(mutex_);
  uint64_t num_calls_ QUIRE_GUARDED_BY(mutex_) = 0;
  size_t num_working_ QUIRE_GUARDED_BY(mutex_) = 0;
  bool stopping_ QUIRE_GUARDED_BY(mutex_) = false;
  std::exception_ptr failure_ QUIRE_GUARDED_BY(mutex_);  // first failure of the call
  std::vector<std::unique_ptr<Thread>> threads_;
};

}  // namespace quire
