// Trained models compared with the outputs of transformers (fp32), ExLlamaV2 and ExLlamaV3 (fp16 on a GPU):
// the embedded one, and those of the shared folder if they exist.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/core/models/golden_file.h"
#include "tests/core/models/transformer_runner.h"

namespace quire::testing {
namespace {

double near_tie() {
  return tolerance(0.01, 0.05);
}

struct GoldenCase {
  std::string model;    // its directory
  std::string outputs;  // directory of the reference
  const char* file;     // has the reference logits
  double max_relative_rms;
};

const std::string kModels = std::string(QUIRE_SHARED_DIR) + "/models/";

std::vector<GoldenCase> golden_cases() {
  const std::string committed = std::string(QUIRE_TEST_DATA) + "/models/story-15m-exl2-4.0bpw";
  std::vector<GoldenCase> cases = {{QUIRE_EMBEDDED_MODEL, committed, "golden_exl2.safetensors", 1e-2}};
  for (const char* name : {"story-15m", "story-3m"}) {
    const std::string path = kModels + name;
    if (exists(path + "/config.json")) cases.push_back({path, path, "golden_logits.safetensors", 2e-3});
  }
  for (const char* name : {"story-3m-exl2-5.0bpw", "story-3m-gptq-g128", "story-3m-gptq-g64-act"}) {
    const std::string path = kModels + name;
    if (exists(path + "/config.json")) cases.push_back({path, path, "golden_exl2.safetensors", 1e-2});
  }
  return cases;
}

class GoldenModel : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(GoldenModel, PromptLogitsAgree) {
  const std::string& outputs = GetParam().outputs;
  const std::vector<GoldenPrompt> prompts = read_golden_prompts(outputs + "/golden.json");
  TransformerRunner runner(load_model(GetParam().model), {});
  ASSERT_EQ(prompts.size(), 3U);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto expected = read_floats(outputs + "/" + GetParam().file, "logits" + std::to_string(i));
    const double error = relative_rms(runner.logits(prompts[i].ids, 512), expected);
    RecordProperty("relative_rms_" + std::to_string(i), std::to_string(error));
    EXPECT_LE(error, tolerance(GetParam().max_relative_rms, 1e-2)) << prompts[i].prompt;
  }
}

INSTANTIATE_TEST_SUITE_P(Stories, GoldenModel, ::testing::ValuesIn(golden_cases()));

// Models that ExLlamaV3 made, compared with transformers in fp32 with the same matrices, and with ExLlamaV3's
// own kernels in fp16.
class GoldenExl3 : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!exists(directory() + "/config.json")) GTEST_SKIP() << "no " << directory();
    if (const std::string refusal = refusal_of(directory()); !refusal.empty()) GTEST_SKIP() << refusal;
  }
  static std::string directory() { return kModels + GetParam(); }
  static double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
    EXPECT_EQ(a.size(), b.size());
    double largest = 0.0;
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
      largest = std::max(largest, std::abs(double{a[i]} - double{b[i]}));
    return largest;
  }
};

TEST_P(GoldenExl3, LogitsAgree) {
  const std::string golden = directory() + "/golden_exl3.safetensors";
  const auto prompts = read_golden_prompts(directory() + "/golden_exl3.json", "", "exact_");
  ASSERT_EQ(prompts.size(), 3U);
  TransformerRunner runner(load_model(directory()), {});
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::vector<float> exact = read_floats_or_empty(golden, "exact_logits" + std::to_string(i));
    if (exact.empty()) continue;  // the small models have the logits of the first prompt only
    for (const int32_t chunk : {512, 1}) {
      const std::vector<float> logits = runner.logits(prompts[i].ids, chunk);
      // The reference has keys and values in f32, pages have them in f16.
      const double error = relative_rms(logits, exact);
      RecordProperty("relative_rms_" + std::to_string(i), std::to_string(error));
      EXPECT_LE(error, tolerance(1e-3, 1e-2)) << prompts[i].prompt;
      EXPECT_LE(largest_difference(logits, exact), 0.02);
      EXPECT_LE(largest_difference(logits, read_floats(golden, "kernel_logits" + std::to_string(i))), 0.02);
    }
  }
}

TEST_P(GoldenExl3, EachGreedyTokenIsTheArgMaxOfItsPrefix) {
  TransformerRunner runner(load_model(directory()), {});
  const int32_t vocab = runner.vocab_size();
  for (const GoldenPrompt& prompt : read_golden_prompts(directory() + "/golden_exl3.json", "", "exact_")) {
    TokenIds fed = prompt.ids;
    fed.insert(fed.end(), prompt.greedy.begin(), prompt.greedy.end() - 1);
    const std::vector<float> logits = runner.logits(fed, 512);
    for (size_t i = 0; i < prompt.greedy.size(); ++i) {
      const float* row = logits.data() + (prompt.ids.size() - 1 + i) * static_cast<size_t>(vocab);
      EXPECT_LE(row[arg_max(row, vocab)] - row[prompt.greedy[i]], near_tie())
          << prompt.prompt << ", token " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenExl3,
                         ::testing::Values("story-15m-exl3-4.0bpw-mcg", "story-3m-exl3-2.5bpw-mul1",
                                           "story-3m-exl3-4.0bpw-mul1", "story-3m-exl3-6.0bpw-3inst"));

// A trained model in floats, with greedy texts by transformers.
struct GreedyCase {
  const char* name;
  std::string directory;
  std::string golden;
  const char* under;  // member of `golden` with the prompts
};

// Returns the trained models in floats that exist. SmolLM2 is listed in any case, so that the reason is shown
// if it is skipped.
std::vector<GreedyCase> greedy_cases() {
  std::vector<GreedyCase> cases = {{"smollm2_135m", smollm2_directory(),
                                    std::string(QUIRE_TEST_DATA) + "/models/smollm2-135m.json", "prompts"}};
  const std::string story = kModels + "story-15m";
  if (exists(story + "/config.json")) cases.push_back({"story_15m", story, story + "/golden.json", ""});
  return cases;
}

class GoldenGreedy : public ::testing::TestWithParam<GreedyCase> {
 protected:
  void SetUp() override {
    if (GetParam().directory.empty()) GTEST_SKIP() << "QUIRE_SMOLLM2_DIR names no SmolLM2-135M-Instruct";
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

INSTANTIATE_TEST_SUITE_P(Models, GoldenGreedy, ::testing::ValuesIn(greedy_cases()),
                         [](const auto& greedy) { return std::string(greedy.param.name); });

}  // namespace
}  // namespace quire::testing
