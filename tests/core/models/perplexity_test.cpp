// Perplexity of the trained models over the first 40,960 ids of the evaluation text: 80 windows of 512, each
// alone, with 511 predictions each. The references are transformers (F16 weights in fp32) and ExLlamaV2
// (fp16).
#include "tests/core/models/perplexity.h"

#include <gtest/gtest.h>

#include "tests/core/models/golden_file.h"
#include "tests/core/models/transformer_runner.h"

namespace quire::testing {
namespace {

using kernels::ActivationDtype;

constexpr int32_t kNumWindows = 80;

void expect_perplexity(const std::string& name, double value, double reference, double max_difference) {
  ::testing::Test::RecordProperty("perplexity", std::to_string(value));
  std::cout << name << ": " << value << " (reference " << reference << ")\n";
  EXPECT_NEAR(value, reference, max_difference);
}

struct PerplexityCase {
  const char* model;
  double reference;
  double max_difference;
  ActivationDtype activations = ActivationDtype::full;
};

std::string directory_of(const PerplexityCase& model) {
  if (std::string(model.model) == "embedded") return QUIRE_EMBEDDED_MODEL;
  return std::string(QUIRE_SHARED_DIR) + "/models/" + model.model;
}

// Returns the embedded model, and those of the shared folder if they exist.
std::vector<PerplexityCase> cases() {
  std::vector<PerplexityCase> all = {
      {"embedded", 43.764, 0.1},
      {"story-15m", 43.232, 0.02},
      {"story-3m-exl2-5.0bpw", 55.286, 0.1},
      {"story-3m-gptq-g128", 56.444, 0.1},
      {"story-3m-gptq-g64-act", 56.229, 0.1},
      // Loss of quality by 8-bit activations, relative to the same references.
      {"embedded", 43.764, 0.2, ActivationDtype::i8},
      {"story-3m-exl2-5.0bpw", 55.286, 0.2, ActivationDtype::i8},
      {"story-3m-gptq-g128", 56.444, 0.2, ActivationDtype::i8},
  };
  std::erase_if(all,
                [](const PerplexityCase& model) { return !exists(directory_of(model) + "/config.json"); });
  return all;
}

class Perplexity : public ::testing::TestWithParam<PerplexityCase> {};

TEST_P(Perplexity, AgreesWithTheReference) {
  if (!runs_activations(GetParam().activations)) GTEST_SKIP() << "the device has no such activations";
  const TokenIds ids = read_json_ids(std::string(QUIRE_TEST_DATA) + "/models/eval_ids.json");
  const auto model = load_model(directory_of(GetParam()), GetParam().activations);
  expect_perplexity(GetParam().model, perplexity(model, ids, kNumWindows), GetParam().reference,
                    tolerance(GetParam().max_difference, 0.1));
}

INSTANTIATE_TEST_SUITE_P(Stories, Perplexity, ::testing::ValuesIn(cases()));

// The first 16 windows, with the model's own tokenizer.
TEST(RealModel, PerplexityOfSmolLm2AgreesWithTransformers) {
  const std::string golden_path = std::string(QUIRE_TEST_DATA) + "/models/smollm2-135m.json";
  const std::string directory = smollm2_directory();
  if (directory.empty()) GTEST_SKIP() << "QUIRE_SMOLLM2_DIR names no SmolLM2-135M-Instruct";
  const GoldenPerplexity golden = read_golden_perplexity(golden_path);
  const auto num_windows = static_cast<int32_t>(golden.ids.size()) / kPerplexityWindow;
  expect_perplexity("SmolLM2-135M-Instruct", perplexity(load_model(directory), golden.ids, num_windows),
                    golden.value, tolerance(0.02, 0.1));
}

}  // namespace
}  // namespace quire::testing
