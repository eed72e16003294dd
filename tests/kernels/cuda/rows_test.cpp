// Operations that only few model families need: operations on rows of either type, low-rank rows, streams,
// and the selection of keys, each compared with a plain loop.
#include <algorithm>
#include <numeric>

#include "tests/kernels/cuda/cuda_device.h"
#include "tests/support/connection_reference.h"

namespace quire::kernels {
namespace {

size_t size(int32_t count) {
  return static_cast<size_t>(count);
}

class RowsTest : public CudaTest {
 protected:
  std::mt19937 random_{std::random_device{}()};
};

TEST_F(RowsTest, RowsAreRoundedAndWidened) {
  const auto numbers = random_floats(3 * 37, random_);
  auto* rounded = poisoned<uint16_t>(3 * 50);
  RowOpParams p;
  p.op = RowOp::copy;
  p.target = rounded;
  p.target_is_activation = true;
  p.target_stride = 50;
  p.a = to_device(numbers);
  p.rows = 3;
  p.columns = 37;
  ASSERT_EQ(table_->row_op(context_, &p), Status::ok);
  const auto halves = from_device(rounded, 3 * 50);
  for (size_t r = 0; r < 3; ++r) {
    for (size_t c = 0; c < 50; ++c)
      EXPECT_EQ(halves[50 * r + c], c < 37 ? float_to_half(numbers[37 * r + c]) : 0xffff);
  }

  auto* difference = poisoned<float>(3 * 18);
  RowOpParams q;
  q.op = RowOp::differ;
  q.target = difference;
  q.a = rounded;
  q.a_is_activation = true;
  q.a_stride = 50;
  q.rows = 3;
  q.columns = 18;
  q.factor = 0.5f;
  ASSERT_EQ(table_->row_op(context_, &q), Status::ok);
  const auto out = from_device(difference, 3 * 18);
  for (size_t r = 0; r < 3; ++r) {
    for (size_t c = 0; c < 18; ++c)
      EXPECT_EQ(out[18 * r + c],
                half_to_float(halves[50 * r + c]) - 0.5f * half_to_float(halves[50 * r + 18 + c]));
  }
}

TEST_F(RowsTest, RowsAreMultipliedBySoftplusOfANumberEach) {
  const auto rows = to_halves(random_floats(4 * 40, random_));
  const std::vector<float> gates = {-50.0f, -0.5f, 0.0f, 90.0f};
  RowOpParams p;
  p.op = RowOp::softplus_by_row;
  uint16_t* target = to_device(rows);
  p.target = target;
  p.target_is_activation = true;
  p.b = to_device(gates);
  p.rows = 4;
  p.columns = 40;
  ASSERT_EQ(table_->row_op(context_, &p), Status::ok);
  std::vector<double> expected;
  for (size_t i = 0; i < rows.size(); ++i)
    expected.push_back(double{half_to_float(rows[i])} * std::log1p(std::exp(double{gates[i / 40]})));
  EXPECT_LT(relative_error(to_floats(from_device(target, rows.size())), expected), 1e-3);
}

TEST_F(RowsTest, RowsAreMultipliedByTheSigmoidOfANumberEach) {
  const auto rows = to_halves(random_floats(4 * 40, random_));
  const std::vector<float> gates = {-50.0f, -0.5f, 0.0f, 90.0f};
  RowOpParams p;
  p.op = RowOp::sigmoid_by_row;
  uint16_t* target = to_device(rows);
  p.target = target;
  p.target_is_activation = true;
  p.b = to_device(gates);
  p.rows = 4;
  p.columns = 40;
  ASSERT_EQ(table_->row_op(context_, &p), Status::ok);
  std::vector<double> expected;
  for (size_t i = 0; i < rows.size(); ++i)
    expected.push_back(double{half_to_float(rows[i])} / (1.0 + std::exp(-double{gates[i / 40]})));
  EXPECT_LT(relative_error(to_floats(from_device(target, rows.size())), expected), 1e-3);
}

TEST_F(RowsTest, NormsOfF32MayWriteTheirInput) {
  for (const size_t columns : {size_t{1}, size_t{100}, size_t{9000}}) {
    const auto input = random_floats(2 * columns, random_, 4.0f), weight = random_floats(columns, random_);
    float* rows = to_device(input);
    NormParams p;
    p.weight = to_device(weight);
    p.input = rows;
    p.rows = 2;
    p.columns = static_cast<int32_t>(columns);
    p.output_f32 = rows;
    ASSERT_EQ(table_->norm(context_, &p), Status::ok);
    std::vector<double> expected;
    for (size_t r = 0; r < 2; ++r) {
      double squares = 0.0;
      for (size_t c = 0; c < columns; ++c)
        squares += std::pow(static_cast<double>(input[r * columns + c]), 2);
      const double scale = 1.0 / std::sqrt(squares / static_cast<double>(columns) + 1e-5);
      for (size_t c = 0; c < columns; ++c)
        expected.push_back(static_cast<double>(input[r * columns + c]) * scale *
                           static_cast<double>(weight[c]));
    }
    EXPECT_LT(relative_error(from_device(rows, 2 * columns), expected), 1e-5) << columns;
  }
}

TEST_F(RowsTest, SparseGatesSubtractMeanAndDeviations) {
  constexpr size_t kColumns = 300;
  const auto input = to_halves(random_floats(2 * 2 * kColumns, random_));
  ActivationParams p;
  p.activation = Activation::relu;
  p.intermediate = kColumns;
  p.is_sparse = true;
  p.sparsity_deviations = 0.5f;
  p.input = to_device(input);
  p.rows = 2;
  auto* out = poisoned<uint16_t>(2 * kColumns);
  p.output = out;
  ASSERT_EQ(table_->activation(context_, &p), Status::ok);
  std::vector<double> expected;
  for (size_t r = 0; r < 2; ++r) {
    const auto at = [&](size_t c) { return static_cast<double>(half_to_float(input[r * 2 * kColumns + c])); };
    double mean = 0.0, variance = 0.0;
    for (size_t c = 0; c < kColumns; ++c) mean += at(c) / kColumns;
    for (size_t c = 0; c < kColumns; ++c) variance += (at(c) - mean) * (at(c) - mean) / kColumns;
    const double cutoff = mean + 0.5 * std::sqrt(variance);
    for (size_t c = 0; c < kColumns; ++c)
      expected.push_back(std::max(0.0, at(c) - cutoff) * at(kColumns + c));
  }
  EXPECT_LT(relative_error(to_floats(from_device(out, 2 * kColumns)), expected), 1e-3);
}

TEST_F(RowsTest, LatentRowsExpandToQueriesKeysAndValues) {
  ExpandLatentParams p;
  p.heads = {3, 3, 20, 12};
  p.rotary_dim = 8;
  p.latent_columns = 16;
  p.num_tokens = 2;
  const size_t rest = 12, values = 12, dim = 20, heads = 3;
  const auto query = random_floats(2 * heads * dim, random_), latent = random_floats(2 * (16 + 8), random_),
             expanded = random_floats(2 * heads * (rest + values), random_);
  p.query = to_device(query);
  p.latent = to_device(latent);
  p.expanded = to_device(expanded);
  const size_t columns = size(qkv_columns(p));
  auto* qkv = poisoned<uint16_t>(2 * columns);
  p.qkv = qkv;
  ASSERT_EQ(table_->expand_latent(context_, &p), Status::ok);
  std::vector<float> expected;
  for (size_t t = 0; t < 2; ++t) {
    for (size_t c = 0; c < heads * dim; ++c) expected.push_back(query[t * heads * dim + c]);
    const float* of_token = expanded.data() + t * heads * (rest + values);
    for (size_t h = 0; h < heads; ++h) {
      for (size_t d = 0; d < 8; ++d) expected.push_back(latent[t * 24 + 16 + d]);
      for (size_t d = 0; d < rest; ++d) expected.push_back(of_token[h * (rest + values) + d]);
    }
    for (size_t h = 0; h < heads; ++h) {
      for (size_t d = 0; d < values; ++d) expected.push_back(of_token[h * (rest + values) + rest + d]);
    }
  }
  EXPECT_EQ(from_device(qkv, 2 * columns), to_halves(expected));
}

TEST_F(RowsTest, StreamsAreMixed) {
  constexpr size_t kStreams = 3, kTokens = 2, kColumns = 301;
  std::vector<std::vector<float>> streams;
  std::vector<const float*> from;
  std::vector<float*> to;
  for (size_t s = 0; s < kStreams; ++s) {
    streams.push_back(random_floats(kTokens * kColumns, random_));
    from.push_back(to_device(streams.back()));
    to.push_back(poisoned<float>(kTokens * kColumns));
  }
  const auto coefficients = random_floats(kTokens * kStreams * kStreams, random_);
  MixStreamsParams p;
  p.streams = from.data();
  p.targets = to.data();
  p.coefficients = to_device(coefficients);
  p.num_streams = kStreams;
  p.tokens = kTokens;
  p.columns = kColumns;
  ASSERT_EQ(table_->mix_streams(context_, &p), Status::ok);
  for (size_t i = 0; i < kStreams; ++i) {
    std::vector<double> expected;
    for (size_t t = 0; t < kTokens; ++t) {
      for (size_t c = 0; c < kColumns; ++c) {
        double sum = static_cast<double>(streams[i][t * kColumns + c]);
        for (size_t j = 0; j < kStreams; ++j)
          sum += static_cast<double>(coefficients[(t * kStreams + i) * kStreams + j]) *
                 static_cast<double>(streams[j][t * kColumns + c]);
        expected.push_back(sum);
      }
    }
    EXPECT_LT(relative_error(from_device(to[i], kTokens * kColumns), expected), 1e-6);
  }
}

TEST_F(RowsTest, ConnectedStreamsEqualDoublePrecision) {
  constexpr size_t kStreams = 4, kTokens = 3, kColumns = 301;
  ConnectionSpec spec;
  spec.num_streams = kStreams;
  spec.columns = kColumns;
  spec.iterations = 20;
  const size_t num_products = size(connection_products(spec)), kept = size(connection_coefficients(spec));
  const auto products = random_floats(kTokens * num_products, random_), scale = random_floats(3, random_);
  const auto base = random_floats(num_products, random_), result = random_floats(kTokens * kColumns, random_);
  const auto streams = random_floats(kTokens * kStreams * kColumns, random_);
  CollapseStreamsParams in;
  static_cast<ConnectionSpec&>(in) = spec;
  in.products = to_device(products);
  in.scale = to_device(scale);
  in.base = to_device(base);
  float* const on_device = to_device(streams);
  in.streams = on_device;
  in.coefficients = poisoned<float>(kTokens * kept);
  in.x = poisoned<float>(kTokens * kColumns);
  in.tokens = kTokens;
  ASSERT_EQ(table_->collapse_streams(context_, &in), Status::ok);
  ExpandStreamsParams out;
  static_cast<ConnectionSpec&>(out) = spec;
  out.coefficients = in.coefficients;
  out.result = to_device(result);
  out.streams = on_device;
  out.tokens = kTokens;
  ASSERT_EQ(table_->expand_streams(context_, &out), Status::ok);
  std::vector<double> x(kTokens * kColumns), after(kTokens * kStreams * kColumns);
  for (size_t t = 0; t < kTokens; ++t) {
    const testing::ConnectionReference own =
        testing::connection_reference(spec, products.data() + t * num_products, scale.data(), base.data());
    for (size_t c = 0; c < kColumns; ++c) {
      for (size_t i = 0; i < kStreams; ++i) {
        const double from = double{streams[(t * kStreams + i) * kColumns + c]};
        x[t * kColumns + c] += own.pre[i] * from;
        for (size_t j = 0; j < kStreams; ++j)
          after[(t * kStreams + j) * kColumns + c] += own.mixing[i * kStreams + j] * from;
        after[(t * kStreams + i) * kColumns + c] += own.post[i] * double{result[t * kColumns + c]};
      }
    }
  }
  EXPECT_LT(relative_error(from_device(in.x, x.size()), x), 1e-5);
  EXPECT_LT(relative_error(from_device(on_device, after.size()), after), 1e-5);
}

// One sequence whose last tokens form the step; the keys of all earlier tokens are in its pages.
struct SelectionCase {
  int32_t length = 0;
  int32_t queries = 1;
  int32_t num_selected = 16;
  bool all_equal = false;  // all weights are 0
};

constexpr int32_t kIndexHeads = 2, kIndexDim = 8, kPageTokens = 16;

// Computes scores with the CPU's order of sums: product by product, head by head. A quarter turn of the first
// two pairs is exact.
std::vector<float> plain_scores(const std::vector<uint16_t>& keys, const float* query, const float* weights,
                                int32_t count) {
  std::vector<float> scores;
  for (int32_t position = 0; position < count; ++position) {
    float score = 0.0f;
    for (size_t h = 0; h < kIndexHeads; ++h) {
      float product = 0.0f;
      for (size_t d = 0; d < kIndexDim; ++d)
        product += query[h * kIndexDim + d] * half_to_float(keys[size(position) * kIndexDim + d]);
      score += weights[h] * std::max(product * 0.5f, 0.0f);
    }
    scores.push_back(score);
  }
  return scores;
}

void turn(float* head) {
  for (size_t i = 0; i < 2; ++i) {
    const float first = head[i];
    head[i] = -head[2 + i];
    head[2 + i] = first;
  }
}

class SelectionTest : public RowsTest {
 protected:
  void check(const SelectionCase& c) {
    SCOPED_TRACE(c.length);
    const int32_t num_pages = (c.length + kPageTokens - 1) / kPageTokens;
    const int32_t first = c.length - c.queries, words = num_pages + 3;
    std::vector<int32_t> pages(size(num_pages)), positions(size(c.queries));
    std::iota(pages.rbegin(), pages.rend(), 0);
    std::iota(positions.begin(), positions.end(), first);
    const auto place = [&](int32_t position) {
      return (size(pages[size(position / kPageTokens)]) * kPageTokens + size(position % kPageTokens)) *
             kIndexDim;
    };
    auto keys = to_halves(random_floats(size(c.length) * kIndexDim, random_));
    std::vector<uint16_t> stored(size(num_pages) * kPageTokens * kIndexDim);
    for (int32_t i = 0; i < first; ++i)
      std::copy_n(keys.begin() + i * kIndexDim, kIndexDim, stored.begin() + static_cast<ptrdiff_t>(place(i)));
    auto query = random_floats(size(c.queries) * kIndexHeads * kIndexDim, random_);
    auto key = random_floats(size(c.queries) * kIndexDim, random_);
    auto weights = random_floats(size(c.queries) * kIndexHeads, random_);
    if (c.all_equal) std::fill(weights.begin(), weights.end(), 0.0f);

    SelectKeysParams p;
    p.num_heads = kIndexHeads;
    p.head_dim = kIndexDim;
    p.rotary_dim = 4;
    p.num_selected = c.num_selected;
    p.scale = 0.5f;
    p.query = to_device(query);
    p.key = to_device(key);
    p.weights = to_device(weights);
    p.cos = to_device(std::vector<float>(size(c.queries) * 2, 0.0f));
    p.sin = to_device(std::vector<float>(size(c.queries) * 2, 1.0f));
    p.batch.num_tokens = c.queries;
    p.batch.num_sequences = 1;
    p.batch.max_kv_tokens = c.length;
    p.batch.page_table_stride = num_pages;
    p.batch.page_table = to_device(pages);
    p.batch.positions = to_device(positions);
    p.batch.sequence_of_token = to_device(std::vector<int32_t>(size(c.queries), 0));
    p.kv_shape.page_tokens = kPageTokens;
    p.kv_shape.index_dim = kIndexDim;
    p.kv.index_keys = to_device(stored);
    p.selected = poisoned<uint32_t>(size(c.queries) * size(words));
    p.selected_words = words;
    ASSERT_EQ(table_->select_keys(context_, &p), Status::ok);

    for (int32_t t = 0; t < c.queries; ++t) {
      turn(key.data() + t * kIndexDim);
      for (int32_t d = 0; d < kIndexDim; ++d)
        keys[size((first + t) * kIndexDim + d)] = float_to_half(key[size(t * kIndexDim + d)]);
      for (int32_t h = 0; h < kIndexHeads; ++h) turn(query.data() + (t * kIndexHeads + h) * kIndexDim);
    }
    std::vector<uint32_t> expected;
    for (int32_t t = 0; t < c.queries; ++t) {
      const int32_t count = first + t + 1;
      const std::vector<float> scores = plain_scores(keys, query.data() + t * kIndexHeads * kIndexDim,
                                                     weights.data() + t * kIndexHeads, count);
      std::vector<int32_t> order(size(count));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](int32_t a, int32_t b) { return scores[size(a)] > scores[size(b)]; });
      std::vector<uint32_t> mask(size(words), 0U);
      for (int32_t i = 0; i < std::min(count, c.num_selected); ++i)
        mask[size(order[size(i)]) / 32] |= 1U << (order[size(i)] % 32);
      expected.insert(expected.end(), mask.begin(), mask.end());
    }
    EXPECT_EQ(from_device(p.selected, expected.size()), expected);
  }
};

TEST_F(SelectionTest, TheBestPositionsAreChosen) {
  check({.length = 5, .queries = 3});
  check({.length = 16, .queries = 16});
  check({.length = 17, .queries = 17});
  check({.length = 700, .queries = 40, .num_selected = 100});
}

TEST_F(SelectionTest, EqualScoresChooseTheEarlierPositions) {
  check({.length = 600, .queries = 2, .num_selected = 300, .all_equal = true});
}

// Keys are small integers, and gates are equal, so sums are exact and many scores are equal.
TEST_F(SelectionTest, PoolsOfKeysAreChosenAsOne) {
  constexpr int32_t kLength = 203, kPool = 4, kSelected = 32, kColumns = 2 * kIndexDim, kWords = 9;
  constexpr int32_t kNumPages = (kLength + kPageTokens - 1) / kPageTokens;
  std::uniform_int_distribution<int32_t> any(-2, 2);
  std::vector<float> query, rows, weights(size(kLength) * kIndexHeads, 1.0f);
  for (int32_t i = 0; i < kLength * kIndexHeads * kIndexDim; ++i)
    query.push_back(static_cast<float>(any(random_)));
  for (int32_t i = 0; i < kLength * kColumns; ++i)
    rows.push_back(i % kColumns < kIndexDim ? static_cast<float>(any(random_)) : 0.25f);
  std::vector<int32_t> pages(size(kNumPages)), positions(size(kLength));
  std::iota(pages.rbegin(), pages.rend(), 0);
  std::iota(positions.begin(), positions.end(), 0);
  SelectKeysParams p;
  p.num_heads = kIndexHeads;
  p.head_dim = kIndexDim;
  p.num_selected = kSelected;
  p.pool = kPool;
  p.query = to_device(query);
  p.key = to_device(rows);
  p.weights = to_device(weights);
  p.pool_bias = to_device(std::vector<float>(size(kPool) * kIndexDim, 0.5f));
  p.batch.num_tokens = p.batch.max_kv_tokens = kLength;
  p.batch.num_sequences = 1;
  p.batch.page_table_stride = kNumPages;
  p.batch.page_table = to_device(pages);
  p.batch.positions = to_device(positions);
  p.batch.sequence_of_token = to_device(std::vector<int32_t>(size(kLength), 0));
  p.kv_shape.page_tokens = kPageTokens;
  p.kv_shape.index_dim = kColumns;
  p.kv.index_keys = poisoned<uint16_t>(size(kNumPages) * kPageTokens * kColumns);
  p.selected = poisoned<uint32_t>(size(kLength) * kWords);
  p.selected_words = kWords;
  ASSERT_EQ(table_->select_keys(context_, &p), Status::ok);
  std::vector<uint32_t> expected;
  for (int32_t t = 0; t < kLength; ++t) {
    const int32_t count = (t + 1) / kPool;
    std::vector<float> scores(size(count));
    for (int32_t i = 0; i < count; ++i) {
      for (int32_t h = 0; h < kIndexHeads; ++h) {
        float product = 0.0f;
        for (int32_t j = 0; j < kPool * kIndexDim; ++j)
          product += query[size((t * kIndexHeads + h) * kIndexDim + j % kIndexDim)] *
                     rows[size((i * kPool + j / kIndexDim) * kColumns + j % kIndexDim)] / kPool;
        scores[size(i)] += std::max(product, 0.0f);
      }
    }
    std::vector<int32_t> order(size(count));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return scores[size(a)] > scores[size(b)]; });
    std::vector<uint32_t> mask(kWords, 0U);
    const auto mark = [&](int32_t position) { mask[size(position / 32)] |= 1U << (position % 32); };
    for (int32_t i = 0; i < std::min(count, kSelected / kPool); ++i)
      for (int32_t j = 0; j < kPool; ++j) mark(order[size(i)] * kPool + j);
    for (int32_t position = count * kPool; position <= t; ++position) mark(position);
    expected.insert(expected.end(), mask.begin(), mask.end());
  }
  EXPECT_EQ(from_device(p.selected, expected.size()), expected);
}

TEST_F(SelectionTest, LongSequencesRecomputeScores) {
  check({.length = 9000, .queries = 1, .num_selected = 2048});
}

}  // namespace
}  // namespace quire::kernels
