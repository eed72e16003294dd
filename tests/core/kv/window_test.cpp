// Slots of sliding-window layers: checked by rules, and against a memory that stores the token in each cell.
#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/kv/kv_cache.h"
#include "tests/support/case_stride.h"

namespace quire {
namespace {

TokenIds counting(TokenId first, int32_t count) {
  TokenIds tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

KvCacheOptions options_of(int32_t page_tokens, int32_t num_pages, std::vector<WindowGroup> windows) {
  return {{num_pages, page_tokens, 64}, 64, 8, std::move(windows)};
}

// Computes the missing tokens of `tokens`, num_tokens at a time.
void compute(KvCache& kv, SequenceId sequence, const TokenIds& tokens, int32_t num_tokens) {
  while (kv.length(sequence) < static_cast<int32_t>(tokens.size())) {
    Lane lane;
    lane.tokens = tokens;
    lane.sequence = sequence;
    StepPlan plan;
    plan.lanes.emplace_back();
    plan.lanes[0].lane = &lane;
    plan.lanes[0].max_tokens = num_tokens;
    Reservation reservation = kv.reserve(plan);
    plan.lanes[0].num_accepted = plan.lanes[0].num_tokens;
    reservation.commit();
    ASSERT_EQ(kv.audit(), "");
  }
}

int32_t num_used(const KvCache& kv, size_t group = 0) {
  return kv.windows()[group].num_slots() - kv.windows()[group].num_unused();
}

TEST(Windows, ASequenceUsesOnlyTheSlotsOfItsWindow) {
  KvCache kv(options_of(4, 64, {{8, 3}}));
  const SequenceId sequence = kv.create({});
  for (int32_t length = 1; length <= 200; ++length) {
    compute(kv, sequence, counting(1, length), 1);
    EXPECT_LE(num_used(kv), slots_of_window(8, 4)) << length;
    EXPECT_EQ(kv.num_pages(sequence), pages_for(length, 4));
  }
  kv.destroy(sequence);
  EXPECT_EQ(num_used(kv), 0);
}

TEST(Windows, AStepTakesSlotsForAllItWrites) {
  KvCache kv(options_of(4, 64, {{8, 6}}));
  const SequenceId sequence = kv.create({});
  compute(kv, sequence, counting(1, 100), 16);
  EXPECT_EQ(kv.length(sequence), 100);
  const SequenceId large = kv.create({{"other", 0}, true, true});
  EXPECT_THROW(compute(kv, large, counting(1, 100), 28), Error) << "7 pages, 6 slots";
  EXPECT_EQ(kv.audit(), "");
  EXPECT_EQ(kv.length(large), 0);
}

TEST(Windows, ASecondTurnFindsTheFirstIfItsWindowIsStillCached) {
  for (int32_t length = 30; length < 46; ++length) {
    KvCache kv(options_of(4, 64, {{8, 4}}));
    const SequenceId first = kv.create({});
    compute(kv, first, counting(1, length), 1);
    kv.destroy(first);
    const PageDemand demand = kv.demand(PrefixDomain{}, counting(1, length + 10));
    EXPECT_EQ(demand.found_tokens, length) << "its whole pages, and a piece of the last one";
    const SequenceId second = kv.create({});
    compute(kv, second, counting(1, length + 10), 1);
  }
}

TEST(Windows, WithoutItsWindowAPrefixIsNotFoundAndComputingItFillsTheWindowAgain) {
  KvCache kv(options_of(4, 64, {{8, 4}}));
  const TokenIds tokens = counting(1, 41);
  SequenceId sequence = kv.create({});
  compute(kv, sequence, tokens, 4);
  kv.destroy(sequence);
  const SequenceId other = kv.create({{"other", 0}, true, true});
  compute(kv, other, counting(100, 32), 8);  // takes all four slots
  kv.destroy(other);
  EXPECT_EQ(kv.demand(PrefixDomain{}, tokens).found_tokens, 0);
  EXPECT_EQ(kv.pool().num_evicted(), 0U) << "the pages themselves are there";
  sequence = kv.create({});
  compute(kv, sequence, tokens, 4);
  kv.destroy(sequence);
  EXPECT_EQ(kv.demand(PrefixDomain{}, tokens).found_tokens, 40);
  EXPECT_EQ(kv.pool().num_cached(), 10 + 2 + 8) << "no whole page is there twice";
}

TEST(Windows, APrefixIsFoundUpToTheLastCompleteWindow) {
  KvCache kv(options_of(4, 64, {{8, 16}}));
  const TokenIds tokens = counting(1, 33);
  const SequenceId sequence = kv.create({});
  compute(kv, sequence, tokens, 33);  // nine slots
  const SequenceId other = kv.create({{"other", 0}, true, true});
  // Takes the seven empty slots, then those of the first four pages.
  compute(kv, other, counting(100, 44), 4);
  EXPECT_EQ(kv.demand(PrefixDomain{}, tokens).found_tokens, 32);
  kv.destroy(sequence);
  EXPECT_EQ(kv.demand(PrefixDomain{}, counting(1, 17)).found_tokens, 0) << "its window is gone";
  EXPECT_EQ(kv.demand(PrefixDomain{}, tokens).found_tokens, 32);
}

TEST(Windows, ARewindReusesItsWindowOrRewindsFurther) {
  KvCache kv(options_of(4, 64, {{8, 8}}));
  const SequenceId sequence = kv.create({});
  compute(kv, sequence, counting(1, 29), 1);
  kv.truncate(sequence, 18);
  EXPECT_EQ(kv.length(sequence), 18) << "the slots behind the window are still there";
  EXPECT_EQ(kv.audit(), "");
  compute(kv, sequence, counting(1, 29), 1);
  const SequenceId other = kv.create({{"other", 0}, true, true});
  compute(kv, other, counting(100, 20), 20);
  kv.truncate(sequence, 18);
  EXPECT_EQ(kv.length(sequence), 0) << "they are not";
  EXPECT_EQ(kv.audit(), "");
  compute(kv, sequence, counting(1, 29), 1);
}

TEST(Windows, APinKeepsTheWindowOfItsPrefix) {
  KvCache kv(options_of(4, 64, {{8, 6}}));
  const TokenIds tokens = counting(1, 33);
  const SequenceId sequence = kv.create({});
  compute(kv, sequence, tokens, 4);
  kv.destroy(sequence);
  const PinnedPrefix pinned = kv.pin({}, tokens, 64);
  EXPECT_EQ(pinned.pages.size(), 8U);
  EXPECT_EQ(num_used(kv), 2);
  const SequenceId other = kv.create({{"other", 0}, true, true});
  compute(kv, other, counting(100, 60), 4);
  EXPECT_EQ(kv.demand(PrefixDomain{}, tokens).found_tokens, 32);
  kv.destroy(other);
  kv.unpin(pinned);
  EXPECT_EQ(num_used(kv), 0);
  EXPECT_EQ(kv.audit(), "");
}

TEST(Windows, AForkSharesSlotsUntilOneOfTheTwoWrites) {
  KvCache kv(options_of(4, 64, {{8, 8}}));
  const SequenceId parent = kv.create({});
  compute(kv, parent, counting(1, 30), 5);
  const int32_t used = num_used(kv);
  const SequenceId child = kv.fork(parent);
  EXPECT_EQ(num_used(kv), used);
  compute(kv, child, counting(1, 31), 1);
  EXPECT_EQ(num_used(kv), used + 1) << "the page that both would write on";
  kv.destroy(parent);
  kv.destroy(child);
  EXPECT_EQ(num_used(kv), 0);
}

// Content of the pages of each table, to check that a sequence would read the right tokens.
class Memory {
 public:
  explicit Memory(const KvCache& kv) : kv_(kv), tables_(kv.windows().size() + 1) {}

  void copy(const PageCopy& copy) {
    for (int32_t i = 0; i < copy.num_tokens; ++i)
      cell(copy.table, copy.target.value, i) = cell(copy.table, copy.source.value, i);
  }
  void write(gsl::span<const PageId> pages, const TokenIds& tokens, int32_t position) {
    for (int32_t table = 0; table < num_tables(); ++table)
      at(table, pages, position) = {tokens[static_cast<size_t>(position)], position};
  }
  // Returns whether the token at `position` finds every token before `end` that it attends to.
  bool shows(gsl::span<const PageId> pages, const TokenIds& tokens, int32_t position, int32_t end) {
    for (int32_t table = 0; table < num_tables(); ++table) {
      for (int32_t p = first_seen(table, position); p < end; ++p) {
        if (at(table, pages, p) != std::pair{tokens[static_cast<size_t>(p)], p}) return false;
      }
    }
    return true;
  }

 private:
  using Cell = std::pair<TokenId, int32_t>;
  int32_t num_tables() const { return static_cast<int32_t>(tables_.size()); }
  int32_t first_seen(int32_t table, int32_t position) const {
    return table == 0 ? 0
                      : std::max(0, position - kv_.windows()[static_cast<size_t>(table - 1)].window() + 1);
  }
  Cell& cell(int32_t table, int32_t page, int32_t i) {
    return tables_[static_cast<size_t>(table)][{page, i}];
  }
  Cell& at(int32_t table, gsl::span<const PageId> pages, int32_t position) {
    const int32_t page_tokens = kv_.pool().page_tokens();
    const PageId page = pages[static_cast<size_t>(position / page_tokens)];
    const int32_t slot = table == 0 ? page.value : kv_.windows()[static_cast<size_t>(table - 1)].slot(page);
    return cell(table, slot, position % page_tokens);
  }

  const KvCache& kv_;
  std::vector<std::map<std::pair<int32_t, int32_t>, Cell>> tables_;
};

// Random operations of jobs on their sequences, with few distinct tokens, so that much is shared.
class RandomJobs {
 public:
  RandomJobs(uint64_t seed, KvCache& kv) : random_(seed), kv_(kv), memory_(kv) {}

  void act() {
    switch (below(16)) {
      case 0:
        if (jobs_.size() < 6) start();
        break;
      case 1:
        if (!jobs_.empty()) end(below(static_cast<int32_t>(jobs_.size())));
        break;
      case 2:
        if (!jobs_.empty() && jobs_.size() < 6) fork();
        break;
      case 3:
        if (!jobs_.empty()) rewind();
        break;
      case 4:
        if (!jobs_.empty())
          kv_.preallocate_pages(any().sequence, std::min(60, kv_.length(any().sequence) + 3));
        break;
      case 5:
        toggle_pin();
        break;
      default:
        step();
    }
    ASSERT_EQ(kv_.audit(), "");
    for (Job& job : jobs_) {
      const int32_t length = kv_.length(job.sequence);
      ASSERT_TRUE(memory_.shows(kv_.pages(job.sequence), job.tokens, length, length));
    }
  }
  void end_all() {
    while (!jobs_.empty()) end(0);
    if (!pinned_.pages.empty()) toggle_pin();
  }

 private:
  struct Job {
    SequenceId sequence;
    TokenIds tokens;
  };

  int32_t below(int32_t limit) { return static_cast<int32_t>(random_() % static_cast<uint64_t>(limit)); }
  Job& any() { return jobs_[static_cast<size_t>(below(static_cast<int32_t>(jobs_.size())))]; }
  void grow(TokenIds& tokens, int32_t count) {
    while (count-- > 0 && tokens.size() < 60) tokens.push_back(below(8) == 0 ? below(3) : 0);
  }
  void start() {
    SequenceOptions options;
    options.reuse = below(8) != 0;
    options.publish = below(8) != 0;
    Job job{kv_.create(options), {}};
    grow(job.tokens, 1 + below(40));
    jobs_.push_back(job);
  }
  void end(int32_t index) {
    kv_.destroy(jobs_[static_cast<size_t>(index)].sequence);
    jobs_.erase(jobs_.begin() + index);
  }
  void fork() {
    const Job& parent = any();
    jobs_.push_back({kv_.fork(parent.sequence), parent.tokens});
  }
  void rewind() {
    Job& job = any();
    const int32_t length = below(kv_.length(job.sequence) + 1);
    kv_.truncate(job.sequence, length);
    EXPECT_LE(kv_.length(job.sequence), length);
    job.tokens.resize(static_cast<size_t>(length));
    grow(job.tokens, 1 + below(4));
  }
  void toggle_pin() {
    if (pinned_.pages.empty()) {
      TokenIds tokens;
      grow(tokens, 12 + below(20));
      pinned_ = kv_.pin({}, tokens, 64);
    } else {
      kv_.unpin(pinned_);
      pinned_ = {};
    }
  }

  // Computes a step for some of the jobs. If there are too few pages, nothing changes, as in a failed step.
  void step() {
    std::vector<Lane> lanes(jobs_.size());
    StepPlan plan;
    for (size_t i = 0; i < jobs_.size(); ++i) {
      Job& job = jobs_[i];
      if (kv_.length(job.sequence) == static_cast<int32_t>(job.tokens.size())) grow(job.tokens, 1);
      if (below(3) == 0 || kv_.length(job.sequence) == static_cast<int32_t>(job.tokens.size())) continue;
      lanes[i].tokens = job.tokens;
      lanes[i].sequence = job.sequence;
      lanes[i].place = static_cast<int32_t>(i);
      PlannedLane planned;
      planned.lane = &lanes[i];
      planned.max_tokens = 1 + below(9);
      planned.reserve_tokens = below(10) == 0 ? 60 : 0;
      plan.lanes.push_back(planned);
    }
    std::vector<size_t> faulted;
    try {
      Reservation reservation = kv_.reserve(plan);
      for (const PageCopy& copy : reservation.copies()) memory_.copy(copy);
      for (PlannedLane& planned : plan.lanes) run(planned);
      if (below(8) == 0) return;
      for (PlannedLane& planned : plan.lanes) {
        planned.num_accepted = below(6) == 0 ? 1 + below(planned.num_tokens) : planned.num_tokens;
        planned.faulted = below(20) == 0;
        if (planned.faulted) faulted.push_back(static_cast<size_t>(planned.lane->place));
      }
      reservation.commit();
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::capacity);
      faulted.clear();
      if (!jobs_.empty()) end(below(static_cast<int32_t>(jobs_.size())));  // frees pages for the others
      return;
    }
    // Replaces the tokens that were not accepted with new ones.
    for (const PlannedLane& planned : plan.lanes) {
      Job& job = jobs_[static_cast<size_t>(planned.lane->place)];
      if (planned.num_accepted == planned.num_tokens) continue;
      job.tokens.resize(static_cast<size_t>(kv_.length(job.sequence)));
      grow(job.tokens, 1);
    }
    for (size_t i = faulted.size(); i-- > 0;) end(static_cast<int32_t>(faulted[i]));
  }

  void run(const PlannedLane& planned) {
    const TokenIds& tokens = planned.lane->tokens;
    for (int32_t p = planned.start; p < planned.end(); ++p) memory_.write(planned.pages, tokens, p);
    for (int32_t p = planned.start; p < planned.end(); ++p)
      EXPECT_TRUE(memory_.shows(planned.pages, tokens, p, p + 1)) << p;
  }

  std::mt19937_64 random_;
  KvCache& kv_;
  Memory memory_;
  std::vector<Job> jobs_;
  PinnedPrefix pinned_;
};

TEST(Windows, EveryTokenSeesItsWindowUnderRandomOperations) {
  for (uint64_t seed = 1; seed <= 60; seed += testing::stride_if_sanitized(10)) {
    const int32_t page_tokens = 1 + static_cast<int32_t>(seed % 5);
    const int32_t num_pages = pages_for(60, page_tokens) + static_cast<int32_t>(seed * 7 % 50);
    std::vector<WindowGroup> windows;
    for (const int32_t window : {1 + static_cast<int32_t>(seed % 7), 9 + static_cast<int32_t>(seed % 11)}) {
      const int32_t least = slots_of_window(window, page_tokens) + pages_for(9, page_tokens) + 1;
      windows.push_back({window, std::min(num_pages, least + static_cast<int32_t>(seed * 3 % 20))});
    }
    KvCache kv(options_of(page_tokens, num_pages, windows));
    RandomJobs jobs(seed, kv);
    for (int32_t i = 0; i < 3000; ++i) {
      jobs.act();
      if (HasFailure()) FAIL() << "seed " << seed << ", action " << i;
    }
    jobs.end_all();
    for (size_t g = 0; g < windows.size(); ++g) EXPECT_EQ(num_used(kv, g), 0);
    EXPECT_EQ(kv.pool().num_referenced(), 0);
  }
}

// Checks that a reservation takes at most the slots that the scheduler counts with.
TEST(Windows, TheSlotDemandIsNeverTooSmall) {
  KvCache kv(options_of(4, 128, {{6, 40}, {13, 60}}));
  compute(kv, kv.create({}), counting(1, 33), 5);
  for (int32_t length = 2; length <= 60; ++length) {
    const TokenIds tokens = counting(1, length);
    const SequenceId sequence = kv.create({});
    const PageDemand demand = kv.demand(sequence, tokens);
    Lane lane;
    lane.tokens = tokens;
    lane.sequence = sequence;
    StepPlan plan;
    plan.lanes.emplace_back();
    plan.lanes[0].lane = &lane;
    plan.lanes[0].max_tokens = 1000;
    const std::vector<int32_t> before = {num_used(kv, 0), num_used(kv, 1)};
    {
      const Reservation reservation = kv.reserve(plan);
      EXPECT_EQ(plan.lanes[0].start, demand.start());
      for (size_t g = 0; g < 2; ++g)
        EXPECT_LE(num_used(kv, g) - before[g], slots_needed(demand, g, length - demand.start(), 4));
    }
    kv.destroy(sequence);
    EXPECT_EQ(kv.audit(), "");
  }
}

}  // namespace
}  // namespace quire
