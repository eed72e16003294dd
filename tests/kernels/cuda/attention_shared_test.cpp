// Sequences with a common prefix get the same bits together and alone, although their keys are read once.
#include <tuple>

#include "kernels/cuda/plan/shared_pages.h"
#include "tests/kernels/cuda/attention_fixture.h"

namespace quire::kernels {
namespace {

class SharedKeysTest : public AttentionTest,
                       public testing::WithParamInterface<std::tuple<PageFormats, int32_t>> {
 protected:
  static constexpr int32_t kNumSharing = 14;
  static constexpr int32_t kPagesOfAll = 15;  // leading pages that all of these share
  static constexpr int32_t kPagesOfSome = 1;  // further pages that 8 of them share

  static AttentionCase case_of_group(int32_t group, int32_t kv_heads = 2) {
    AttentionCase c = case_of(std::get<0>(GetParam()));
    c.heads = {kv_heads * group, kv_heads, std::get<1>(GetParam())};
    if (c.heads.head_dim == 64) c.softcap = 20.0f;
    const int32_t most = kPagesOfAll * c.page_tokens, some = most + kPagesOfSome * c.page_tokens;
    // The first token after a shared page, the last and the first of a chunk, and pages of its own.
    c.lengths = {some + 1, some + 128, some + 129, some + 300, some + 1,   some + 256, some + 257,
                 some + 2, most + 1,   most + 128, most + 129, most + 700, most + 7,   most + 255};
    c.queries.assign(c.lengths.size(), 1);
    return c;
  }

  Cache make_shared_cache(const AttentionCase& c) {
    Cache cache = make_cache(c);
    for (int32_t s = 1; s < kNumSharing; ++s)
      std::copy_n(cache.table.begin(), s < 8 ? kPagesOfAll + kPagesOfSome : kPagesOfAll,
                  cache.table.begin() + s * cache.stride);
    return cache;
  }

  // Returns rows of qkv of all tokens: equal for shared pages.
  std::vector<std::vector<float>> shared_rows(const AttentionCase& c) {
    std::vector<std::vector<float>> all;
    for (size_t s = 0; s < c.lengths.size(); ++s) {
      all.push_back(random_rows(c, c.lengths[s]));
      const int32_t pages = s < 8 ? kPagesOfAll + kPagesOfSome : s < kNumSharing ? kPagesOfAll : 0;
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
    std::vector<int32_t> members(kNumSharing), counts(kNumSharing);
    std::vector<SharedPage> pages(kMaxSharedPages);
    return find_shared_pages(batch, kNumSharing, {members.data(), counts.data(), pages.data()});
  }

  void compare_alone(const AttentionCase& c) {
    const Cache cache = make_shared_cache(c);
    ASSERT_GT(num_shared_pages(c, cache), 0);
    AttentionTest::compare_alone(c, cache, shared_rows(c));
  }
};

// Returns the sequences in another order: element i is the former element (i + by) % n, with `each` numbers
// per element.
template <typename T>
std::vector<T> rotated(const std::vector<T>& values, size_t by, size_t each = 1) {
  std::vector<T> out = values;
  std::rotate(out.begin(), out.begin() + static_cast<ptrdiff_t>(by * each), out.end());
  return out;
}

// The step's batch contains the shared pages and their members, so a recording serves sequences in any order.
TEST_P(SharedKeysTest, ReplayedStepsUseTheSharedPagesOfTheirBatch) {
  const AttentionCase c = case_of_group(4);
  const Cache cache = make_shared_cache(c);
  const std::vector<std::vector<float>> all = shared_rows(c);
  std::vector<int32_t> before;
  for (const int32_t length : c.lengths) before.push_back(length - 1);
  fill_cache(c, cache, all, before);
  std::vector<float> turned;
  const std::vector<uint16_t> expected = step(c, cache, all, before, c.lengths, &turned);
  const std::vector<uint16_t> rows = to_halves(turned);
  auto* qkv = to_device(rows);
  auto* output = poisoned<uint16_t>(expected.size());
  bool replayed = false;
  for (size_t round = 0; round < 4; ++round) {
    Cache now = cache;
    now.table = rotated(cache.table, round, static_cast<size_t>(cache.stride));
    AttentionParams attention;
    attention.heads = c.heads;
    attention.qkv = qkv;
    attention.scale = 1.0f / std::sqrt(static_cast<float>(c.heads.head_dim));
    attention.softcap = c.softcap;
    attention.batch = bind(now, rotated(before, round), rotated(c.lengths, round));
    attention.kv_shape = cache.shape;
    attention.kv = cache.layer;
    attention.output = output;
    const std::vector<uint16_t> rows_now = rotated(rows, round, row_width(c));
    ASSERT_EQ(table_->upload(device_, qkv, rows_now.data(), rows_now.size() * 2), Status::ok);
    StepAction action = StepAction::run;
    ASSERT_EQ(table_->begin_step(context_, &attention.batch, &action), Status::ok);
    replayed = action == StepAction::replayed;
    if (!replayed) {
      ASSERT_EQ(table_->attention(context_, &attention), Status::ok);
      ASSERT_EQ(table_->end_step(context_, &action), Status::ok);
      ASSERT_EQ(action, StepAction::replayed);
    }
    const auto width = static_cast<size_t>(c.heads.num_heads * c.heads.head_dim);
    EXPECT_EQ(from_device(output, expected.size()), rotated(expected, round, width)) << "round " << round;
  }
  EXPECT_TRUE(replayed);
}

TEST_P(SharedKeysTest, TogetherEqualsAlone) {
  compare_alone(case_of_group(4));
}

TEST_P(SharedKeysTest, GroupsSmallerThanATileEqualAlone) {
  compare_alone(case_of_group(5, 1));
}

TEST_P(SharedKeysTest, GroupsOfATileEqualAlone) {
  compare_alone(case_of_group(16, 1));
}

TEST_P(SharedKeysTest, ManyChunksEqualAlone) {
  compare_alone(case_of_group(2, 3));
}

// So long that spans are merged first; some of the spans are shared completely.
TEST_P(SharedKeysTest, SpansEqualAlone) {
  AttentionCase c = case_of_group(2, 1);
  c.lengths[11] = 6145;
  compare_alone(c);
}

// Decoding sequences come first; the prompt has pages of its own.
TEST_P(SharedKeysTest, TogetherWithAPromptEqualsAlone) {
  AttentionCase c = case_of_group(4);
  c.lengths.push_back(400);
  c.queries.push_back(30);
  compare_alone(c);
}

std::string name_of(const testing::TestParamInfo<SharedKeysTest::ParamType>& test) {
  return std::string(std::get<0>(test.param).name) + "_" + std::to_string(std::get<1>(test.param));
}

INSTANTIATE_TEST_SUITE_P(Pages, SharedKeysTest,
                         testing::Combine(testing::Values(kF16Pages), testing::Values(64, 128)), name_of);

// Pages of codes are read by each sequence.
class SharedCodesTest : public SharedKeysTest {};

TEST_P(SharedCodesTest, TogetherEqualsAlone) {
  compare_alone(case_of_group(4));
}

INSTANTIATE_TEST_SUITE_P(Pages, SharedCodesTest,
                         testing::Combine(testing::Values(kFp8Pages, kQ8Pages, kQ6Pages, kQ4Pages),
                                          testing::Values(64, 128)),
                         name_of);

}  // namespace
}  // namespace quire::kernels
