// Running acceptance of draft tokens by their position.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/drafting/drafting_options.h"

namespace quire {

// Moving averages of the share of drafts that were accepted, for each position: given that all drafts before
// it were. A position that was never observed has the share that the average began with.
class DraftAcceptance {
 public:
  static constexpr float kFirstShare = 0.7F;

  DraftAcceptance() { shares_.fill(kFirstShare); }

  // Adds the outcome of a step: the first num_accepted drafts were accepted and, if `is_refuted`, the next
  // one was wrong. `weight` is the weight of the new outcome, above 0 and at most 1.
  void observe(int32_t num_accepted, bool is_refuted, float weight) noexcept {
    const auto accepted = static_cast<size_t>(std::min(num_accepted, kMaxDrafts));
    for (size_t i = 0; i < accepted; ++i) shares_[i] += weight * (1.0F - shares_[i]);
    if (is_refuted && accepted < shares_.size()) shares_[accepted] -= weight * shares_[accepted];
  }
  // Returns the probability that the draft at `position` (0 is the first) is accepted if those before it are.
  float at(int32_t position) const { return shares_[static_cast<size_t>(position)]; }

 private:
  std::array<float, static_cast<size_t>(kMaxDrafts)> shares_;
};

}  // namespace quire
