// Sliding-window layers on the fake device, which reads the tokens of each window: jobs with few slots.
#include <numeric>

#include <gtest/gtest.h>

#include "core/models/window_groups.h"
#include "tests/support/case_stride.h"
#include "tests/support/engine_fakes.h"

namespace quire::testing {
namespace {

// Five of six layers have a window, as in Gemma 3; every layer has the same bytes per token.
TransformerShape gemma_like(int32_t window) {
  TransformerShape shape;
  shape.num_layers = 30;
  for (int32_t i = 0; i < shape.num_layers; ++i)
    shape.caches.push_back({4, 128, 0, 0, -1, i % 6 == 5 ? 0 : window});
  return shape;
}

struct Sizes {
  int32_t context;  // of each sequence
  int32_t num_sequences;
  int32_t page_tokens = 256;
};

TransformerExecutorOptions sizes_of(const TransformerShape& shape, const Sizes& of,
                                    int32_t window_sequences = 0) {
  TransformerExecutorOptions options;
  options.max_tokens = 512;
  options.max_sequences = of.num_sequences;
  options.kv.page_tokens = of.page_tokens;
  options.max_pages_per_sequence = pages_for(of.context, of.page_tokens);
  options.kv.num_pages = of.num_sequences * options.max_pages_per_sequence;
  options.kv.windows = window_groups(shape, options, window_sequences);
  return options;
}

FakeEngineOptions engine_of(const TransformerExecutorOptions& sizes, int32_t context) {
  FakeEngineOptions options;
  options.cache.start_thread = false;
  ExecutorLimits& limits = options.limits;
  limits.max_tokens = limits.max_logit_rows = sizes.max_tokens;
  limits.max_sequences = sizes.max_sequences;
  limits.max_pages_per_sequence = sizes.max_pages_per_sequence;
  limits.num_pages = sizes.kv.num_pages;
  limits.page_tokens = sizes.kv.page_tokens;
  limits.windows = sizes.kv.windows;
  options.max_seq_len = context;
  return options;
}

int32_t num_used(const FakeEngine& engine) {
  const SlotPool& window = engine.cache->thread().loop().kv().windows()[0];
  return window.num_slots() - window.num_unused();
}

// Returns the bytes of all keys and values, counted layer by layer.
uint64_t kv_bytes(const TransformerShape& shape, const CachePages& pages) {
  KernelTable table;
  table.taken_bytes = +[](uint64_t bytes) { return bytes; };
  uint64_t total = 0;
  for (const LayerCacheSize& size : shape.caches) total += layer_kv_bytes(table, size, pages);
  return total;
}

TEST(WindowsTest, ACacheUsesLittleMoreThanItsFullLayersAndWindowsNeed) {
  for (const int32_t window : {512, 1024}) {
    for (const int32_t num_sequences : {1, 2, 4}) {
      for (const int32_t page_tokens : {16, 64, 256}) {
        const TransformerShape shape = gemma_like(window);
        const TransformerExecutorOptions sizes = sizes_of(shape, {32768, num_sequences, page_tokens});
        const uint64_t of_token = 4 * 128 * 2 * 2;
        const uint64_t full = 5 * of_token * 32768, windows = 25 * of_token * static_cast<uint64_t>(window);
        const uint64_t needed = static_cast<uint64_t>(num_sequences) * (full + windows);
        const double share = static_cast<double>(kv_bytes(shape, sizes.kv)) / static_cast<double>(needed);
        EXPECT_LE(share, 1.1) << "window " << window << ", " << num_sequences << " sequences, pages of "
                              << page_tokens;
        EXPECT_GE(share, 1.0);
      }
    }
  }
}

// With as many windows as jobs no job waits for a slot: at worst every page has a slot, and then there is no
// group.
TEST(WindowsTest, EveryPageHasASlotIfShortJobsMayFillTheCache) {
  const TransformerShape shape = gemma_like(1024);
  TransformerExecutorOptions sizes = sizes_of(shape, {32768, 1});
  sizes.max_sequences = 64;
  EXPECT_TRUE(window_groups(shape, sizes, 0).empty());
  const std::vector<WindowGroup> few = window_groups(shape, sizes, 8);
  ASSERT_EQ(few.size(), 1U);
  EXPECT_EQ(few[0].num_slots, 8 * 5 + 1);
}

TEST(WindowsTest, MoreWindowsThanGroupsJoinTheNextLargerOne) {
  TransformerShape shape = gemma_like(512);
  for (int32_t i = 0; i < 6; ++i) shape.caches[static_cast<size_t>(i)].window = 100 * (i + 1);
  const TransformerExecutorOptions sizes = sizes_of(shape, {32768, 1});
  ASSERT_EQ(sizes.kv.windows.size(), kMaxWindowGroups);
  EXPECT_EQ(sizes.kv.windows.front().window, 400);
  EXPECT_EQ(page_table_of(sizes.kv, shape.caches[0]), 1) << "100 is in the group of 400";
  EXPECT_EQ(page_table_of(sizes.kv, shape.caches[4]), 2);
  EXPECT_EQ(page_table_of(sizes.kv, shape.caches[11]), 0) << "no window";
}

TEST(WindowsTest, ALongConversationUsesTheSlotsOfItsWindowAndItsSecondTurnFindsTheFirst) {
  constexpr int32_t kContext = kIsSanitized ? 8192 : 32768;
  const TransformerExecutorOptions sizes = sizes_of(gemma_like(1024), {kContext, 1});
  ASSERT_EQ(sizes.kv.windows.size(), 1U);
  FakeEngine engine(engine_of(sizes, kContext));
  TokenIds prompt = random_tokens(1, kContext - 768);
  const auto first = engine.cache->submit(greedy(prompt, 40));
  int32_t most = 0;
  while (engine.cache->thread().run_once() == StepOutcome::advanced) most = std::max(most, num_used(engine));
  EXPECT_LE(most, slots_of_window(1024, 256));
  const Transcript said = read_all(*first);
  EXPECT_EQ(said.tokens, fake_greedy(prompt, 40, kVocab));
  EXPECT_EQ(first->result().preemptions, 0);
  EXPECT_EQ(num_used(engine), 0);

  prompt.insert(prompt.end(), said.tokens.begin(), said.tokens.end());
  const TokenIds question = random_tokens(2, 50);
  prompt.insert(prompt.end(), question.begin(), question.end());
  const auto second = engine.cache->submit(greedy(prompt, 10));
  engine.run_to_idle();
  EXPECT_EQ(read_all(*second).tokens, fake_greedy(prompt, 10, kVocab));
  EXPECT_EQ(second->result().cached_tokens, kContext - 729) << "all that the first turn had in the cache";
}

TEST(WindowsTest, JobsShareFewSlotsAndReleaseAll) {
  TransformerExecutorOptions sizes = sizes_of(gemma_like(24), {160, 8, 4}, 2);
  sizes.max_tokens = 32;
  sizes.kv.windows = window_groups(gemma_like(24), sizes, 2);
  ASSERT_LT(sizes.kv.windows.at(0).num_slots, 25);
  for (const bool draws : {false, true}) {
    FakeEngineOptions options = engine_of(sizes, 160);
    if (draws) make_drawing(options.limits);
    FakeEngine engine(options);
    std::vector<std::shared_ptr<Job>> jobs;
    std::vector<TokenIds> prompts;
    for (uint64_t i = 0; i < 12; ++i) {
      prompts.push_back(random_tokens(i + 1, 10 + static_cast<int32_t>(i) * 9));
      JobRequest request = greedy(prompts.back(), 30);
      request.reserve_whole = i % 3 == 0;
      jobs.push_back(engine.cache->submit(std::move(request)));
    }
    EXPECT_LT(engine.run_to_idle(5000), 5000);
    for (size_t i = 0; i < jobs.size(); ++i)
      EXPECT_EQ(read_all(*jobs[i]).tokens, fake_greedy(prompts[i], 30, kVocab)) << i;
    EXPECT_EQ(num_used(engine), 0);
    EXPECT_EQ(engine.executor->num_bad_reads(), 0);
  }
}

TEST(WindowsTest, AJobThatCanNeverFitIsRefusedNamingTheSlots) {
  FakeEngineOptions options;
  options.limits.windows = {{40, 8}};  // pages of 4: a window may need 11
  FakeEngine engine(options);
  try {
    engine.cache->submit(greedy(random_tokens(1, 100), 20));
    ADD_FAILURE() << "the job was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::too_large);
    EXPECT_NE(std::string(error.what()).find("window of 40 tokens"), std::string::npos);
  }
  EXPECT_NO_THROW(engine.cache->submit(greedy(random_tokens(1, 20), 8)));
}

}  // namespace
}  // namespace quire::testing
