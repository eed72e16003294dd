// Small operations, and sampling.
#include <algorithm>
#include <numeric>

#include "kernels/interface/token_noise.h"
#include "tests/kernels/cuda/cuda_device.h"
#include "tests/kernels/cuda/random_weights.h"

namespace quire::kernels {
namespace {

class OperationsTest : public CudaTest {
 protected:
  std::mt19937 random_{std::random_device{}()};
};

TEST_F(OperationsTest, EveryEntryIsFilled) {
  const auto* entries = reinterpret_cast<void* const*>(&table_->memory_use);
  const auto* end = reinterpret_cast<void* const*>(table_ + 1);
  for (; entries < end; ++entries) EXPECT_NE(*entries, nullptr);
  EXPECT_EQ(table_->activation_dtype, DType::f16);
}

TEST_F(OperationsTest, NormsMatch) {
  for (const size_t columns : {size_t{1}, size_t{100}, size_t{384}, size_t{9000}}) {
    for (const NormKind kind : {NormKind::rms, NormKind::layer}) {
      if (columns == 1 && kind == NormKind::layer) continue;
      const auto input = random_floats(3 * columns, random_, 4.0f), weight = random_floats(columns, random_),
                 bias = random_floats(columns, random_);
      const std::vector<int32_t> rows{2, 0};
      NormParams p;
      p.kind = kind;
      p.weight = to_device(weight);
      p.bias = kind == NormKind::layer ? to_device(bias) : nullptr;
      p.input = to_device(input);
      p.row_index = to_device(rows);
      p.rows = 2;
      p.columns = static_cast<int32_t>(columns);
      auto* out = poisoned<uint16_t>(2 * columns);
      p.output = out;
      ASSERT_EQ(table_->norm(context_, &p), Status::ok);
      std::vector<double> expected;
      for (const int32_t row : rows) {
        const float* x = input.data() + static_cast<size_t>(row) * columns;
        double mean = 0.0, squares = 0.0;
        for (size_t c = 0; c < columns; ++c) mean += static_cast<double>(x[c]) / static_cast<double>(columns);
        if (kind == NormKind::rms) mean = 0.0;
        for (size_t c = 0; c < columns; ++c)
          squares += (static_cast<double>(x[c]) - mean) * (static_cast<double>(x[c]) - mean);
        const double scale = 1.0 / std::sqrt(squares / static_cast<double>(columns) + 1e-5);
        for (size_t c = 0; c < columns; ++c)
          expected.push_back((static_cast<double>(x[c]) - mean) * scale * static_cast<double>(weight[c]) +
                             (kind == NormKind::layer ? static_cast<double>(bias[c]) : 0.0));
      }
      EXPECT_LT(relative_error(to_floats(from_device(out, 2 * columns)), expected), 1e-3) << columns;
    }
  }
}

TEST_F(OperationsTest, EmbeddingsAreRowsOfTheTable) {
  const auto values = to_halves(random_floats(10 * 37, random_));
  Weight* weight = nullptr;
  const TableSource source = {DType::f16, 10, 37, values.data(), nullptr};
  ASSERT_EQ(table_->prepare_table(device_, &source, &weight), Status::ok);
  weights_.push_back(weight);
  EmbedParams p;
  p.table = weight;
  p.scale = 2.0f;
  p.token_ids = to_device(std::vector<int32_t>{9, 0, 4});
  p.num_tokens = 3;
  p.hidden = poisoned<float>(3 * 37);
  ASSERT_EQ(table_->embed(context_, &p), Status::ok);
  const auto out = from_device(p.hidden, 3 * 37);
  for (size_t c = 0; c < 37; ++c) EXPECT_EQ(out[37 * 2 + c], 2.0f * half_to_float(values[4 * 37 + c]));
  p.token_ids = to_device(std::vector<int32_t>{6, 0, 1});
  p.first_row = 3;
  ASSERT_EQ(table_->embed(context_, &p), Status::ok);
  const auto later = from_device(p.hidden, 3 * 37);
  for (size_t c = 0; c < 37; ++c) EXPECT_EQ(later[37 * 2 + c], out[37 * 2 + c]);
}

TEST_F(OperationsTest, ActivationsMatch) {
  const auto input = to_halves(random_floats(2 * 2 * 51, random_, 2.0f));
  for (const Activation kind :
       {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf, Activation::relu}) {
    ActivationParams p;
    p.activation = kind;
    p.input = to_device(input);
    p.rows = 2;
    p.intermediate = 51;
    auto* out = poisoned<uint16_t>(2 * 51);
    p.output = out;
    ASSERT_EQ(table_->activation(context_, &p), Status::ok);
    std::vector<double> expected;
    for (size_t r = 0; r < 2; ++r) {
      for (size_t c = 0; c < 51; ++c) {
        const double x = half_to_float(input[r * 102 + c]), up = half_to_float(input[r * 102 + 51 + c]);
        double y = std::max(x, 0.0);
        if (kind == Activation::silu) y = x / (1.0 + std::exp(-x));
        if (kind == Activation::gelu_erf) y = 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
        if (kind == Activation::gelu_tanh)
          y = 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
        expected.push_back(y * up);
      }
    }
    EXPECT_LT(relative_error(to_floats(from_device(out, 2 * 51)), expected), 1e-3);
  }
}

TEST_F(OperationsTest, LogitsAreScaledAndCapped) {
  auto values = random_floats(1000, random_, 20.0f);
  auto* logits = to_device(values);
  ASSERT_EQ(table_->scale_logits(context_, logits, 1000, 0.5f, 30.0f), Status::ok);
  for (float& v : values) v = 30.0f * std::tanh(v * 0.5f / 30.0f);
  EXPECT_LT(relative_error(from_device(logits, 1000), values), 1e-5);
}

class SamplingTest : public OperationsTest {
 protected:
  std::vector<SampleOutcome> draw(const float* device_logits, int32_t vocabulary, std::vector<SampleRow> rows,
                                  const std::vector<LogitEdit>& edits = {}) {
    for (size_t r = 0; r < rows.size(); ++r) rows[r].logit_row = static_cast<int32_t>(r);
    std::vector<SampleOutcome> outcomes(rows.size());
    SampleParams p;
    p.logits = device_logits;
    p.stride = p.vocab_size = vocabulary;
    p.rows = rows.data();
    p.num_rows = static_cast<int32_t>(rows.size());
    p.edits = edits.data();
    p.num_edits = static_cast<int32_t>(edits.size());
    p.outcomes = outcomes.data();
    EXPECT_EQ(table_->sample(context_, &p), Status::ok);
    EXPECT_EQ(table_->synchronize(context_), Status::ok);
    return outcomes;
  }
  SampleOutcome draw(const std::vector<float>& logits, SampleRow row,
                     const std::vector<LogitEdit>& edits = {}) {
    row.wants_log_prob = 1;
    return draw(to_device(logits), static_cast<int32_t>(logits.size()), {row}, edits)[0];
  }
  // Draws each row from the same logits, all in one launch, because racecheck is slow for each launch.
  std::vector<SampleOutcome> draw_all(const std::vector<float>& logits, const std::vector<SampleRow>& rows) {
    std::vector<float> repeated;
    for (size_t r = 0; r < rows.size(); ++r) repeated.insert(repeated.end(), logits.begin(), logits.end());
    return draw(to_device(repeated), static_cast<int32_t>(logits.size()), rows);
  }
};

// Two draws in flight, and a step that reads the tokens of the second before the test has waited for it.
TEST_F(SamplingTest, AStepReadsTheTokensOfThePreviousDraws) {
  constexpr int32_t kVocabulary = 3000, kRows = 3;
  std::vector<std::vector<float>> logits;
  std::vector<std::vector<SampleOutcome>> outcomes(2, std::vector<SampleOutcome>(kRows));
  for (size_t call = 0; call < 2; ++call) {
    logits.push_back(random_floats(size_t{kRows} * kVocabulary, random_));
    if (call == 1) std::fill(logits[1].begin(), logits[1].begin() + kVocabulary, -INFINITY);
    std::vector<SampleRow> rows(kRows);
    for (int32_t r = 0; r < kRows; ++r) rows[static_cast<size_t>(r)].logit_row = r;
    rows[2].temperature = 1.0f;
    rows[2].random_bits = 0x6666666666666666U;
    SampleParams p;
    p.logits = to_device(logits[call]);
    p.stride = p.vocab_size = kVocabulary;
    p.rows = rows.data();
    p.num_rows = kRows;
    p.outcomes = outcomes[call].data();
    ASSERT_EQ(table_->sample(context_, &p), Status::ok);
  }
  const std::vector<int32_t> positions(kRows, 4), lengths(kRows, 5), sequences{0, 1, 2}, starts{0, 1, 2, 3},
      pages(kRows, 1), known(kRows, 77), drawn_rows{2, -1, 1};
  BatchView host;
  host.num_tokens = kRows;
  host.num_sequences = host.num_logit_rows = kRows;
  host.max_query_tokens = host.page_table_stride = 1;
  host.max_kv_tokens = 5;
  host.token_ids = known.data();
  host.drawn_rows = drawn_rows.data();
  host.positions = positions.data();
  host.sequence_of_token = host.logit_rows = sequences.data();
  host.sequence_starts = starts.data();
  host.kv_lengths = lengths.data();
  host.page_table = pages.data();
  BatchView device;
  ASSERT_EQ(table_->bind_batch(context_, &host, &device), Status::ok);
  ASSERT_EQ(table_->wait_for_draws(context_, outcomes[1].data()), Status::ok);
  ASSERT_EQ(table_->wait_for_draws(context_, outcomes[0].data()), Status::ok);
  EXPECT_EQ(table_->synchronize(context_), Status::ok);
  for (size_t r = 0; r < 2; ++r) {
    const auto row = logits[0].begin() + static_cast<ptrdiff_t>(r) * kVocabulary;
    EXPECT_EQ(outcomes[0][r].token, std::max_element(row, row + kVocabulary) - row);
  }
  EXPECT_EQ(outcomes[1][0].status, SampleStatus::nothing_allowed);
  EXPECT_EQ(from_device(device.token_ids, kRows),
            (std::vector<int32_t>{outcomes[1][2].token, 77, outcomes[1][1].token}));
  EXPECT_EQ(from_device(device.positions, kRows), positions);

  EXPECT_EQ(table_->wait_for_draws(context_, outcomes[0].data()), Status::ok) << "already complete";
  std::vector<SampleOutcome> none_requested(kRows);
  EXPECT_EQ(table_->wait_for_draws(context_, none_requested.data()), Status::invalid_argument);
  EXPECT_EQ(table_->bind_batch(context_, &host, &device), Status::invalid_argument)
      << "the last draws are those of another step";
}

// The caller has memory for two results. If it abandons a step, both calls in flight may have the same
// memory.
TEST_F(SamplingTest, DrawsReplaceEarlierOnesWithTheSameOutcomes) {
  constexpr int32_t kVocabulary = 3000;
  SampleOutcome outcome, other;
  const SampleRow row;
  const auto begin_draw = [&](SampleOutcome& to, size_t token) {
    std::vector<float> logits(kVocabulary, 0.0f);
    logits[token] = 1.0f;
    SampleParams p;
    p.logits = to_device(logits);
    p.stride = p.vocab_size = kVocabulary;
    p.rows = &row;
    p.num_rows = 1;
    p.outcomes = &to;
    ASSERT_EQ(table_->sample(context_, &p), Status::ok);
  };
  for (int32_t i = 0; i < 3; ++i) {  // each begins with another slot of the context
    begin_draw(outcome, 10);
    ASSERT_EQ(table_->wait_for_draws(context_, &outcome), Status::ok);
    EXPECT_EQ(outcome.token, 10) << i;
    begin_draw(outcome, 20);
    ASSERT_EQ(table_->wait_for_draws(context_, &outcome), Status::ok);
    EXPECT_EQ(outcome.token, 20) << i;

    begin_draw(outcome, 30);  // never waited for
    begin_draw(outcome, 40);
    ASSERT_EQ(table_->wait_for_draws(context_, &outcome), Status::ok);
    EXPECT_EQ(outcome.token, 40) << i;
    ASSERT_EQ(table_->synchronize(context_), Status::ok);
    EXPECT_EQ(outcome.token, 40) << i;

    begin_draw(outcome, 50);  // never waited for
    begin_draw(outcome, 60);
    ASSERT_EQ(table_->synchronize(context_), Status::ok);
    EXPECT_EQ(outcome.token, 60) << i;
    begin_draw(other, 70);
  }
}

TEST_F(SamplingTest, GreedyReturnsTheLargestLogitAndItsProbability) {
  auto logits = random_floats(5000, random_, 3.0f);
  logits[1234] = logits[4321] = 20.0f;
  const SampleOutcome drawn = draw(logits, {});
  double total = 0.0;
  for (const float v : logits) total += std::exp(static_cast<double>(v) - 20.0);
  EXPECT_EQ(drawn.token, 1234);
  EXPECT_EQ(drawn.status, SampleStatus::drawn);
  EXPECT_NEAR(drawn.log_prob, -std::log(total), 1e-5);
}

TEST_F(SamplingTest, TheLargestIsFoundByManyBlocks) {
  for (const size_t vocabulary : {size_t{8191}, size_t{8192}, size_t{100}}) {
    auto logits = random_floats(5 * vocabulary, random_, 3.0f);
    const auto at = [&](size_t row, size_t id) -> float& { return logits[row * vocabulary + id]; };
    at(0, vocabulary - 1) = 30.0f;
    at(1, 55) = at(1, vocabulary - 2) = 30.0f;  // the lower id wins
    at(2, vocabulary / 2) = NAN;
    at(3, vocabulary / 3) = INFINITY;
    std::fill_n(logits.begin() + static_cast<ptrdiff_t>(4 * vocabulary), vocabulary, -INFINITY);
    const auto* device_logits = to_device(logits);
    const std::vector<SampleRow> settings(5);
    for (int repeat = 0; repeat < 2; ++repeat) {  // a draw must leave its scratch memory ready for the next
      const auto outcomes = draw(device_logits, static_cast<int32_t>(vocabulary), settings);
      EXPECT_EQ(outcomes[0].token, static_cast<int32_t>(vocabulary) - 1);
      EXPECT_EQ(outcomes[1].token, 55);
      EXPECT_EQ(outcomes[1].status, SampleStatus::drawn);
      EXPECT_EQ(outcomes[2].status, SampleStatus::not_finite);
      EXPECT_EQ(outcomes[3].status, SampleStatus::not_finite);
      EXPECT_EQ(outcomes[4].status, SampleStatus::nothing_allowed);
    }
  }
}

TEST_F(SamplingTest, FaultsHaveDistinctStatuses) {
  auto logits = random_floats(300, random_);
  SampleRow row;
  const std::vector<uint32_t> nothing(10, 0U);
  row.mask = nothing.data();
  EXPECT_EQ(draw(logits, row).status, SampleStatus::nothing_allowed);
  logits[77] = NAN;
  EXPECT_EQ(draw(logits, {}).status, SampleStatus::not_finite);
  logits[77] = INFINITY;
  EXPECT_EQ(draw(logits, {}).status, SampleStatus::not_finite);
}

TEST_F(SamplingTest, TopKAndTopPKeepTheRightTokens) {
  const auto logits = random_floats(4000, random_, 2.0f);
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  std::vector<size_t> rank(order.size());
  for (size_t i = 0; i < order.size(); ++i) rank[order[i]] = i;
  double total = 0.0;
  for (const float v : logits) total += std::exp(static_cast<double>(v));
  std::vector<double> before(order.size());
  double sum = 0.0;
  for (const size_t i : order) {
    before[i] = sum / total;
    sum += std::exp(static_cast<double>(logits[i]));
  }
  constexpr size_t kDraws = 20;
  std::vector<SampleRow> rows(3 * kDraws);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].temperature = 1.0f;
    rows[i].random_bits = uint64_t{random_()} << 32 | random_();
    if (i < kDraws) {
      rows[i].top_k = 7;
    } else if (i < 2 * kDraws) {
      rows[i].top_p = 0.3f;
    } else {
      rows[i].min_p = 0.2f;
    }
  }
  const std::vector<SampleOutcome> drawn = draw_all(logits, rows);
  for (size_t i = 0; i < kDraws; ++i) {
    const auto token = [&](size_t kind) { return static_cast<size_t>(drawn[kind * kDraws + i].token); };
    EXPECT_LT(rank[token(0)], 7U);
    EXPECT_LT(before[token(1)], 0.3 + 1e-6);
    EXPECT_GE(logits[token(2)], logits[order[0]] + std::log(0.2f) - 1e-5f);
  }
}

TEST_F(SamplingTest, TheFirstArrivalIsDrawn) {
  for (const int count : {1, 5, 700, 8191}) {
    const auto logits = random_floats(static_cast<size_t>(count), random_, 1.0f);
    std::vector<SampleRow> rows(12);
    for (SampleRow& row : rows) {
      row.temperature = 0.8f;
      row.random_bits = uint64_t{random_()} << 32 | random_();
    }
    const std::vector<SampleOutcome> drawn = draw_all(logits, rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto time = [&](int32_t token) {
        const double weight = std::exp(static_cast<double>(logits[static_cast<size_t>(token)]) / 0.8);
        return arrival_time(rows[i].random_bits, static_cast<uint32_t>(token), static_cast<float>(weight));
      };
      float earliest = INFINITY;
      for (int32_t token = 0; token < count; ++token) earliest = std::min(earliest, time(token));
      EXPECT_LE(time(drawn[i].token), earliest * 1.0001f) << count << " tokens, row " << i;
    }
  }
}

TEST_F(SamplingTest, EditsAreAppliedInOrder) {
  std::vector<float> logits(100, 0.0f);
  logits[3] = 5.0f;
  logits[4] = 4.0f;
  logits[5] = 3.0f;
  SampleRow row;
  row.num_penalised = 2;
  const std::vector<LogitEdit> counts{{3, 3.0f}, {4, 1.0f}};
  row.frequency_penalty = 1.0f;
  EXPECT_EQ(draw(logits, row, counts).token, 4);  // 3 -> 2, 4 -> 3, 5 stays 3: the lower id
  row.presence_penalty = 0.5f;
  EXPECT_EQ(draw(logits, row, counts).token, 5);
  row.frequency_penalty = row.presence_penalty = 0.0f;
  row.repetition_penalty = 2.0f;
  EXPECT_EQ(draw(logits, row, counts).token, 5);
  row.num_biased = 1;
  EXPECT_EQ(draw(logits, row, {{3, 3.0f}, {4, 1.0f}, {4, 1.5f}}).token, 4);  // 4 / 2 + 1.5
  row.num_excluded = 2;
  EXPECT_EQ(draw(logits, row, {{3, 3.0f}, {4, 1.0f}, {4, 1.5f}, {4, 0.0f}, {5, 0.0f}}).token, 3);
}

TEST_F(OperationsTest, OutOfMemoryIsReportedAndHasNoEffect) {
  void* memory = nullptr;
  const Status refused = table_->allocate(device_, size_t{1} << 50, &memory);
  EXPECT_EQ(refused, Status::out_of_memory);
  EXPECT_NE(std::string(refused.words).find("cudaErrorMemoryAllocation"), std::string::npos);
  EXPECT_EQ(table_->allocate(device_, 1000, &memory), Status::ok);
  table_->release(device_, memory);
}

}  // namespace
}  // namespace quire::kernels
