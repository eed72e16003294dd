#include "core/layers/expert_slots.h"

#include <algorithm>

namespace quire {
namespace {

using kernels::ExpertPlace;

// All counts of a layer are halved if their sum exceeds this, so that older choices weigh less.
constexpr uint64_t kMostCounted = 1U << 14;

// Returns whether an expert takes the slot of another. It must be ahead by more than chance, since each
// exchange is a copy.
bool replaces(uint32_t count, uint32_t of_other) {
  constexpr uint64_t kLead = 8;
  return uint64_t{4} * count > uint64_t{5} * of_other + 4 * kLead;
}

}  // namespace

ExpertSlots::ExpertSlots(int32_t num_layers, int32_t num_experts, int32_t num_slots)
    : num_layers_(num_layers),
      num_experts_(static_cast<size_t>(num_experts)),
      num_slots_(num_slots),
      counts_(static_cast<size_t>(num_layers) * num_experts_),
      sums_(static_cast<size_t>(num_layers)),
      places_(counts_.size()) {
  outside_.reserve(num_experts_);
  inside_.reserve(num_experts_);
  free_.reserve(num_experts_);
  taken_.reserve(num_experts_);
  Expects(num_layers > 0 && num_experts > 0 && num_slots >= 0);
  Expects(num_slots <= int64_t{num_layers} * num_experts);
}

void ExpertSlots::count(int32_t layer, gsl::span<const int32_t> chosen) {
  const gsl::span<uint32_t> counts = of_layer(counts_, layer);
  const gsl::span<const ExpertPlace> places = this->places(layer);
  for (const int32_t expert : chosen) {
    const auto index = static_cast<size_t>(expert);
    ++counts[index];
    ++(places[index].is_there() ? use_.hits : use_.misses);
  }
  sums_[static_cast<size_t>(layer)] += chosen.size();
  while (sums_[static_cast<size_t>(layer)] > kMostCounted) halve_counts(layer);
}

void ExpertSlots::halve_counts(int32_t layer) {
  uint64_t sum = 0;
  for (uint32_t& count : of_layer(counts_, layer)) sum += count /= 2;
  sums_[static_cast<size_t>(layer)] = sum;
}

void ExpertSlots::list_experts(int32_t layer) {
  const gsl::span<const uint32_t> counts = of_layer(counts_, layer);
  const gsl::span<const ExpertPlace> places = this->places(layer);
  outside_.clear();
  inside_.clear();
  for (size_t e = 0; e < num_experts_; ++e) {
    if (places[e].slot >= 0) {
      inside_.push_back(e);
    } else if (counts[e] > 0) {
      outside_.push_back(e);
    }
  }
  std::sort(outside_.begin(), outside_.end(),
            [&](size_t a, size_t b) { return counts[a] != counts[b] ? counts[a] > counts[b] : a < b; });
  std::sort(inside_.begin(), inside_.end(),
            [&](size_t a, size_t b) { return counts[a] != counts[b] ? counts[a] < counts[b] : a < b; });
}

void ExpertSlots::list_free_slots(int32_t layer) {
  const int32_t first = first_slot(layer);
  taken_.assign(static_cast<size_t>(first_slot(layer + 1) - first), false);
  for (const ExpertPlace& place : places(layer))
    if (place.slot >= 0) taken_[static_cast<size_t>(place.slot - first)] = true;
  free_.clear();
  for (size_t i = 0; i < taken_.size(); ++i)
    if (!taken_[i]) free_.push_back(first + static_cast<int32_t>(i));
}

// The most chosen experts without a slot get the free slots, then those of the least chosen experts.
bool ExpertSlots::exchange(int32_t layer, int32_t most) {
  list_experts(layer);
  list_free_slots(layer);
  const gsl::span<const uint32_t> counts = of_layer(counts_, layer);
  const gsl::span<ExpertPlace> places = of_layer(places_, layer);
  const size_t num_candidates = std::min(outside_.size(), static_cast<size_t>(std::max(most, 0)));
  for (size_t i = 0; i < num_candidates; ++i) {
    ExpertPlace& place = places[outside_[i]];
    if (i < free_.size()) {
      place.slot = free_[i];
      continue;
    }
    if (i - free_.size() >= inside_.size()) break;
    const size_t other = inside_[i - free_.size()];
    if (!replaces(counts[outside_[i]], counts[other])) break;
    place.slot = places[other].slot;
    places[other] = {};
  }
  return std::any_of(places.begin(), places.end(),
                     [](const ExpertPlace& place) { return place.slot >= 0 && !place.is_filled; });
}

void ExpertSlots::mark_filled(int32_t layer) {
  for (ExpertPlace& place : of_layer(places_, layer)) place.is_filled = place.slot >= 0;
}

void ExpertSlots::clear() {
  std::fill(places_.begin(), places_.end(), ExpertPlace());
}

}  // namespace quire
