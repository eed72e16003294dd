#include "core/engine/turns/turn_policy.h"

#include <algorithm>
#include <tuple>

namespace quire {
namespace {

bool contends(const TurnView& cache) {
  return cache.state == TurnState::wants || cache.state == TurnState::returns;
}

// Returns how far a cache is ahead of the least served cache that shares a device with it.
double lead_of(const TurnView& cache, gsl::span<const TurnView> caches) {
  double lead = 0.0;
  for (const TurnView& other : caches) {
    if (other.state != TurnState::idle && share_device(cache, other))
      lead = std::max(lead, cache.served - other.served);
  }
  return lead;
}

// Returns the sort key of a cache. The smallest comes first.
auto rank_of(const TurnView& cache, gsl::span<const TurnView> caches, const TurnBounds& bounds) {
  const bool is_beyond = lead_of(cache, caches) > bounds.max_lead;
  const double slice = cache.state == TurnState::returns ? bounds.slice : 0.0;
  return std::tuple(is_beyond, is_beyond ? 0 : -cache.priority, is_beyond ? TimePoint::max() : cache.deadline,
                    cache.served - slice);
}

// True if one of the cache's devices is in use by a computing cache or reserved for one of higher rank.
bool is_kept_from(const TurnView& cache, gsl::span<const TurnView> caches, gsl::span<const int32_t> higher) {
  const auto keeps = [&](const TurnView& other) { return share_device(cache, other); };
  return std::any_of(
             caches.begin(), caches.end(),
             [&](const TurnView& other) { return other.state == TurnState::holds && keeps(other); }) ||
         std::any_of(higher.begin(), higher.end(),
                     [&](int32_t place) { return keeps(caches[static_cast<size_t>(place)]); });
}

}  // namespace

bool share_device(const TurnView& a, const TurnView& b) noexcept {
  return std::find_first_of(a.devices.begin(), a.devices.end(), b.devices.begin(), b.devices.end()) !=
         a.devices.end();
}

void choose_turns(gsl::span<const TurnView> caches, const TurnBounds& bounds, std::vector<int32_t>& scratch,
                  std::vector<int32_t>& chosen) noexcept {
  scratch.clear();
  chosen.clear();
  for (size_t i = 0; i < caches.size(); ++i) {
    if (contends(caches[i])) scratch.push_back(static_cast<int32_t>(i));
  }
  std::sort(scratch.begin(), scratch.end(), [&](int32_t a, int32_t b) {
    const auto rank = [&](int32_t place) {
      return rank_of(caches[static_cast<size_t>(place)], caches, bounds);
    };
    return std::tuple(rank(a), a) < std::tuple(rank(b), b);
  });
  for (size_t i = 0; i < scratch.size(); ++i) {
    const TurnView& cache = caches[static_cast<size_t>(scratch[i])];
    if (!is_kept_from(cache, caches, gsl::span(scratch).first(i))) chosen.push_back(scratch[i]);
  }
}

double served_after_idle(double served, double now) noexcept {
  return std::max(served, now);
}

}  // namespace quire
