// Drafts on real models: no drafter changes a bit, and text that repeats itself takes fewer steps.
#include <iostream>

#include <gtest/gtest.h>

#include "tests/core/models/golden_file.h"
#include "tests/core/models/still_cache.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/case_stride.h"
#include "tests/support/fake_drafter.h"
#include "tests/support/golden_families.h"
#include "tests/support/random_schedule.h"

namespace quire::testing {
namespace {

std::shared_ptr<const Model> embedded_model() {
  static const std::shared_ptr<const Model> model = load_model(QUIRE_EMBEDDED_MODEL);
  return model;
}

// Sentences that the model continues by repeating them.
std::string repetitive_text() {
  std::string text;
  for (int32_t i = 0; i < 6; ++i)
    text += "The king gave the boy a red apple, and the boy gave the apple to the dog. ";
  return text;
}

std::vector<JobRequest> requests(const Tokenizer& tokenizer) {
  std::vector<JobRequest> all;
  const auto add = [&](auto change) {
    JobRequest request = greedy(tokenizer.encode(repetitive_text()), 60);
    request.sampling.seed = all.size();
    request.ignore_end_tokens = true;
    change(request);
    all.push_back(request);
    request.sampling.temperature = 0.7F;
    all.push_back(std::move(request));
  };
  add([](JobRequest&) {});
  add([](JobRequest& of) { of.sampling.top_p = 0.9F, of.sampling.top_k = 40, of.sampling.min_p = 0.05F; });
  add([](JobRequest& of) { of.sampling.repetition_penalty = 1.05F, of.sampling.frequency_penalty = 0.05F; });
  add([](JobRequest& of) { of.sampling.dry_multiplier = 0.1F; });
  add([](JobRequest& of) { of.sampling.mirostat_tau = 3.0F; });
  add([](JobRequest& of) { of.want_log_probs = true; });
  add([](JobRequest& of) { of.num_top_log_probs = 4; });
  add([](JobRequest& of) { of.banned_strings = {"red"}; });
  add([](JobRequest& of) { of.stop_strings = {"dog. The king gave the boy a red apple, and"}; });
  add([](JobRequest& of) { of.loop_guard = {40, 3}; });
  add([&](JobRequest& of) {
    of.negative_prompt = tokenizer.encode("A cat sat on a mat. ");
    of.guidance_scale = 1.2F;
  });
  return all;
}

TEST(ModelDraftingTest, NGramsChangeNoBit) {
  const auto model = embedded_model();
  ModelCacheOptions options = small_cache();
  std::vector<KnownJob> known;
  for (const JobRequest& request : requests(model->tokenizer()))
    known.push_back({request, run_alone(*still_cache(model, options), request)});
  for (const int32_t max_drafts : thin_if_sanitized(std::vector{4, 1, kMaxDrafts}, 3)) {
    options.engine.drafting = {DrafterKind::ngram, max_drafts};
    uint64_t num_accepted = 0;
    for (const KnownJob& job : known) {
      const auto cache = still_cache(model, options);
      ASSERT_EQ(difference(run_alone(*cache, job.request), job.alone), "") << "job " << &job - known.data();
      num_accepted += cache->stats().draft_tokens_accepted;
    }
    EXPECT_GT(num_accepted, 100U);
    std::mt19937_64 random(static_cast<uint64_t>(max_drafts));
    for (int32_t round = 0; round < 2; ++round)
      ASSERT_EQ(run_random_schedule(*still_cache(model, options), known, random), "") << max_drafts;
  }
}

TEST(ModelDraftingTest, RepetitiveTextTakesFewSteps) {
  const auto model = embedded_model();
  ModelCacheOptions options = small_cache();
  options.engine.drafting = {DrafterKind::ngram, 4};
  const auto cache = still_cache(model, options);
  const auto job = cache->submit(greedy(model->tokenizer().encode(repetitive_text()), 120));
  int32_t num_steps = 0;
  while (cache->thread().run_once() == StepOutcome::advanced)
    num_steps += job->result().new_tokens > 1 ? 1 : 0;
  const double per_step = static_cast<double>(job->result().new_tokens - 1) / num_steps;
  std::cout << "[          ] " << per_step << " tokens a step\n";
  EXPECT_GE(per_step, 2.5);
}

// Families with recurrent states, and some others.
class DraftingFamilies : public ::testing::TestWithParam<const char*> {};

TEST_P(DraftingFamilies, RightAndWrongDraftsChangeNoBit) {
  const FamilyDirectory directory(GetParam());
  const std::string refusal = refusal_of(directory.path());
  if (!refusal.empty()) GTEST_SKIP() << refusal;
  const auto model = load_model(directory.path());
  const TokenIds ids = read_ids(directory.golden(), "input_ids");
  ModelCacheOptions options = small_cache();
  options.max_seq_len = std::min<int64_t>(256, model->config().max_positions);
  auto texts = std::make_shared<KnownTexts>();
  texts->chance = 0.8;
  std::vector<KnownJob> known;
  for (size_t i = 0; i < 4; ++i) {
    JobRequest request = greedy({ids.begin(), ids.begin() + static_cast<ptrdiff_t>(3 + 5 * i)}, 60);
    request.ignore_end_tokens = true;
    request.sampling.seed = i;
    request.sampling.temperature = i % 2 == 0 ? 0.0F : 1.0F;
    request.want_log_probs = true;
    known.push_back({request, run_alone(*still_cache(model, options), request)});
    TokenIds text = request.prompt;
    const TokenIds& answer = known.back().alone.said.tokens;
    text.insert(text.end(), answer.begin(), answer.end());
    texts->texts.push_back(std::move(text));
  }
  options.engine.drafting = {DrafterKind::automatic, kMaxDrafts};
  options.engine.drafter = std::make_shared<FakeDrafter>(texts, 60, 1);
  const auto cache = still_cache(model, options);
  std::mt19937_64 random(5);
  for (int32_t round = 0; round < 3; ++round) ASSERT_EQ(run_random_schedule(*cache, known, random), "");
  EXPECT_GT(cache->stats().draft_tokens_accepted, 30U);
  EXPECT_GT(cache->stats().draft_tokens - cache->stats().draft_tokens_accepted, 10U);
}

INSTANTIATE_TEST_SUITE_P(Families, DraftingFamilies,
                         ::testing::Values("qwen3_next", "qwen3_5", "qwen3_5_moe", "kimi_linear",
                                           "bailing_hybrid", "mamba2", "bamba", "granitemoehybrid",
                                           "nemotron_h", "falcon_h1", "jamba", "minimax", "lfm2",
                                           "olmo_hybrid", "mamba", "falcon_mamba", "gemma3", "gpt_oss",
                                           "llama3"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace quire::testing
