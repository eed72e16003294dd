// What one step does, lane by lane: each stage of the step fills in its own part. Plain data.
#pragma once

#include <cstdint>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/step/lane.h"

namespace quire {

// One lane that takes part in a step. What the cache does not hold of its tokens is computed from the first
// on, at most max_tokens of it.
struct PlannedLane {
  // The plan.
  Lane* lane = nullptr;
  int32_t max_tokens = 0;  // 1 or more
  // Of the tokens computed, how many of the last want logits; the reservation caps it by their number. At
  // least 1: a finite row after them is what allows their pages to be shared.
  int32_t num_rows = 1;
  int32_t reserve_tokens = 0;  // pages are taken for this length, where it is the longer one

  // The reservation.
  int32_t start = 0;              // tokens in the cache before the step, found ones included
  int32_t num_tokens = 0;         // to compute; 1 or more
  int32_t num_found_tokens = 0;   // by prefix reuse, in this step
  gsl::span<const PageId> pages;  // valid until commit

  // The batch.
  int32_t first_token = 0;  // row of the batch
  int32_t first_row = 0;    // of the rows of logits that the forward pass gives
  int32_t drawn_row = -1;   // the draw before this step that gives its last token; -1: all are known
  int32_t first_draw = -1;  // the draw from its last row; -1: the host reads its rows

  // Verify.
  int32_t num_accepted = 0;  // of those computed, from the first on: their keys and values are kept
  bool faulted = false;      // nothing of this step stands and nothing of it is shared

  int32_t end() const { return start + num_tokens; }  // tokens in the cache after the step
  int32_t last_row() const { return first_row + num_rows - 1; }
};

struct StepPlan {
  std::vector<PlannedLane> lanes;  // those of a job beside each other
  bool empty() const { return lanes.empty(); }
  // The lanes of a job count once.
  int32_t num_jobs() const {
    int32_t jobs = 0;
    for (size_t i = 0; i < lanes.size(); ++i) jobs += i == 0 || lanes[i].lane->job != lanes[i - 1].lane->job;
    return jobs;
  }
};

}  // namespace quire
