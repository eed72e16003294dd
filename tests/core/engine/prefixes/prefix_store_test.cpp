// Offload of prefix pages to host memory and files, and their way back. On the fake device a wrong page
// changes the next token.
#include <gtest/gtest.h>

#include "tests/support/engine_fakes.h"
#include "tests/support/expect_error.h"
#include "tests/support/memory_file_system.h"

namespace quire::testing {
namespace {

constexpr int32_t kPageTokens = 4;
constexpr int32_t kPromptTokens = 21;  // five whole pages, and the token that is always computed

TokenIds prompt_of(uint64_t seed) {
  TokenIds tokens;
  for (int32_t i = 0; i < kPromptTokens; ++i) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    tokens.push_back(static_cast<TokenId>(seed >> 58));
  }
  return tokens;
}

// A cache of eight pages, too small for two prompts.
class PrefixStoreTest : public ::testing::Test {
 protected:
  PrefixStoreTest() { files.write("store/README", "a directory of somebody"); }

  FakeEngine open(const PrefixStoreOptions& prefixes) {
    FakeEngineOptions options;
    options.limits.num_pages = options.limits.max_pages_per_sequence = 8;
    options.limits.page_tokens = kPageTokens;
    options.cache.start_thread = false;
    options.cache.prefixes = prefixes;
    options.max_seq_len = 8 * kPageTokens;
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

  static PrefixStoreOptions in_files(uint64_t bytes = 1 << 20) {
    PrefixStoreOptions options;
    options.directory = "store";
    options.directory_bytes = bytes;
    options.fingerprint = "model a";
    return options;
  }

  // Runs the prompt, checks the generated tokens, and returns how many prompt tokens were found.
  static int32_t run(FakeEngine& engine, uint64_t seed, const std::string& name_space = {}) {
    JobRequest request = greedy(prompt_of(seed), 3);
    request.name_space = name_space;
    const auto job = engine.cache->submit(std::move(request));
    engine.run_to_idle();
    const Transcript said = read_all(*job);
    EXPECT_EQ(said.tokens, fake_greedy(prompt_of(seed), 3, kVocab));
    EXPECT_EQ(engine.executor->num_bad_reads(), 0);
    return said.terminal.usage.cached_tokens;
  }

  static PrefixStats stats(FakeEngine& engine) { return engine.cache->stats().prefixes; }

  // Returns the files of the pages of a prompt, written by a cache that is closed afterwards.
  std::vector<std::string> file_prompt(uint64_t seed) {
    FakeEngine engine = open(in_files());
    run(engine, seed);
    engine.cache->close();
    std::vector<std::string> names;
    for (const std::string& name : files.list("store"))
      if (name.ends_with(".page")) names.push_back("store/" + name);
    return names;
  }

  std::string content(const std::string& path) const { return files.read_text(path, 1 << 20); }

  SimulatedClock clock;
  MemoryFileSystem files;
};

TEST_F(PrefixStoreTest, AnEvictedPrefixIsReloadedFromHostMemory) {
  FakeEngine engine = open(on_host());
  EXPECT_EQ(run(engine, 1), 0);
  run(engine, 2);
  EXPECT_GE(stats(engine).host_pages, 3U);
  const int64_t computed = engine.executor->num_tokens_computed();
  EXPECT_EQ(run(engine, 1), 20);
  EXPECT_EQ(engine.executor->num_tokens_computed() - computed, 3);
  EXPECT_GE(stats(engine).pages_restored, 3U);
}

TEST_F(PrefixStoreTest, NothingIsOffloadedByDefault) {
  FakeEngine engine = open({});
  run(engine, 1);
  run(engine, 2);
  EXPECT_LT(run(engine, 1), 20);
  engine.cache->close();
  EXPECT_EQ(stats(engine).host_pages, 0U);
  EXPECT_EQ(files.list("store").size(), 1U);
}

TEST_F(PrefixStoreTest, ANamespaceNeverFindsPagesOfAnother) {
  FakeEngine engine = open(on_host());
  run(engine, 1, "a");
  run(engine, 2, "a");
  EXPECT_EQ(run(engine, 1, "b"), 0);
  EXPECT_EQ(stats(engine).pages_restored, 0U);
  run(engine, 3, "b");
  EXPECT_EQ(run(engine, 1, "a"), 20);
}

TEST_F(PrefixStoreTest, AJobWithoutPrefixReuseLoadsNone) {
  FakeEngine engine = open(on_host());
  run(engine, 1);
  run(engine, 2);
  JobRequest request = greedy(prompt_of(1), 3);
  request.reuse_prefix = false;
  const auto job = engine.cache->submit(std::move(request));
  engine.run_to_idle();
  EXPECT_EQ(read_all(*job).terminal.usage.cached_tokens, 0);
  EXPECT_EQ(stats(engine).pages_restored, 0U);
}

TEST_F(PrefixStoreTest, HostMemoryNeverExceedsItsLimit) {
  constexpr uint64_t kBytes = 1000;
  FakeEngine engine = open(on_host(kBytes));
  for (uint64_t round = 0; round < 40; ++round) {
    run(engine, round % 7);
    EXPECT_LE(stats(engine).host_bytes, kBytes);
  }
  EXPECT_GT(stats(engine).host_pages, 0U);
}

TEST_F(PrefixStoreTest, PagesThatDoNotFitInHostMemoryAreWrittenToFiles) {
  PrefixStoreOptions options = in_files();
  options.host_bytes = 1000;
  FakeEngine engine = open(options);
  for (const uint64_t seed : {1, 2, 3, 4}) run(engine, seed);
  EXPECT_GT(stats(engine).host_pages, 0U);
  EXPECT_GT(stats(engine).file_pages, 0U);
  for (const uint64_t seed : {1, 2, 3, 4}) EXPECT_EQ(run(engine, seed), 20) << seed;
}

TEST_F(PrefixStoreTest, ALaterCacheFindsTheFilesOfAnEarlierOne) {
  EXPECT_EQ(file_prompt(1).size(), 5U);
  FakeEngine engine = open(in_files());
  EXPECT_EQ(stats(engine).file_pages, 5U);
  EXPECT_EQ(run(engine, 1), 20);
  EXPECT_EQ(stats(engine).pages_restored, 5U);
  EXPECT_EQ(run(engine, 2), 0);
}

TEST_F(PrefixStoreTest, PagesOfAnotherModelAreIgnored) {
  file_prompt(1);
  PrefixStoreOptions other = in_files();
  other.fingerprint = "model b";
  FakeEngine engine = open(other);
  EXPECT_EQ(run(engine, 1), 0);
  EXPECT_EQ(stats(engine).files_refused, 0U);
}

TEST_F(PrefixStoreTest, AFlippedByteIsDetectedAndThePageIsComputed) {
  const std::vector<std::string> paths = file_prompt(1);
  const std::string& first = paths.front();
  const std::string whole = content(first);
  for (size_t place = 0; place < whole.size(); ++place) {
    std::string damaged = whole;
    damaged[place] = static_cast<char>(damaged[place] ^ (1 << place % 8));
    files.write(first, damaged);
    FakeEngine engine = open(in_files());
    EXPECT_LT(run(engine, 1), 20) << place;
    EXPECT_EQ(stats(engine).files_refused, 1U) << place;
    EXPECT_FALSE(files.is_file(first)) << place;
  }
}

TEST_F(PrefixStoreTest, FilesOfAnyLengthAndContentNeverGiveAWrongToken) {
  const std::vector<std::string> paths = file_prompt(1);
  uint64_t random = 7;
  const auto next = [&](size_t below) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    return static_cast<size_t>(random >> 33) % below;
  };
  std::vector<std::string> whole;
  for (const std::string& path : paths) whole.push_back(content(path));
  for (int32_t round = 0; round < 500; ++round) {
    for (size_t i = 0; i < paths.size(); ++i) files.write(paths[i], whole[i]);
    const std::string& path = paths[next(paths.size())];
    std::string damaged = whole[next(whole.size())];  // possibly content of another page
    switch (next(4)) {
      case 0:
        damaged.resize(next(damaged.size() + 1));
        break;
      case 1:
        damaged.append(next(50) + 1, 'x');
        break;
      case 2:
        for (size_t flips = next(20) + 1; flips > 0; --flips) damaged[next(damaged.size())] ^= 0x55;
        break;
      default:
        break;
    }
    files.write(path, damaged);
    if (next(3) == 0) files.break_reads(path);
    FakeEngine engine = open(in_files());
    run(engine, 1);
  }
}

TEST_F(PrefixStoreTest, ADirectoryNeverExceedsItsLimitAndTheOldestFilesAreRemovedFirst) {
  const uint64_t of_page = content(file_prompt(1).front()).size();
  const uint64_t most = 12 * of_page + of_page / 2;
  FakeEngine engine = open(in_files(most));
  for (uint64_t seed = 1; seed < 20; ++seed) {
    run(engine, seed);
    EXPECT_LE(stats(engine).file_bytes, most);
  }
  EXPECT_EQ(stats(engine).file_pages, 12U);
  EXPECT_EQ(run(engine, 1), 0);
  EXPECT_EQ(run(engine, 19), 20);
  EXPECT_TRUE(files.is_file("store/README"));
}

TEST_F(PrefixStoreTest, AFullDiskEndsNoJob) {
  files.break_writes();
  FakeEngine engine = open(in_files());
  for (uint64_t seed = 1; seed < 5; ++seed) run(engine, seed);
  EXPECT_EQ(stats(engine).file_pages, 0U);
}

TEST_F(PrefixStoreTest, AMissingDirectoryIsRefusedByName) {
  PrefixStoreOptions options = in_files();
  options.directory = "nowhere";
  expect_error(ErrorCode::invalid_argument, {"nowhere"}, [&] { open(options); });
}

TEST_F(PrefixStoreTest, PausedAndPreemptedJobsContinueWithTheSameTokens) {
  FakeEngine engine = open(on_host());
  std::vector<std::shared_ptr<Job>> jobs;
  for (uint64_t seed = 1; seed <= 12; ++seed)
    jobs.push_back(engine.cache->submit(greedy(prompt_of(seed), 9)));
  engine.run_to_idle();
  for (uint64_t seed = 1; seed <= 12; ++seed)
    EXPECT_EQ(read_all(*jobs[seed - 1]).tokens, fake_greedy(prompt_of(seed), 9, kVocab)) << seed;
  EXPECT_EQ(engine.executor->num_bad_reads(), 0);
}

}  // namespace
}  // namespace quire::testing
