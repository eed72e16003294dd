// Division of a job's step between its lanes.
#pragma once

#include <algorithm>

#include "core/engine/scheduler/scheduler_policy.h"

namespace quire {

// Returns the number of tokens that a lane still has to compute.
inline int32_t remaining(const LaneView& lane) {
  return static_cast<int32_t>(lane.tokens.size()) + lane.num_pending - lane.demand.start();
}

// Lanes of one job.
struct Lanes {
  const LaneView* lane = nullptr;
  const LaneView* guide = nullptr;  // null: the job has no guide
  int32_t num_last = 1;  // number of tokens at the end of each lane that must be computed in one step

  int32_t count() const { return guide != nullptr ? 2 : 1; }
  template <typename Number>
  int32_t sum(Number number) const {
    return number(*lane) + (guide != nullptr ? number(*guide) : 0);
  }
};

// Part of a job in one step: number of tokens in each lane.
struct Piece {
  int32_t lane = 0;
  int32_t guide = 0;

  int32_t total() const { return lane + guide; }
  template <typename Number>
  int32_t sum(const Lanes& lanes, Number number) const {
    return (lane > 0 ? number(*lanes.lane, lane) : 0) + (guide > 0 ? number(*lanes.guide, guide) : 0);
  }
};

// Returns a piece of at most num_tokens, first of `lane`, then of `guide`. The last num_last tokens of both
// lanes are included together or not at all.
inline Piece piece_of(const Lanes& lanes, int32_t num_tokens) {
  const int32_t left = remaining(*lanes.lane);
  const int32_t guide_left = lanes.guide != nullptr ? remaining(*lanes.guide) : 0;
  if (num_tokens >= left + guide_left) return {left, guide_left};
  Piece piece;
  piece.lane = std::clamp(left - lanes.num_last, 0, num_tokens);
  piece.guide = std::clamp(guide_left - lanes.num_last, 0, num_tokens - piece.lane);
  return piece;
}

inline Piece least_piece(const Lanes& lanes) {
  const Piece one = piece_of(lanes, 1);
  return one.total() > 0 ? one : piece_of(lanes, lanes.sum(remaining));
}

inline Lanes lanes_of(const RunningView& job, gsl::span<const LaneView> guides) {
  return {&job, job.guide >= 0 ? &guides[static_cast<size_t>(job.guide)] : nullptr, 1 + job.num_candidates};
}

inline int32_t held_pages(const Lanes& lanes) {
  return lanes.sum([](const LaneView& lane) { return lane.demand.held_pages; });
}

}  // namespace quire
