#include "core/engine/residency/residences.h"

#include <algorithm>

namespace quire {

void Residences::add(Residence& residence) {
  const MutexLock lock(mutex_);
  all_.push_back({++num_added_, &residence});
}

void Residences::remove(Residence& residence) noexcept {
  const MutexLock lock(mutex_);
  std::erase_if(all_, [&](const Known& known) { return known.residence == &residence; });
}

// One that is being destroyed cannot be had any more, and its bytes come free by themselves.
std::vector<std::shared_ptr<Residence>> Residences::living() const {
  std::vector<std::shared_ptr<Residence>> living;
  {
    const MutexLock lock(mutex_);
    living.reserve(all_.size());
    for (const Known& known : all_) living.push_back(known.residence->weak_from_this().lock());
  }
  std::erase(living, nullptr);
  return living;
}

std::vector<Residences::Found> Residences::on_device(std::string_view device) const {
  std::vector<Found> found;
  for (auto& residence : living()) {
    const auto place = residence->place_on(device);
    if (place && place->candidate.bytes > 0) found.push_back({std::move(residence), *place});
  }
  return found;
}

bool Residences::give_rest(std::string_view device) const {
  const auto all = living();
  return std::any_of(all.begin(), all.end(), [&](const auto& of) { return of->leave_rest(device); });
}

std::vector<Residences::Listed> Residences::list() const {
  std::vector<Listed> listed;
  const MutexLock lock(mutex_);
  for (const Known& known : all_)
    listed.push_back(
        {known.number, known.residence->name(), known.residence->figures(), known.residence->shard_bytes()});
  return listed;
}

void Residences::note_room() noexcept {
  room_changes_.fetch_add(1, std::memory_order_acq_rel);
  const MutexLock lock(mutex_);
  for (const Known& known : all_) known.residence->note_room();
}

}  // namespace quire
