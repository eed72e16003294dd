#include "core/memory/residency.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <vector>

#include <fmt/core.h>

namespace quire {
namespace {

constexpr size_t kMostTold = 4;

uint64_t minus(uint64_t a, uint64_t b) {
  return a - std::min(a, b);
}

// Returns the number of bytes available after the eviction of the holders for which `leaves` returns true.
template <typename Leaves>
uint64_t left_after(const MemoryState& state, const Leaves& leaves) {
  uint64_t held = 0;
  uint64_t promised = 0;
  uint64_t freed = 0;  // bytes the device has allocated for them
  for (const MemoryHolder& holder : state.holders) {
    const bool is_left = leaves(holder);
    if (!is_left) held += holder.bytes;
    if (!is_left && holder.is_reserved) promised += holder.bytes;
    if (is_left && !holder.is_reserved) freed += holder.bytes;
  }
  uint64_t left = std::numeric_limits<uint64_t>::max();
  if (state.budget > 0) left = minus(state.budget, held);
  if (state.free_bytes) left = std::min(left, minus(*state.free_bytes + freed, promised));
  return left;
}

}  // namespace

MemoryAnswer plan_residency(const MemoryState& state, uint64_t needed_bytes) noexcept {
  MemoryAnswer answer;
  answer.left_bytes = left_after(state, [](const MemoryHolder&) { return false; });
  answer.fits = needed_bytes <= answer.left_bytes;
  answer.fits_later =
      needed_bytes <= left_after(state, [](const MemoryHolder& of) { return of.is_evictable; });
  return answer;
}

std::vector<size_t> choose_evictions(gsl::span<const EvictionCandidate> candidates, uint64_t missing_bytes) {
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tuple(candidates[a].priority, candidates[a].idle_since) <
           std::tuple(candidates[b].priority, candidates[b].idle_since);
  });
  std::vector<size_t> chosen;
  uint64_t gained = 0;
  for (const size_t place : order) {
    if (gained >= missing_bytes) break;
    if (candidates[place].bytes == 0) continue;
    gained += candidates[place].bytes;
    chosen.push_back(place);
  }
  if (gained < missing_bytes) return {};
  // A later, larger candidate may have made earlier ones unnecessary; keep those with the highest priority.
  for (size_t i = chosen.size(); i-- > 0;) {
    const uint64_t bytes = candidates[chosen[i]].bytes;
    if (gained - bytes < missing_bytes) continue;
    gained -= bytes;
    chosen.erase(chosen.begin() + static_cast<ptrdiff_t>(i));
  }
  return chosen;
}

std::string describe_holders(gsl::span<const MemoryHolder> holders) {
  std::vector<const MemoryHolder*> by_size;
  for (const MemoryHolder& holder : holders) by_size.push_back(&holder);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [](const MemoryHolder* a, const MemoryHolder* b) { return a->bytes > b->bytes; });
  std::string line;
  for (size_t i = 0; i < std::min(by_size.size(), kMostTold); ++i)
    line += fmt::format("{}{} ({} bytes)", i == 0 ? "" : ", ", by_size[i]->name, by_size[i]->bytes);
  if (by_size.size() > kMostTold) line += fmt::format(" and {} others", by_size.size() - kMostTold);
  return line.empty() ? "no holder" : line;
}

}  // namespace quire
