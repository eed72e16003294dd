#include "core/engine/residency/residency_registry.h"

#include <algorithm>

namespace quire {

void ResidencyRegistry::add(WeightResidency& residency) {
  const MutexLock lock(mutex_);
  all_.push_back({++num_added_, &residency});
}

void ResidencyRegistry::remove(WeightResidency& residency) noexcept {
  const MutexLock lock(mutex_);
  std::erase_if(all_, [&](const Known& known) { return known.residency == &residency; });
}

// Returns the residencies that are not being destroyed. The others free their memory by themselves.
std::vector<std::shared_ptr<WeightResidency>> ResidencyRegistry::living() const {
  std::vector<std::shared_ptr<WeightResidency>> living;
  {
    const MutexLock lock(mutex_);
    living.reserve(all_.size());
    for (const Known& known : all_) living.push_back(known.residency->weak_from_this().lock());
  }
  std::erase(living, nullptr);
  return living;
}

std::vector<ResidencyRegistry::Found> ResidencyRegistry::on_device(std::string_view device) const {
  std::vector<Found> found;
  for (auto& residency : living()) {
    const auto place = residency->place_on(device);
    if (place && place->candidate.bytes > 0) found.push_back({std::move(residency), *place});
  }
  return found;
}

bool ResidencyRegistry::evict_any_remainder(std::string_view device) const {
  const auto all = living();
  return std::any_of(all.begin(), all.end(), [&](const auto& of) { return of->evict_remainder(device); });
}

std::vector<ResidencyRegistry::Listed> ResidencyRegistry::list() const {
  std::vector<Listed> listed;
  const MutexLock lock(mutex_);
  for (const Known& known : all_)
    listed.push_back(
        {known.number, known.residency->name(), known.residency->figures(), known.residency->shard_bytes()});
  return listed;
}

void ResidencyRegistry::note_freed_memory() noexcept {
  room_changes_.fetch_add(1, std::memory_order_acq_rel);
  const MutexLock lock(mutex_);
  for (const Known& known : all_) known.residency->note_freed_memory();
}

}  // namespace quire
