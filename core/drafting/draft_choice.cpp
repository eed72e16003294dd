#include "core/drafting/draft_choice.h"

#include <algorithm>
#include <tuple>

namespace quire {

double DraftChooser::choose(gsl::span<const DraftOffer> offers, const DraftStep& step,
                            gsl::span<int32_t> counts) {
  slots_.clear();
  for (size_t i = 0; i < offers.size(); ++i) {
    double chance = 1.0;
    for (int32_t position = 0; position < offers[i].num_drafts; ++position) {
      chance *= static_cast<double>(offers[i].acceptance.at(position));
      slots_.push_back({chance, static_cast<int32_t>(i), position});
    }
  }
  // A tie is decided by position, so that the drafts of an offer stay in order.
  std::sort(slots_.begin(), slots_.end(), [](const Slot& a, const Slot& b) {
    return std::tuple(-a.chance, a.position, a.offer) < std::tuple(-b.chance, b.position, b.offer);
  });
  const double plain_rate = step.num_jobs / step.time_of(step.num_tokens);
  double best_rate = plain_rate * kLeastGain;
  double yield = step.num_jobs;
  int32_t num_tokens = step.num_tokens;
  size_t num_taken = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    num_tokens += offers[static_cast<size_t>(slots_[i].offer)].num_lanes;
    if (num_tokens > step.max_tokens) break;
    yield += slots_[i].chance;
    const double rate = yield / step.time_of(num_tokens);
    if (rate <= best_rate) continue;
    best_rate = rate;
    num_taken = i + 1;
  }
  std::fill(counts.begin(), counts.end(), 0);
  for (size_t i = 0; i < num_taken; ++i) ++counts[static_cast<size_t>(slots_[i].offer)];
  return num_taken == 0 ? 1.0 : best_rate / plain_rate;
}

}  // namespace quire
