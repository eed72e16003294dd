// The number of draft tokens of each job in a step, from expected times and acceptance.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <gsl/gsl>

#include "core/drafting/draft_acceptance.h"

namespace quire {

// Draft tokens that a job could verify in the step.
struct DraftOffer {
  int32_t num_drafts = 0;  // at most kMaxDrafts
  int32_t num_lanes = 1;   // sequences that compute each of them
  DraftAcceptance acceptance;
};

// The step without drafts, and its limits.
struct DraftStep {
  int32_t num_jobs = 0;    // that gain a token each
  int32_t num_tokens = 0;  // that it computes
  int32_t max_tokens = 0;  // with drafts
  // Returns the expected time of a step of so many tokens, in any unit. Called with num_tokens and more.
  std::function<double(int32_t)> time_of;
};

// Chooses drafts that are expected to increase the new tokens per time. Not thread-safe; reuses its memory.
//
// Each draft of each offer is a candidate with the probability that it and all drafts before it are accepted.
// The likeliest ones are taken first, and of all prefixes of this order the one with the most expected tokens
// per time. So the result is the optimum if times are given by the number of tokens alone.
class DraftChooser {
 public:
  // Smallest gain for which drafts are used: a smaller one is within the error of the times.
  static constexpr double kLeastGain = 1.03;

  // Writes the number of drafts of each offer. Returns the expected new tokens per time relative to those of
  // the step without drafts, 1 if there are none.
  double choose(gsl::span<const DraftOffer> offers, const DraftStep& step, gsl::span<int32_t> counts);

 private:
  struct Slot {
    double chance;
    int32_t offer;
    int32_t position;
  };
  std::vector<Slot> slots_;
};

}  // namespace quire
