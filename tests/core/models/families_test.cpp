// A tiny model of every family compared with the fp32 outputs of transformers: whole, in chunks, with other
// sequences, and on small pages.
#include <algorithm>
#include <cstdint>
#include <set>

#include <gtest/gtest.h>

#include "core/config/architecture.h"
#include "core/config/model_config.h"
#include "tests/core/models/golden_file.h"
#include "tests/core/models/greedy_continuation.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/golden_families.h"

namespace quire::testing {
namespace {

class FamilyTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string refusal = refusal_of(directory_.path());
    if (!refusal.empty()) GTEST_SKIP() << refusal;
    model_ = load_model(directory_.path());
    ids_ = read_ids(directory_.golden(), "input_ids");
  }

  std::vector<float> whole_logits() const { return TransformerRunner(model_, {}).logits(ids_, 512); }

  const FamilyDirectory directory_{GetParam()};
  std::shared_ptr<const Model> model_;
  TokenIds ids_;
};

TEST_P(FamilyTest, LogitsAgree) {
  const double error = golden_error(whole_logits(), directory_.golden());
  RecordProperty("relative_rms", std::to_string(error));
  EXPECT_LE(error, tolerance(2e-3, 1e-2));
}

// Bit-identical on the CPU: the result of a token depends on its own sequence alone.
TEST_P(FamilyTest, ChunksPagesAndOtherSequencesChangeNothing) {
  const std::vector<float> whole = whole_logits();
  RunnerOptions options;
  options.page_tokens = 4;
  options.num_pages = 8 * 128;
  TransformerRunner runner(model_, options);
  EXPECT_EQ(runner.logits(ids_, 7, 3), whole);

  TokenIds others(ids_.rbegin(), ids_.rend());
  others.resize(41);
  const std::vector<float> alone = runner.logits(others, 41, 5);
  const std::vector<float> together = runner.step({{1, 0, others}, {2, 0, ids_}});
  const auto middle = together.begin() + static_cast<ptrdiff_t>(alone.size());
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin()));
  EXPECT_TRUE(std::equal(whole.begin(), whole.end(), middle));
}

TEST_P(FamilyTest, GreedyContinuationAgreesUpToTheFirstNearTie) {
  RunnerOptions options;
  options.page_tokens = 16;
  options.num_pages = 4 * options.max_sequences;
  TransformerRunner runner(model_, options);
  expect_greedy_continuation(runner, directory_.golden());
}

std::string family_name(const ::testing::TestParamInfo<std::string>& family) {
  return family.param;
}

INSTANTIATE_TEST_SUITE_P(Golden, FamilyTest, ::testing::ValuesIn(golden_families()), family_name);

// Returns the largest window of the layers; 0 if no layer has one. Layers that read the pages of another
// widen its window.
int32_t largest_window(const ModelConfig& config) {
  const std::vector<LayerSpec>& layers = config.spec.layers;
  std::vector<int32_t> windows(layers.size(), INT32_MAX);
  for (size_t i = 0; i < layers.size(); ++i) {
    const AttentionPart* const part = layers[i].find_attention();
    if (part == nullptr) continue;
    const auto pages = part->kv_source < 0 ? i : static_cast<size_t>(part->kv_source);
    const int32_t window = std::max(part->sliding_window, part->chunk);
    const bool is_first = windows[pages] == INT32_MAX;
    windows[pages] = window == 0 || windows[pages] == 0 ? 0
                     : is_first                         ? window
                                                        : std::max(windows[pages], window);
  }
  int32_t largest = 0;
  for (const int32_t window : windows)
    if (window != INT32_MAX) largest = std::max(largest, window);
  return largest;
}

std::vector<std::string> families_with_a_window() {
  std::vector<std::string> names = golden_families();
  std::erase_if(names, [](const std::string& name) {
    return largest_window(parse_model_config(golden_family_config(name))) == 0;
  });
  return names;
}

class WindowedFamilyTest : public FamilyTest {};

// Layers with a window reuse a few pages of four tokens in turn; table entries before the window name pages
// of another sequence.
TEST_P(WindowedFamilyTest, ReleasingPagesBeforeAWindowChangesNothing) {
  RunnerOptions options;
  options.page_tokens = 4;
  options.num_pages = 8 * 128;
  constexpr int32_t kChunk = 7;
  const int32_t window = largest_window(model_->config());
  options.window_pages = (window + kChunk - 2) / options.page_tokens + 2;
  TransformerRunner runner(model_, options);
  ASSERT_GT(runner.num_windows(), 0U);
  EXPECT_EQ(runner.logits(ids_, kChunk, 3), whole_logits());
  if (window < 32) {
    EXPECT_LT(options.window_pages * options.page_tokens, static_cast<int32_t>(ids_.size()));
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, WindowedFamilyTest, ::testing::ValuesIn(families_with_a_window()),
                         family_name);

// Rows without a tiny model of their own: models of other families are converted to them
// (converted_families_test.cpp), and two are tested on published directories.
const std::set<std::string_view> kWithoutModel = {
    "ChatGLMModel",       "GemmoeForCausalLM", "IndexForCausalLM", "InternLM2ForCausalLM",
    "MiniCPMForCausalLM", "OrionForCausalLM",  "QWenLMHeadModel",  "YiForCausalLM"};

TEST(Families, EachSupportedRowHasATinyModel) {
  std::set<std::string_view> missing;
  for (const ArchitectureSpec* row : supported_architectures()) missing.insert(row->name);
  for (const std::string& family : golden_families())
    missing.erase(parse_model_config(golden_family_config(family)).architecture->name);
  EXPECT_EQ(missing, kWithoutModel);
}

}  // namespace
}  // namespace quire::testing
