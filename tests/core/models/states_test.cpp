// Layers with a recurrent state: the same bits in any chunks, in company, after rewinds, rejected drafts,
// repeated steps and forks.
#include <cstring>

#include <gtest/gtest.h>

#include "tests/core/models/golden_file.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/golden_families.h"

namespace quire::testing {
namespace {

// Families with each kind of mixer.
constexpr const char* kFamilies[] = {"qwen3_next",     "qwen3_5",
                                     "qwen3_5_moe",    "kimi_linear",
                                     "bailing_hybrid", "mamba2",
                                     "bamba",          "granitemoehybrid",
                                     "nemotron_h",     "nemotron_h_latent",
                                     "falcon_h1",      "jamba",
                                     "minimax",        "lfm2",
                                     "lfm2_moe",       "falcon_h1_norm",
                                     "olmo_hybrid",    "lfm3",
                                     "mamba",          "falcon_mamba"};

class States : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const FamilyDirectory directory(GetParam());
    const std::string refusal = refusal_of(directory.path());
    if (!refusal.empty()) GTEST_SKIP() << refusal;
    model_ = load_model(directory.path());
    ids_ = read_ids(directory.golden(), "input_ids");
    alone_ = TransformerRunner(model_, {}).logits(ids_, 999);
  }

  TokenIds slice(size_t begin, size_t end) const {
    return {ids_.begin() + static_cast<ptrdiff_t>(begin), ids_.begin() + static_cast<ptrdiff_t>(end)};
  }
  // Expects the logits of the tokens from `begin` on to be those of the whole text in one step.
  void expect_rows(const std::vector<float>& rows, size_t begin, const char* what) const {
    const size_t vocab = alone_.size() / ids_.size();
    ASSERT_LE(begin * vocab + rows.size(), alone_.size());
    EXPECT_EQ(std::memcmp(rows.data(), alone_.data() + begin * vocab, rows.size() * sizeof(float)), 0)
        << what;
  }
  // Returns other tokens than those of the text.
  TokenIds wrong(size_t count) const {
    TokenIds tokens;
    for (size_t i = 0; i < count; ++i) tokens.push_back(ids_[ids_.size() - 1 - i % ids_.size()]);
    return tokens;
  }

  std::shared_ptr<const Model> model_;
  TokenIds ids_;
  std::vector<float> alone_;
};

TEST_P(States, HaveTheSameBitsInAnyChunks) {
  for (const int32_t chunk : {1, 7, 16, 33, 64})
    expect_rows(TransformerRunner(model_, {}).logits(ids_, chunk), 0, "chunks");
}

TEST_P(States, HaveTheSameBitsInCompany) {
  TransformerRunner runner(model_, {});
  const size_t vocab = alone_.size() / ids_.size();
  const std::vector<float> first = runner.step({{0, 0, wrong(33)}, {2, 0, slice(0, 21)}, {5, 0, wrong(3)}});
  expect_rows({first.begin() + static_cast<ptrdiff_t>(33 * vocab),
               first.begin() + static_cast<ptrdiff_t>(54 * vocab)},
              0, "a chunk between two others");
  for (size_t i = 21; i < ids_.size(); ++i) {
    const int32_t other = 33 + static_cast<int32_t>(i - 21);
    const std::vector<float> rows =
        runner.step({{0, other, wrong(1)}, {2, static_cast<int32_t>(i), slice(i, i + 1)}});
    expect_rows({rows.begin() + static_cast<ptrdiff_t>(vocab), rows.end()}, i, "beside another");
  }
}

// Tokens that do not count are written after each step, as drafts are: up to 16 of them.
TEST_P(States, ForgetRejectedDrafts) {
  TransformerRunner runner(model_, {});
  for (size_t i = 0; i < ids_.size(); ++i) {
    TokenIds tokens = slice(i, i + 1);
    const TokenIds drafts = wrong(1 + i % 16);
    tokens.insert(tokens.end(), drafts.begin(), drafts.end());
    const std::vector<float> rows = runner.step({{0, static_cast<int32_t>(i), tokens}});
    const size_t vocab = alone_.size() / ids_.size();
    expect_rows({rows.begin(), rows.begin() + static_cast<ptrdiff_t>(vocab)}, i, "drafts");
    ASSERT_TRUE(i + 1 == ids_.size() || runner.can_continue(0, static_cast<int32_t>(i) + 1)) << i;
  }
}

TEST_P(States, CanRepeatAStep) {
  for (const size_t chunk : {5U, 16U, 40U}) {
    TransformerRunner runner(model_, {});
    for (size_t begin = 0; begin < ids_.size(); begin += chunk) {
      const size_t end = std::min(ids_.size(), begin + chunk);
      runner.step({{0, static_cast<int32_t>(begin), wrong(end - begin)}});
      expect_rows(runner.step({{0, static_cast<int32_t>(begin), slice(begin, end)}}), begin,
                  "a repeated step");
    }
  }
}

TEST_P(States, ContinueInAFork) {
  for (const size_t length : {15U, 16U, 17U, 40U}) {
    TransformerRunner runner(model_, {});
    runner.step({{0, 0, slice(0, length)}});
    runner.fork(0, 3, static_cast<int32_t>(length));
    const auto start = static_cast<int32_t>(length);
    const std::vector<float> rows =
        runner.step({{3, start, slice(length, ids_.size())}, {0, start, wrong(20)}});
    const size_t own = (ids_.size() - length) * (alone_.size() / ids_.size());
    expect_rows({rows.begin(), rows.begin() + static_cast<ptrdiff_t>(own)}, length, "a fork");
  }
}

INSTANTIATE_TEST_SUITE_P(Families, States, ::testing::ValuesIn(kFamilies),
                         [](const auto& family) { return std::string(family.param); });

}  // namespace
}  // namespace quire::testing
