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

// Tokens in each slot of the window group of a cache.
using WindowMemory = std::vector<TokenIds>;

// Keeps everything. A state that returns without the page of its last tokens would have other keys.
class MapTier final : public PageOffloadTier {
 public:
  MapTier(StateMemory& memory, WindowMemory& windows) : memory_(memory), windows_(windows) {}

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
    entry.windows.clear();
    for (const WindowSlot& slot : state.windows)
      entry.windows.push_back(windows_[static_cast<size_t>(slot.slot.value)]);
  }
  int32_t get_state(const OffloadedState& state) noexcept override {
    const Entry& entry = states.at(*state.name.key);
    if (loses_states || entry.tokens != TokenIds(state.tokens.begin(), state.tokens.end())) return -1;
    memory_.write(state.slot, 0, entry.bytes);
    EXPECT_EQ(state.windows.size(), entry.windows.size());
    for (size_t i = 0; i < entry.windows.size(); ++i)
      if (state.windows[i].slot.value >= 0)
        windows_[static_cast<size_t>(state.windows[i].slot.value)] = entry.windows[i];
    return entry.bank;
  }

  struct Entry {
    TokenIds tokens;
    std::vector<std::byte> bytes;
    std::vector<TokenIds> windows;
    int32_t bank = 0;
  };
  std::map<Sha256, TokenIds> pages;
  std::map<Sha256, Entry> states;
  bool loses_pages = false;
  bool loses_states = false;

 private:
  StateMemory& memory_;
  WindowMemory& windows_;
};

struct CacheSize {
  int32_t page_tokens = 8;
  int32_t window = 0;  // 0: no layer has one
  int32_t num_window_slots = 0;
  int32_t num_pages = 0;  // 0: for one sequence
  bool offloads = true;
};

// A cache for one sequence of 200 tokens, with three slots.
class Cache {
 public:
  explicit Cache(const CacheSize& size)
      : memory(3),
        windows(static_cast<size_t>(size.num_window_slots), TokenIds(static_cast<size_t>(size.page_tokens))),
        tier(memory, windows),
        kv(options(size, tier)) {}

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
  void evict_all(int32_t most = 64) {
    for (TokenId first = 10000; first < 12000; first += 1000) run(counting(first, 200), most);
  }

  StateMemory memory;
  WindowMemory windows;
  MapTier tier;
  KvCache kv;

 private:
  static KvCacheOptions options(const CacheSize& size, MapTier& tier) {
    const int32_t of_sequence = pages_for(200, size.page_tokens);
    KvCacheOptions options{
        {size.num_pages > 0 ? size.num_pages : of_sequence, size.page_tokens, 64}, of_sequence, 1, {}};
    if (size.window > 0) options.windows = {{size.window, size.num_window_slots}};
    options.num_state_slots = 3;
    if (size.offloads) options.offload_tier = &tier;
    return options;
  }

  TokenIds& window_of(PageId page) {
    return windows.at(static_cast<size_t>(kv.windows().front().slot(page)));
  }
  // Writes the tokens of a lane to its slots, and checks the window of each.
  void run_windows(const PlannedLane& lane, const TokenIds& tokens) {
    const int32_t page_tokens = kv.pool().page_tokens();
    const auto held = [&](int32_t position) -> TokenId& {
      return window_of(lane.pages[static_cast<size_t>(position / page_tokens)])[static_cast<size_t>(
          position % page_tokens)];
    };
    for (int32_t at = lane.start; at < lane.start + lane.num_tokens; ++at)
      held(at) = tokens[static_cast<size_t>(at)];
    for (int32_t at = lane.start; at < lane.start + lane.num_tokens; ++at)
      for (int32_t seen = std::max(0, at - kv.windows().front().window() + 1); seen <= at; ++seen)
        EXPECT_EQ(held(seen), tokens[static_cast<size_t>(seen)]) << "token " << seen << " for " << at;
  }
  void copy_windows(const Reservation& reservation) {
    for (const PageCopy& copy : reservation.copies()) {
      if (copy.table == 0) continue;
      const TokenIds& from = windows[static_cast<size_t>(copy.source.value)];
      std::copy_n(from.begin(), copy.num_tokens, windows[static_cast<size_t>(copy.target.value)].begin());
    }
  }
  void poison() {
    for (int32_t slot = 0; slot < 3; ++slot)
      if (!kv.states().is_used(slot) && !kv.states().is_snapshot(slot)) memory.poison(slot);
    for (const SlotPool& window : kv.windows())
      for (int32_t slot = 0; slot < window.num_slots(); ++slot)
        if (window.page_of(slot) < 0)
          std::fill_n(windows[static_cast<size_t>(slot)].begin(), kv.pool().page_tokens(), -7);
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
    copy_windows(reservation);
    if (!kv.windows().empty()) run_windows(planned, tokens);
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
    poison();
    return planned.num_found_tokens;
  }
};

TEST(OffloadedStates, ReturnWithTheirPages) {
  for (const int32_t page_tokens : {1, 5, 8, 16, 64, 200}) {
    for (const int32_t length : {17, 32, 33, 49, 80, 100, 129, 180}) {
      for (const int32_t most : {1, 16, 64}) {
        Cache cache({page_tokens});
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
  Cache cache({8});
  cache.run(counting(1, 100), 64, "a");
  cache.evict_all();
  EXPECT_EQ(cache.run(counting(1, 100), 64, "b"), 0);
  EXPECT_EQ(cache.run(counting(1, 100), 64, "a"), 96);
}

TEST(OffloadedStates, ThatCannotBeReadAreComputed) {
  for (const bool of_pages : {false, true}) {
    Cache cache({8});
    cache.run(counting(1, 100));
    cache.evict_all();
    (of_pages ? cache.tier.loses_pages : cache.tier.loses_states) = true;
    EXPECT_EQ(cache.run(counting(1, 100)), 0);
    cache.tier.loses_pages = cache.tier.loses_states = false;
    EXPECT_EQ(cache.run(counting(1, 100)), 96) << "from the cache";
  }
}

TEST(OffloadedStates, AShorterOneIsUsedIfPagesAfterItAreMissing) {
  Cache cache({8});
  cache.run(counting(1, 50));
  cache.run(counting(1, 120));
  cache.evict_all();
  ASSERT_GE(cache.tier.states.size(), 2U);
  std::erase_if(cache.tier.pages, [](const auto& page) { return page.second.front() == 65; });
  EXPECT_EQ(cache.run(counting(1, 120)), 48);
}

TEST(OffloadedStates, AClosingCacheOffloadsSnapshotsThatItStillHas) {
  Cache cache({8});
  cache.run(counting(1, 100));
  EXPECT_TRUE(cache.tier.states.empty());
  cache.kv.offload_all([] { return false; });
  EXPECT_EQ(cache.tier.states.size(), 1U);
  EXPECT_GE(cache.tier.pages.size(), 12U);
}

// Slots of windows are taken for other pages before the pages are evicted: the snapshot leaves with the
// first.
TEST(OffloadedStates, ReturnWithTheirWindows) {
  for (const int32_t page_tokens : {1, 5, 8, 16, 64}) {
    for (const int32_t window : {1, 2, 17, 40}) {
      for (const bool has_all_pages : {false, true}) {
        for (const int32_t length : {17, 32, 33, 49, 100, 129, 180}) {
          const int32_t num_slots = slots_of_window(window, page_tokens) + pages_for(16, page_tokens) + 1;
          Cache cache({page_tokens, window, num_slots, has_all_pages ? 1000 : 0});
          SCOPED_TRACE(::testing::Message()
                       << "pages of " << page_tokens << ", window " << window << ", length " << length
                       << (has_all_pages ? ", windows leave" : ""));
          const TokenIds prompt = counting(1, length);
          const int32_t line = (length - 1) / 16 * 16;
          EXPECT_EQ(cache.run(prompt, 16), 0);
          cache.evict_all(16);
          if (!has_all_pages || window > 16) {
            EXPECT_EQ(cache.kv.demand(PrefixDomain{}, prompt).found_tokens, 0);
          }
          EXPECT_EQ(cache.run(prompt, 16), line);
          EXPECT_EQ(cache.run(prompt, 16), line);
          EXPECT_GE(cache.run(counting(1, length + 20), 16), line) << "the next turn";
        }
      }
    }
  }
}

TEST(OffloadedStates, ASnapshotIsDroppedWithItsWindow) {
  Cache cache({8, 17, 7, 1000, false});
  cache.run(counting(1, 100), 16);
  EXPECT_EQ(cache.kv.states().num_snapshots(), 1);
  cache.run(counting(1000, 12), 16);
  EXPECT_EQ(cache.kv.states().num_snapshots(), 1) << "its slots are unused, but there were others";
  cache.run(counting(2000, 60), 16);
  EXPECT_EQ(cache.kv.demand(PrefixDomain{}, counting(1, 100)).found_tokens, 0);
  EXPECT_EQ(cache.kv.states().num_snapshots(), 1) << "that of the last prompt";
}

// A pin keeps the windows of its snapshot, also those before the page of its last tokens.
TEST(OffloadedStates, APinnedSnapshotKeepsItsWindow) {
  for (int32_t length = 17; length < 120; ++length) {
    Cache cache({8, 17, 12, 1000, false});
    const TokenIds prompt = counting(1, length);
    cache.run(prompt, 16);
    const PinnedPrefix pin = cache.kv.pin({}, prompt, 100);
    EXPECT_EQ(cache.kv.audit(), "");
    cache.evict_all(16);
    EXPECT_EQ(cache.kv.demand(PrefixDomain{}, prompt).found_tokens, (length - 1) / 16 * 16) << length;
    cache.kv.unpin(pin);
    EXPECT_EQ(cache.kv.audit(), "");
  }
}

TEST(OffloadedStates, WindowsThatCannotBeReadAreComputed) {
  Cache cache({8, 17, 12, 1000});
  cache.run(counting(1, 100), 16);
  cache.evict_all(16);
  cache.tier.loses_states = true;
  EXPECT_EQ(cache.run(counting(1, 100), 16), 0);
  EXPECT_EQ(cache.run(counting(1, 100), 16), 96) << "from the cache";
}

}  // namespace
}  // namespace quire
