// Memory reclaim: the caches of one runtime that can free memory which their jobs do not use.
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
  // Frees up to `bytes` bytes of a device, in whole chunks. Returns the number of bytes freed. Waits at most
  // two seconds for the running step.
  virtual uint64_t reclaim(std::string_view device, uint64_t bytes) noexcept = 0;
};

// Thread-safe. Reclaimers are called without its lock.
class MemoryReclaimers {
 public:
  void add(const std::shared_ptr<MemoryReclaimer>& reclaimer);
  // Calls one reclaimer after another until `bytes` are free. Returns false if none freed anything.
  bool ask(std::string_view device, uint64_t bytes);

 private:
  Mutex mutex_;
  std::vector<std::weak_ptr<MemoryReclaimer>> all_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire
