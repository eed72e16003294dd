// Sequences that begin with the same pages get the bits that each gets alone, though their keys are read
// once.
#include <tuple>

#include "kernels/cuda/plan/shared_pages.h"
#include "tests/kernels/cuda/attention_fixture.h"

namespace quire::kernels {
namespace {

class SharedKeysTest : public AttentionTest,
                       public testing::WithParamInterface<std::tuple<PageFormats, int32_t>> {
 protected:
  static constexpr int32_t kOfMost = 4,
                           kOfSome = 2;  // pages that 14 sequences begin with, and 8 of these go on with
  static constexpr int32_t kSharers = 14;

  static AttentionCase case_of_group(int32_t group, int32_t kv_heads = 2) {
    AttentionCase c = case_of(std::get<0>(GetParam()));
    c.heads = {kv_heads * group, kv_heads, std::get<1>(GetParam())};
    if (c.heads.head_dim == 64) c.softcap = 20.0f;
    const int32_t most = kOfMost * c.page_tokens, some = most + kOfSome * c.page_tokens;
    // The first token after a shared page, the last and the first of a chunk, and pages of its own.
    c.lengths = {some + 1, some + 128, some + 129, some + 300, some + 1,   some + 256, some + 257,
                 some + 2, most + 1,   most + 128, most + 129, most + 700, most + 7,   most + 255};
    c.queries.assign(c.lengths.size(), 1);
    return c;
  }

  Cache make_shared_cache(const AttentionCase& c) {
    Cache cache = make_cache(c);
    for (int32_t s = 1; s < kSharers; ++s)
      std::copy_n(cache.table.begin(), s < 8 ? kOfMost + kOfSome : kOfMost,
                  cache.table.begin() + s * cache.stride);
    return cache;
  }

  // Rows of qkv of all tokens: the same where pages are the same.
  std::vector<std::vector<float>> shared_rows(const AttentionCase& c) {
    std::vector<std::vector<float>> all;
    for (size_t s = 0; s < c.lengths.size(); ++s) {
      all.push_back(random_rows(c, c.lengths[s]));
      const int32_t pages = s < 8 ? kOfMost + kOfSome : s < kSharers ? kOfMost : 0;
      std::copy_n(all[0].begin(), static_cast<size_t>(pages * c.page_tokens) * row_width(c), all[s].begin());
    }
    return all;
  }

  static int32_t num_shared_pages(const AttentionCase& c, const Cache& cache) {
    BatchView batch;
    batch.page_tokens = c.page_tokens;
    batch.page_table_stride = cache.stride;
    batch.kv_lengths = c.lengths.data();
    batch.page_table = cache.table.data();
    std::vector<int32_t> members(kSharers), counts(kSharers);
    std::vector<SharedPage> pages(kMostSharedPages);
    return find_shared_pages(batch, kSharers, {members.data(), counts.data(), pages.data()});
  }

  void compare_alone(const AttentionCase& c) {
    const Cache cache = make_shared_cache(c);
    ASSERT_GT(num_shared_pages(c, cache), 0);
    const std::vector<std::vector<float>> all = shared_rows(c);
    std::vector<int32_t> before;
    for (size_t s = 0; s < c.lengths.size(); ++s) before.push_back(c.lengths[s] - c.queries[s]);
    fill_cache(c, cache, all, before);
    const std::vector<uint16_t> together = step(c, cache, all, before, c.lengths);
    size_t row = 0;
    const auto width = static_cast<size_t>(c.heads.num_heads * c.heads.head_dim);
    for (size_t s = 0; s < all.size(); ++s) {
      const std::vector<uint16_t> alone = step(c, only(cache, s), {all[s]}, {before[s]}, {c.lengths[s]});
      EXPECT_EQ(std::memcmp(alone.data(), together.data() + row * width, alone.size() * 2), 0)
          << "sequence " << s;
      row += static_cast<size_t>(c.queries[s]);
    }
  }
};

TEST_P(SharedKeysTest, TheSameTogetherAndAlone) {
  compare_alone(case_of_group(4));
}

TEST_P(SharedKeysTest, TheSameInGroupsThatFillNoTile) {
  compare_alone(case_of_group(5));
}

TEST_P(SharedKeysTest, TheSameInGroupsOfATile) {
  compare_alone(case_of_group(16));
}

// Chunks enough that each gets a warp of its own where pages are quantized.
TEST_P(SharedKeysTest, TheSameWithManyChunksAndAlone) {
  compare_alone(case_of_group(2, 8));
}

// Those that decode come first; the prompt has pages of its own.
TEST_P(SharedKeysTest, TheSameBesideAPromptAndAlone) {
  AttentionCase c = case_of_group(4);
  c.lengths.push_back(400);
  c.queries.push_back(30);
  compare_alone(c);
}

INSTANTIATE_TEST_SUITE_P(Pages, SharedKeysTest,
                         testing::Combine(testing::Values(kF16Pages, kFp8Pages, kQ8Pages, kQ6Pages, kQ4Pages),
                                          testing::Values(64, 128)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param).name) + "_" +
                                  std::to_string(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace quire::kernels
