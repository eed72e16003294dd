// The indexer's selection of keys, compared with a plain loop. Queries, keys and weights are small integers,
// so sums are exact and many scores are equal.
#include <algorithm>
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
};

class SelectKeysTest : public ::testing::TestWithParam<Selection> {
 protected:
  SelectKeysTest()
      : random_(fresh_seed()),
        query_(numbers(kHeads * kDim)),
        key_(numbers(kDim)),
        weights_(numbers(kHeads)),
        pages_(size(num_pages())),
        positions_(tokens()),
        sequences_(tokens(), 0),
        stored_(size(num_pages()) * kPageTokens * kDim),
        selected_(tokens() * size(num_words()), 0xffffffffU) {
    std::iota(pages_.rbegin(), pages_.rend(), 0);
    std::iota(positions_.begin(), positions_.end(), 0);
  }

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
    p.kv_shape.index_dim = kDim;
    p.kv.index_keys = stored_.data();
    p.selected = selected_.data();
    p.selected_words = num_words();
    return p;
  }

  float score(size_t token, size_t position) const {
    float sum = 0.0f;
    for (size_t h = 0; h < kHeads; ++h) {
      float product = 0.0f;
      for (size_t d = 0; d < kDim; ++d)
        product += query_[(token * kHeads + h) * kDim + d] * key_[position * kDim + d];
      sum += weights_[token * kHeads + h] * std::max(0.5f * product, 0.0f);
    }
    return sum;
  }

  // Sorts the positions by score; a stable sort leaves equal ones in their order.
  std::vector<uint32_t> expected(size_t token) const {
    std::vector<size_t> order(token + 1);
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return score(token, a) > score(token, b); });
    order.resize(std::min(order.size(), size(GetParam().num_selected)));
    std::vector<uint32_t> words(size(num_words()), 0U);
    for (const size_t position : order) words[position / 32] |= 1U << position % 32;
    return words;
  }

  Random random_;
  std::vector<float> query_, key_, weights_;
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
                                           Selection{300, 200, 3}),
                         [](const auto& test) {
                           const Selection& c = test.param;
                           return std::to_string(c.num_selected) + "Of" + std::to_string(c.length) + "UpTo" +
                                  std::to_string(c.largest);
                         });

}  // namespace
}  // namespace quire::testing
