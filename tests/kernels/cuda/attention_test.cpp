// Compares the KV cache and attention over it with double precision over the contents of the pages.
#include "tests/kernels/cuda/attention_fixture.h"

namespace quire::kernels {
namespace {

TEST_F(AttentionTest, DecodesOverF16Pages) {
  check({.lengths = {1, 130, 300, 77}, .queries = {1, 1, 1, 1}}, 2e-3, 0.0);
}

TEST_F(AttentionTest, PrefillsOverF16Pages) {
  check({.lengths = {70, 200}, .queries = {70, 150}}, 2e-3, 0.0);
}

TEST_F(AttentionTest, MixesPrefillAndDecode) {
  check({.lengths = {150, 260, 3}, .queries = {90, 1, 2}}, 2e-3, 0.0);
}

TEST_F(AttentionTest, SupportsAnyHeadSize) {
  for (const int32_t dim : {16, 40, 80, 96, 192, 256, 20}) {
    SCOPED_TRACE(dim);
    check({.heads = {4, 2, dim}, .lengths = {133, 40}, .queries = {1, 40}, .rope = RopeStyle::gptj_pairs},
          2e-3, 0.0);
  }
}

TEST_F(AttentionTest, SupportsSmallPagesWindowsAndSoftcaps) {
  check({.page_tokens = 16, .lengths = {300, 33}, .queries = {1, 1}, .window = 100}, 2e-3, 0.0);
  check({.page_tokens = 48, .lengths = {300, 200}, .queries = {200, 17}, .window = 64, .softcap = 5.0f}, 2e-3,
        0.0);
  check({.heads = {12, 1, 64}, .lengths = {260}, .queries = {3}, .softcap = 10.0f}, 2e-3, 0.0);
  check({.heads = {32, 1, 64}, .lengths = {60, 140}, .queries = {1, 1}}, 2e-3, 0.0);
}

TEST_F(AttentionTest, SupportsSlopes) {
  check({.lengths = {150, 260, 3}, .queries = {90, 1, 2}, .rope = RopeStyle::none, .slope = 0.125f}, 2e-3,
        0.0);
}

TEST_F(AttentionTest, CopiedPagesAreIdentical) {
  for (const KvFormat format : {KvFormat::f16, KvFormat::q4}) {
    const AttentionCase c{.heads = {4, 2, 64},
                          .keys = format,
                          .values = format,
                          .page_tokens = 32,
                          .lengths = {32},
                          .queries = {32}};
    Cache cache = make_cache(c);
    const size_t width = 8 * 64;
    step(c, cache, {random_floats(32 * width, random_)}, {0}, {32});
    CopyPageParams copy;
    copy.kv_shape = cache.shape;
    copy.kv = cache.layer;
    copy.source = cache.table[0];
    copy.target = 0;
    copy.num_tokens = 9;
    ASSERT_EQ(table_->copy_page(context_, &copy), Status::ok);
    const auto keys =
        from_device(static_cast<const uint8_t*>(cache.layer.keys), kv_data_bytes(cache.shape, format));
    const size_t head_bytes =
        kv_data_bytes(cache.shape, format) / static_cast<size_t>(cache.shape.num_pages) / 2;
    for (size_t head = 0; head < 2; ++head) {
      const size_t from = (static_cast<size_t>(copy.source) * 2 + head) * head_bytes, to = head * head_bytes;
      EXPECT_EQ(std::memcmp(&keys[from], &keys[to], head_bytes / 32 * 9), 0);
      EXPECT_EQ(keys[to + head_bytes / 32 * 9], 0xff);
    }
  }
}

class AttentionFormatTest : public AttentionTest, public testing::WithParamInterface<PageFormats> {
 protected:
  void check_case(const AttentionCase& c) { check(c, GetParam().tolerance, GetParam().cache_tolerance); }
};

TEST_P(AttentionFormatTest, DecodesAndPrefills) {
  AttentionCase c = case_of(GetParam());
  c.heads = {8, 2, 128};
  c.lengths = {140, 9};
  for (const std::vector<int32_t>& queries : {std::vector<int32_t>{1, 1}, std::vector<int32_t>{60, 9}}) {
    c.queries = queries;
    check_case(c);
  }
}

TEST_P(AttentionFormatTest, DecodesManySequences) {
  check_case(many_sequences(GetParam(), 128));
}

TEST_P(AttentionFormatTest, DecodesManySequencesInWindows) {
  AttentionCase c = many_sequences(GetParam(), 64);
  c.window = 1100;
  c.softcap = 8.0f;
  c.page_tokens = 128;
  check_case(c);
}

// More chunks than a merge has ring slots, and than it computes factors for at a time.
TEST_P(AttentionFormatTest, MergesManyChunks) {
  for (const int32_t dim : {64, 128}) {
    SCOPED_TRACE(dim);
    AttentionCase c = case_of(GetParam());
    c.heads = {4, 1, dim};
    c.lengths = {7700, 4100, 4225};
    c.queries = {1, 1, 1};
    check_case(c);
  }
}

TEST_P(AttentionFormatTest, DecodesLargeGroups) {
  AttentionCase c = case_of(GetParam());
  c.heads = {16, 1, 128};
  c.lengths = {700, 129, 1};
  c.queries = {1, 1, 1};
  check_case(c);
  // Long enough for one warp per chunk.
  c.heads = {24, 2, 64};
  c.lengths = {6500};
  c.lengths.resize(16, 1);
  c.queries.assign(16, 1);
  check_case(c);
}

// Groups too large for the span kernel, in enough sequences to select it.
TEST_P(AttentionFormatTest, DecodesLargeGroupsOfManySequences) {
  AttentionCase c = case_of(GetParam());
  c.heads = {27, 3, 64};
  c.lengths.assign(32, 70);
  c.lengths[5] = 301;
  c.queries.assign(32, 1);
  check_case(c);
}

TEST_P(AttentionFormatTest, DecodesShortSequences) {
  for (const int32_t dim : {64, 128}) {
    SCOPED_TRACE(dim);
    check_case(many_short_sequences(GetParam(), dim));
  }
}

TEST_P(AttentionFormatTest, DecodesShortSequencesInWindows) {
  for (const int32_t dim : {64, 128}) {
    SCOPED_TRACE(dim);
    AttentionCase c = many_short_sequences(GetParam(), dim);
    c.window = 300;
    c.softcap = 8.0f;
    c.page_tokens = 128;
    check_case(c);
  }
}

// One chunk, and up to three.
TEST_P(AttentionFormatTest, DecodesManyHeadsOfShortSequences) {
  for (const int32_t dim : {64, 128}) {
    for (const int32_t longest : {100, 301}) {
      SCOPED_TRACE(std::to_string(longest) + " keys of " + std::to_string(dim));
      check_case(many_heads(GetParam(), dim, longest));
    }
  }
}

TEST_P(AttentionFormatTest, DecodesManyHeadsOfLongSequences) {
  check_case(many_long_sequences(GetParam(), 64));
}

TEST_P(AttentionFormatTest, DecodesAFewShortSequences) {
  AttentionCase c = case_of(GetParam());
  c.lengths = {256, 129, 128, 1};
  c.queries = {1, 1, 1, 1};
  for (const int32_t dim : {64, 128}) {
    for (const int32_t group : {1, 3, 8, 9}) {
      SCOPED_TRACE(std::to_string(group) + " heads of " + std::to_string(dim));
      c.heads = {2 * group, 2, dim};
      check_case(c);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Pages, AttentionFormatTest,
                         testing::Values(kF16Pages, kFp8Pages, kQ8Pages, kQ6Pages, kQ4Pages),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace quire::kernels
