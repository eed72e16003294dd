// The computed states of a constraint, in several stores, so that the texts of a constraint do not share
// limits.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/mutex.h"
#include "core/constrained/mask_maker.h"

namespace quire {

// States that texts share. `mutex` is held while a text uses them.
class SharedStates {
 public:
  // `total_bytes` is the memory of all states of the pool.
  SharedStates(std::unique_ptr<MaskMaker> made, std::shared_ptr<std::atomic<size_t>> total_bytes);
  ~SharedStates();
  SharedStates(const SharedStates&) = delete;
  SharedStates& operator=(const SharedStates&) = delete;

  Mutex mutex;
  // Null after the pool dropped the states. Texts that used them move to others.
  std::unique_ptr<MaskMaker> maker QUIRE_GUARDED_BY(mutex);

  // Records the memory after a use, and the time of the use.
  void note_use(uint64_t now) noexcept QUIRE_REQUIRES(mutex);

 private:
  friend class SharedStatesPool;
  const std::shared_ptr<std::atomic<size_t>> total_bytes_;
  std::atomic<size_t> bytes_ = 0;
  std::atomic<uint64_t> last_use_ = 0;
  std::atomic<bool> is_half_full_ = false;
  std::atomic<bool> is_listed_ = false;
};

// The stores of states of one constraint. Texts begin with the current store and leave it when it is full. A
// store ends with its last text, or when all stores need too much memory. Safe to use from any thread.
class SharedStatesPool {
 public:
  // Drops the least recently used states while all together need more than max_bytes.
  explicit SharedStatesPool(size_t max_bytes) : max_bytes_(max_bytes) {}

  // Sets the states that the first text begins with.
  void start_with(std::shared_ptr<SharedStates> states);
  // Returns the states that a new text begins with; null if none are less than half full.
  std::shared_ptr<SharedStates> current() const;
  // Returns states that no text uses yet. They are not current before their first use.
  std::shared_ptr<SharedStates> wrap(std::unique_ptr<MaskMaker> made) const;
  // Called with the mutex of `states` held, after a text used them.
  void note_use(const std::shared_ptr<SharedStates>& states) noexcept QUIRE_REQUIRES(states->mutex);
  // Called without the mutex of any states. Never drops `states`.
  void trim(const SharedStates& states) noexcept;

  size_t held_bytes() const { return *total_bytes_; }

 private:
  bool list(const std::shared_ptr<SharedStates>& states) noexcept QUIRE_REQUIRES(mutex_);
  std::shared_ptr<SharedStates> take_oldest(const SharedStates& besides) noexcept;

  const size_t max_bytes_;
  const std::shared_ptr<std::atomic<size_t>> total_bytes_ = std::make_shared<std::atomic<size_t>>(0);
  std::atomic<uint64_t> num_uses_ = 0;
  mutable Mutex mutex_;
  std::shared_ptr<SharedStates> current_ QUIRE_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<SharedStates>> listed_ QUIRE_GUARDED_BY(mutex_);  // used, not dropped
};

}  // namespace quire
