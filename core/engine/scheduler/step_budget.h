// Budget of one step: the tokens, logit rows, pages, window slots and quotas that are left, and how much of
// them the lanes of a job need.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/engine/scheduler/job_lanes.h"
#include "core/engine/scheduler/scheduler_policy.h"

namespace quire {

inline void subtract(SlotCounts& from, const SlotCounts& slots) {
  for (size_t g = 0; g < from.size(); ++g) from[g] -= slots[g];
}
inline SlotCounts sum(SlotCounts slots, const SlotCounts& more) {
  for (size_t g = 0; g < slots.size(); ++g) slots[g] += more[g];
  return slots;
}

// Resources for new jobs: available, needed or missing.
struct JobResources {
  int32_t pages = 0;
  SlotCounts slots{};
  int32_t places = 0;  // among the running lanes

  bool is_any() const {
    return pages > 0 || places > 0 ||
           std::any_of(slots.begin(), slots.end(), [](int32_t count) { return count > 0; });
  }
  JobResources minus(const JobResources& other) const {
    JobResources rest = *this;
    rest.pages -= other.pages;
    subtract(rest.slots, other.slots);
    rest.places -= other.places;
    return rest;
  }
};

class StepBudget {
 public:
  // Borrows the input. Slots that running jobs have reserved are not available to others.
  explicit StepBudget(const PolicyInput& input)
      : input_(input),
        tokens_left_(input.limits.max_step_tokens),
        rows_left_(input.limits.max_logit_rows),
        pages_left_(input.available_pages),
        slots_free_(input.unused_slots) {
    for (const RunningView& job : input.running) subtract(slots_free_, slots_reserved(lanes_of(job)));
    slots_left_ = slots_free_;
    for (const NamespaceView& space : input.name_spaces) {
      quota_left_.push_back(space.max_pages > 0 ? space.max_pages - space.held_pages : kNoQuota);
    }
  }

  int32_t tokens_left() const { return tokens_left_; }
  int32_t rows_left() const { return rows_left_; }
  int32_t pages_left() const { return pages_left_; }
  const SlotCounts& slots_left() const { return slots_left_; }
  // Returns the slots that were unused and not reserved at the start of the step.
  const SlotCounts& slots_free() const { return slots_free_; }
  bool is_spent() const { return tokens_left_ <= 0 || rows_left_ <= 0; }
  // Returns the pages that the jobs of a namespace may still add to their page tables.
  int32_t& quota_left(int32_t name_space) { return quota_left_[static_cast<size_t>(name_space)]; }

  // Return the pages that num_tokens more tokens of a lane take from the pool, or add to its page table.
  int32_t needed(const LaneView& lane, int32_t num_tokens) const {
    return pages_needed(lane.demand, num_tokens, lane.reserve_tokens, input_.limits.page_tokens);
  }
  int32_t gained(const LaneView& lane, int32_t num_tokens) const {
    return pages_gained(lane.demand, num_tokens, lane.reserve_tokens, input_.limits.page_tokens);
  }
  int32_t needed(const Lanes& lanes, const Piece& piece) const {
    return piece.sum(lanes, [&](const LaneView& lane, int32_t num) { return needed(lane, num); });
  }
  int32_t gained(const Lanes& lanes, const Piece& piece) const {
    return piece.sum(lanes, [&](const LaneView& lane, int32_t num) { return gained(lane, num); });
  }
  // Returns the logit rows of a piece: those of the job's last tokens, and otherwise one per lane, to check
  // the values.
  static int32_t rows_of(const RunningView& job, const Lanes& lanes, const Piece& piece) {
    if (job.wants_all_rows) return piece.lane;
    return piece.sum(lanes, [&](const LaneView& lane, int32_t num_tokens) {
      return num_tokens == remaining(lane) ? std::min(num_tokens, lanes.num_last) : 1;
    });
  }
  // Returns whether the budget has everything that a piece of a running job takes.
  bool fits(const RunningView& job, const Lanes& lanes, const Piece& piece) {
    return rows_of(job, lanes, piece) <= rows_left_ && needed(lanes, piece) <= pages_left_ &&
           gained(lanes, piece) <= quota_left(job.name_space) &&
           has_slots(lanes, piece, sum(slots_left_, slots_reserved(lanes)));
  }
  // True if the piece's slots are available. A piece without new slots always fits, even if more slots are
  // promised than exist, as a new pin can cause.
  bool has_slots(const Lanes& lanes, const Piece& piece, const SlotCounts& unused) const {
    for (size_t g = 0; g < num_groups(); ++g) {
      const int32_t needed = needed_slots(lanes, piece, g);
      if (needed > 0 && needed > unused[g]) return false;
    }
    return true;
  }
  int32_t needed_slots(const Lanes& lanes, const Piece& piece, size_t group) const {
    return piece.sum(lanes, [&](const LaneView& lane, int32_t num_tokens) {
      return slots_needed(lane.demand, group, num_tokens, input_.limits.page_tokens);
    });
  }
  size_t num_groups() const {
    const SlotCounts& windows = input_.limits.windows;
    return static_cast<size_t>(std::find(windows.begin(), windows.end(), 0) - windows.begin());
  }

  // Subtracts the tokens, logit rows and pages of a piece.
  void take(int32_t num_tokens, int32_t num_rows, int32_t num_pages) {
    tokens_left_ -= num_tokens;
    rows_left_ -= num_rows;
    pages_left_ -= num_pages;
  }

  // Subtracts the slots of a piece. Those reserved for the job are used first.
  void take_slots(const Lanes& lanes, const Piece& piece, const SlotCounts& reserved) {
    for (size_t g = 0; g < num_groups(); ++g)
      slots_left_[g] -= std::max(0, needed_slots(lanes, piece, g) - reserved[g]);
  }

  // Returns the pages that running jobs need until their next token. New jobs must not take them, or they
  // would cause preemptions at once.
  int32_t guaranteed_pages() const {
    int32_t guaranteed = 0;
    for (const RunningView& job : input_.running) {
      guaranteed +=
          lanes_of(job).sum([&](const LaneView& lane) { return needed(lane, remaining(lane) + 1); });
    }
    return guaranteed;
  }

  // Returns the unused slots reserved for a job with reserve_tokens: those it may still need until its end.
  // No other job gets them.
  SlotCounts slots_reserved(const Lanes& lanes) const {
    return slots_of_rest(lanes, [](const LaneView& lane) {
      return lane.reserve_tokens == 0 ? -1 : std::max(0, lane.reserve_tokens - lane.demand.start());
    });
  }

  // Returns the slots that a new job needs.
  SlotCounts slots_to_end(const Lanes& lanes) const {
    return slots_of_rest(lanes, [](const LaneView& lane) {
      return std::max(remaining(lane), lane.reserve_tokens - lane.demand.start());
    });
  }

  // Returns the slots left over once every running job can continue.
  SlotCounts spare_slots() const {
    SlotCounts spare = input_.unused_slots;
    for (const RunningView& job : input_.running) {
      subtract(spare, slots_of_rest(lanes_of(job), [](const LaneView& lane) {
                 return std::max(remaining(lane) + 1, lane.reserve_tokens - lane.demand.start());
               }));
    }
    return spare;
  }

  // Subtracts from each namespace's quota the pages that its running jobs need. After it, quota_left is
  // for new jobs.
  void reserve_quotas() {
    for (size_t i = 0; i < quota_left_.size(); ++i) {
      const NamespaceView& space = input_.name_spaces[i];
      if (space.max_pages > 0) quota_left_[i] = space.max_pages - space.held_pages;
    }
    for (const RunningView& job : input_.running) {
      quota_left(job.name_space) -=
          lanes_of(job).sum([&](const LaneView& lane) { return gained(lane, remaining(lane) + 1); });
    }
  }

 private:
  static constexpr int32_t kNoQuota = std::numeric_limits<int32_t>::max() / 2;

  Lanes lanes_of(const RunningView& job) const { return quire::lanes_of(job, input_.guides); }

  // Returns the slots that the lanes of a job need to compute count(lane) more tokens; -1 needs none.
  template <typename Count>
  SlotCounts slots_of_rest(const Lanes& lanes, Count count) const {
    SlotCounts slots{};
    for (size_t g = 0; g < num_groups(); ++g) {
      slots[g] = lanes.sum([&](const LaneView& lane) {
        const int32_t num_tokens = count(lane);
        if (num_tokens < 0) return 0;
        return slots_to_go_on(lane.demand, g, num_tokens, input_.limits.windows[g],
                              input_.limits.page_tokens);
      });
    }
    return slots;
  }

  const PolicyInput& input_;
  int32_t tokens_left_;
  int32_t rows_left_;
  int32_t pages_left_;
  SlotCounts slots_free_;
  SlotCounts slots_left_;
  std::vector<int32_t> quota_left_;  // pages, by namespace
};

}  // namespace quire
