// A tiny model of every family compared with the fp32 outputs of transformers: whole, in chunks, with other
// sequences, and on small pages. The models are in the shared folder, a few of them in the project.
#include <algorithm>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/models/golden_families.h"
#include "tests/core/models/golden_file.h"
#include "tests/core/models/greedy_continuation.h"
#include "tests/core/models/transformer_runner.h"

namespace quire::testing {
namespace {

class FamilyTest : public ::testing::TestWithParam<Family> {
 protected:
  void SetUp() override {
    directory_ = family_directory(GetParam());
    if (directory_.empty()) GTEST_SKIP() << GetParam().name << " is absent";
    const std::string refusal = refusal_of(directory_);
    if (!refusal.empty()) GTEST_SKIP() << refusal;
    model_ = load_model(directory_);
  }

  std::string golden() const { return directory_ + "/golden.safetensors"; }
  std::string directory_;
  std::shared_ptr<const Model> model_;
};

TEST_P(FamilyTest, LogitsAgree) {
  TransformerRunner whole(model_, {});
  const TokenIds ids = read_ids(golden(), "input_ids");
  const std::vector<float> expected = read_floats(golden(), "logits");
  const std::vector<float> logits = whole.logits(ids, 512);
  const double error = relative_rms(logits, expected);
  RecordProperty("relative_rms", std::to_string(error));
  EXPECT_LE(error, tolerance(2e-3, GetParam().f16_bound));
}

// Bit-identical on the CPU: the result of a token depends on its own sequence alone.
TEST_P(FamilyTest, ChunksPagesAndOtherSequencesChangeNothing) {
  const TokenIds ids = read_ids(golden(), "input_ids");
  const std::vector<float> whole = TransformerRunner(model_, {}).logits(ids, 512);
  RunnerOptions options;
  options.page_tokens = 4;
  options.num_pages = 8 * 128;
  TransformerRunner runner(model_, options);
  EXPECT_EQ(runner.logits(ids, 7, 3), whole);

  TokenIds others(ids.rbegin(), ids.rend());
  others.resize(41);
  const std::vector<float> alone = runner.logits(others, 41, 5);
  const std::vector<float> together = runner.step({{1, 0, others}, {2, 0, ids}});
  const auto middle = together.begin() + static_cast<ptrdiff_t>(alone.size());
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin()));
  EXPECT_TRUE(std::equal(whole.begin(), whole.end(), middle));
}

// Layers with a window reuse a few pages of four tokens in turn; table entries before the window name pages
// of another sequence.
TEST_P(FamilyTest, ReleasingPagesBeforeAWindowChangesNothing) {
  const auto model = load_model(directory_);
  const TokenIds ids = read_ids(golden(), "input_ids");
  const std::vector<float> whole = TransformerRunner(model, {}).logits(ids, 512);
  RunnerOptions options;
  options.page_tokens = 4;
  options.num_pages = 8 * 128;
  const TransformerShape shape = model->shape();
  int32_t window = 0;
  for (const LayerCacheSize& size : shape.caches) window = std::max(window, size.window);
  if (window == 0) GTEST_SKIP() << "no layer has a window";
  constexpr int32_t kChunk = 7;
  options.window_pages = (window + kChunk - 2) / options.page_tokens + 2;
  TransformerRunner runner(model, options);
  ASSERT_GT(runner.num_windows(), 0U);
  EXPECT_EQ(runner.logits(ids, kChunk, 3), whole);
  if (window < 64) {
    EXPECT_LT(options.window_pages * options.page_tokens, static_cast<int32_t>(ids.size()));
  }
}

TEST_P(FamilyTest, GreedyContinuationAgreesUpToTheFirstNearTie) {
  RunnerOptions options;
  options.page_tokens = 16;
  options.num_pages = options.max_sequences * GetParam().greedy_context / options.page_tokens;
  TransformerRunner runner(model_, options);
  expect_greedy_continuation(runner, golden());
}

INSTANTIATE_TEST_SUITE_P(Golden, FamilyTest, ::testing::ValuesIn(kFamilies),
                         [](const auto& family) { return std::string(family.param.name); });

}  // namespace
}  // namespace quire::testing
