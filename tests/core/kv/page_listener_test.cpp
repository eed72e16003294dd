// Events of a page listener compared with the pages that the prefix cache finds.
#include "core/kv/page_listener.h"

#include <map>
#include <random>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/kv/kv_cache.h"
#include "tests/support/case_stride.h"

namespace quire {
namespace {

constexpr int32_t kPageTokens = 3;
constexpr TokenId kNeverSaid = 99;

// Pages reported as stored and not removed since.
class Replay final : public PageListener {
 public:
  struct Page {
    PrefixKey parent;
    std::string name_space;
    TokenIds tokens;
  };

  void stored(const PageName& name, PageMedium medium, gsl::span<const TokenId> tokens) noexcept override {
    EXPECT_EQ(medium, PageMedium::device);
    EXPECT_TRUE(!name.parent || pages.count(*name.parent) == 1) << "after a page that is not there";
    const Page page{name.parent, *name.name_space, {tokens.begin(), tokens.end()}};
    EXPECT_TRUE(pages.emplace(*name.key, page).second) << "stored twice";
  }
  void removed(const PageName& name, PageMedium medium) noexcept override {
    EXPECT_EQ(medium, PageMedium::device);
    EXPECT_EQ(pages.erase(*name.key), 1U) << "removed, but not there";
  }

  // Returns all tokens up to the end of a page.
  TokenIds prefix(const Page& page) const {
    TokenIds tokens = page.parent ? prefix(pages.at(*page.parent)) : TokenIds();
    tokens.insert(tokens.end(), page.tokens.begin(), page.tokens.end());
    return tokens;
  }

  std::map<Sha256, Page> pages;
};

class PageListenerTest : public ::testing::Test {
 protected:
  struct Live {
    SequenceId id;
    TokenIds tokens;
  };

  static KvCacheOptions options(PageListener& listener) {
    KvCacheOptions made{{24, kPageTokens, 2}, 12, 8, {}};  // few bits, so that hashes collide
    made.listener = &listener;
    return made;
  }

  uint32_t below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }

  void begin() {
    SequenceOptions made;
    made.domain = {below(2) == 0 ? "a" : "b", 0};
    made.reuse = below(4) != 0;
    made.publish = below(6) != 0;
    live_.push_back({kv_.create(made), {}});
  }
  // Adds tokens, of which some are accepted.
  void extend(Live& live) {
    for (uint32_t n = 1 + below(9); n > 0 && live.tokens.size() < 30; --n)
      live.tokens.push_back(static_cast<TokenId>(below(2)));
    Lane lane;
    lane.tokens = live.tokens;
    lane.sequence = live.id;
    PlannedLane planned;
    planned.lane = &lane;
    planned.max_tokens = 1 + static_cast<int32_t>(below(12));
    StepPlan plan;
    plan.lanes.push_back(planned);
    if (kv_.length(live.id) >= static_cast<int32_t>(lane.tokens.size())) return;
    try {
      Reservation reservation = kv_.reserve(plan);
      if (below(6) == 0) return;  // the step is rolled back
      plan.lanes[0].num_accepted = plan.lanes[0].num_tokens;
      reservation.commit();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::capacity);
    }
  }
  void rewind(Live& live) {
    const int32_t kept = static_cast<int32_t>(below(static_cast<uint32_t>(kv_.length(live.id)) + 1));
    kv_.truncate(live.id, kept);
    live.tokens.resize(std::min(live.tokens.size(), static_cast<size_t>(kept)));
  }
  void end(size_t idx) {
    kv_.destroy(live_[idx].id);
    live_.erase(live_.begin() + static_cast<ptrdiff_t>(idx));
  }
  void act() {
    if (live_.empty() || (below(4) == 0 && live_.size() < 6)) return begin();
    const size_t idx = below(static_cast<uint32_t>(live_.size()));
    switch (below(8)) {
      case 0:
        return end(idx);
      case 1:
        return rewind(live_[idx]);
      case 2:
        if (live_.size() < 6) live_.push_back({kv_.fork(live_[idx].id), live_[idx].tokens});
        return;
      default:
        return extend(live_[idx]);
    }
  }

  std::mt19937_64 random_{17};
  Replay replay_;
  KvCache kv_{options(replay_)};
  std::vector<Live> live_;
};

TEST_F(PageListenerTest, ReportedPagesAreExactlyThoseAPrefixFinds) {
  size_t most = 0;
  for (int32_t round = 0; round < 20000 / testing::stride_if_sanitized(5) && !HasFailure(); ++round) {
    act();
    for (const auto& [key, page] : replay_.pages) {
      TokenIds prompt = replay_.prefix(page);
      const auto length = static_cast<int32_t>(prompt.size());
      prompt.push_back(kNeverSaid);
      ASSERT_EQ(kv_.demand(PrefixDomain{page.name_space, 0}, prompt).found_tokens, length) << round;
    }
    size_t num_findable = 0;
    for (int32_t page = 0; page < kv_.pool().num_pages(); ++page)
      num_findable += kv_.pool().content(PageId{page}).value != 0 ? 1 : 0;
    ASSERT_EQ(replay_.pages.size(), num_findable) << round;
    Replay visited;
    kv_.visit_pages([&](const PageName& name, PageMedium medium, gsl::span<const TokenId> tokens) {
      visited.stored(name, medium, tokens);
    });
    ASSERT_EQ(visited.pages.size(), num_findable) << round;
    most = std::max(most, num_findable);
  }
  EXPECT_GT(most, 16U);
  EXPECT_GT(kv_.pool().num_evicted(), 100U);
}

TEST_F(PageListenerTest, PagesWithAnAdapterEmitNoEvents) {
  live_.push_back({kv_.create({{"a", 1}, true, true}), {}});
  for (int32_t i = 0; i < 8; ++i) extend(live_[0]);
  EXPECT_TRUE(replay_.pages.empty());
}

TEST_F(PageListenerTest, ANamespaceKeepsItsPagesHoweverManyComeAfterIt) {
  live_.push_back({kv_.create({{"kept", 0}, true, true}), {}});
  for (int32_t i = 0; i < 8; ++i) extend(live_[0]);
  const TokenIds prompt = live_[0].tokens;
  end(0);
  const int32_t found = kv_.demand(PrefixDomain{"kept", 0}, prompt).found_tokens;
  ASSERT_GE(found, kPageTokens);
  for (int32_t i = 0; i < 10000; ++i) kv_.destroy(kv_.create({{fmt::format("space {}", i), 0}, true, true}));
  EXPECT_EQ(kv_.demand(PrefixDomain{"kept", 0}, prompt).found_tokens, found);
}

}  // namespace
}  // namespace quire
