// The caches of one runtime that give memory back which their jobs do not use.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/base/mutex.h"

namespace quire {

class RoomGiver {
 public:
  virtual ~RoomGiver() = default;
  // Gives up to so many bytes of a device back, in whole chunks; how many came free. Waits for the step in
  // progress, for two seconds at most.
  virtual uint64_t give_room(std::string_view device, uint64_t bytes) noexcept = 0;
};

// Any thread. Its lock is taken by itself, and nobody is asked under it.
class RoomGivers {
 public:
  void add(const std::shared_ptr<RoomGiver>& giver);
  // One after another until that much came free; false where nothing did.
  bool ask(std::string_view device, uint64_t bytes);

 private:
  Mutex mutex_;
  std::vector<std::weak_ptr<RoomGiver>> all_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire
