// A token's attention has the same bits whatever the other sequences of the batch are, and in steps of any
// size, whichever kernels run. One test per format and window, because a time limit applies to each test
// under a sanitizer.
#include <tuple>

#include "tests/kernels/cuda/attention_fixture.h"

namespace quire::kernels {
namespace {

// Parameters: the formats, and whether rows use a window and softcap, with heads of 64 dimensions instead of
// 128.
class AttentionBitsTest : public AttentionTest,
                          public testing::WithParamInterface<std::tuple<PageFormats, bool>> {
 protected:
  static const PageFormats& pages() { return std::get<0>(GetParam()); }
  static int32_t head_dim() { return std::get<1>(GetParam()) ? 64 : 128; }
  static void narrow(AttentionCase& c, int32_t window) {
    if (!std::get<1>(GetParam())) return;
    c.window = window;
    c.softcap = 20.0f;
  }

  void compare_alone(const AttentionCase& c) {
    std::vector<std::vector<float>> all;
    for (const int32_t length : c.lengths) all.push_back(random_rows(c, length));
    AttentionTest::compare_alone(c, make_cache(c), all);
  }
};

TEST_P(AttentionBitsTest, ManySequencesEqualAlone) {
  AttentionCase c = many_sequences(pages(), head_dim());
  narrow(c, 1100);
  compare_alone(c);
}

TEST_P(AttentionBitsTest, ManyShortSequencesEqualAlone) {
  AttentionCase c = many_short_sequences(pages(), head_dim());
  narrow(c, 300);
  compare_alone(c);
}

TEST_P(AttentionBitsTest, ManySequencesWithManyHeadsEqualAlone) {
  AttentionCase c = many_heads(pages(), head_dim(), 301);
  narrow(c, 200);
  compare_alone(c);
}

TEST_P(AttentionBitsTest, ManyLongSequencesEqualAlone) {
  AttentionCase c = many_long_sequences(pages(), head_dim());
  narrow(c, 1100);
  compare_alone(c);
}

TEST_P(AttentionBitsTest, StepsOfAnySizeEqualOverManyChunks) {
  for (const int32_t before : {2036, 6132}) {
    SCOPED_TRACE(std::to_string(before) + " tokens before");
    const int32_t length = before + 24;
    AttentionCase c = case_of(pages());
    c.heads = {4, 1, head_dim()};
    c.lengths = {length};
    c.queries = {1};
    narrow(c, 1500);
    const std::vector<std::vector<float>> all{random_rows(c, length)};
    std::vector<std::vector<uint16_t>> results;
    // Prefill tiles whose chunks are split over blocks; draft tokens; single tokens.
    for (const int32_t tokens : {24, 12, 3, 1}) {
      const Cache cache = make_cache(c);
      fill_cache(c, cache, all, {before});
      results.emplace_back();
      for (int32_t p = before; p < length; p += tokens) {
        const std::vector<uint16_t> rows = step(c, cache, all, {p}, {p + tokens});
        results.back().insert(results.back().end(), rows.begin(), rows.end());
      }
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
    EXPECT_EQ(results[0], results[3]);
  }
}

// A prompt chunk over three spans in a context with so little memory that a block computes all chunks of its
// rows, compared with a few of its tokens alone.
TEST_P(AttentionBitsTest, ALongPromptChunkEqualsSingleTokens) {
  constexpr int32_t kBefore = 3980, kLength = kBefore + 192;
  table_->release_context(context_);
  ContextLimits limits = small_limits();
  limits.max_tokens = 192;
  limits.max_sequences = 1;
  limits.max_pages_per_sequence = 20;
  limits.num_heads = 8;
  limits.head_dim = head_dim();
  make_context(limits);
  AttentionCase c = case_of(pages());
  c.heads = {8, 2, head_dim()};
  c.lengths = {kLength};
  c.queries = {1};
  narrow(c, 2500);
  const size_t out_width = static_cast<size_t>(c.heads.num_heads * c.heads.head_dim);
  const std::vector<std::vector<float>> all{random_rows(c, kLength)};
  const Cache cache = make_cache(c);
  fill_cache(c, cache, all, {kBefore});
  const std::vector<uint16_t> piece = step(c, cache, all, {kBefore}, {kLength});
  for (const int32_t p : {kBefore, 4095, 4096, 4097, kLength - 1}) {
    const std::vector<uint16_t> row = step(c, cache, all, {p}, {p + 1});
    const uint16_t* of_piece = piece.data() + static_cast<size_t>(p - kBefore) * out_width;
    EXPECT_EQ(std::memcmp(row.data(), of_piece, out_width * 2), 0) << "position " << p;
  }
}

TEST_P(AttentionBitsTest, ABatchEqualsTokenByToken) {
  AttentionCase c = case_of(pages());
  c.heads = {8, 2, head_dim()};
  c.lengths = {300, 150};
  c.queries = c.lengths;
  narrow(c, 70);
  const size_t out_width = static_cast<size_t>(c.heads.num_heads * c.heads.head_dim);
  std::vector<std::vector<float>> all;
  for (const int32_t length : c.lengths) all.push_back(random_rows(c, length));
  const Cache together = make_cache(c);
  const std::vector<uint16_t> whole = step(c, together, all, {0, 0}, c.lengths);
  // The second sequence alone, token by token from the hundredth on.
  AttentionCase one = c;
  one.lengths = {150};
  const Cache alone = make_cache(one);
  std::vector<uint16_t> pieces = step(one, alone, {all[1]}, {0}, {100});
  for (int32_t p = 100; p < 150; ++p) {
    const std::vector<uint16_t> token = step(one, alone, {all[1]}, {p}, {p + 1});
    pieces.insert(pieces.end(), token.begin(), token.end());
  }
  EXPECT_EQ(std::memcmp(pieces.data(), whole.data() + 300 * out_width, 150 * out_width * 2), 0);
}

// Decoding jobs before prompts, and one after them: a step with several kernels.
TEST_P(AttentionBitsTest, TogetherWithPromptsEqualsAlone) {
  AttentionCase c = case_of(pages());
  c.heads = {8, 2, head_dim()};
  c.lengths = {300, 1, 513, 140, 1, 90, 5};
  c.queries = {1, 1, 1, 40, 1, 90, 3};
  narrow(c, 200);
  const size_t out_width = static_cast<size_t>(c.heads.num_heads * c.heads.head_dim);
  std::vector<std::vector<float>> all;
  std::vector<int32_t> before;
  for (size_t s = 0; s < c.lengths.size(); ++s) {
    all.push_back(random_rows(c, c.lengths[s]));
    before.push_back(c.lengths[s] - c.queries[s]);
  }
  const Cache together = make_cache(c);
  fill_cache(c, together, all, before);
  const std::vector<uint16_t> whole = step(c, together, all, before, c.lengths);
  size_t row = 0;
  for (size_t s = 0; s < c.lengths.size(); ++s) {
    AttentionCase one = c;
    one.lengths = {c.lengths[s]};
    one.queries = {c.queries[s]};
    const Cache alone = make_cache(one);
    fill_cache(one, alone, {all[s]}, {before[s]});
    const std::vector<uint16_t> mine = step(one, alone, {all[s]}, {before[s]}, {c.lengths[s]});
    EXPECT_EQ(std::memcmp(mine.data(), whole.data() + row * out_width, mine.size() * 2), 0)
        << "sequence " << s;
    row += static_cast<size_t>(c.queries[s]);
  }
}

INSTANTIATE_TEST_SUITE_P(Pages, AttentionBitsTest,
                         testing::Combine(testing::Values(kF16Pages, kQ8Pages, kQ6Pages, kQ4Pages),
                                          testing::Bool()),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param).name) +
                                  (std::get<1>(test.param) ? "_64_in_a_window" : "_128");
                         });

}  // namespace
}  // namespace quire::kernels
