#include "core/kv/kv_cache.h"

#include <numeric>

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace quire {
namespace {

TokenIds counting(TokenId first, int32_t count) {
  TokenIds tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

class KvCacheTest : public ::testing::Test {
 protected:
  static KvCacheOptions options(int32_t page_tokens = 4, int32_t num_pages = 16) {
    return {{num_pages, page_tokens, 64}, 16, 8, {}};
  }

  // Plan of a step with one lane.
  struct Step {
    Step(SequenceId sequence, const TokenIds& tokens) {
      lane.tokens = tokens;
      lane.sequence = sequence;
      PlannedLane planned;
      planned.lane = &lane;
      planned.max_tokens = 1000;
      plan.lanes.push_back(planned);
    }
    void accept(int32_t num_tokens) { planned().num_accepted = num_tokens; }
    PlannedLane& planned() { return plan.lanes[0]; }

    Lane lane;
    StepPlan plan;
  };

  // Computes all of `tokens`.
  static void compute(KvCache& kv, SequenceId sequence, const TokenIds& tokens) {
    Step step(sequence, tokens);
    Reservation reservation = kv.reserve(step.plan);
    step.accept(step.planned().num_tokens);
    reservation.commit();
    EXPECT_EQ(kv.audit(), "");
  }
};

TEST_F(KvCacheTest, AnUncommittedReservationChangesNothing) {
  KvCache kv(options());
  const TokenIds tokens = counting(1, 10);
  const SequenceId sequence = kv.create({});
  {
    Step step(sequence, tokens);
    const Reservation reservation = kv.reserve(step.plan);
    EXPECT_EQ(kv.pool().num_referenced(), 3);
  }
  EXPECT_EQ(kv.pool().num_free(), 16);
  EXPECT_EQ(kv.length(sequence), 0);
  EXPECT_EQ(kv.audit(), "");
}

TEST_F(KvCacheTest, WholePagesAreSharedAndAPartialPageIsCopied) {
  KvCache kv(options());
  const TokenIds tokens = counting(1, 10);
  const SequenceId first = kv.create({});
  compute(kv, first, tokens);
  const SequenceId second = kv.create({});
  Step step(second, tokens);
  Reservation reservation = kv.reserve(step.plan);
  EXPECT_EQ(step.planned().start, 9) << "the last token is always computed";
  ASSERT_EQ(reservation.copies().size(), 1U);
  EXPECT_EQ(reservation.copies()[0].num_tokens, 1);
  step.accept(1);
  reservation.commit();
  EXPECT_EQ(kv.pages(first)[0], kv.pages(second)[0]);
  EXPECT_EQ(kv.pages(first)[1], kv.pages(second)[1]);
  EXPECT_NE(kv.pages(first)[2], kv.pages(second)[2]);
  EXPECT_EQ(kv.audit(), "");
}

TEST_F(KvCacheTest, NamespacesAndAdaptersDoNotShare) {
  KvCache kv(options());
  const TokenIds tokens = counting(1, 10);
  compute(kv, kv.create({{"a", 1}, true, true}), tokens);
  EXPECT_EQ(kv.demand(PrefixDomain{"a", 1}, tokens).found_tokens, 9);
  EXPECT_EQ(kv.demand(PrefixDomain{"b", 1}, tokens).found_tokens, 0);
  EXPECT_EQ(kv.demand(PrefixDomain{"a", 2}, tokens).found_tokens, 0);
}

TEST_F(KvCacheTest, TwoSequencesThatCompleteTheSamePageEndUpWithOne) {
  KvCache kv(options());
  const TokenIds tokens = counting(1, 5);
  const SequenceId first = kv.create({{}, false, true});
  const SequenceId second = kv.create({{}, false, true});
  compute(kv, first, tokens);
  compute(kv, second, tokens);
  EXPECT_EQ(kv.pages(first)[0], kv.pages(second)[0]);
  EXPECT_EQ(kv.num_deduplicated(), 1U);
}

// A copied page may be a whole page: with one token per page, every copy is.
TEST_F(KvCacheTest, ACopyOfAWholePageCountsAsAPage) {
  KvCache kv(options(1));
  const TokenIds tokens = counting(1, 6);
  const SequenceId first = kv.create({});
  compute(kv, first, tokens);
  compute(kv, kv.create({{}, false, true}), tokens);
  const SequenceId third = kv.create({});
  compute(kv, third, tokens);
  EXPECT_EQ(kv.tail_content(third), kv.tail_content(first));
}

TEST_F(KvCacheTest, AForkSharesUntilOneOfTheTwoWrites) {
  KvCache kv(options());
  TokenIds tokens = counting(1, 6);
  const SequenceId parent = kv.create({});
  compute(kv, parent, tokens);
  const SequenceId child = kv.fork(parent);
  EXPECT_EQ(kv.pages(parent)[1], kv.pages(child)[1]);
  tokens.push_back(50);
  Step step(child, tokens);
  Reservation reservation = kv.reserve(step.plan);
  ASSERT_EQ(reservation.copies().size(), 1U);
  EXPECT_EQ(reservation.copies()[0].num_tokens, 2);
  step.accept(1);
  reservation.commit();
  EXPECT_NE(kv.pages(parent)[1], kv.pages(child)[1]);
  EXPECT_EQ(kv.audit(), "");
}

TEST_F(KvCacheTest, AWholePageIsNotWrittenAgainByItsOwnRewoundSequence) {
  KvCache kv(options());
  TokenIds tokens = counting(1, 9);
  const SequenceId sequence = kv.create({});
  compute(kv, sequence, tokens);
  const PageId published = kv.pages(sequence)[1];
  kv.truncate(sequence, 6);
  tokens.resize(6);
  tokens.push_back(77);
  compute(kv, sequence, tokens);
  EXPECT_NE(kv.pages(sequence)[1], published);
  EXPECT_EQ(kv.demand(PrefixDomain{}, counting(1, 9)).found_tokens, 8) << "the old page is still found";
}

TEST_F(KvCacheTest, TokensThatAFailedStepMayHaveOverwrittenAreNotFound) {
  KvCache kv(options());
  const TokenIds tokens = counting(1, 7);
  const SequenceId parent = kv.create({});
  compute(kv, parent, tokens);
  const SequenceId child = kv.fork(parent);
  kv.truncate(parent, 5);  // the page is shared, so its record of three tokens is kept
  kv.destroy(child);
  TokenIds other = counting(1, 5);
  other.push_back(99);
  {
    Step step(parent, other);
    const Reservation reservation = kv.reserve(step.plan);  // written in place, then rolled back
  }
  kv.destroy(parent);
  EXPECT_EQ(kv.demand(PrefixDomain{}, counting(1, 8)).found_tokens, 5);
}

TEST_F(KvCacheTest, FaultedTokensAreNotFound) {
  KvCache kv(options());
  const TokenIds tokens = counting(1, 10);
  const SequenceId sequence = kv.create({});
  Step step(sequence, tokens);
  Reservation reservation = kv.reserve(step.plan);
  step.planned().faulted = true;
  reservation.commit();
  kv.destroy(sequence);
  EXPECT_EQ(kv.demand(PrefixDomain{}, tokens).found_tokens, 0);
  EXPECT_EQ(kv.pool().num_free(), 16);
}

TEST_F(KvCacheTest, APinnedPrefixSurvivesPressure) {
  KvCache kv(options());
  const TokenIds tokens = counting(1, 9);
  const SequenceId sequence = kv.create({});
  compute(kv, sequence, tokens);
  kv.destroy(sequence);
  const PinnedPrefix pinned = kv.pin({}, tokens, 4);
  EXPECT_EQ(pinned.pages.size(), 2U);
  const SequenceId large = kv.create({{"other", 0}, true, true});
  compute(kv, large, counting(100, 56));
  kv.destroy(large);
  EXPECT_EQ(kv.demand(PrefixDomain{}, tokens).found_pages, 2);
  kv.unpin(pinned);
  EXPECT_EQ(kv.audit(), "");
  EXPECT_EQ(kv.pool().num_referenced(), 0);
}

TEST_F(KvCacheTest, ThePageDemandIsNeverTooSmall) {
  KvCache kv(options(4, 64));
  const TokenIds shared = counting(1, 21);
  const SequenceId first = kv.create({});
  compute(kv, first, shared);
  kv.destroy(first);
  for (int32_t length = 2; length <= 40; ++length) {
    const TokenIds tokens = counting(1, length);
    const SequenceId sequence = kv.create({});
    const PageDemand demand = kv.demand(sequence, tokens);
    const int32_t before = kv.pool().num_available();
    const int32_t forecast = pages_needed(demand, length - demand.start(), 0, 4);
    Step step(sequence, tokens);
    {
      const Reservation reservation = kv.reserve(step.plan);
      EXPECT_LE(before - kv.pool().num_available(), forecast) << length;
      EXPECT_EQ(step.planned().start, demand.start()) << length;
    }
    kv.destroy(sequence);
  }
}

TEST_F(KvCacheTest, PagesHeldInAdvanceAreFreedWithTheSequence) {
  KvCache kv(options(4, 3));
  const SequenceId sequence = kv.create({});
  compute(kv, sequence, counting(1, 4));
  EXPECT_TRUE(kv.preallocate_pages(sequence, 5));
  EXPECT_EQ(kv.num_pages(sequence), 2);
  EXPECT_TRUE(kv.preallocate_pages(sequence, 8)) << "nothing to do";
  EXPECT_FALSE(kv.preallocate_pages(sequence, 13)) << "there are three pages";
  EXPECT_EQ(kv.audit(), "");
  compute(kv, sequence, counting(1, 9));
  EXPECT_EQ(kv.num_pages(sequence), 3);
  kv.destroy(sequence);
  EXPECT_EQ(kv.pool().num_referenced(), 0);
}

TEST_F(KvCacheTest, PagesHeldInAStepThatIsRolledBackAreFreed) {
  KvCache kv(options());
  const SequenceId sequence = kv.create({}), other = kv.create({});
  compute(kv, other, counting(1, 4));
  {
    Step step(sequence, counting(50, 4));
    const Reservation reservation = kv.reserve(step.plan);
    EXPECT_TRUE(kv.preallocate_pages(sequence, 5));
    EXPECT_EQ(step.planned().pages.size(), 2U) << "the step sees them";
    EXPECT_TRUE(kv.preallocate_pages(other, 5)) << "it has no part in the step";
  }
  EXPECT_EQ(kv.num_pages(sequence), 0);
  EXPECT_EQ(kv.num_pages(other), 2);
  EXPECT_EQ(kv.audit(), "");
}

// Provides memory for chunks of two pages, num_chunks times at most.
class CountedPageMemory final : public PageMemorySource {
 public:
  explicit CountedPageMemory(int32_t num_chunks) : num_chunks_(num_chunks) {}
  int32_t grow(int32_t num_pages) noexcept override {
    if (num_chunks_ == 0) return num_pages;
    --num_chunks_;
    return num_pages + 2;
  }
  int32_t num_pages_without_last_chunk(int32_t num_pages) const noexcept override {
    return num_pages > 2 ? num_pages - 2 : num_pages;
  }
  void shrink(int32_t /*num_pages*/) noexcept override { ++num_chunks_; }
  int32_t num_chunks() const { return num_chunks_; }

 private:
  int32_t num_chunks_;
};

class ListedOffloadTier final : public PageOffloadTier {
 public:
  void put(const PageName&, gsl::span<const TokenId>, PageId page) noexcept override { put_.push_back(page); }
  bool has(const Sha256&) const noexcept override { return false; }
  bool get(const PageName&, gsl::span<const TokenId>, PageId) noexcept override { return false; }
  bool has_states() const noexcept override { return false; }
  void put_state(const OffloadedState&) noexcept override {}
  int32_t get_state(const OffloadedState&) noexcept override { return -1; }
  std::vector<PageId> put_;
};

class ElasticKvCacheTest : public KvCacheTest {
 protected:
  KvCacheOptions elastic(PageOffloadTier* offload_tier = nullptr) {
    KvCacheOptions options = KvCacheTest::options();
    options.pool.least_pages = 2;
    options.room = &room_;
    options.offload_tier = offload_tier;
    return options;
  }
  CountedPageMemory room_{3};
};

TEST_F(ElasticKvCacheTest, AStepThatNeedsPagesGetsThemInChunks) {
  KvCache kv(elastic());
  const SequenceId sequence = kv.create({});
  compute(kv, sequence, counting(1, 20));
  EXPECT_EQ(kv.num_pages(sequence), 5);
  EXPECT_EQ(kv.pool().num_pages(), 6);
  EXPECT_EQ(room_.num_chunks(), 1);
}

TEST_F(ElasticKvCacheTest, AStepWithoutMemoryForItsPagesFailsAndKeepsNone) {
  KvCache kv(elastic());
  const SequenceId sequence = kv.create({});
  Step step(sequence, counting(1, 40));
  EXPECT_THROW(kv.reserve(step.plan), Error);
  EXPECT_EQ(kv.audit(), "");
  EXPECT_EQ(kv.pool().num_pages(), 8);
  EXPECT_EQ(kv.pool().num_free(), 8);
}

TEST_F(ElasticKvCacheTest, CachedPagesAreNotEvictedWhileTheCacheCanGrow) {
  KvCache kv(elastic());
  for (TokenId first = 1; first < 400; first += 100) {
    const SequenceId sequence = kv.create({});
    compute(kv, sequence, counting(first, 8));
    kv.destroy(sequence);
  }
  EXPECT_EQ(kv.pool().num_pages(), 8);
  EXPECT_EQ(kv.pool().num_evicted(), 0U);
  EXPECT_EQ(kv.demand(PrefixDomain{}, counting(1, 9)).found_tokens, 8);
}

TEST_F(ElasticKvCacheTest, AnUnusedChunkIsReleasedAndItsPagesAreOffloaded) {
  ListedOffloadTier offload_tier;
  KvCache kv(elastic(&offload_tier));
  const SequenceId stays = kv.create({});
  compute(kv, stays, counting(1, 4));
  const SequenceId goes = kv.create({});
  compute(kv, goes, counting(101, 20));
  EXPECT_EQ(kv.pool().num_pages(), 6);
  EXPECT_FALSE(kv.shrink()) << "the last page is used";
  kv.destroy(goes);
  EXPECT_TRUE(kv.shrink());
  EXPECT_EQ(kv.audit(), "");
  EXPECT_TRUE(kv.shrink());
  EXPECT_FALSE(kv.shrink()) << "the smallest number stays";
  EXPECT_EQ(kv.audit(), "");
  EXPECT_EQ(offload_tier.put_, (std::vector<PageId>{PageId{5}, PageId{4}, PageId{3}, PageId{2}}));
  EXPECT_EQ(room_.num_chunks(), 3);
  EXPECT_EQ(kv.length(stays), 4);
  EXPECT_EQ(kv.demand(PrefixDomain{}, counting(101, 20)).found_tokens, 4) << "the page that has its memory";
  compute(kv, kv.create({}), counting(101, 20));
}

class ElasticStatesTest : public ElasticKvCacheTest {
 protected:
  // From 2 slots with 2 pages to 9 with 16, of which 8 can have memory.
  KvCacheOptions with_states() {
    KvCacheOptions options = elastic();
    options.num_state_slots = 9;
    options.least_state_slots = 2;
    return options;
  }
};

TEST_F(ElasticStatesTest, SlotsGrowAndShrinkWithThePages) {
  KvCache kv(with_states());
  EXPECT_EQ(kv.max_lanes(), 2);
  for (const int32_t num_slots : {3, 4, 5}) {
    EXPECT_TRUE(kv.grow());
    EXPECT_EQ(kv.states().num_slots(), num_slots);
    EXPECT_EQ(kv.max_lanes(), num_slots);
  }
  EXPECT_FALSE(kv.grow());
  for (const int32_t num_slots : {4, 3, 2}) {
    EXPECT_TRUE(kv.shrink());
    EXPECT_EQ(kv.states().num_slots(), num_slots);
  }
  EXPECT_FALSE(kv.shrink());
  EXPECT_EQ(kv.audit(), "");
}

TEST_F(ElasticStatesTest, ASlotForEachSequenceStays) {
  KvCache kv(with_states());
  compute(kv, kv.create({}), counting(1, 4));
  compute(kv, kv.create({}), counting(101, 4));
  EXPECT_TRUE(kv.grow());
  const SequenceId third = kv.create({});
  EXPECT_FALSE(kv.shrink()) << "it has no slot yet, but needs one";
  compute(kv, third, counting(201, 3));
  EXPECT_FALSE(kv.shrink());
  kv.destroy(third);
  EXPECT_TRUE(kv.shrink());
  EXPECT_EQ(kv.audit(), "");
}

TEST_F(ElasticStatesTest, SnapshotsInSlotsThatLoseTheirMemoryAreDropped) {
  KvCache kv(with_states());
  while (kv.grow()) {
  }
  compute(kv, kv.create({}), counting(1, 4));
  compute(kv, kv.create({}), counting(101, 4));
  const SequenceId third = kv.create({});
  compute(kv, third, counting(201, 20));
  kv.destroy(third);
  EXPECT_EQ(kv.states().num_snapshots(), 1);
  while (kv.shrink()) {
  }
  EXPECT_EQ(kv.states().num_slots(), 2);
  EXPECT_EQ(kv.states().num_snapshots(), 0);
  EXPECT_EQ(kv.audit(), "");
}

// Also one of a snapshot: the cache grows before it drops one.
TEST_F(ElasticStatesTest, ASequenceGetsASlotWhileTheCacheCanGrow) {
  KvCache kv(with_states());
  for (TokenId first = 1; first < 300; first += 100) {
    const SequenceId sequence = kv.create({});
    compute(kv, sequence, counting(first, 17));
    kv.destroy(sequence);
  }
  EXPECT_GT(kv.states().num_slots(), 2);
}

}  // namespace
}  // namespace quire
