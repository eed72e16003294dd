// Trained models compared with the outputs of transformers (fp32) and ExLlamaV2 (fp16 on a GPU).
#include <gtest/gtest.h>

#include "tests/core/models/golden_file.h"
#include "tests/core/models/transformer_runner.h"

namespace quire::testing {
namespace {

double near_tie() {
  return tolerance(0.01, 0.05);
}

struct GoldenCase {
  const char* name;
  const char* file;  // has the reference logits
  double max_relative_rms;
};

class GoldenModel : public ::testing::TestWithParam<GoldenCase> {
 protected:
  void SetUp() override {
    directory_ = std::string(QUIRE_SHARED_DIR) + "/models/" + GetParam().name;
    if (!exists(directory_ + "/config.json")) GTEST_SKIP() << directory_ << " is absent";
  }
  std::string directory_;
};

TEST_P(GoldenModel, PromptLogitsAgree) {
  const std::vector<GoldenPrompt> prompts = read_golden_prompts(directory_ + "/golden.json");
  TransformerRunner runner(load_model(directory_), {});
  ASSERT_EQ(prompts.size(), 3U);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto expected = read_floats(directory_ + "/" + GetParam().file, "logits" + std::to_string(i));
    const double error = relative_rms(runner.logits(prompts[i].ids, 512), expected);
    RecordProperty("relative_rms_" + std::to_string(i), std::to_string(error));
    EXPECT_LE(error, tolerance(GetParam().max_relative_rms, 1e-2)) << prompts[i].prompt;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Stories, GoldenModel,
    ::testing::Values(GoldenCase{"story-15m", "golden_logits.safetensors", 2e-3},
                      GoldenCase{"story-3m", "golden_logits.safetensors", 2e-3},
                      GoldenCase{"story-15m-exl2-4.0bpw", "golden_exl2.safetensors", 1e-2},
                      GoldenCase{"story-3m-exl2-5.0bpw", "golden_exl2.safetensors", 1e-2},
                      GoldenCase{"story-3m-gptq-g128", "golden_exl2.safetensors", 1e-2},
                      GoldenCase{"story-3m-gptq-g64-act", "golden_exl2.safetensors", 1e-2}));

// The model committed to the repository needs no shared folder.
TEST(EmbeddedModel, PromptLogitsAgreeWithExLlamaV2) {
  const std::string golden = std::string(QUIRE_TEST_DATA) + "/models/story-15m-exl2-4.0bpw";
  const std::vector<GoldenPrompt> prompts = read_golden_prompts(golden + "/golden.json");
  TransformerRunner runner(load_model(QUIRE_EMBEDDED_MODEL), {});
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto expected = read_floats(golden + "/golden_exl2.safetensors", "logits" + std::to_string(i));
    EXPECT_LE(relative_rms(runner.logits(prompts[i].ids, 512), expected), 1e-2) << prompts[i].prompt;
  }
}

// A trained model in floats, with greedy texts by transformers.
struct GreedyCase {
  const char* name;
  std::string directory;
  std::string golden;
  const char* under;  // member of `golden` with the prompts
};

class GoldenGreedy : public ::testing::TestWithParam<GreedyCase> {
 protected:
  void SetUp() override {
    if (!exists(GetParam().directory + "/config.json") || !exists(GetParam().golden)) {
      GTEST_SKIP() << "no model for " << GetParam().name << ", or no " << GetParam().golden;
    }
  }
  static std::vector<GoldenPrompt> prompts() {
    return read_golden_prompts(GetParam().golden, GetParam().under);
  }
};

TEST_P(GoldenGreedy, EachGoldenTokenIsTheArgMaxOfItsPrefix) {
  TransformerRunner runner(load_model(GetParam().directory), {});
  const int32_t vocab = runner.vocab_size();
  const double tie = near_tie();
  for (const GoldenPrompt& prompt : prompts()) {
    TokenIds fed = prompt.ids;
    fed.insert(fed.end(), prompt.greedy.begin(), prompt.greedy.end() - 1);
    const std::vector<float> logits = runner.logits(fed, 512);
    for (size_t i = 0; i < prompt.greedy.size(); ++i) {
      const float* row = logits.data() + (prompt.ids.size() - 1 + i) * static_cast<size_t>(vocab);
      const float best = row[arg_max(row, vocab)];
      EXPECT_LE(best - row[prompt.greedy[i]], tie) << prompt.prompt << ", token " << i;
    }
  }
}

TEST_P(GoldenGreedy, GeneratedTextIsEqualUpToTheFirstNearTie) {
  TransformerRunner runner(load_model(GetParam().directory), {});
  const int32_t vocab = runner.vocab_size();
  const double tie = near_tie();
  for (const GoldenPrompt& prompt : prompts()) {
    std::vector<float> rows = runner.logits(prompt.ids, 512);
    for (size_t i = 0; i < prompt.greedy.size(); ++i) {
      const TokenId token = arg_max(rows.data() + rows.size() - static_cast<size_t>(vocab), vocab);
      if (prompt.gap[i] < tie && token != prompt.greedy[i]) break;
      ASSERT_EQ(token, prompt.greedy[i]) << prompt.prompt << ", token " << i;
      rows = runner.step({{0, static_cast<int32_t>(prompt.ids.size() + i), {token}}});
    }
  }
}

const std::string kStory = std::string(QUIRE_SHARED_DIR) + "/models/story-15m";
INSTANTIATE_TEST_SUITE_P(Models, GoldenGreedy,
                         ::testing::Values(GreedyCase{"story_15m", kStory, kStory + "/golden.json", ""},
                                           GreedyCase{"smollm2_135m", smollm2_directory(),
                                                      std::string(QUIRE_SHARED_DIR) +
                                                          "/golden/real/smollm2-135m.json",
                                                      "prompts"}),
                         [](const auto& greedy) { return std::string(greedy.param.name); });

}  // namespace
}  // namespace quire::testing
