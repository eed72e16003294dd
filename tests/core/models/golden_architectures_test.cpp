// Tiny models of each family compared with the fp32 outputs of transformers.
#include <gtest/gtest.h>

#include "tests/core/models/golden_file.h"
#include "tests/core/models/transformer_runner.h"

namespace quire::testing {
namespace {

// Returns the gap between first and second logit below which either token is accepted.
double near_tie() {
  return tolerance(0.01, 0.05);
}
constexpr int32_t kPromptTokens = 24;

class GoldenArchitecture : public ::testing::TestWithParam<const char*> {
 protected:
  std::string directory() const { return std::string(QUIRE_TEST_DATA) + "/architectures/" + GetParam(); }
};

TEST_P(GoldenArchitecture, LogitsAgree) {
  const std::string golden = directory() + "/golden.safetensors";
  TransformerRunner runner(load_model(directory()), {});
  const std::vector<float> logits = runner.logits(read_ids(golden, "input_ids"), 512);
  const double error = relative_rms(logits, read_floats(golden, "logits"));
  RecordProperty("relative_rms", std::to_string(error));
  EXPECT_LE(error, tolerance(2e-3, 1e-2));
}

// Hidden states, from which embeddings are made: multiplied by the vocabulary matrix of the file, they give
// the logits that transformers computed.
TEST_P(GoldenArchitecture, StatesAreTheInputOfTheHead) {
  const std::string golden = directory() + "/golden.safetensors";
  const std::string weights = directory() + "/model.safetensors";
  RunnerOptions options;
  options.wants_hidden = true;
  TransformerRunner runner(load_model(directory()), options);
  const TokenIds ids = read_ids(golden, "input_ids");
  runner.logits(ids, 512);
  const std::vector<float> states = runner.hidden(static_cast<int32_t>(ids.size()));
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
  EXPECT_LE(relative_rms(logits, read_floats(golden, "logits")), tolerance(2e-3, 1e-2));
}

TEST_P(GoldenArchitecture, GreedyContinuationAgreesUpToTheFirstNearTie) {
  const std::string golden = directory() + "/golden.safetensors";
  TokenIds ids = read_ids(golden, "input_ids");
  ids.resize(kPromptTokens);
  const TokenIds expected = read_ids(golden, "greedy24");
  const std::vector<float> gap = read_floats(golden, "greedy24_gap");
  TransformerRunner runner(load_model(directory()), {});
  const int32_t vocab = runner.vocab_size();
  const double tie = near_tie();
  std::vector<float> rows = runner.logits(ids, 512);
  for (size_t i = 0; i < expected.size(); ++i) {
    const TokenId token = arg_max(rows.data() + rows.size() - static_cast<size_t>(vocab), vocab);
    if (gap[i] < tie && token != expected[i]) return;
    ASSERT_EQ(token, expected[i]) << "token " << i << ", gap " << gap[i];
    rows = runner.step({{0, kPromptTokens + static_cast<int32_t>(i), {token}}});
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenArchitecture,
                         ::testing::Values("llama3", "llama_tied", "llama_bias_linear_rope", "mistral",
                                           "qwen2"));

}  // namespace
}  // namespace quire::testing
