#include "core/engine/loop/pins.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace quire {

PinId Pins::add(const TokenIds& prompt, const std::string& name_space, TimePoint expires) {
  int32_t pinned = 0;
  int32_t pinned_here = 0;
  for (const Pin& pin : pins_) {
    pinned += pin.num_own_pages;
    if (pin.name_space == name_space) pinned_here += pin.num_own_pages;
  }
  int32_t left = max_pages_ - pinned;
  const int32_t quota = namespaces_.quota_of(name_space).max_pinned_pages;
  if (quota > 0) left = std::min(left, quota - pinned_here);
  pins_.reserve(pins_.size() + 1);
  Pin pin{PinId{last_id_ + 1}, name_space, metrics_store_.place_of(name_space), {}, expires};
  pin.prefix = kv_.pin({name_space, 0}, prompt, left);
  if (pin.prefix.pages.empty())
    throw Error(ErrorCode::not_found,
                "prompt: not one whole page of it is cached; compute it first, for example with a warm job");
  pins_.push_back(std::move(pin));
  count_own_pages();
  return PinId{++last_id_};
}

void Pins::remove(PinId id) noexcept {
  const auto pin = std::find_if(pins_.begin(), pins_.end(), [&](const Pin& entry) { return entry.id == id; });
  if (pin == pins_.end()) return;
  kv_.unpin(pin->prefix);
  pins_.erase(pin);
  count_own_pages();
}

// Counts each page once, even if several pins contain it. Pins of different namespaces share no pages.
void Pins::count_own_pages() noexcept {
  for (auto pin = pins_.begin(); pin != pins_.end(); ++pin) {
    pin->num_own_pages = static_cast<int32_t>(
        std::count_if(pin->prefix.pages.begin(), pin->prefix.pages.end(), [&](PageId page) {
          return std::none_of(pins_.begin(), pin, [&](const Pin& before) {
            const std::vector<PageId>& pages = before.prefix.pages;
            return std::find(pages.begin(), pages.end(), page) != pages.end();
          });
        }));
  }
}

void Pins::expire(TimePoint now) noexcept {
  for (size_t i = pins_.size(); i-- > 0;) {
    if (pins_[i].expires <= now) remove(pins_[i].id);
  }
}

TimePoint Pins::next_expiry() const {
  TimePoint next = TimePoint::max();
  for (const Pin& pin : pins_) next = std::min(next, pin.expires);
  return next;
}

int32_t Pins::count_pages() noexcept {
  int32_t sum = 0;
  for (const Pin& pin : pins_) {
    metrics_store_.add_pages(pin.metrics_index, 0, pin.num_own_pages);
    sum += pin.num_own_pages;
  }
  return sum;
}

}  // namespace quire
