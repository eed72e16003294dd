// Offload of snapshots of recurrent states with their pages, and their way back. On the fake device a wrong
// page or a wrong state changes the next token.
#include <gtest/gtest.h>

#include "core/engine/events/event_queue.h"
#include "tests/support/case_stride.h"
#include "tests/support/engine_fakes.h"
#include "tests/support/expect_error.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/page_replay.h"

namespace quire::testing {
namespace {

constexpr int32_t kContext = 200;
constexpr int32_t kNewTokens = 3;

TokenIds tokens_of(uint64_t seed, int32_t count) {
  TokenIds tokens;
  for (int32_t i = 0; i < count; ++i) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    tokens.push_back(static_cast<TokenId>(seed >> 58));
  }
  return tokens;
}

// Returns the last line before the last token of a prompt: where its snapshot is.
int32_t last_line(int32_t num_tokens) {
  return (num_tokens - 1) / kernels::kStateLine * kernels::kStateLine;
}

// A cache of one long sequence and three state slots.
class StoredStatesTest : public ::testing::Test {
 protected:
  StoredStatesTest() { files.write("store/README", "a directory of somebody"); }

  FakeEngine open(const PrefixStoreOptions& prefixes, int32_t page_tokens = 8) {
    FakeEngineOptions options;
    options.limits.page_tokens = page_tokens;
    options.limits.num_pages = options.limits.max_pages_per_sequence = pages_for(kContext, page_tokens);
    options.limits.num_state_slots = 3;
    options.limits.max_sequences = 2;
    options.cache.start_thread = false;
    options.cache.prefixes = prefixes;
    options.max_seq_len = kContext;
    RuntimeOptions runtime;
    runtime.clock = &clock;
    runtime.files = &files;
    options.runtime = Runtime::create(std::move(runtime));
    return FakeEngine(options);
  }

  static PrefixStoreOptions on_host(uint64_t bytes = 1 << 20) {
    PrefixStoreOptions options;
    options.host_bytes = bytes;
    return options;
  }

  static PrefixStoreOptions in_files() {
    PrefixStoreOptions options;
    options.directory = "store";
    options.directory_bytes = 1 << 20;
    options.fingerprint = "model a";
    return options;
  }

  // Runs a prompt, checks the generated tokens, and returns how many prompt tokens were found.
  static int32_t run(FakeEngine& engine, const TokenIds& prompt, const std::string& name_space = {}) {
    JobRequest request = greedy(prompt, kNewTokens);
    request.name_space = name_space;
    const auto job = engine.cache->submit(std::move(request));
    engine.run_to_idle();
    const Transcript said = read_all(*job);
    EXPECT_EQ(said.tokens, fake_greedy(prompt, kNewTokens, kVocab));
    EXPECT_EQ(engine.executor->num_bad_reads(), 0);
    return said.terminal.usage.cached_tokens;
  }

  // Fills the cache with other prompts, so that no page and no snapshot of an earlier one is left.
  static void evict_all(FakeEngine& engine) {
    for (uint64_t seed = 900; seed < 903; ++seed) run(engine, tokens_of(seed, kContext - kNewTokens));
  }

  std::vector<std::string> files_of_states() const {
    std::vector<std::string> names;
    for (const std::string& name : files.list("store"))
      if (name.ends_with(".state")) names.push_back("store/" + name);
    return names;
  }

  SimulatedClock clock;
  MemoryFileSystem files;
};

TEST_F(StoredStatesTest, ADroppedSnapshotReturnsFromHostMemoryWithItsPages) {
  for (const int32_t page_tokens : {1, 5, 8, 16, 64, 200}) {
    FakeEngine engine = open(on_host(), page_tokens);
    const TokenIds prompt = tokens_of(1, 100);
    EXPECT_EQ(run(engine, prompt), 0);
    evict_all(engine);
    EXPECT_EQ(run(engine, prompt), last_line(100)) << page_tokens;
  }
}

TEST_F(StoredStatesTest, WithoutAStoreTheyAreLost) {
  FakeEngine engine = open({});
  run(engine, tokens_of(1, 100));
  evict_all(engine);
  EXPECT_EQ(run(engine, tokens_of(1, 100)), 0);
}

TEST_F(StoredStatesTest, ALaterCacheFindsTheFilesOfAnEarlierOne) {
  for (const int32_t page_tokens : {5, 16, 64}) {
    const TokenIds prompt = tokens_of(static_cast<uint64_t>(page_tokens), 90);
    {
      FakeEngine engine = open(in_files(), page_tokens);
      run(engine, prompt);
      engine.cache->close();
    }
    FakeEngine engine = open(in_files(), page_tokens);
    EXPECT_EQ(run(engine, prompt), last_line(90));
    TokenIds other = prompt;
    other[60] ^= 1;
    EXPECT_LE(run(engine, other), 60) << "the pages of the store are those of the other prompt";
  }
}

TEST_F(StoredStatesTest, ANamespaceNeverFindsSnapshotsOfAnother) {
  FakeEngine engine = open(on_host());
  run(engine, tokens_of(1, 100), "a");
  evict_all(engine);
  EXPECT_EQ(run(engine, tokens_of(1, 100), "b"), 0);
  EXPECT_EQ(run(engine, tokens_of(1, 100), "a"), last_line(100));
}

// The corruption of LMCache#4247: a hit of which one part was local and another external.
TEST_F(StoredStatesTest, AnyMixtureOfLocalAndStoredPartsGivesTheSameTokens) {
  for (int32_t length = 2; length <= 130; length += testing::stride_if_sanitized(7)) {
    for (const uint64_t host_bytes : {uint64_t{0}, uint64_t{3000}, uint64_t{1} << 20}) {
      PrefixStoreOptions options = in_files();
      options.host_bytes = host_bytes;
      FakeEngine engine = open(options);
      const TokenIds prompt = tokens_of(static_cast<uint64_t>(length), length);
      TokenIds longer = prompt;
      const TokenIds more = tokens_of(77, 40);
      longer.insert(longer.end(), more.begin(), more.end());
      run(engine, prompt);                                // none
      EXPECT_EQ(run(engine, prompt), last_line(length));  // local
      evict_all(engine);
      EXPECT_EQ(run(engine, prompt), last_line(length)) << length;  // host memory, files or both
      run(engine, tokens_of(901, 100));                             // evicts a part
      EXPECT_GE(run(engine, longer), last_line(length)) << length;  // mixed
    }
  }
}

// The snapshot has left, while all its pages are still in the cache.
TEST_F(StoredStatesTest, ASnapshotReturnsToPagesThatNeverLeft) {
  FakeEngine engine = open(on_host());
  const TokenIds prompt = tokens_of(1, 20);
  run(engine, prompt);
  for (uint64_t seed = 2; seed < 6; ++seed) run(engine, tokens_of(seed, 20));
  EXPECT_EQ(engine.cache->thread().loop().kv().demand(PrefixDomain{}, prompt).found_tokens, 0);
  EXPECT_EQ(engine.cache->stats().prefixes.host_pages, 0U);
  EXPECT_EQ(run(engine, prompt), 16);
}

TEST_F(StoredStatesTest, ADamagedFileIsDetectedAndTheStateIsComputed) {
  const TokenIds prompt = tokens_of(1, 60);
  {
    FakeEngine engine = open(in_files());
    run(engine, prompt);
    engine.cache->close();
  }
  const std::vector<std::string> paths = files_of_states();
  ASSERT_FALSE(paths.empty());
  std::vector<std::string> whole;
  for (const std::string& path : paths) whole.push_back(files.read_text(path, 1 << 20));
  for (size_t place = 0; place < whole.front().size(); place += 1 + testing::stride_if_sanitized(5)) {
    for (size_t i = 0; i < paths.size(); ++i) {
      std::string damaged = whole[i];
      if (place >= damaged.size()) continue;
      damaged[place] = static_cast<char>(damaged[place] ^ (1 << place % 8));
      files.write(paths[i], damaged);
    }
    FakeEngine engine = open(in_files());
    EXPECT_EQ(run(engine, prompt), 0) << place;
    EXPECT_GE(engine.cache->stats().prefixes.files_refused, 1U) << place;
  }
}

TEST_F(StoredStatesTest, CutSwappedAndUnreadableFilesNeverGiveAWrongToken) {
  const TokenIds prompts[] = {tokens_of(1, 60), tokens_of(2, 60)};
  {
    FakeEngine engine = open(in_files());
    for (const TokenIds& prompt : prompts) run(engine, prompt);
    engine.cache->close();
  }
  const std::vector<std::string> paths = files_of_states();
  ASSERT_GE(paths.size(), 2U);
  std::vector<std::string> whole;
  for (const std::string& path : paths) whole.push_back(files.read_text(path, 1 << 20));
  for (size_t cut = 0; cut < whole.front().size(); cut += 3) {
    files.write(paths[0], whole[0].substr(0, cut));
    files.write(paths[1], cut % 2 == 0 ? whole[0] : whole[1]);
    if (cut % 5 == 0) files.break_reads(paths[1]);
    FakeEngine engine = open(in_files());
    for (const TokenIds& prompt : prompts) run(engine, prompt);
  }
}

TEST_F(StoredStatesTest, HostMemoryNeverExceedsItsLimit) {
  constexpr uint64_t kBytes = 4000;
  FakeEngine engine = open(on_host(kBytes));
  for (uint64_t round = 0; round < 40; ++round) {
    run(engine, tokens_of(round % 7, 20 + static_cast<int32_t>(round % 5) * 30));
    EXPECT_LE(engine.cache->stats().prefixes.host_bytes, kBytes);
  }
}

TEST_F(StoredStatesTest, FollowersOfPagesGetNoEventsOfSnapshots) {
  FakeEngine engine = open(on_host());
  run(engine, tokens_of(1, 100));
  evict_all(engine);
  const auto queue = std::make_shared<EventQueue>(clock);
  engine.cache->follow_pages({queue, std::nullopt, 0});
  engine.run_to_idle();
  PageReplay replay;
  for (const Event& event : queue->drain(100000, Duration{0})) replay.take(event);
  EXPECT_EQ(replay.problem(), "");
  EXPECT_EQ(replay.count(PageMedium::host), engine.cache->stats().prefixes.host_pages);
}

TEST_F(StoredStatesTest, PausedAndPreemptedJobsContinueWithTheSameTokens) {
  FakeEngine engine = open(on_host());
  std::vector<std::shared_ptr<Job>> jobs;
  for (uint64_t seed = 1; seed <= 12; ++seed)
    jobs.push_back(engine.cache->submit(greedy(tokens_of(seed, 60), 50)));
  engine.run_to_idle();
  for (uint64_t seed = 1; seed <= 12; ++seed)
    EXPECT_EQ(read_all(*jobs[seed - 1]).tokens, fake_greedy(tokens_of(seed, 60), 50, kVocab)) << seed;
  EXPECT_EQ(engine.executor->num_bad_reads(), 0);
}

TEST_F(StoredStatesTest, WindowsReturnWithTheirStates) {
  for (const int32_t num_slots : {16, 64}) {
    FakeEngineOptions options;
    options.limits.num_state_slots = 3;
    options.limits.windows = {{16, num_slots}};
    options.cache.start_thread = false;
    options.cache.prefixes = on_host();
    FakeEngine engine(options);
    const auto run = [&](uint64_t seed) {
      const auto job = engine.cache->submit(greedy(tokens_of(seed, 60), 5));
      engine.run_to_idle();
      EXPECT_EQ(read_all(*job).tokens, fake_greedy(tokens_of(seed, 60), 5, kVocab)) << seed;
      return job->result().cached_tokens;
    };
    for (uint64_t seed = 1; seed <= 8; ++seed) EXPECT_EQ(run(seed), 0);
    for (uint64_t seed = 1; seed <= 8; ++seed) EXPECT_EQ(run(seed), 48) << seed;
    EXPECT_EQ(engine.executor->num_bad_reads(), 0);
  }
}

TEST_F(StoredStatesTest, WindowsWithoutStatesAreRefused) {
  FakeEngineOptions options;
  options.limits.windows = {{16, 64}};
  options.cache.start_thread = false;
  options.cache.prefixes = on_host();
  expect_error(ErrorCode::unsupported, {"sliding-window"}, [&] { FakeEngine engine(options); });
}

}  // namespace
}  // namespace quire::testing
