// Snapshots of recurrent states that leave a cache and return, with a tier that keeps states as hashes.
#include <map>
#include <numeric>

#include <gtest/gtest.h>

#include "core/kv/kv_cache.h"
#include "tests/support/state_memory.h"

namespace quire {
namespace {

using testing::state_of;
using testing::StateMemory;

TokenIds counting(TokenId first, int32_t count) {
  TokenIds tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// Keeps everything. A state that returns without the page of its last tokens would have other keys.
class MapTier final : public PageOffloadTier {
 public:
  explicit MapTier(StateMemory& memory) : memory_(memory) {}

  void put(const PageName& name, gsl::span<const TokenId> tokens, PageId) noexcept override {
    pages[*name.key] = {tokens.begin(), tokens.end()};
  }
  bool has(const Sha256& key) const noexcept override { return pages.contains(key) || states.contains(key); }
  bool get(const PageName& name, gsl::span<const TokenId> tokens, PageId) noexcept override {
    return !loses_pages && pages.at(*name.key) == TokenIds(tokens.begin(), tokens.end());
  }
  bool has_states() const noexcept override { return !states.empty(); }
  void put_state(const OffloadedState& state) noexcept override {
    EXPECT_EQ(state.rest.value >= 0, !state.tokens.empty());
    Entry& entry = states[*state.name.key];
    entry.tokens = {state.tokens.begin(), state.tokens.end()};
    entry.bytes.resize(StateMemory::bank_bytes());
    memory_.read(state.slot, state.bank % kernels::kFromLineBefore, entry.bytes);
    entry.bank = state.bank / kernels::kFromLineBefore * kernels::kFromLineBefore;
  }
  int32_t get_state(const OffloadedState& state) noexcept override {
    const Entry& entry = states.at(*state.name.key);
    if (loses_states || entry.tokens != TokenIds(state.tokens.begin(), state.tokens.end())) return -1;
    memory_.write(state.slot, 0, entry.bytes);
    return entry.bank;
  }

  struct Entry {
    TokenIds tokens;
    std::vector<std::byte> bytes;
    int32_t bank = 0;
  };
  std::map<Sha256, TokenIds> pages;
  std::map<Sha256, Entry> states;
  bool loses_pages = false;
  bool loses_states = false;

 private:
  StateMemory& memory_;
};

// A cache for one sequence of 200 tokens, with three slots.
class Cache {
 public:
  explicit Cache(int32_t page_tokens) : memory(3), tier(memory), kv(options(page_tokens, tier)) {}

  // Runs a prompt to its end and checks the state after each token. Returns how many tokens were found.
  int32_t run(const TokenIds& tokens, int32_t most = 64, const std::string& name_space = {}) {
    kv.reload_prefix({name_space, 0}, tokens);
    EXPECT_EQ(kv.audit(), "");
    const SequenceId sequence = kv.create({{name_space, 0}, true, true});
    int32_t found = 0;
    while (kv.length(sequence) < static_cast<int32_t>(tokens.size())) found += step(sequence, tokens, most);
    kv.destroy(sequence);
    return found;
  }
  void evict_all() {
    for (TokenId first = 10000; first < 12000; first += 1000) run(counting(first, 200));
  }

  StateMemory memory;
  MapTier tier;
  KvCache kv;

 private:
  static KvCacheOptions options(int32_t page_tokens, MapTier& tier) {
    KvCacheOptions options{
        {pages_for(200, page_tokens), page_tokens, 64}, pages_for(200, page_tokens), 1, {}};
    options.num_state_slots = 3;
    options.offload_tier = &tier;
    return options;
  }

  int32_t step(SequenceId sequence, const TokenIds& tokens, int32_t most) {
    Lane lane;
    lane.tokens = tokens;
    lane.num_prompt_tokens = static_cast<int32_t>(tokens.size());
    lane.sequence = sequence;
    StepPlan plan;
    plan.lanes.emplace_back();
    PlannedLane& planned = plan.lanes.front();
    planned.lane = &lane;
    planned.max_tokens = most;
    Reservation reservation = kv.reserve(plan);
    for (const StateCopy& copy : reservation.state_copies()) memory.copy(copy.source, copy.target);
    const auto all = gsl::span<const TokenId>(tokens);
    std::vector<uint64_t> states;
    memory.run(planned.state_slot, planned.state_bank, planned.start,
               all.subspan(static_cast<size_t>(planned.start), static_cast<size_t>(planned.num_tokens)),
               states);
    for (size_t i = 0; i < states.size(); ++i)
      EXPECT_EQ(states[i], state_of(all.first(static_cast<size_t>(planned.start) + i + 1)));
    planned.num_accepted = planned.num_tokens;
    reservation.commit();
    EXPECT_EQ(kv.audit(), "");
    for (int32_t slot = 0; slot < 3; ++slot)
      if (!kv.states().is_used(slot) && !kv.states().is_snapshot(slot)) memory.poison(slot);
    return planned.num_found_tokens;
  }
};

TEST(OffloadedStates, ReturnWithTheirPages) {
  for (const int32_t page_tokens : {1, 5, 8, 16, 64, 200}) {
    for (const int32_t length : {17, 32, 33, 49, 80, 100, 129, 180}) {
      for (const int32_t most : {1, 16, 64}) {
        Cache cache(page_tokens);
        const TokenIds prompt = counting(1, length);
        const int32_t line = (length - 1) / 16 * 16;
        EXPECT_EQ(cache.run(prompt, most), 0);
        cache.evict_all();
        EXPECT_EQ(cache.kv.demand(PrefixDomain{}, prompt).found_tokens, 0);
        EXPECT_EQ(cache.run(prompt, most), line) << page_tokens << " " << length;
        EXPECT_EQ(cache.run(prompt, most), line);
      }
    }
  }
}

TEST(OffloadedStates, OfAnotherNamespaceAreNotFound) {
  Cache cache(8);
  cache.run(counting(1, 100), 64, "a");
  cache.evict_all();
  EXPECT_EQ(cache.run(counting(1, 100), 64, "b"), 0);
  EXPECT_EQ(cache.run(counting(1, 100), 64, "a"), 96);
}

TEST(OffloadedStates, ThatCannotBeReadAreComputed) {
  for (const bool of_pages : {false, true}) {
    Cache cache(8);
    cache.run(counting(1, 100));
    cache.evict_all();
    (of_pages ? cache.tier.loses_pages : cache.tier.loses_states) = true;
    EXPECT_EQ(cache.run(counting(1, 100)), 0);
    cache.tier.loses_pages = cache.tier.loses_states = false;
    EXPECT_EQ(cache.run(counting(1, 100)), 96) << "from the cache";
  }
}

TEST(OffloadedStates, AShorterOneIsUsedIfPagesAfterItAreMissing) {
  Cache cache(8);
  cache.run(counting(1, 50));
  cache.run(counting(1, 120));
  cache.evict_all();
  ASSERT_GE(cache.tier.states.size(), 2U);
  std::erase_if(cache.tier.pages, [](const auto& page) { return page.second.front() == 65; });
  EXPECT_EQ(cache.run(counting(1, 120)), 48);
}

TEST(OffloadedStates, AClosingCacheOffloadsSnapshotsThatItStillHas) {
  Cache cache(8);
  cache.run(counting(1, 100));
  EXPECT_TRUE(cache.tier.states.empty());
  cache.kv.offload_all([] { return false; });
  EXPECT_EQ(cache.tier.states.size(), 1U);
  EXPECT_GE(cache.tier.pages.size(), 12U);
}

}  // namespace
}  // namespace quire
