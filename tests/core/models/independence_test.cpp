// The results of a sequence depend on that sequence alone: bit-identical alone or with others, in any chunks,
// with any page size.
#include <cstring>

#include <gtest/gtest.h>

#include "tests/core/models/golden_file.h"
#include "tests/core/models/transformer_runner.h"

namespace quire::testing {
namespace {

// Returns deterministic ids, which need not be a meaningful text.
TokenIds some_ids(int32_t count, int32_t vocab, uint32_t seed) {
  TokenIds ids;
  for (int32_t i = 0; i < count; ++i) {
    seed = seed * 1664525U + 1013904223U;
    ids.push_back(static_cast<TokenId>((seed >> 8) % static_cast<uint32_t>(vocab)));
  }
  return ids;
}

void expect_identical(const std::vector<float>& a, const std::vector<float>& b, const char* what) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << what;
}

using kernels::ActivationDtype;

class Independence : public ::testing::TestWithParam<ActivationDtype> {
 protected:
  void SetUp() override {
    if (!runs_activations(GetParam())) GTEST_SKIP() << "the device has no activations of 8 bits";
    model_ = load_model(QUIRE_EMBEDDED_MODEL, GetParam());
    alone_ = TransformerRunner(model_, {}).logits(ids_, 512);
  }

  std::shared_ptr<const Model> model_;
  TokenIds ids_ = some_ids(90, 6144, 7);
  std::vector<float> alone_;
};

TEST_P(Independence, OfTheChunks) {
  for (const int32_t chunk : {1, 3, 16, 17, 64}) {
    expect_identical(TransformerRunner(model_, {}).logits(ids_, chunk), alone_, "chunks");
  }
}

TEST_P(Independence, OfThePageSize) {
  for (const int32_t page_tokens : {4, 7, 32}) {
    RunnerOptions options;
    options.page_tokens = page_tokens;
    options.num_pages = 32 * options.max_sequences;
    expect_identical(TransformerRunner(model_, options).logits(ids_, 40), alone_, "pages");
  }
}

TEST_P(Independence, OfOtherSequences) {
  TransformerRunner runner(model_, {});
  std::vector<float> mine;
  const auto take = [&](const std::vector<float>& rows, size_t first_row, size_t num_rows) {
    const auto vocab = static_cast<size_t>(runner.vocab_size());
    mine.insert(mine.end(), rows.begin() + static_cast<ptrdiff_t>(first_row * vocab),
                rows.begin() + static_cast<ptrdiff_t>((first_row + num_rows) * vocab));
  };
  // A chunk between two others, then token by token next to a growing prompt.
  Feed own{2, 0, {ids_.begin(), ids_.begin() + 50}};
  take(runner.step({{0, 0, some_ids(33, 6144, 1)}, own, {5, 0, some_ids(7, 6144, 2)}}), 33, 50);
  for (int32_t position = 50; position < 90; ++position) {
    const Feed token{2, position, {ids_[static_cast<size_t>(position)]}};
    take(runner.step({{0, 33 + (position - 50), some_ids(1, 6144, 3)}, token}), 1, 1);
  }
  expect_identical(mine, alone_, "company");
}

INSTANTIATE_TEST_SUITE_P(Activations, Independence,
                         ::testing::Values(ActivationDtype::full, ActivationDtype::i8),
                         [](const auto& test) { return test.param == ActivationDtype::i8 ? "i8" : "full"; });

}  // namespace
}  // namespace quire::testing
