#include "core/engine/events/page_followers.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/engine/events/event_queue.h"
#include "tests/support/allocation_faults.h"
#include "tests/support/engine_fakes.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/page_replay.h"

namespace quire::testing {
namespace {

constexpr int32_t kPageTokens = 4;

// A cache of eight pages, which is too small for three prompts of three pages.
class PageFollowersTest : public ::testing::Test {
 protected:
  FakeEngine open(const PrefixStoreOptions& prefixes = {}) {
    files.write("store/README", "a directory of somebody");
    FakeEngineOptions options;
    options.limits.num_pages = options.limits.max_pages_per_sequence = 8;
    options.limits.page_tokens = kPageTokens;
    options.cache.start_thread = false;
    options.cache.prefixes = prefixes;
    options.max_seq_len = 8 * kPageTokens;
    RuntimeOptions runtime;
    runtime.files = &files;
    options.runtime = Runtime::create(std::move(runtime));
    return FakeEngine(options);
  }
  void follow(FakeEngine& engine, std::optional<std::string> name_space = {}) {
    engine.cache->follow_pages({queue, std::move(name_space), 7});
    engine.run_to_idle();
  }
  static void run(FakeEngine& engine, TokenId first, const std::string& name_space = {}) {
    JobRequest request = greedy(TokenIds(3 * kPageTokens, first), 1);
    request.name_space = name_space;
    const auto job = engine.cache->submit(std::move(request));
    engine.run_to_idle();
    read_all(*job);
  }
  void read() {
    for (const Event& event : queue->drain(100000, Duration{0})) {
      ASSERT_EQ(event.kind, EventKind::page);
      ASSERT_EQ(event.tag, 7U);
      replay.take(event);
    }
    ASSERT_EQ(replay.problem(), "");
  }

  MemoryFileSystem files;
  std::shared_ptr<EventQueue> queue = std::make_shared<EventQueue>();
  PageReplay replay;
};

TEST_F(PageFollowersTest, AReaderGetsExistingAndNewPages) {
  FakeEngine engine = open();
  run(engine, 1);
  follow(engine);
  read();
  EXPECT_EQ(replay.count(PageMedium::device), 3U);
  run(engine, 2);
  run(engine, 3);
  read();
  EXPECT_EQ(replay.num_gaps(), 0);
  EXPECT_LE(replay.count(PageMedium::device), 8U);
  TokenIds prompt(3 * kPageTokens, 3);
  prompt.push_back(kVocab - 1);
  EXPECT_EQ(engine.cache->thread().loop().kv().demand(PrefixDomain{}, prompt).found_tokens, 3 * kPageTokens);
  size_t num_of_last = 0;
  for (const auto& [key, page] : replay.pages())
    num_of_last += page.tokens == TokenIds(kPageTokens, 3) ? 1 : 0;
  EXPECT_EQ(num_of_last, 3U);
}

TEST_F(PageFollowersTest, ALateReaderGetsAGapAndStartsOver) {
  FakeEngine engine = open();
  follow(engine);
  for (int32_t i = 0; i < 750; ++i) run(engine, 1 + i % 50);
  read();
  EXPECT_EQ(replay.num_gaps(), 1);
  EXPECT_FALSE(replay.in_order());
  follow(engine);
  read();
  EXPECT_TRUE(replay.in_order());
  EXPECT_EQ(replay.pages(), PageReplay::of(engine.cache->thread().loop().kv()));
}

TEST_F(PageFollowersTest, AReaderOfOneNamespaceGetsOnlyItsPages) {
  FakeEngine engine = open();
  follow(engine, "mine");
  run(engine, 1, "yours");
  read();
  EXPECT_TRUE(replay.pages().empty());
  run(engine, 2, "mine");
  read();
  EXPECT_EQ(replay.count(PageMedium::device), 3U);
  EXPECT_EQ(replay.pages().begin()->second.name_space, "mine");
  EXPECT_EQ(replay.num_gaps(), 0);
}

TEST_F(PageFollowersTest, PagesAreReportedOnEveryMedium) {
  PrefixStoreOptions prefixes;
  prefixes.host_bytes = 1 << 12;
  prefixes.directory = "store";
  prefixes.directory_bytes = 1 << 20;
  FakeEngine engine = open(prefixes);
  follow(engine);
  for (TokenId first = 1; first < 40; ++first) run(engine, first);
  read();
  const PrefixStats stats = engine.cache->stats().prefixes;
  EXPECT_GT(stats.host_pages, 0U);
  EXPECT_GT(stats.file_pages, 0U);
  EXPECT_EQ(replay.count(PageMedium::host), stats.host_pages);
  EXPECT_EQ(replay.count(PageMedium::file), stats.file_pages);
  const PageReplay::Pages before = replay.pages();
  follow(engine);
  read();
  ASSERT_EQ(replay.pages().size(), before.size()) << "following again reports the same";
  for (const auto& [key, page] : replay.pages()) {
    ASSERT_EQ(before.count(key), 1U);
    const bool has_tokens = key.first != PageMedium::file;
    EXPECT_EQ(before.at(key).tokens == page.tokens, has_tokens) << "files are identified by their keys";
    EXPECT_EQ(before.at(key).parent, page.parent);
  }
}

TEST_F(PageFollowersTest, ACacheThatIsClosedHasNoPages) {
  FakeEngine engine = open();
  run(engine, 1);
  follow(engine);
  engine.cache->close();
  read();
  EXPECT_TRUE(replay.in_order());
  EXPECT_TRUE(replay.pages().empty());
  EXPECT_THROW(engine.cache->follow_pages({queue, {}, 7}), Error);
}

TEST_F(PageFollowersTest, FollowingWithoutMemoryReportsNothingAndCanBeRepeated) {
  FakeEngine engine = open();
  engine.cache->follow_pages({queue, {}, 7});
  {
    const AllocationFault fault(1, FaultSpan::for_ever);
    engine.cache->thread().run_once();
  }
  run(engine, 1);
  read();
  EXPECT_FALSE(replay.in_order()) << "a cache of no pages is not known to be one";
  follow(engine);
  read();
  EXPECT_TRUE(replay.in_order());
  EXPECT_EQ(replay.pages(), PageReplay::of(engine.cache->thread().loop().kv()));
  EXPECT_EQ(replay.count(PageMedium::device), 3U);
}

TEST_F(PageFollowersTest, ADestroyedQueueIsRemoved) {
  FakeEngine engine = open();
  follow(engine);
  queue = std::make_shared<EventQueue>();
  run(engine, 1);
  follow(engine);
  read();
  EXPECT_EQ(replay.count(PageMedium::device), 3U);
}

}  // namespace
}  // namespace quire::testing
