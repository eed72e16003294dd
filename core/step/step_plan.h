// Plan of one step, lane by lane. Each stage of the step fills in its own fields. Plain data.
#pragma once

#include <cstdint>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/step/lane.h"

namespace quire {

// One lane that takes part in a step. Tokens missing in the cache are computed in order, at most max_tokens
// of them.
// Wide type: one lane passes through all stages, and each stage adds its fields.
struct PlannedLane {
  // Set by the scheduler:
  Lane* lane = nullptr;
  int32_t max_tokens = 0;  // 1 or more
  // Number of last computed tokens whose logits are needed; limited to the number of computed tokens by the
  // reservation. At least 1: pages are shared only after a row with finite logits.
  int32_t num_rows = 1;
  int32_t reserve_tokens = 0;  // pages are allocated up to this length if it is larger

  // Set by the reservation:
  int32_t start = 0;              // tokens in the cache before the step, including found ones
  int32_t num_tokens = 0;         // to compute; 1 or more
  int32_t num_found_tokens = 0;   // found by prefix reuse in this step
  gsl::span<const PageId> pages;  // valid until commit
  int32_t state_slot = -1;        // -1: no layer has a state
  int32_t state_bank = 0;         // see Batch::state_banks

  // Set when the batch is built:
  int32_t first_token = 0;  // row of the batch
  int32_t first_row = 0;    // index in the logit rows of the forward pass
  // Index of the previous step's draw that gives its last token; -1: all tokens are known.
  int32_t drawn_row = -1;
  // Index of the draw from its first row; -1: the host reads its rows. A lane with draft tokens has a draw
  // for each of its rows, other lanes have one, from the last row.
  int32_t first_draw = -1;
  // Number of last rows that are not drawn from, because the tokens before them cannot be accepted: a draft
  // that the constraint refuses or that ends the job.
  int32_t num_undrawn = 0;

  // Set by verification:
  int32_t num_accepted = 0;  // number of computed tokens, from the first on, whose keys and values are kept
  bool faulted = false;      // nothing of this step is kept or shared

  int32_t end() const { return start + num_tokens; }  // tokens in the cache after the step
  int32_t last_row() const { return first_row + num_rows - 1; }
};

struct StepPlan {
  std::vector<PlannedLane> lanes;  // lanes of one job are adjacent
  bool empty() const { return lanes.empty(); }
  // Returns the number of jobs; lanes of one job count once.
  int32_t num_jobs() const {
    int32_t jobs = 0;
    for (size_t i = 0; i < lanes.size(); ++i) jobs += i == 0 || lanes[i].lane->job != lanes[i - 1].lane->job;
    return jobs;
  }
};

}  // namespace quire
