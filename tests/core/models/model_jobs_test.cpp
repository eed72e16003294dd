// The embedded model in the engine: sixteen jobs at once, half of them cancelled midway, compared with each
// job run alone.
#include <thread>

#include <gtest/gtest.h>

#include "core/engine/model/model_cache.h"
#include "tests/core/models/golden_file.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/job_tokens.h"
#include "tests/support/temp_directory.h"

namespace quire::testing {
namespace {

constexpr int32_t kNumJobs = 16;

std::shared_ptr<Engine> make_cache(const std::shared_ptr<const Model>& model, int32_t page_tokens) {
  ModelCacheOptions options;
  options.page_tokens = page_tokens;
  options.max_batch_size = kNumJobs;
  options.max_chunk_tokens = 64;
  options.max_tokens = 4096;
  options.max_seq_len = 512;
  options.engine.check_invariants = true;
  return create_model_cache(Runtime::create({}), model, options);
}

// Prompts of mixed lengths, some with a common prefix; greedy and sampled jobs.
JobRequest request_of(const Model& model, int32_t index) {
  const std::string story =
      "Once upon a time there was a king who had three sons and a great deal of trouble. ";
  std::string prompt;
  for (int32_t i = 0; i <= index % 5; ++i) prompt += story;
  prompt += "The number of the day is " + std::to_string(index % 3);
  JobRequest request;
  request.prompt = model.tokenizer().encode(prompt);
  request.max_new_tokens = 8 + 5 * (index % 7);
  request.ignore_end_tokens = true;
  request.sampling.temperature = index % 2 == 0 ? 0.0f : 0.9f;
  request.sampling.seed = static_cast<uint64_t>(index);
  return request;
}

void expect_sound_census(const Engine& cache) {
  const PageStats pages = cache.stats().pages;
  EXPECT_EQ(pages.free + pages.cached + pages.referenced, pages.total);
  EXPECT_EQ(pages.referenced, 0);
}

struct Answer {
  TokenIds tokens;
  std::vector<float> log_probs;
  int32_t cached_tokens = 0;

  bool operator==(const Answer& other) const {
    return tokens == other.tokens && log_probs == other.log_probs;  // bit-identical
  }
};

Answer answer(Engine& cache, const TokenIds& prompt) {
  JobRequest request;
  request.prompt = prompt;
  request.max_new_tokens = 24;
  request.ignore_end_tokens = request.want_log_probs = true;
  request.sampling.temperature = 0.0F;
  const auto job = cache.submit(std::move(request));
  Answer said;
  while (const auto event = job->poll(kPatience)) {
    said.tokens.insert(said.tokens.end(), event->token_ids.begin(), event->token_ids.end());
    said.log_probs.insert(said.log_probs.end(), event->log_probs.begin(), event->log_probs.end());
    if (!event->terminal()) continue;
    said.cached_tokens = event->usage.cached_tokens;
    break;
  }
  return said;
}

TokenIds story_prompt(const Model& model, int32_t variant) {
  TokenIds prompt;
  while (prompt.size() < 100) {
    const TokenIds more =
        model.tokenizer().encode("Chapter " + std::to_string(variant) + " of a long story. ");
    prompt.insert(prompt.end(), more.begin(), more.end());
  }
  prompt.resize(100);
  return prompt;
}

struct Kept {
  kernels::KvFormat format;
  int32_t num_shards;
};

class OffloadedPrefixTest : public ::testing::TestWithParam<Kept> {
 protected:
  void SetUp() override {
    if (model_ == nullptr) GTEST_SKIP() << "this device does not split layers";
  }

  std::shared_ptr<Engine> open(const PrefixStoreOptions& prefixes) const {
    ModelCacheOptions options;
    options.page_tokens = 16;
    options.max_batch_size = 2;
    options.max_tokens = options.max_seq_len = 160;
    options.key_format = options.value_format = GetParam().format;
    options.engine.prefixes = prefixes;
    options.engine.check_invariants = true;
    return create_model_cache(Runtime::create({}), model_, options);
  }

  // Returns null if the device does not support shards.
  std::shared_ptr<const Model> load() const {
    ModelOptions options;
    options.source = open_model_source(posix_file_system(), QUIRE_EMBEDDED_MODEL);
    options.devices = {open_test_device()};
    const bool cuts = options.devices.front()->has(kernels::kCapabilityShards);
    if (GetParam().num_shards > 1 && !cuts) return nullptr;
    options.num_shards = GetParam().num_shards;
    return Model::load(options);
  }

  const std::shared_ptr<const Model> model_ = load();
};

TEST_P(OffloadedPrefixTest, GiveTheSameBitsAsComputingThem) {
  const TokenIds prompt = story_prompt(*model_, 1);
  const Answer computed = answer(*open({}), prompt);
  PrefixStoreOptions on_host;
  on_host.host_bytes = 16 << 20;
  const auto cache = open(on_host);
  EXPECT_EQ(answer(*cache, prompt), computed);
  answer(*cache, story_prompt(*model_, 2));
  answer(*cache, story_prompt(*model_, 3));
  const Answer back = answer(*cache, prompt);
  EXPECT_EQ(back, computed);
  EXPECT_EQ(back.cached_tokens, 96);
  EXPECT_GT(cache->stats().prefixes.pages_restored, 0U);
}

TEST_P(OffloadedPrefixTest, AreReloadedFromFilesByALaterCache) {
  const TempDirectory directory;
  PrefixStoreOptions in_files;
  in_files.directory = directory.path();
  in_files.directory_bytes = 64 << 20;
  const TokenIds prompt = story_prompt(*model_, 1);
  const Answer computed = answer(*open(in_files), prompt);
  const auto later = open(in_files);
  const Answer back = answer(*later, prompt);
  EXPECT_EQ(back, computed);
  EXPECT_EQ(back.cached_tokens, 96);
  EXPECT_EQ(later->stats().prefixes.files_refused, 0U);
}

INSTANTIATE_TEST_SUITE_P(Formats, OffloadedPrefixTest,
                         ::testing::Values(Kept{kernels::KvFormat::f16, 1}, Kept{kernels::KvFormat::q8, 1},
                                           Kept{kernels::KvFormat::q4, 1}, Kept{kernels::KvFormat::f16, 2}),
                         [](const auto& of) { return "Case" + std::to_string(of.index); });

class ModelJobs : public ::testing::TestWithParam<int32_t> {};

TEST_P(ModelJobs, CancelledJobsDoNotChangeTheTokensOfOthers) {
  const auto model = load_model(QUIRE_EMBEDDED_MODEL);
  std::vector<TokenIds> alone;
  for (int32_t i = 0; i < kNumJobs; ++i) {
    const auto cache = make_cache(model, GetParam());
    alone.push_back(tokens_of(*cache->submit(request_of(*model, i))));
    ASSERT_EQ(static_cast<int32_t>(alone.back().size()), request_of(*model, i).max_new_tokens);
  }

  const auto cache = make_cache(model, GetParam());
  std::vector<std::shared_ptr<Job>> jobs;
  for (int32_t i = 0; i < kNumJobs; ++i) jobs.push_back(cache->submit(request_of(*model, i)));
  std::vector<TokenIds> together(kNumJobs);
  std::vector<std::thread> readers;
  for (int32_t i = 0; i < kNumJobs; ++i) {
    readers.emplace_back([&, i] {
      Job& job = *jobs[static_cast<size_t>(i)];
      const bool is_victim = i % 2 == 1;
      while (const auto event = job.poll(kPatience)) {
        TokenIds& mine = together[static_cast<size_t>(i)];
        mine.insert(mine.end(), event->token_ids.begin(), event->token_ids.end());
        if (event->terminal()) break;
        if (is_victim && mine.size() >= 3) job.cancel();
      }
    });
  }
  for (std::thread& reader : readers) reader.join();

  for (int32_t i = 0; i < kNumJobs; ++i) {
    const auto index = static_cast<size_t>(i);
    const JobResult result = jobs[index]->result();
    if (i % 2 == 0) {
      EXPECT_EQ(result.reason, FinishReason::max_new_tokens) << "job " << i;
      EXPECT_EQ(together[index], alone[index]) << "job " << i;
    } else {
      // The tokens of a cancelled job before its cancellation are correct, too.
      const TokenIds head(alone[index].begin(),
                          alone[index].begin() +
                              static_cast<ptrdiff_t>(std::min(together[index].size(), alone[index].size())));
      EXPECT_EQ(together[index], head) << "job " << i;
    }
  }
  jobs.clear();
  expect_sound_census(*cache);
  EXPECT_GT(cache->stats().cancelled_jobs, 0U);
}

INSTANTIATE_TEST_SUITE_P(PageTokens, ModelJobs, ::testing::Values(4, 256));

TEST(ModelCache, WithoutATokenizerEachTokenIsReportedAtOnce) {
  const auto model = load_model(std::string(QUIRE_TEST_DATA) + "/architectures/llama3");
  ASSERT_EQ(model->shared_tokenizer(), nullptr);
  const auto cache = make_cache(model, 256);
  JobRequest request;
  request.prompt = {1, 2, 3};
  request.max_new_tokens = 6;
  request.ignore_end_tokens = true;
  const auto job = cache->submit(request);
  int32_t num_events = 0;
  while (const auto event = job->poll(kPatience)) {
    if (!event->token_ids.empty()) ++num_events;
    if (event->terminal()) break;
  }
  EXPECT_EQ(num_events, request.max_new_tokens);
}

TEST(ModelCache, AScoringJobGivesTheLogProbabilitiesOfTheLogits) {
  const auto model = load_model(QUIRE_EMBEDDED_MODEL);
  const auto cache = make_cache(model, 256);
  JobRequest request;
  request.kind = JobKind::score;
  request.prompt =
      model->tokenizer().encode("The king was glad, and the queen was glad, and all the people sang.");
  request.want_raw_logits = true;
  const auto job = cache->submit(request);
  ASSERT_TRUE(job->wait(kPatience));
  const std::vector<float> logits = TransformerRunner(model, {}).logits(request.prompt, 512);
  EXPECT_EQ(job->raw_logits(), logits);
  EXPECT_EQ(job->scores().size(), request.prompt.size() - 1);
}

TEST(ModelCache, InvalidSizesAreRefusedByName) {
  const auto model = load_model(QUIRE_EMBEDDED_MODEL);
  const auto message_of = [&](const ModelCacheOptions& options) -> std::string {
    try {
      (void)create_model_cache(Runtime::create({}), model, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return error.what();
    }
    return "";
  };
  ModelCacheOptions options;
  options.page_tokens = 0;
  EXPECT_NE(message_of(options).find("page_tokens"), std::string::npos);
  options = {};
  options.max_seq_len = 1 << 20;
  EXPECT_NE(message_of(options).find("max_seq_len"), std::string::npos);
  options = {};
  options.max_chunk_tokens = -1;
  EXPECT_NE(message_of(options).find("max_chunk_tokens"), std::string::npos);
}

TEST(ModelCache, ABudgetIsRespectedAndReleased) {
  const auto model = load_model(QUIRE_EMBEDDED_MODEL);
  ModelCacheOptions options;
  options.max_tokens = 512;
  const uint64_t bytes =
      plan_model_cache(*model, options, *model->transformer()->stages.front().device).front();
  const std::string device = model->transformer()->stages.front().device->name();
  RuntimeOptions runtime_options;
  runtime_options.memory_budgets[device] = bytes + bytes / 2;
  const auto runtime = Runtime::create(runtime_options);
  auto cache = create_model_cache(runtime, model, options);
  EXPECT_EQ(runtime->leased_bytes(device), bytes);
  EXPECT_THROW((void)create_model_cache(runtime, model, options), Error);
  cache.reset();
  EXPECT_EQ(runtime->leased_bytes(device), 0U);
  EXPECT_NO_THROW((void)create_model_cache(runtime, model, options));
}

}  // namespace
}  // namespace quire::testing
