// Jobs on a model with two shards: they get the tokens of one shard, whatever runs at the same time, and with
// steps that are aborted or paused in the middle.
#include <gtest/gtest.h>

#include "core/engine/model/model_cache.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/job_tokens.h"

namespace quire::testing {
namespace {

constexpr int32_t kNumJobs = 8;

std::shared_ptr<Engine> make_cache(const std::shared_ptr<const Model>& model) {
  ModelCacheOptions options;
  options.page_tokens = 8;
  options.max_batch_size = kNumJobs;
  options.max_chunk_tokens = 48;
  options.max_tokens = 2048;
  options.max_seq_len = 256;
  options.engine.check_invariants = true;
  return create_model_cache(Runtime::create({}), model, options);
}

// Some have a common prefix, so that prefixes are shared.
JobRequest request_of(const Model& model, int32_t index) {
  std::string prompt = "Once upon a time there was a king who had three sons and a great deal of trouble. ";
  if (index % 2 == 1) prompt += prompt;
  prompt += "The number of the day is " + std::to_string(index % 3);
  JobRequest request;
  request.prompt = model.tokenizer().encode(prompt);
  request.max_new_tokens = 6 + 3 * index;
  request.ignore_end_tokens = true;
  request.sampling.temperature = index % 2 == 0 ? 0.0f : 0.9f;
  request.sampling.seed = static_cast<uint64_t>(index);
  return request;
}

class ShardedJobs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!open_test_device()->has(kernels::kCapabilityShards))
      GTEST_SKIP() << "this device does not split layers";
    two_ = load_shards(QUIRE_EMBEDDED_MODEL, 2);
  }
  std::shared_ptr<const Model> two_;
};

TEST_F(ShardedJobs, GetTheTokensOfOneShardAloneAndTogether) {
  const auto one = load_model(QUIRE_EMBEDDED_MODEL);
  std::vector<TokenIds> expected;
  for (int32_t i = 0; i < kNumJobs; ++i)
    expected.push_back(tokens_of(*make_cache(one)->submit(request_of(*one, i))));
  const auto cache = make_cache(two_);
  for (int round = 0; round < 2; ++round) {  // the second round uses cached pages
    std::vector<std::shared_ptr<Job>> jobs;
    for (int32_t i = 0; i < kNumJobs; ++i) jobs.push_back(cache->submit(request_of(*two_, i)));
    for (int32_t i = 0; i < kNumJobs; ++i)
      EXPECT_EQ(tokens_of(*jobs[static_cast<size_t>(i)]), expected[static_cast<size_t>(i)]) << i;
  }
  const PageStats pages = cache->stats().pages;
  EXPECT_GT(pages.cached, 0);
  EXPECT_EQ(pages.referenced, 0);
}

TEST_F(ShardedJobs, TwoCachesOfAModelComputeSideBySide) {
  const auto first = make_cache(two_);
  const auto second = make_cache(two_);
  std::vector<std::shared_ptr<Job>> jobs;
  for (int32_t i = 0; i < kNumJobs; ++i) {
    jobs.push_back(first->submit(request_of(*two_, i)));
    jobs.push_back(second->submit(request_of(*two_, i)));
  }
  for (size_t i = 0; i < jobs.size(); i += 2) EXPECT_EQ(tokens_of(*jobs[i]), tokens_of(*jobs[i + 1]));
}

// Forks a running job, rewinds it, and lets both continue. Its text is then the same as before.
std::pair<TokenIds, TokenIds> forked_and_rewound(const std::shared_ptr<const Model>& model) {
  const auto cache = make_cache(model);
  JobRequest request = request_of(*model, 1);
  request.max_new_tokens = 40;
  request.slow_reader = SlowReaderPolicy::pause;  // so that it does not finish before it is forked
  request.max_unread_events = 2;
  const auto job = cache->submit(request);
  TokenIds said;
  while (said.size() < 8) {
    const auto event = job->poll(kPatience);
    if (!event || event->terminal()) break;
    said.insert(said.end(), event->token_ids.begin(), event->token_ids.end());
  }
  job->pause();
  job->rewind(5);
  ForkOptions options;
  options.seed = 11;
  const auto child = job->fork(options);
  job->resume();
  TokenIds rest;
  int32_t kept = -1;
  while (const auto event = job->poll(kPatience)) {
    if (event->kind == EventKind::rewind) {
      kept = event->kept_tokens;
      said.insert(said.end(), rest.begin(), rest.end());
      said.resize(static_cast<size_t>(kept));
      rest.clear();
    }
    rest.insert(rest.end(), event->token_ids.begin(), event->token_ids.end());
    if (event->terminal()) break;
  }
  EXPECT_GE(kept, 0) << "nothing was taken back";
  said.insert(said.end(), rest.begin(), rest.end());
  return {said, tokens_of(*child)};
}

TEST_F(ShardedJobs, ForksAndRewindsGenerateTheSameTextAsOnOneShard) {
  const auto one = load_model(QUIRE_EMBEDDED_MODEL);
  const auto expected = forked_and_rewound(one);
  EXPECT_EQ(expected.first.size(), 40U);
  EXPECT_EQ(expected.second.size(), 35U);
  EXPECT_EQ(forked_and_rewound(two_), expected);
}

TEST_F(ShardedJobs, AGuidedJobGeneratesTheSameTextAsOnOneShard) {
  const auto one = load_model(QUIRE_EMBEDDED_MODEL);
  JobRequest request = request_of(*one, 2);
  request.negative_prompt = one->tokenizer().encode("There was no king. ");
  request.guidance_scale = 1.5F;
  const TokenIds expected = tokens_of(*make_cache(one)->submit(request));
  EXPECT_EQ(expected.size(), 12U);
  const auto cache = make_cache(two_);
  const auto beside = cache->submit(request_of(*two_, 7));
  EXPECT_EQ(tokens_of(*cache->submit(request)), expected);
  request.guidance_scale = 4.0F;
  EXPECT_NE(tokens_of(*cache->submit(request)), expected) << "the scale counts";
}

// The second model is the same one with 8-bit activations, whose tokens are others.
TEST_F(ShardedJobs, TwoModelsWithDifferentShardsComputeSideBySide) {
  constexpr auto kByte = kernels::ActivationDtype::i8;
  const auto one = load_model(QUIRE_EMBEDDED_MODEL);
  const auto three = load_model(QUIRE_EMBEDDED_MODEL, kByte, 3);
  const auto other = load_model(QUIRE_EMBEDDED_MODEL, kByte);
  std::vector<TokenIds> expected, expected_of_other;
  for (int32_t i = 0; i < kNumJobs; ++i) {
    expected.push_back(tokens_of(*make_cache(one)->submit(request_of(*one, i))));
    expected_of_other.push_back(tokens_of(*make_cache(other)->submit(request_of(*other, i))));
  }
  EXPECT_NE(expected, expected_of_other);
  const auto first = make_cache(two_), second = make_cache(three);
  std::vector<std::shared_ptr<Job>> jobs;
  for (int32_t i = 0; i < kNumJobs; ++i) {
    jobs.push_back(first->submit(request_of(*two_, i)));
    jobs.push_back(second->submit(request_of(*three, i)));
  }
  for (size_t i = 0; i < jobs.size(); ++i)
    EXPECT_EQ(tokens_of(*jobs[i]), i % 2 == 0 ? expected[i / 2] : expected_of_other[i / 2]) << i;
}

TEST_F(ShardedJobs, CancelledJobsDoNotAffectTheOthers) {
  const auto cache = make_cache(two_);
  const TokenIds expected = tokens_of(*cache->submit(request_of(*two_, 6)));
  std::vector<std::shared_ptr<Job>> jobs;
  for (int32_t i = 0; i < kNumJobs; ++i) jobs.push_back(cache->submit(request_of(*two_, i)));
  for (int32_t i = 0; i < kNumJobs; ++i)
    if (i != 6) jobs[static_cast<size_t>(i)]->cancel();
  EXPECT_EQ(tokens_of(*jobs[6]), expected);
}

// Throws at one of the breaks.
class ThrowingBreaks final : public StepBreaks {
 public:
  explicit ThrowingBreaks(int32_t at) : left_(at) {}
  bool is_due(bool /*computes_within_call*/) override { return true; }
  void pause_or_cancel() override {
    if (left_-- == 0) throw Error(ErrorCode::cancelled, "the step was aborted");
  }

 private:
  int32_t left_;
};

Batch batch_of(const TokenIds& ids, const ExecutorLimits& limits) {
  Batch batch;
  batch.page_table_stride = limits.max_pages_per_sequence;
  batch.sequence_starts = {0, static_cast<int32_t>(ids.size())};
  batch.kv_lengths = {static_cast<int32_t>(ids.size())};
  for (size_t i = 0; i < ids.size(); ++i) {
    batch.token_ids.push_back(ids[i]);
    batch.positions.push_back(static_cast<int32_t>(i));
    batch.sequence_of_token.push_back(0);
  }
  for (int32_t page = 0; page < limits.max_pages_per_sequence; ++page) batch.page_table.push_back(page);
  batch.logit_rows = {static_cast<int32_t>(ids.size()) - 1};
  return batch;
}

TEST_F(ShardedJobs, AStepAbortedAtAnyBreakLeavesTheExecutorUsable) {
  TransformerExecutorOptions options;
  options.max_pages_per_sequence = 2;
  options.kv.num_pages = 2;
  TransformerExecutor executor(two_->transformer(), options);
  const Batch batch = batch_of({5, 6, 7, 8, 9}, executor.limits());
  const auto logits = [&] {
    const Ticket ticket = executor.forward(batch);
    executor.draw(ticket, {});
    const Drawn drawn = executor.wait(ticket);
    return std::vector<float>(drawn.values.begin(), drawn.values.end());
  };
  const std::vector<float> expected = logits();
  for (int32_t at = 0; at < executor.limits().num_breaks; ++at) {
    ThrowingBreaks breaks(at);
    executor.set_breaks(&breaks);
    try {
      executor.forward(batch);
      ADD_FAILURE() << "the step was not given up";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), "the step was aborted");
    }
    executor.set_breaks(nullptr);
    EXPECT_TRUE(logits() == expected) << at;
  }
}

}  // namespace
}  // namespace quire::testing
