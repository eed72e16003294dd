#include "core/constrained/shared_states.h"

#include <algorithm>
#include <new>
#include <utility>

namespace quire {

SharedStates::SharedStates(std::unique_ptr<MaskMaker> made, std::shared_ptr<std::atomic<size_t>> total_bytes)
    : maker(std::move(made)), total_bytes_(std::move(total_bytes)) {
  const MutexLock lock(mutex);
  note_use(0);
}

SharedStates::~SharedStates() {
  *total_bytes_ -= bytes_;
}

void SharedStates::note_use(uint64_t now) noexcept {
  const size_t bytes = maker == nullptr ? 0 : maker->held_bytes();
  *total_bytes_ += bytes - bytes_.exchange(bytes);  // modulo 2^64
  if (maker == nullptr || maker->is_half_full()) is_half_full_ = true;
  last_use_ = now;
}

std::shared_ptr<SharedStates> SharedStatesPool::current() const {
  const MutexLock lock(mutex_);
  return current_;
}

void SharedStatesPool::start_with(std::shared_ptr<SharedStates> states) {
  const MutexLock lock(mutex_);
  listed_.push_back(states);
  states->is_listed_ = true;
  current_ = std::move(states);
}

std::shared_ptr<SharedStates> SharedStatesPool::wrap(std::unique_ptr<MaskMaker> made) const {
  return std::make_shared<SharedStates>(std::move(made), total_bytes_);
}

void SharedStatesPool::note_use(const std::shared_ptr<SharedStates>& states) noexcept {
  const bool had_space = !states->is_half_full_;
  states->note_use(++num_uses_);
  if (states->is_listed_ && had_space == !states->is_half_full_) return;
  std::shared_ptr<SharedStates> replaced;  // freed without the lock
  const MutexLock lock(mutex_);
  if (!states->is_listed_ && !list(states)) return;
  if (states->is_half_full_) {
    if (current_ == states) replaced = std::exchange(current_, nullptr);
  } else if (current_ == nullptr) {
    current_ = states;
  }
}

// Returns false if memory is short; the next use lists the states then.
bool SharedStatesPool::list(const std::shared_ptr<SharedStates>& states) noexcept {
  std::erase_if(listed_, [](const std::weak_ptr<SharedStates>& other) { return other.expired(); });
  try {
    listed_.push_back(states);
  } catch (const std::bad_alloc&) {
    return false;
  }
  states->is_listed_ = true;
  return true;
}

// Removes the least recently used states from the list.
std::shared_ptr<SharedStates> SharedStatesPool::take_oldest(const SharedStates& besides) noexcept {
  const MutexLock lock(mutex_);
  std::shared_ptr<SharedStates> oldest;
  for (const std::weak_ptr<SharedStates>& weak : listed_) {
    std::shared_ptr<SharedStates> states = weak.lock();
    if (states == nullptr || states.get() == &besides) continue;
    if (oldest == nullptr || states->last_use_ < oldest->last_use_) oldest = std::move(states);
  }
  if (oldest == nullptr) return nullptr;
  std::erase_if(listed_, [&](const std::weak_ptr<SharedStates>& weak) { return weak.lock() == oldest; });
  if (current_ == oldest) current_ = nullptr;
  return oldest;
}

void SharedStatesPool::trim(const SharedStates& states) noexcept {
  while (*total_bytes_ > max_bytes_) {
    const std::shared_ptr<SharedStates> oldest = take_oldest(states);
    if (oldest == nullptr) return;
    std::unique_ptr<MaskMaker> dropped;
    const MutexLock lock(oldest->mutex);
    dropped = std::move(oldest->maker);
    oldest->note_use(0);
  }
}

}  // namespace quire
