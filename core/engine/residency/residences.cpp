#include "core/engine/residency/residences.h"

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
std::vector<Residences::Found> Residences::on_device(std::string_view device) const {
  std::vector<Found> found;
  {
    const MutexLock lock(mutex_);
    found.reserve(all_.size());
    for (const Known& known : all_) found.push_back({known.residence->weak_from_this().lock(), {}});
  }
  std::erase_if(found, [&](Found& of) {
    const auto place = of.residence == nullptr ? std::nullopt : of.residence->place_on(device);
    if (place) of.place = *place;
    return !place || place->candidate.bytes == 0;
  });
  return found;
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
