// Tiny models with stored weights, compared with the fp32 outputs of transformers at all of 96 positions:
// those in the project, and those in the shared folder if it exists.
#include <filesystem>

#include <gtest/gtest.h>

#include "tests/core/models/golden_file.h"
#include "tests/core/models/greedy_continuation.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/case_stride.h"
#include "tests/support/golden_families.h"

namespace quire::testing {
namespace {

// Returns the directory of a family with stored weights; empty if there is none.
std::string stored_directory(const std::string& family) {
  for (const char* root : {QUIRE_TEST_DATA "/architectures/", QUIRE_SHARED_DIR "/golden/architectures/",
                           QUIRE_SHARED_DIR "/golden/architectures3/"}) {
    if (std::filesystem::is_directory(root + family)) return root + family;
  }
  return {};
}

// Leaves out outputs that have a fault of the program that made them (tests/golden/derived/README.md).
std::vector<std::string> families_with_stored_weights() {
  std::vector<std::string> names = golden_families();
  std::erase_if(names, [](const std::string& name) {
    return stored_directory(name).empty() || name == "falcon_rw" || name == "youtu";
  });
  return names;
}

std::string family_name(const ::testing::TestParamInfo<std::string>& family) {
  return family.param;
}

class GoldenArchitecture : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string refusal = refusal_of(directory_);
    if (!refusal.empty()) GTEST_SKIP() << refusal;
  }

  // Returns the tolerance with 16-bit activations. Small differences change which key is selected or, with
  // one expert for each token, which expert.
  static double f16_bound() { return GetParam() == "glm_moe_dsa" || GetParam() == "llama4" ? 2e-2 : 1e-2; }

  const std::string directory_ = stored_directory(GetParam());
  const std::string golden_ = directory_ + "/golden.safetensors";
};

TEST_P(GoldenArchitecture, LogitsAgree) {
  TransformerRunner runner(load_model(directory_), {});
  const std::vector<float> logits = runner.logits(read_ids(golden_, "input_ids"), 512);
  const double error = relative_rms(logits, read_floats(golden_, "logits"));
  RecordProperty("relative_rms", std::to_string(error));
  EXPECT_LE(error, tolerance(2e-3, f16_bound()));
}

TEST_P(GoldenArchitecture, GreedyContinuationAgreesUpToTheFirstNearTie) {
  RunnerOptions options;
  options.page_tokens = 16;
  options.num_pages = 4 * options.max_sequences;
  // Factors of a long rope are chosen by the longest sequence; this reference has the short ones.
  if (GetParam() == "phi3_longrope") options.max_seq_len = 64;
  TransformerRunner runner(load_model(directory_), options);
  expect_greedy_continuation(runner, golden_);
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenArchitecture,
                         ::testing::ValuesIn(thin_if_sanitized(families_with_stored_weights(), 4)),
                         family_name);

class GoldenStates : public ::testing::TestWithParam<std::string> {};

// Hidden states, from which embeddings are made: multiplied by the vocabulary matrix of the file, they give
// the logits that transformers computed.
TEST_P(GoldenStates, AreTheInputOfTheHead) {
  const FamilyDirectory directory(GetParam());
  RunnerOptions options;
  options.wants_hidden = true;
  TransformerRunner runner(load_model(directory.path()), options);
  const TokenIds ids = read_ids(directory.golden(), "input_ids");
  runner.logits(ids, 512);
  const std::vector<float> states = runner.hidden(static_cast<int32_t>(ids.size()));
  const std::string weights = directory.path() + "/model.safetensors";
  std::vector<float> head = read_floats_or_empty(weights, "lm_head.weight");
  if (head.empty()) head = read_floats(weights, "model.embed_tokens.weight");
  const size_t columns = states.size() / ids.size();
  const auto vocab = static_cast<size_t>(runner.vocab_size());
  ASSERT_EQ(head.size(), vocab * columns);
  std::vector<float> logits(ids.size() * vocab);
  for (size_t i = 0; i < logits.size(); ++i) {
    double sum = 0.0;
    for (size_t column = 0; column < columns; ++column)
      sum += double{states[i / vocab * columns + column]} * head[i % vocab * columns + column];
    logits[i] = static_cast<float>(sum);
  }
  EXPECT_LE(golden_error(logits, directory.golden()), tolerance(2e-3, 1e-2));
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenStates,
                         ::testing::Values("llama3", "llama_tied", "llama_bias_linear_rope", "mistral",
                                           "qwen2"),
                         family_name);

}  // namespace
}  // namespace quire::testing
