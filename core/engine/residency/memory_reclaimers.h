// The caches of one runtime that give memory back which their jobs do not use.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/base/mutex.h"

namespace quire {

class MemoryReclaimer {
 public:
  virtual ~MemoryReclaimer() = default;
  // Gives up to so many bytes of a device back, in whole chunks; how many came free. Waits for the step in
  // progress, for two seconds at most.
  virtual uint64_t reclaim(std::string_view device, uint64_t bytes) noexcept = 0;
};

// Any thread. Its lock is taken by itself, and nobody is asked under it.
class MemoryReclaimers {
 public:
  void add(const std::shared_ptr<MemoryReclaimer>& reclaimer);
  // One after another until that much came free; false where nothing did.
  bool ask(std::string_view device, uint64_t bytes);

 private:
  Mutex mutex_;
  std::vector<std::weak_ptr<MemoryReclaimer>> all_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire
