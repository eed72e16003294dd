// Tiny models of each family compared with the fp32 outputs of transformers.
#include <gtest/gtest.h>

#include "tests/core/models/golden_file.h"
#include "tests/core/models/greedy_continuation.h"
#include "tests/core/models/transformer_runner.h"

namespace quire::testing {
namespace {

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
  TransformerRunner runner(load_model(directory()), {});
  expect_greedy_continuation(runner, directory() + "/golden.safetensors");
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenArchitecture,
                         ::testing::Values("llama3", "llama_tied", "llama_bias_linear_rope", "mistral",
                                           "qwen2"));

}  // namespace
}  // namespace quire::testing
