#include "core/engine/residency/memory_reclaimers.h"

#include <algorithm>

namespace quire {

void MemoryReclaimers::add(const std::shared_ptr<MemoryReclaimer>& reclaimer) {
  const MutexLock lock(mutex_);
  std::erase_if(all_, [](const auto& of) { return of.expired(); });
  all_.push_back(reclaimer);
}

bool MemoryReclaimers::ask(std::string_view device, uint64_t bytes) {
  std::vector<std::weak_ptr<MemoryReclaimer>> all;
  {
    const MutexLock lock(mutex_);
    all = all_;
  }
  uint64_t given = 0;
  for (const auto& of : all) {
    if (given >= bytes) break;
    if (const auto reclaimer = of.lock(); reclaimer != nullptr)
      given += reclaimer->reclaim(device, bytes - given);
  }
  return given > 0;
}

}  // namespace quire
