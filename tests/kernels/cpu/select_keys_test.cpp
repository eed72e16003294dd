// The indexer's selection of keys and of pools of keys, compared with a plain loop. Queries, keys and weights
// are small integers, and gates of pools are equal, so sums are exact and many scores are equal.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "kernels/interface/half.h"
#include "tests/kernels/cpu/cpu_device.h"

namespace quire::testing {
namespace {

using kernels::SelectKeysParams;
using kernels::Status;

constexpr int32_t kHeads = 2, kDim = 4, kPageTokens = 8;

size_t size(int32_t count) {
  return static_cast<size_t>(count);
}

std::vector<float> small_integers(Random& random, size_t count, int32_t largest) {
  std::vector<float> numbers;
  for (size_t i = 0; i < count; ++i) {
    const auto number = static_cast<int32_t>(random.next() % static_cast<uint64_t>(2 * largest + 1));
    numbers.push_back(static_cast<float>(number - largest));
  }
  return numbers;
}

struct Selection {
  int32_t length = 0;  // tokens of the sequence, all of them in this step
  int32_t num_selected = 0;
  int32_t largest = 1;  // of queries, keys and weights; 0: all scores are equal
  int32_t pool = 1;
};

class SelectKeysTest : public ::testing::TestWithParam<Selection> {
 protected:
  SelectKeysTest()
      : random_(fresh_seed()),
        query_(numbers(kHeads * kDim)),
        key_(numbers(size(columns()))),
        weights_(numbers(kHeads)),
        pages_(size(num_pages())),
        positions_(tokens()),
        sequences_(tokens(), 0),
        stored_(size(num_pages()) * kPageTokens * size(columns())),
        selected_(tokens() * size(num_words()), 0xffffffffU) {
    std::iota(pages_.rbegin(), pages_.rend(), 0);
    std::iota(positions_.begin(), positions_.end(), 0);
    for (size_t t = 0; t < tokens() && pool() > 1; ++t)
      std::fill_n(key_.begin() + static_cast<ptrdiff_t>((2 * t + 1) * kDim), kDim, 0.0f);
  }

  static int32_t pool() { return GetParam().pool; }
  static int32_t columns() { return pool() > 1 ? 2 * kDim : kDim; }

  static size_t tokens() { return size(GetParam().length); }
  static int32_t num_pages() { return (GetParam().length + kPageTokens - 1) / kPageTokens; }
  static int32_t num_words() { return GetParam().length / 32 + 2; }
  std::vector<float> numbers(size_t columns) {
    return small_integers(random_, tokens() * columns, GetParam().largest);
  }

  SelectKeysParams params() {
    SelectKeysParams p;
    p.num_heads = kHeads;
    p.head_dim = kDim;
    p.num_selected = GetParam().num_selected;
    p.pool = pool();
    p.pool_bias = pool_bias_.data();
    p.scale = 0.5f;
    p.query = query_.data();
    p.key = key_.data();
    p.weights = weights_.data();
    p.batch.num_tokens = p.batch.max_kv_tokens = GetParam().length;
    p.batch.num_sequences = 1;
    p.batch.page_table_stride = num_pages();
    p.batch.page_table = pages_.data();
    p.batch.positions = positions_.data();
    p.batch.sequence_of_token = sequences_.data();
    p.kv_shape.page_tokens = kPageTokens;
    p.kv_shape.index_dim = columns();
    p.kv.index_keys = stored_.data();
    p.selected = selected_.data();
    p.selected_words = num_words();
    return p;
  }

  // Returns element d of the mean of the keys of a pool.
  float pooled(size_t number, size_t d) const {
    float sum = 0.0f;
    for (size_t i = 0; i < size(pool()); ++i) sum += key_[(number * size(pool()) + i) * size(columns()) + d];
    return sum / static_cast<float>(pool());
  }

  float score(size_t token, size_t number) const {
    float sum = 0.0f;
    for (size_t h = 0; h < kHeads; ++h) {
      float product = 0.0f;
      for (size_t d = 0; d < kDim; ++d)
        product += query_[(token * kHeads + h) * kDim + d] * pooled(number, d);
      sum += weights_[token * kHeads + h] * std::max(0.5f * product, 0.0f);
    }
    return sum;
  }

  // Sorts the complete pools by score; a stable sort leaves equal ones in their order. The tokens after them
  // are selected too.
  std::vector<uint32_t> expected(size_t token) const {
    const size_t own = size(pool()), count = (token + 1) / own;
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return score(token, a) > score(token, b); });
    order.resize(std::min(order.size(), size(GetParam().num_selected) / own));
    std::vector<uint32_t> words(size(num_words()), 0U);
    const auto mark = [&](size_t position) { words[position / 32] |= 1U << position % 32; };
    for (const size_t number : order)
      for (size_t i = 0; i < own; ++i) mark(number * own + i);
    for (size_t position = count * own; position <= token; ++position) mark(position);
    return words;
  }

  Random random_;
  std::vector<float> query_, key_, weights_;
  std::vector<float> pool_bias_ = std::vector<float>(size(pool()) * kDim, 0.5f);
  std::vector<int32_t> pages_, positions_, sequences_;
  std::vector<uint16_t> stored_;
  std::vector<uint32_t> selected_;
};

TEST_P(SelectKeysTest, OfEqualScoresTheEarliestPositionsAreChosen) {
  CpuDevice device("scalar");
  const SelectKeysParams p = params();
  ASSERT_EQ(device.table().select_keys(device.context(), &p), Status::ok);
  for (size_t token = 0; token < tokens(); ++token) {
    const auto own = selected_.begin() + static_cast<ptrdiff_t>(token * size(num_words()));
    EXPECT_EQ(std::vector<uint32_t>(own, own + num_words()), expected(token)) << token;
  }
}

INSTANTIATE_TEST_SUITE_P(Scores, SelectKeysTest,
                         ::testing::Values(Selection{5, 8}, Selection{8, 8}, Selection{100, 1},
                                           Selection{100, 16}, Selection{300, 64}, Selection{300, 64, 0},
                                           Selection{300, 200, 3}, Selection{3, 8, 1, 4},
                                           Selection{100, 16, 2, 4}, Selection{300, 64, 3, 8},
                                           Selection{300, 64, 0, 8}, Selection{130, 32, 2, 16}),
                         [](const auto& test) {
                           const Selection& c = test.param;
                           return std::to_string(c.num_selected) + "Of" + std::to_string(c.length) + "UpTo" +
                                  std::to_string(c.largest) + "InPoolsOf" + std::to_string(c.pool);
                         });

// A step writes the key of a pool that it completes, from the rows of earlier steps too.
TEST(PooledKeys, AreWeightedByTheSoftmaxOfTheirGates) {
  constexpr int32_t kPool = 3, kColumns = 2 * kDim;
  Random random(fresh_seed());
  CpuDevice device("scalar");
  const std::vector<float> rows = random_floats(random, size_t{kPool} * kColumns, -3.0f, 3.0f);
  const std::vector<float> bias = random_floats(random, size_t{kPool} * kDim, -1.0f, 1.0f);
  std::vector<uint16_t> stored(size_t{kPageTokens} * kColumns);
  int32_t page = 0, sequence = 0;
  for (int32_t position = 0; position < kPool; ++position) {
    std::vector<float> query(size_t{kHeads} * kDim), weights(kHeads);
    std::vector<float> row(rows.begin() + position * kColumns, rows.begin() + (position + 1) * kColumns);
    uint32_t selected = 0;
    SelectKeysParams p;
    p.num_heads = kHeads;
    p.head_dim = kDim;
    p.num_selected = kPool;
    p.pool = kPool;
    p.query = query.data();
    p.key = row.data();
    p.weights = weights.data();
    p.pool_bias = bias.data();
    p.batch.num_tokens = p.batch.num_sequences = p.batch.page_table_stride = 1;
    p.batch.max_kv_tokens = position + 1;
    p.batch.page_table = &page;
    p.batch.positions = &position;
    p.batch.sequence_of_token = &sequence;
    p.kv_shape.page_tokens = kPageTokens;
    p.kv_shape.index_dim = kColumns;
    p.kv.index_keys = stored.data();
    p.selected = &selected;
    p.selected_words = 1;
    ASSERT_EQ(device.table().select_keys(device.context(), &p), Status::ok);
    EXPECT_EQ(selected, (1U << (position + 1)) - 1);
  }
  for (size_t d = 0; d < kDim; ++d) {
    double sum = 0.0, weighted = 0.0;
    for (size_t i = 0; i < kPool; ++i) {
      const double weight = std::exp(double{rows[i * kColumns + kDim + d]} + double{bias[i * kDim + d]});
      sum += weight;
      weighted += weight * double{rows[i * kColumns + d]};
    }
    const double found = double{kernels::half_to_float(stored[size_t{kPool - 1} * kColumns + d])};
    EXPECT_NEAR(found, weighted / sum, 5e-3);
  }
}

}  // namespace
}  // namespace quire::testing
