#include "core/engine/scheduler/scheduler_policy.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "core/engine/scheduler/job_lanes.h"
#include "core/engine/scheduler/prompt_leaders.h"
#include "core/engine/scheduler/step_budget.h"

namespace quire {

namespace {

class StepPlanner {
 public:
  StepPlanner(const PolicyInput& input, PolicyOutput& output)
      : input_(input), output_(output), budget_(input), leaders_(input.limits.page_tokens) {}

  void run() {
    if (run_suspect()) return;
    rank_running();
    if (!grant_running(/*decoding=*/true)) return;
    if (!grant_running(/*decoding=*/false)) return;
    admit();
  }

 private:
  // A waiting job that does not fit and was overtaken.
  struct Passed {
    int32_t index;
    int32_t overtaken;
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
      if (budget_.is_spent()) break;
      const Lanes lanes = lanes_of(job);
      if (!decoding && leaders_.are_awaited_by(lanes)) continue;
      if (!grant_one(index, job, lanes)) return false;
    }
    return true;
  }

  bool grant_one(int32_t index, const RunningView& job, const Lanes& lanes) {
    const Piece piece = fitting_piece(job, lanes);
    if (piece.total() == 0) return grant_none(index, job, lanes);
    budget_.take(piece.total(), budget_.rows_of(job, lanes, piece), budget_.needed(lanes, piece));
    budget_.take_slots(lanes, piece, budget_.slots_reserved(lanes));
    budget_.quota_left(job.name_space) -= budget_.gained(lanes, piece);
    const bool ends = piece.total() == lanes.sum(remaining);
    const int32_t rows = job.wants_all_rows ? piece.lane : ends ? lanes.num_last : 1;
    output_.grants.push_back({index, false, piece.lane, rows, piece.guide, job.priority});
    leaders_.add(lanes, piece);
    return true;
  }

  // Handles a job of which not even the smallest piece fits: it waits for a later step, or a job is
  // preempted. Returns false after a preemption.
  bool grant_none(int32_t index, const RunningView& job, const Lanes& lanes) {
    const Piece least = least_piece(lanes);
    if (least.total() > budget_.tokens_left() || budget_.rows_of(job, lanes, least) > budget_.rows_left())
      return true;
    if (budget_.gained(lanes, least) > budget_.quota_left(job.name_space)) return free_namespace_quota(index);
    if (budget_.needed(lanes, least) <= budget_.pages_left() &&
        budget_.has_slots(lanes, least, sum(budget_.slots_free(), budget_.slots_reserved(lanes))))
      return true;
    output_.lacks_pages = budget_.needed(lanes, least) > budget_.pages_left();
    preempt_one_for(index);
    return false;
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
    int32_t num_tokens = std::min(lanes.sum(remaining), budget_.tokens_left());
    if (job.wants_all_rows) num_tokens = std::min(num_tokens, budget_.rows_left());
    return piece_of(lanes, longest_piece(num_tokens, [&](int32_t piece) {
                      return budget_.fits(job, lanes, piece_of(lanes, piece));
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
    const bool lacks_pages = output_.lacks_pages, lacks_places = output_.lacks_places;
    output_.clear();
    output_.lacks_pages = lacks_pages;
    output_.lacks_places = lacks_places;
    output_.preempt = index;
    return true;
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

  void admit() {
    if (input_.waiting.empty() || budget_.is_spent()) return;
    spare_.pages = input_.available_pages - budget_.guaranteed_pages();
    spare_.slots = budget_.spare_slots();
    spare_.places = input_.limits.max_running_lanes;
    for (const RunningView& job : input_.running) spare_.places -= lanes_of(job).count();
    started_jobs_.assign(input_.name_spaces.size(), 0);
    budget_.reserve_quotas();
    rank_waiting();
    for (int32_t index = next_waiting(); index >= 0; index = next_waiting()) {
      if (budget_.is_spent() || gated() || !consider(index)) return;
    }
  }

  // Tries to admit a waiting job. Returns false if no later job may be admitted in this step.
  bool consider(int32_t index) {
    const WaitingView& job = waiting(index);
    if (over_quota_of_jobs(index)) return wait_for_quota(index, BlockedJob::Cause::quota_jobs, 0);
    const bool has_guide = !job.guide_tokens.empty();
    if (const int32_t lack = (has_guide ? 2 : 1) - spare_.places; lack > 0)
      return wait_for_place(index, lack);
    const LaneView lane{job.tokens, 0, job.reserve_tokens, input_.demand_of(index)};
    LaneView guide{job.guide_tokens, 0, 0, {}};
    if (has_guide) guide.demand = input_.demand_of_guide(index);
    return consider(index, {&lane, has_guide ? &guide : nullptr});
  }

  bool consider(int32_t index, const Lanes& lanes) {
    const Piece whole = piece_of(lanes, lanes.sum(remaining));
    const int32_t table = budget_.gained(lanes, whole);
    int32_t& quota = budget_.quota_left(waiting(index).name_space);
    if (table > quota) return wait_for_quota(index, BlockedJob::Cause::quota_pages, table);
    const JobResources need = {budget_.needed(lanes, whole), budget_.slots_to_end(lanes), lanes.count()};
    if (leaders_.are_awaited_by(lanes)) return defer(index, BlockedJob::Cause::shared_prefix, need.pages);
    const JobResources lack = need.minus(spare_);
    output_.lacks_pages = output_.lacks_pages || lack.pages > 0;
    if (lack.is_any()) return wait_for_pages(index, need, lack);
    const Piece least = least_piece(lanes);
    if (least.total() > budget_.tokens_left() ||
        lanes.count() > budget_.rows_left())  // fits into a later step
      return defer(index, BlockedJob::Cause::slots, 0);
    if (!budget_.has_slots(lanes, least, budget_.slots_left()))  // available in the next step
      return defer(index, BlockedJob::Cause::pages, need.pages);
    spare_ = spare_.minus(need);
    quota -= table;
    start(index, lanes);
    return true;
  }

  // Only the namespace is at its limit, so later jobs may be admitted.
  bool wait_for_quota(int32_t index, BlockedJob::Cause cause, int32_t needed) {
    return !preempt_paused(waiting(index).name_space) && defer(index, cause, needed);
  }

  bool wait_for_place(int32_t index, int32_t lack) {
    output_.lacks_places = true;
    block(index, BlockedJob::Cause::slots, 0);
    if (!preempt_paused()) preempt_below(index, {.places = lack});
    return false;
  }

  bool wait_for_pages(int32_t index, const JobResources& need, const JobResources& lack) {
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
  bool preempt_below(int32_t index, JobResources lack) {
    int32_t lowest = -1;
    for (const int32_t candidate : order_) {
      const RunningView& job = running(candidate);
      if (job.priority >= waiting(index).priority) continue;
      const Lanes lanes = lanes_of(job);
      lack.places -= lanes.count();
      lack.pages -= held_pages(lanes);
      for (size_t g = 0; g < budget_.num_groups(); ++g)
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
  bool block_for_pages(int32_t index, const JobResources& need, const JobResources& lack) {
    const bool gates = block(index, BlockedJob::Cause::pages, need.pages);
    for (size_t g = 0; g < budget_.num_groups() && lack.pages <= 0; ++g) {
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
    int32_t num_tokens = std::min(lanes.sum(remaining), budget_.tokens_left());
    if (job.wants_all_rows) num_tokens = std::min(num_tokens, budget_.rows_left());
    const Piece piece =
        piece_of(lanes, longest_piece(num_tokens, [&](int32_t length) {
                   return budget_.has_slots(lanes, piece_of(lanes, length), budget_.slots_left());
                 }));
    const int32_t rows = job.wants_all_rows ? piece.lane : 1;
    budget_.take(piece.total(), job.wants_all_rows ? rows : lanes.count(), budget_.needed(lanes, piece));
    budget_.take_slots(lanes, piece, {});
    output_.grants.push_back({index, true, piece.lane, rows, piece.guide, aged_priority(job)});
    ++started_jobs_[static_cast<size_t>(job.name_space)];
    for (Passed& passed : passed_) {
      output_.overtaken.push_back(passed.index);
      ++passed.overtaken;
    }
    leaders_.add(lanes, piece);
  }

  const PolicyInput& input_;
  PolicyOutput& output_;
  StepBudget budget_;
  PromptLeaders leaders_;
  std::vector<int32_t> order_;                           // running jobs, the highest rank first
  std::vector<std::pair<WaitingRank, int32_t>> ranked_;  // heap of waiting jobs that were not considered yet
  std::vector<int32_t> started_jobs_;                    // by namespace
  JobResources spare_;                                   // left for new jobs
  std::vector<Passed> passed_;
};

}  // namespace

void PolicyOutput::clear() {
  preempt.reset();
  grants.clear();
  overtaken.clear();
  blocked.reset();
  deferred.clear();
  lacks_pages = lacks_places = false;
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
