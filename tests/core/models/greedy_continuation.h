// Greedy continuation of a golden prompt, compared with another program's.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/core/models/golden_file.h"
#include "tests/core/models/transformer_runner.h"

namespace quire::testing {

// Tokens of `input_ids` that the golden continuation `greedy24` follows.
constexpr int32_t kGreedyPromptTokens = 24;

// Compares the greedy tokens of a model with those of the golden file, up to the first position at which the
// two largest logits differ by less than `near_tie` and the tokens differ.
inline void expect_greedy_continuation(TransformerRunner& runner, const std::string& golden) {
  const double near_tie = tolerance(0.01, 0.05);  // gap below which either token is accepted
  TokenIds ids = read_ids(golden, "input_ids");
  ids.resize(kGreedyPromptTokens);
  const TokenIds expected = read_ids(golden, "greedy24");
  const std::vector<float> gap = read_floats(golden, "greedy24_gap");
  const int32_t vocab = runner.vocab_size();
  std::vector<float> rows = runner.logits(ids, 512);
  for (size_t i = 0; i < expected.size(); ++i) {
    const TokenId token = arg_max(rows.data() + rows.size() - static_cast<size_t>(vocab), vocab);
    if (gap[i] < near_tie && token != expected[i]) return;
    ASSERT_EQ(token, expected[i]) << "token " << i << ", gap " << gap[i];
    rows = runner.step({{0, kGreedyPromptTokens + static_cast<int32_t>(i), {token}}});
  }
}

}  // namespace quire::testing
