#include "core/engine/residency/room_givers.h"

#include <algorithm>

namespace quire {

void RoomGivers::add(const std::shared_ptr<RoomGiver>& giver) {
  const MutexLock lock(mutex_);
  std::erase_if(all_, [](const auto& of) { return of.expired(); });
  all_.push_back(giver);
}

bool RoomGivers::ask(std::string_view device, uint64_t bytes) {
  std::vector<std::weak_ptr<RoomGiver>> all;
  {
    const MutexLock lock(mutex_);
    all = all_;
  }
  uint64_t given = 0;
  for (const auto& of : all) {
    if (given >= bytes) break;
    if (const auto giver = of.lock(); giver != nullptr) given += giver->give_room(device, bytes - given);
  }
  return given > 0;
}

}  // namespace quire
