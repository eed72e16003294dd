#include "core/engine/scheduler/scheduler_policy.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <tuple>
#include <utility>

#include "core/engine/scheduler/job_lanes.h"

namespace quire {

namespace {

// A prompt waits for a page that another prompt computes if it can reuse at least this many tokens of it.
constexpr int32_t kMinSharedTokens = 8;

constexpr int32_t kNoQuota = std::numeric_limits<int32_t>::max() / 2;

class StepPlanner {
 public:
  StepPlanner(const PolicyInput& input, PolicyOutput& output)
      : input_(input),
        output_(output),
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

  void run() {
    if (run_suspect()) return;
    rank_running();
    if (!grant_running(/*decoding=*/true)) return;
    if (!grant_running(/*decoding=*/false)) return;
    admit();
  }

 private:
  // A prompt in this step whose pages other prompts may wait for.
  struct Leader {
    ContentId tail;
    gsl::span<const TokenId> tokens;
    int32_t page_start;
    int32_t end;  // of the tokens computed in this step
  };

  // A waiting job that does not fit and was overtaken.
  struct Passed {
    int32_t index;
    int32_t overtaken;
  };

  // Resources for new jobs: available, needed or missing.
  struct Room {
    int32_t pages = 0;
    SlotCounts slots{};
    int32_t places = 0;

    bool is_any() const {
      return pages > 0 || places > 0 ||
             std::any_of(slots.begin(), slots.end(), [](int32_t count) { return count > 0; });
    }
    Room minus(const Room& other) const {
      Room rest = *this;
      rest.pages -= other.pages;
      subtract(rest.slots, other.slots);
      rest.places -= other.places;
      return rest;
    }
  };

  // Returns the sort key of a running job. The job with the smallest key has the highest rank.
  static auto rank(const RunningView& job) { return std::tuple(-job.priority, job.deadline, job.order); }

  bool run_suspect() {
    for (size_t i = 0; i < input_.running.size(); ++i) {
      const RunningView& job = input_.running[i];
      if (!job.suspect || !job.runnable) continue;
      order_.assign(1, static_cast<int32_t>(i));
      if (grant_running(true)) grant_running(false);
      return true;
    }
    return false;
  }

  void rank_running() {
    order_.resize(input_.running.size());
    for (size_t i = 0; i < order_.size(); ++i) order_[i] = static_cast<int32_t>(i);
    std::sort(order_.begin(), order_.end(),
              [&](int32_t a, int32_t b) { return rank(running(a)) < rank(running(b)); });
  }

  const RunningView& running(int32_t index) const { return input_.running[static_cast<size_t>(index)]; }
  const WaitingView& waiting(int32_t index) const { return input_.waiting[static_cast<size_t>(index)]; }

  Lanes lanes_of(const RunningView& job) const { return quire::lanes_of(job, input_.guides); }

  // Grants the runnable jobs their parts of the step. Returns false if a job must be preempted first.
  bool grant_running(bool decoding) {
    for (const int32_t index : order_) {
      const RunningView& job = running(index);
      if (!job.runnable || generates(job, input_.guides) != decoding) continue;
      if (tokens_left_ <= 0 || rows_left_ <= 0) break;
      const Lanes lanes = lanes_of(job);
      if (!decoding && waits_for_leader(lanes)) continue;
      if (!grant_one(index, job, lanes)) return false;
    }
    return true;
  }

  bool grant_one(int32_t index, const RunningView& job, const Lanes& lanes) {
    const Piece piece = fitting_piece(job, lanes);
    if (piece.total() == 0) return grant_none(index, job, lanes);
    take(piece.total(), rows_of(job, lanes, piece), needed(lanes, piece));
    take_slots(lanes, piece, slots_reserved(lanes));
    quota_left(job.name_space) -= gained(lanes, piece);
    const bool ends = piece.total() == lanes.sum(remaining);
    const int32_t rows = job.wants_all_rows ? piece.lane : ends ? lanes.num_last : 1;
    output_.grants.push_back({index, false, piece.lane, rows, piece.guide, job.priority});
    lead(lanes, piece);
    return true;
  }

  // Handles a job of which not even the smallest piece fits: it waits for a later step, or a job is
  // preempted. Returns false after a preemption.
  bool grant_none(int32_t index, const RunningView& job, const Lanes& lanes) {
    const Piece least = least_piece(lanes);
    if (least.total() > tokens_left_ || rows_of(job, lanes, least) > rows_left_) return true;
    if (gained(lanes, least) > quota_left(job.name_space)) return free_namespace_quota(index);
    if (needed(lanes, least) <= pages_left_ &&
        has_slots(lanes, least, sum(slots_free_, slots_reserved(lanes))))
      return true;
    output_.lacks_pages = needed(lanes, least) > pages_left_;
    preempt_one_for(index);
    return false;
  }

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
  int32_t& quota_left(int32_t name_space) { return quota_left_[static_cast<size_t>(name_space)]; }
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

  // Returns the longest piece of at most num_tokens that fits.
  template <typename Fits>
  static int32_t longest_piece(int32_t num_tokens, Fits fits) {
    if (fits(num_tokens)) return num_tokens;
    int32_t low = 0;
    int32_t high = num_tokens - 1;
    while (low < high) {
      const int32_t middle = low + (high - low + 1) / 2;
      if (fits(middle)) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }
  Piece fitting_piece(const RunningView& job, const Lanes& lanes) {
    int32_t num_tokens = std::min(lanes.sum(remaining), tokens_left_);
    if (job.wants_all_rows) num_tokens = std::min(num_tokens, rows_left_);
    return piece_of(lanes, longest_piece(num_tokens, [&](int32_t piece) {
                      return fits(job, lanes, piece_of(lanes, piece));
                    }));
  }

  bool is_granted(int32_t index) const {
    return std::any_of(output_.grants.begin(), output_.grants.end(),
                       [&](const Grant& grant) { return grant.index == index; });
  }

  // Frees quota in the namespace of a job. Returns false if a job must be preempted first. If all other jobs
  // of the namespace rank higher, the needy job itself is preempted. A job alone in its namespace always
  // fits: submit has checked that.
  bool free_namespace_quota(int32_t needy) {
    const int32_t name_space = running(needy).name_space;
    if (preempt_paused(name_space)) return false;
    bool waits = false;
    for (auto index = order_.rbegin(); *index != needy; ++index) {
      if (running(*index).name_space != name_space || held_pages(lanes_of(running(*index))) == 0) continue;
      if (!is_granted(*index)) return !preempt(*index);
      waits = true;
    }
    return waits || !preempt(needy);
  }

  // Preempts a job to free pages or slots: a resting one, otherwise the lowest-ranking one with pages and
  // without a grant in this step, possibly the needy job itself. A needy job without pages returns to the
  // queue as well: the rules for waiting jobs then handle pages that no running job will free.
  void preempt_one_for(int32_t needy) {
    if (preempt_paused()) return;
    const auto victim = std::find_if(order_.rbegin(), order_.rend(), [&](int32_t index) {
      return index == needy || (!is_granted(index) && held_pages(lanes_of(running(index))) > 0);
    });
    preempt(*victim);
  }

  bool preempt(int32_t index) {
    const bool lacks_pages = output_.lacks_pages;
    output_.clear();
    output_.lacks_pages = lacks_pages;
    output_.preempt = index;
    return true;
  }

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

  void lead(const Lanes& lanes, const Piece& piece) {
    lead(lanes.lane->tokens, lanes.lane->demand, piece.lane);
    if (lanes.guide != nullptr) lead(lanes.guide->tokens, lanes.guide->demand, piece.guide);
  }
  void lead(gsl::span<const TokenId> tokens, const PageDemand& demand, int32_t num_tokens) {
    if (!demand.publishes || demand.tail.value == 0 || num_tokens <= 1) return;
    const int32_t page_start = demand.start() / input_.limits.page_tokens * input_.limits.page_tokens;
    leaders_.push_back({demand.tail, tokens, page_start, demand.start() + num_tokens});
  }

  // True if another prompt in this step computes tokens that this one can reuse in the next step.
  bool waits_for_leader(const Lanes& lanes) const {
    return waits_for_leader(lanes.lane->tokens, lanes.lane->demand) ||
           (lanes.guide != nullptr && waits_for_leader(lanes.guide->tokens, lanes.guide->demand));
  }
  bool waits_for_leader(gsl::span<const TokenId> tokens, const PageDemand& demand) const {
    const int32_t page_tokens = input_.limits.page_tokens;
    if (demand.tail.value == 0 || demand.length % page_tokens != 0) return false;
    for (const Leader& leader : leaders_) {
      const int32_t page_start = demand.start() / page_tokens * page_tokens;
      if (leader.tail != demand.tail || leader.page_start != page_start) continue;
      const int32_t own_end = static_cast<int32_t>(tokens.size()) - 1;
      const int32_t end = std::min({leader.end, page_start + page_tokens, own_end});
      int32_t common = demand.start();
      while (common < end &&
             leader.tokens[static_cast<size_t>(common)] == tokens[static_cast<size_t>(common)]) {
        ++common;
      }
      const int32_t gain = common - demand.start();
      if (gain >= kMinSharedTokens || (gain > 0 && common == std::min(own_end, page_start + page_tokens)))
        return true;
    }
    return false;
  }

  int32_t aged_priority(const WaitingView& job) const {
    if (input_.limits.ageing_interval <= Duration{0}) return job.priority;
    return job.priority +
           static_cast<int32_t>(std::min<int64_t>(job.waited / input_.limits.ageing_interval, 100000));
  }

  using WaitingRank = std::tuple<int32_t, TimePoint, double, uint64_t>;
  WaitingRank waiting_rank(int32_t index) const {
    const WaitingView& job = waiting(index);
    const NamespaceView& space = input_.name_spaces[static_cast<size_t>(job.name_space)];
    return {-aged_priority(job), job.deadline, space.served, job.order};
  }

  // Returns the pages that running jobs need until their next token. New jobs must not take them, or they
  // would cause preemptions at once.
  int32_t guaranteed_pages() const {
    int32_t promised = 0;
    for (const RunningView& job : input_.running) {
      promised += lanes_of(job).sum([&](const LaneView& lane) { return needed(lane, remaining(lane) + 1); });
    }
    return promised;
  }

  // Returns the unused slots reserved for a job with reserve_tokens: those it may still need until its end.
  // No other job gets them.
  SlotCounts slots_reserved(const Lanes& lanes) const {
    return slots_of_rest(lanes, [](const LaneView& lane) {
      return lane.reserve_tokens == 0 ? -1 : std::max(0, lane.reserve_tokens - lane.demand.start());
    });
  }

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
  static void subtract(SlotCounts& from, const SlotCounts& slots) {
    for (size_t g = 0; g < from.size(); ++g) from[g] -= slots[g];
  }
  static SlotCounts sum(SlotCounts slots, const SlotCounts& more) {
    for (size_t g = 0; g < slots.size(); ++g) slots[g] += more[g];
    return slots;
  }

  // Subtracts from each namespace's quota the pages that its running jobs need. From here on quota_left_ is
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

  void admit() {
    if (input_.waiting.empty() || tokens_left_ <= 0 || rows_left_ <= 0) return;
    room_.pages = input_.available_pages - guaranteed_pages();
    room_.slots = spare_slots();
    room_.places = input_.limits.max_running_lanes;
    for (const RunningView& job : input_.running) room_.places -= lanes_of(job).count();
    started_jobs_.assign(input_.name_spaces.size(), 0);
    reserve_quotas();
    rank_waiting();
    for (int32_t index = next_waiting(); index >= 0; index = next_waiting()) {
      if (tokens_left_ <= 0 || rows_left_ <= 0 || gated() || !consider(index)) return;
    }
  }

  // Tries to admit a waiting job. Returns false if no later job may be admitted in this step.
  bool consider(int32_t index) {
    const WaitingView& job = waiting(index);
    if (over_quota_of_jobs(index)) return wait_for_quota(index, BlockedJob::Cause::quota_jobs, 0);
    const bool has_guide = !job.guide_tokens.empty();
    if (const int32_t lack = (has_guide ? 2 : 1) - room_.places; lack > 0) return wait_for_place(index, lack);
    const LaneView lane{job.tokens, 0, job.reserve_tokens, input_.demand_of(index)};
    LaneView guide{job.guide_tokens, 0, 0, {}};
    if (has_guide) guide.demand = input_.demand_of_guide(index);
    return consider(index, {&lane, has_guide ? &guide : nullptr});
  }

  bool consider(int32_t index, const Lanes& lanes) {
    const Piece whole = piece_of(lanes, lanes.sum(remaining));
    const int32_t table = gained(lanes, whole);
    int32_t& quota = quota_left(waiting(index).name_space);
    if (table > quota) return wait_for_quota(index, BlockedJob::Cause::quota_pages, table);
    const Room need = {needed(lanes, whole), slots_to_end(lanes), lanes.count()};
    if (waits_for_leader(lanes)) return defer(index, BlockedJob::Cause::shared_prefix, need.pages);
    const Room lack = need.minus(room_);
    output_.lacks_pages = output_.lacks_pages || lack.pages > 0;
    if (lack.is_any()) return wait_for_pages(index, need, lack);
    const Piece least = least_piece(lanes);
    if (least.total() > tokens_left_ || lanes.count() > rows_left_)  // fits into a later step
      return defer(index, BlockedJob::Cause::slots, 0);
    if (!has_slots(lanes, least, slots_left_))  // available in the next step
      return defer(index, BlockedJob::Cause::pages, need.pages);
    room_ = room_.minus(need);
    quota -= table;
    start(index, lanes);
    return true;
  }

  // Only the namespace is at its limit, so later jobs may be admitted.
  bool wait_for_quota(int32_t index, BlockedJob::Cause cause, int32_t needed) {
    return !preempt_paused(waiting(index).name_space) && defer(index, cause, needed);
  }

  bool wait_for_place(int32_t index, int32_t lack) {
    block(index, BlockedJob::Cause::slots, 0);
    if (!preempt_paused()) preempt_below(index, {.places = lack});
    return false;
  }

  bool wait_for_pages(int32_t index, const Room& need, const Room& lack) {
    if (preempt_paused() || preempt_below(index, lack)) return false;
    return !block_for_pages(index, need, lack);
  }

  bool gated() const {
    return std::any_of(passed_.begin(), passed_.end(),
                       [&](const Passed& passed) { return passed.overtaken >= input_.limits.max_overtakes; });
  }

  // Builds a heap: of many waiting jobs, only few are considered in a step.
  void rank_waiting() {
    ranked_.clear();
    for (int32_t i = 0; i < static_cast<int32_t>(input_.waiting.size()); ++i) {
      if (waiting(i).runnable) ranked_.push_back({waiting_rank(i), i});
    }
    std::make_heap(ranked_.begin(), ranked_.end(), std::greater<>());
  }

  // Returns the highest-ranking job that was not considered yet, or -1.
  int32_t next_waiting() {
    if (ranked_.empty()) return -1;
    std::pop_heap(ranked_.begin(), ranked_.end(), std::greater<>());
    const int32_t index = ranked_.back().second;
    ranked_.pop_back();
    return index;
  }

  bool over_quota_of_jobs(int32_t index) const {
    const auto space_idx = static_cast<size_t>(waiting(index).name_space);
    const NamespaceView& space = input_.name_spaces[space_idx];
    return space.max_running_jobs > 0 &&
           space.running_jobs + started_jobs_[space_idx] >= space.max_running_jobs;
  }

  // Preempts a resting job (paused, or with a slow reader), if there is one, so that another can use its
  // place and pages. With `name_space`, only a job of that namespace.
  bool preempt_paused(std::optional<int32_t> name_space = {}) {
    for (auto index = order_.rbegin(); index != order_.rend(); ++index) {
      const RunningView& job = running(*index);
      if (!job.runnable && (!name_space || job.name_space == *name_space)) return preempt(*index);
    }
    return false;
  }

  // Preempts the lowest-ranking job with a lower priority than the waiting one, if all such jobs together
  // have what it lacks.
  bool preempt_below(int32_t index, Room lack) {
    int32_t lowest = -1;
    for (const int32_t candidate : order_) {
      const RunningView& job = running(candidate);
      if (job.priority >= waiting(index).priority) continue;
      const Lanes lanes = lanes_of(job);
      lack.places -= lanes.count();
      lack.pages -= held_pages(lanes);
      for (size_t g = 0; g < num_groups(); ++g)
        lack.slots[g] -= lanes.sum([&](const LaneView& lane) { return lane.demand.slots[g].num_used; });
      lowest = candidate;
    }
    return lowest >= 0 && !lack.is_any() && preempt(lowest);
  }

  bool defer(int32_t index, BlockedJob::Cause cause, int32_t needed, bool gates = false) {
    output_.deferred.push_back({index, cause, needed, -1, gates});
    return true;
  }

  // Records a job that does not fit. Returns true if no later job may overtake it.
  bool block(int32_t index, BlockedJob::Cause cause, int32_t needed) {
    const bool gates = waiting(index).overtaken >= input_.limits.max_overtakes;
    defer(index, cause, needed, gates);
    if (!output_.blocked.has_value()) output_.blocked = output_.deferred.back();
    if (cause == BlockedJob::Cause::pages) passed_.push_back({index, waiting(index).overtaken});
    return gates;
  }

  // Records a job that lacks pages or, if pages suffice, slots of the first window group with too few.
  bool block_for_pages(int32_t index, const Room& need, const Room& lack) {
    const bool gates = block(index, BlockedJob::Cause::pages, need.pages);
    for (size_t g = 0; g < num_groups() && lack.pages <= 0; ++g) {
      if (lack.slots[g] <= 0) continue;
      const bool is_first = output_.blocked->waiting_idx == index;
      output_.deferred.back().group = static_cast<int32_t>(g);
      output_.deferred.back().needed_pages = need.slots[g];
      if (is_first) output_.blocked = output_.deferred.back();
      break;
    }
    return gates;
  }

  void start(int32_t index, const Lanes& lanes) {
    const WaitingView& job = waiting(index);
    int32_t num_tokens = std::min(lanes.sum(remaining), tokens_left_);
    if (job.wants_all_rows) num_tokens = std::min(num_tokens, rows_left_);
    const Piece piece = piece_of(lanes, longest_piece(num_tokens, [&](int32_t length) {
                                   return has_slots(lanes, piece_of(lanes, length), slots_left_);
                                 }));
    const int32_t rows = job.wants_all_rows ? piece.lane : 1;
    take(piece.total(), job.wants_all_rows ? rows : lanes.count(), needed(lanes, piece));
    take_slots(lanes, piece, {});
    output_.grants.push_back({index, true, piece.lane, rows, piece.guide, aged_priority(job)});
    ++started_jobs_[static_cast<size_t>(job.name_space)];
    for (Passed& passed : passed_) {
      output_.overtaken.push_back(passed.index);
      ++passed.overtaken;
    }
    lead(lanes, piece);
  }

  const PolicyInput& input_;
  PolicyOutput& output_;
  int32_t tokens_left_;
  int32_t rows_left_;
  int32_t pages_left_;
  SlotCounts slots_free_;  // at the start of the step: unused and not reserved
  SlotCounts slots_left_;
  std::vector<int32_t> order_;  // running jobs, the highest rank first
  std::vector<Leader> leaders_;
  std::vector<std::pair<WaitingRank, int32_t>> ranked_;  // heap of waiting jobs that were not considered yet
  std::vector<int32_t> quota_left_;                      // pages, by namespace
  std::vector<int32_t> started_jobs_;                    // by namespace
  Room room_;                                            // left for new jobs
  std::vector<Passed> passed_;
};

}  // namespace

void PolicyOutput::clear() {
  preempt.reset();
  grants.clear();
  overtaken.clear();
  blocked.reset();
  deferred.clear();
  lacks_pages = false;
}

bool generates(const RunningView& job, gsl::span<const LaneView> guides) {
  const Lanes lanes = lanes_of(job, guides);
  const int32_t most = lanes.num_last + job.num_forced;
  return remaining(job) <= most && (lanes.guide == nullptr || remaining(*lanes.guide) <= most);
}

void plan_step(const PolicyInput& input, PolicyOutput& output) {
  output.clear();
  StepPlanner(input, output).run();
}

int32_t pages_of_whole_job(int32_t num_tokens, int32_t page_tokens) {
  PageDemand fresh;
  return pages_needed(fresh, num_tokens, 0, page_tokens);
}

int32_t slots_of_whole_job(int32_t num_tokens, int32_t window, int32_t page_tokens) {
  return std::min(pages_for(num_tokens, page_tokens), slots_of_window(window, page_tokens));
}

}  // namespace quire
