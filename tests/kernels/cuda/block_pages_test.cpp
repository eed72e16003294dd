// Steps of whole transformer blocks have the same bits in any batch, chunks and number of draft tokens.
#include <utility>

#include "tests/kernels/cuda/block_fixture.h"

namespace quire::kernels {
namespace {

// One test per page format, because a time limit applies to each test under a sanitizer.
struct BlockPages {
  const char* name;
  KvFormat format;
  int32_t page_tokens;
};
void PrintTo(const BlockPages& pages, std::ostream* out) {
  *out << pages.name;
}
std::string name_of(const testing::TestParamInfo<BlockPages>& test) {
  return test.param.name;
}

class BlockPagesTest : public BlockTest, public testing::WithParamInterface<BlockPages> {
 protected:
  void make_model_of_pages(bool permute) { make_model(permute, GetParam().format, GetParam().page_tokens); }
};

TEST_P(BlockPagesTest, FusedBlocksEqualComposedOnes) {
  for (const bool permute : {false, true}) {
    SCOPED_TRACE(testing::Message() << "permute " << permute);
    // A context belongs to one model: its recordings are that model's steps.
    table_->release_context(context_);
    make_context(small_limits());
    make_model_of_pages(permute);
    for (const auto& [past, counts] :
         {std::pair<std::vector<int32_t>, std::vector<int32_t>>{{0, 0}, {40, 3}}, {{40, 3}, {1, 1}}}) {
      const auto composed = step(past, counts, false);
      const auto fused = step(past, counts, true);
      EXPECT_LT(relative_error(fused, composed), 3e-3);
    }
  }
}

TEST_P(BlockPagesTest, ResultsDoNotDependOnBatchOrChunks) {
  make_model_of_pages(true);
  const auto whole = step({0, 0, 0}, {40, 33, 50}, true);
  const auto alone = step({0}, {40}, true);
  EXPECT_EQ(std::memcmp(alone.data(), whole.data(), alone.size() * sizeof(float)), 0);
  step({0}, {17}, true);
  step({17}, {22}, true);
  EXPECT_EQ(step({39}, {1}, true), alone);
  // Beyond the first chunk of keys, so that chunks are merged.
  const auto late = step({0}, {140}, true);
  step({0}, {128}, true);
  std::vector<float> last;
  for (int32_t position = 128; position < 140; ++position) last = step({position}, {1}, true);
  EXPECT_EQ(last, late);
  // So many tokens that attention leaves the row order to a gather.
  const auto many = step({0}, {300}, true);
  step({0}, {250}, true);
  EXPECT_EQ(step({250}, {50}, true), many);
}

// The attention kernel appends a single token, another kernel appends many.
TEST_P(BlockPagesTest, ResultsWithHeadNormsDoNotDependOnTheBatch) {
  make_model_of_pages(true);
  const auto plain = step({0}, {40}, true);
  head_norm_ = to_device(random_floats(2 * kDim, random_));
  const auto whole = step({0}, {40}, true);
  EXPECT_GT(relative_error(whole, plain), 1e-4);
  EXPECT_LT(relative_error(step({0}, {40}, false), whole), 3e-3);
  step({0}, {39}, true);
  EXPECT_EQ(step({39}, {1}, true), whole);
}

// Jobs with draft tokens: the first one's tokens lie in two chunks of keys, and its rows in two tiles.
TEST_P(BlockPagesTest, DraftTokensEqualSingleTokens) {
  make_model_of_pages(true);
  const auto of = [](const std::vector<float>& logits, size_t sequence) {
    const auto first = logits.begin() + static_cast<ptrdiff_t>(sequence * kVocabulary);
    return std::vector<float>(first, first + kVocabulary);
  };
  const float* const other = to_device(random_floats(2 * kDim, random_));
  for (const bool normed : {false, true}) {
    head_norm_ = normed ? to_device(random_floats(2 * kDim, random_)) : nullptr;
    for (const int32_t past : {124, 126}) {
      SCOPED_TRACE(testing::Message() << past << " tokens before, normed " << normed);
      step({0, 0, 0}, {past, 31, 140}, true);
      std::vector<std::vector<float>> alone;
      for (int32_t i = 0; i < 6; ++i) alone.push_back(step({past + i, 31 + i, 140 + i}, {1, 1, 1}, true));
      const float* const own = std::exchange(head_norm_, other);  // leaves other keys in the cache
      step({past, 31, 140}, {6, 6, 6}, true);
      head_norm_ = own;
      const auto drafts = step({past, 31, 140}, {5, 2, 3}, true);
      EXPECT_EQ(of(drafts, 0), of(alone[4], 0));
      EXPECT_EQ(of(drafts, 1), of(alone[1], 1));
      EXPECT_EQ(of(drafts, 2), of(alone[2], 2));
      const auto next = step({past + 5, 33, 143}, {1, 1, 1}, true);
      EXPECT_EQ(of(next, 0), of(alone[5], 0));
      EXPECT_EQ(of(next, 1), of(alone[2], 1));
      EXPECT_EQ(of(next, 2), of(alone[3], 2));
    }
  }
}

// A job without drafts comes before those with drafts, in any order of jobs.
TEST_P(BlockPagesTest, DraftTokensBesideSingleTokensEqualThemAlone) {
  make_model_of_pages(false);
  step({0, 0, 0}, {40, 126, 9}, true);
  const auto single = step({40}, {1}, true);
  const auto together = step({40, 126, 9}, {1, 5, 4}, true);
  EXPECT_EQ(std::vector<float>(together.begin(), together.begin() + kVocabulary), single);
  std::vector<float> last;
  for (int32_t i = 0; i < 5; ++i) last = step({40, 126 + i}, {1, 1}, true);
  EXPECT_EQ(std::vector<float>(together.begin() + kVocabulary, together.begin() + 2 * kVocabulary),
            std::vector<float>(last.begin() + kVocabulary, last.end()));
}

INSTANTIATE_TEST_SUITE_P(Pages, BlockPagesTest,
                         testing::Values(BlockPages{"f16_of_32", KvFormat::f16, 32},
                                         BlockPages{"f16_of_256", KvFormat::f16, 256},
                                         BlockPages{"q8_of_256", KvFormat::q8, 256},
                                         BlockPages{"q4_of_128", KvFormat::q4, 128}),
                         name_of);

class BlockChunksTest : public BlockPagesTest {};

// The number of chunks selects the attention kernel, but does not change its results or the cache.
TEST_P(BlockChunksTest, ManyAndFewChunksHaveTheSameBits) {
  make_model_of_pages(true);
  std::vector<int32_t> past{127, 40, 300};
  step({0, 0, 0}, {1, 1, 150}, true);
  step({0, 0, 150}, {1, 1, 150}, true);
  step({0, 0, 300}, {127, 25, 1}, true);
  step({127, 25, 300}, {1, 15, 1}, true);
  for (int i = 0; i < 3; ++i) {
    kv_bound_ = 0;
    const auto few = step(past, {1, 1, 1}, true);
    for (const int32_t bound : {1000, 60000}) {
      kv_bound_ = bound;
      EXPECT_EQ(step(past, {1, 1, 1}, true), few) << bound;
    }
    kv_bound_ = 0;
    EXPECT_EQ(step(past, {1, 1, 1}, true), few);
    for (int32_t& p : past) ++p;
  }
}

INSTANTIATE_TEST_SUITE_P(Pages, BlockChunksTest,
                         testing::Values(BlockPages{"f16_of_256", KvFormat::f16, 256},
                                         BlockPages{"q8_of_256", KvFormat::q8, 256},
                                         BlockPages{"q4_of_128", KvFormat::q4, 128}),
                         name_of);

}  // namespace
}  // namespace quire::kernels
