// Running acceptance of draft tokens by their position.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/drafting/drafting_options.h"

namespace quire {

// Moving averages of the share of drafts that were accepted, for each position: given that all drafts before
// it were. A position that was never observed has the share that the average began with, which later counts
// as kPrior observations.
class DraftAcceptance {
 public:
  static constexpr float kFirstShare = 0.7F;
  static constexpr int32_t kPrior = 2;

  // Weight of a new outcome once many were observed; above 0 and at most 1.
  explicit DraftAcceptance(float least_weight) : least_weight_(least_weight) { shares_.fill(kFirstShare); }
  // Begins with the shares of another average.
  DraftAcceptance(const DraftAcceptance& prior, float least_weight)
      : least_weight_(least_weight), shares_(prior.shares_) {}

  // Adds the outcome of a step: the first num_accepted drafts were accepted and, if `is_refuted`, the next
  // one was wrong.
  void observe(int32_t num_accepted, bool is_refuted) noexcept {
    const auto accepted = static_cast<size_t>(std::min(num_accepted, kMaxDrafts));
    for (size_t i = 0; i < accepted; ++i) add(i, 1.0F);
    if (is_refuted && accepted < shares_.size()) add(accepted, 0.0F);
  }
  // Returns the probability that the draft at `position` (0 is the first) is accepted if those before it are.
  float at(int32_t position) const { return shares_[static_cast<size_t>(position)]; }

 private:
  void add(size_t position, float outcome) noexcept {
    constexpr uint16_t kMostCounted = 1000;
    uint16_t& count = counts_[position];
    const float weight = std::max(least_weight_, 1.0F / static_cast<float>(kPrior + 1 + count));
    shares_[position] += weight * (outcome - shares_[position]);
    if (count < kMostCounted) ++count;
  }

  float least_weight_;
  std::array<float, static_cast<size_t>(kMaxDrafts)> shares_;
  std::array<uint16_t, static_cast<size_t>(kMaxDrafts)> counts_{};  // observed outcomes
};

}  // namespace quire
