// What one step will do, as the scheduler decided it, and what came of it. Plain data.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"

namespace quire {

// One stretch of KV that takes part in a step. `tokens` is everything known of the sequence: prompt,
// generated tokens, then candidates to verify, if any. What the cache does not hold yet is computed from the
// front, at most max_tokens of it.
struct PlannedSequence {
  SequenceId sequence;
  gsl::span<const TokenId> tokens;  // borrowed until the step is over
  int32_t max_tokens = 0;           // 1 or more
  int32_t num_candidates = 0;       // of the last tokens, how many are drafts to be verified
  // Of the tokens computed, how many of the last want logits; capped by their number. At least 1: a finite
  // row behind them is what allows their pages to be shared.
  int32_t num_logit_rows = 1;
  int32_t reserve_tokens = 0;  // pages are taken for this length, where it is the longer one
};

struct StepPlan {
  std::vector<PlannedSequence> sequences;
  bool empty() const { return sequences.empty(); }
};

// What of one planned sequence stands after sampling.
struct AcceptedSequence {
  int32_t num_tokens = 0;  // of those computed, from the front: their keys and values are kept
  bool faulted = false;    // nothing of this step stands and nothing of it is shared
};

struct Accepted {
  std::vector<AcceptedSequence> sequences;  // as in the plan
};

}  // namespace quire
