// The small operations, sampling, and whole blocks with and without replay.
#include <algorithm>
#include <numeric>

#include "kernels/interface/composite.h"
#include "tests/kernels/cuda/cuda_device.h"
#include "tests/kernels/cuda/random_weights.h"

namespace quire::kernels {
namespace {

class OperationsTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (device_ != nullptr) make_context(small_limits());
  }
  std::mt19937 random_{std::random_device{}()};
};

TEST_F(OperationsTest, EveryEntryIsFilled) {
  const auto* entries = reinterpret_cast<void* const*>(&table_->describe_failure);
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
      ASSERT_EQ(table_->norm(context_, &p), Status::ok) << failure();
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
  ASSERT_EQ(table_->prepare_table(device_, DType::f16, values.data(), 10, 37, &weight), Status::ok)
      << failure();
  weights_.push_back(weight);
  EmbedParams p;
  p.table = weight;
  p.scale = 2.0f;
  p.token_ids = to_device(std::vector<int32_t>{9, 0, 4});
  p.num_tokens = 3;
  p.hidden = poisoned<float>(3 * 37);
  ASSERT_EQ(table_->embed(context_, &p), Status::ok) << failure();
  const auto out = from_device(p.hidden, 3 * 37);
  for (size_t c = 0; c < 37; ++c) EXPECT_EQ(out[37 * 2 + c], 2.0f * half_to_float(values[4 * 37 + c]));
}

TEST_F(OperationsTest, ActivationsMatch) {
  const auto input = to_halves(random_floats(2 * 2 * 51, random_, 2.0f));
  for (const Activation kind :
       {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf, Activation::relu}) {
    ActivationParams p;
    p.kind = kind;
    p.input = to_device(input);
    p.rows = 2;
    p.columns = 51;
    auto* out = poisoned<uint16_t>(2 * 51);
    p.output = out;
    ASSERT_EQ(table_->activation(context_, &p), Status::ok) << failure();
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
  ASSERT_EQ(table_->scale_logits(context_, logits, 1000, 0.5f, 30.0f), Status::ok) << failure();
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
    EXPECT_EQ(table_->sample(context_, &p), Status::ok) << failure();
    EXPECT_EQ(table_->synchronize(context_), Status::ok) << failure();
    return outcomes;
  }
  SampleOutcome draw(const std::vector<float>& logits, SampleRow row,
                     const std::vector<LogitEdit>& edits = {}) {
    row.wants_log_prob = 1;
    return draw(to_device(logits), static_cast<int32_t>(logits.size()), {row}, edits)[0];
  }
  // Each row from the same logits, in one launch: racecheck takes its time for each.
  std::vector<SampleOutcome> draw_all(const std::vector<float>& logits, const std::vector<SampleRow>& rows) {
    std::vector<float> repeated;
    for (size_t r = 0; r < rows.size(); ++r) repeated.insert(repeated.end(), logits.begin(), logits.end());
    return draw(to_device(repeated), static_cast<int32_t>(logits.size()), rows);
  }
  static uint64_t bits_of(double uniform) { return static_cast<uint64_t>(uniform * 0x1p64); }
};

TEST_F(SamplingTest, GreedyTakesTheLargestAndTellsItsProbability) {
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
    at(1, 55) = at(1, vocabulary - 2) = 30.0f;  // the lower id first
    at(2, vocabulary / 2) = NAN;
    at(3, vocabulary / 3) = INFINITY;
    std::fill_n(logits.begin() + static_cast<ptrdiff_t>(4 * vocabulary), vocabulary, -INFINITY);
    const auto* device_logits = to_device(logits);
    const std::vector<SampleRow> settings(5);
    for (int repeat = 0; repeat < 2; ++repeat) {  // what a draw leaves behind serves the next
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

TEST_F(SamplingTest, FaultsAreToldApart) {
  auto logits = random_floats(300, random_);
  SampleRow row;
  const auto* nothing = to_device(std::vector<uint32_t>(10, 0U));
  row.mask = nothing;
  EXPECT_EQ(draw(logits, row).status, SampleStatus::nothing_allowed);
  logits[77] = NAN;
  EXPECT_EQ(draw(logits, {}).status, SampleStatus::not_finite);
  logits[77] = INFINITY;
  EXPECT_EQ(draw(logits, {}).status, SampleStatus::not_finite);
}

TEST_F(SamplingTest, CutsKeepWhatTheyShould) {
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
    rows[i].random_bits = bits_of(static_cast<double>(i % kDraws) / kDraws);
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

TEST_F(SamplingTest, ADrawFollowsTheDistributionInOrderOfId) {
  const auto logits = random_floats(700, random_, 1.0f);
  double total = 0.0;
  for (const float v : logits) total += std::exp(static_cast<double>(v) / 0.8);
  std::vector<SampleRow> rows(12);
  const auto uniform = [&](size_t i) { return (static_cast<double>(i) + 0.5) / 12.0; };
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].temperature = 0.8f;
    rows[i].random_bits = bits_of(uniform(i));
  }
  const std::vector<SampleOutcome> drawn = draw_all(logits, rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto token = static_cast<size_t>(drawn[i].token);
    double below = 0.0;
    for (size_t t = 0; t < token; ++t) below += std::exp(static_cast<double>(logits[t]) / 0.8) / total;
    const double above = below + std::exp(static_cast<double>(logits[token]) / 0.8) / total;
    EXPECT_LE(below, uniform(i) + 1e-6);
    EXPECT_GE(above, uniform(i) - 1e-6);
  }
}

TEST_F(SamplingTest, EditsTakeEffectInTheirOrder) {
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

// A model of one layer, and steps over it.
class BlockTest : public OperationsTest {
 protected:
  static constexpr int32_t kHidden = 256, kInner = 512, kVocabulary = 500, kHeads = 8, kKvHeads = 2,
                           kDim = 64;

  void make_model(bool permute, KvFormat format = KvFormat::f16, int32_t page_tokens = 32) {
    const std::vector<int32_t> shared = random_order(kHidden, random_);
    const auto ordered = [&](const std::vector<std::pair<int, int>>& layout, int32_t columns) {
      auto w = std::make_unique<StoredWeight>();
      make_exl2(*w, layout, columns, false, random_);
      w->source.prescale = 0.02f;  // keeps activations within f16
      if (permute) {
        w->row_order = shared;
        w->source.row_order = w->row_order.data();
      }
      stored_.push_back(std::move(w));
      return stored_.back()->source;
    };
    const std::vector<std::pair<int, int>> layout{{5, 64}, {4, 128}, {3, 64}};
    qkv_ = prepare({ordered(layout, kHeads * kDim), ordered({{4, 256}}, kKvHeads * kDim),
                    ordered({{6, 64}, {4, 192}}, kKvHeads * kDim)});
    auto output = std::make_unique<StoredWeight>();
    make_exl2(*output, {{4, kHeads * kDim}}, kHidden, permute, random_);
    output->source.prescale = 0.02f;
    output_ = prepare({output->source});
    stored_.push_back(std::move(output));
    gate_up_ = prepare({ordered({{4, 128}, {3, 128}}, kInner), ordered({{5, 64}, {4, 192}}, kInner)});
    auto down = std::make_unique<StoredWeight>();
    make_exl2(*down, {{4, 256}, {3, 256}}, kHidden, permute, random_);
    down->source.prescale = 0.02f;
    down_ = prepare({down->source});
    stored_.push_back(std::move(down));
    auto head = std::make_unique<StoredWeight>();
    make_exl2(*head, {{6, kHidden}}, kVocabulary, permute, random_);
    head->source.prescale = 0.02f;
    head_ = prepare({head->source});
    stored_.push_back(std::move(head));
    norm_ = to_device(random_floats(kHidden, random_));
    const auto table = to_halves(random_floats(static_cast<size_t>(kVocabulary) * kHidden, random_));
    ASSERT_EQ(table_->prepare_table(device_, DType::f16, table.data(), kVocabulary, kHidden, &embedding_),
              Status::ok);
    weights_.push_back(embedding_);
    std::vector<float> frequencies;
    for (int i = 0; i < kDim / 2; ++i)
      frequencies.push_back(std::pow(10000.0f, -2.0f * static_cast<float>(i) / kDim));
    frequencies_ = to_device(frequencies);
    shape_ = {format, format, page_tokens, 80, kKvHeads, kDim};
    kv_.keys = poisoned<uint8_t>(kv_data_bytes(shape_, format));
    kv_.values = poisoned<uint8_t>(kv_data_bytes(shape_, format));
    if (kv_scale_bytes(shape_, format) > 0) {
      kv_.key_scales = poisoned<uint8_t>(kv_scale_bytes(shape_, format));
      kv_.value_scales = poisoned<uint8_t>(kv_scale_bytes(shape_, format));
    }
    constexpr size_t kTokens = 160;
    space_.hidden = poisoned<float>(kTokens * kHidden);
    space_.normed = poisoned<uint16_t>(kTokens * kHidden);
    space_.qkv = poisoned<uint16_t>(kTokens * (kHeads + 2 * kKvHeads) * kDim);
    space_.attention = poisoned<uint16_t>(kTokens * kHeads * kDim);
    space_.gate_up = poisoned<uint16_t>(kTokens * 2 * kInner);
    space_.activated = poisoned<uint16_t>(kTokens * kInner);
    space_.rope_cos = poisoned<float>(kTokens * kDim / 2);
    space_.rope_sin = poisoned<float>(kTokens * kDim / 2);
    space_.logits = poisoned<float>(64 * kVocabulary);
  }

  // A batch of `counts[s]` tokens that follow `past[s]`, with logits of every last token.
  BatchView bind(const std::vector<int32_t>& past, const std::vector<int32_t>& counts) {
    std::vector<int32_t> ids, positions, sequence_of, starts{0}, lengths, pages, rows;
    BatchView host;
    for (size_t s = 0; s < past.size(); ++s) {
      for (int32_t i = 0; i < counts[s]; ++i) {
        positions.push_back(past[s] + i);
        ids.push_back(static_cast<int32_t>((static_cast<size_t>(past[s] + i) * 37 + s * 11) % kVocabulary));
        sequence_of.push_back(static_cast<int32_t>(s));
      }
      starts.push_back(static_cast<int32_t>(ids.size()));
      rows.push_back(static_cast<int32_t>(ids.size()) - 1);
      lengths.push_back(past[s] + counts[s]);
      for (int32_t p = 0; p < 5; ++p) pages.push_back(static_cast<int32_t>(s) * 5 + p);
      host.max_query_tokens = std::max(host.max_query_tokens, counts[s]);
      host.max_kv_tokens = std::max({host.max_kv_tokens, lengths.back(), kv_bound_});
    }
    host.num_tokens = static_cast<int32_t>(ids.size());
    host.num_sequences = static_cast<int32_t>(past.size());
    host.num_logit_rows = static_cast<int32_t>(rows.size());
    host.page_table_stride = 5;
    host.token_ids = ids.data();
    host.positions = positions.data();
    host.sequence_of_token = sequence_of.data();
    host.sequence_starts = starts.data();
    host.kv_lengths = lengths.data();
    host.page_table = pages.data();
    host.logit_rows = rows.data();
    BatchView batch;
    EXPECT_EQ(table_->bind_batch(context_, &host, &batch), Status::ok) << failure();
    return batch;
  }

  // One step of it; the logits. Fused or of primitives.
  std::vector<float> step(const std::vector<int32_t>& past, const std::vector<int32_t>& counts, bool fused,
                          bool* replayed = nullptr) {
    const BatchView batch = bind(past, counts);
    StepAction action = StepAction::run;
    EXPECT_EQ(table_->begin_step(context_, &batch, &action), Status::ok) << failure();
    if (replayed != nullptr) *replayed = action == StepAction::replayed;
    if (action == StepAction::run) {
      issue(batch, fused);
      EXPECT_EQ(table_->end_step(context_), Status::ok) << failure();
    }
    std::vector<float> logits(past.size() * kVocabulary);
    EXPECT_EQ(table_->read_rows(context_, space_.logits, batch.num_logit_rows, kVocabulary, logits.data()),
              Status::ok)
        << failure();
    EXPECT_EQ(table_->synchronize(context_), Status::ok) << failure();
    return logits;
  }

  void embed(const BatchView& batch) {
    EmbedParams embed;
    embed.table = embedding_;
    embed.token_ids = batch.token_ids;
    embed.num_tokens = batch.num_tokens;
    embed.hidden = space_.hidden;
    EXPECT_EQ(table_->embed(context_, &embed), Status::ok) << failure();
  }

  void issue(const BatchView& batch, bool fused) {
    embed(batch);
    RopeAnglesParams angles;
    angles.inv_freq = frequencies_;
    angles.rotary_dim = kDim;
    angles.positions = batch.positions;
    angles.num_tokens = batch.num_tokens;
    angles.cos = space_.rope_cos;
    angles.sin = space_.rope_sin;
    EXPECT_EQ(table_->rope_angles(context_, &angles), Status::ok) << failure();
    NormParams norm;
    norm.weight = norm_;
    norm.columns = kHidden;
    AttentionBlockParams a;
    a.norm = norm;
    a.qkv = qkv_;
    a.output = output_;
    a.heads = {kHeads, kKvHeads, kDim};
    a.rotary_dim = kDim;
    a.scale = 0.125f;
    a.batch = batch;
    a.kv_shape = shape_;
    a.kv = kv_;
    a.workspace = space_;
    EXPECT_EQ(fused ? table_->attention_block(context_, &a) : composed_attention_block(context_, &a),
              Status::ok)
        << failure();
    MlpBlockParams m;
    m.norm = norm;
    m.gate_up = gate_up_;
    m.down = down_;
    m.intermediate = kInner;
    m.num_tokens = batch.num_tokens;
    m.workspace = space_;
    EXPECT_EQ(fused ? table_->mlp_block(context_, &m) : composed_mlp_block(context_, &m), Status::ok)
        << failure();
    HeadParams h;
    h.norm = norm;
    h.head = head_;
    h.vocab_size = kVocabulary;
    h.batch = batch;
    h.workspace = space_;
    EXPECT_EQ(fused ? table_->head(context_, &h) : composed_head(context_, &h), Status::ok) << failure();
  }

  std::vector<std::unique_ptr<StoredWeight>> stored_;
  Weight *qkv_ = nullptr, *output_ = nullptr, *gate_up_ = nullptr, *down_ = nullptr, *head_ = nullptr,
         *embedding_ = nullptr;
  const float* norm_ = nullptr;
  const float* frequencies_ = nullptr;
  int32_t kv_bound_ = 0;  // that the batch names for the tokens of its sequences
  KvShape shape_;
  KvLayer kv_;
  Workspace space_;
};

TEST_F(BlockTest, FusedBlocksEqualComposedOnes) {
  for (const bool permute : {false, true}) {
    for (const auto& [format, page_tokens] :
         {std::pair{KvFormat::f16, 32}, {KvFormat::f16, 256}, {KvFormat::q8, 256}, {KvFormat::q4, 128}}) {
      SCOPED_TRACE(testing::Message() << "permute " << permute << ", format " << static_cast<int>(format)
                                      << ", pages of " << page_tokens);
      // A context belongs to one model: what it has recorded is that model's steps.
      table_->release_context(context_);
      make_context(small_limits());
      make_model(permute, format, page_tokens);
      for (const auto& [past, counts] :
           {std::pair<std::vector<int32_t>, std::vector<int32_t>>{{0, 0}, {40, 3}}, {{40, 3}, {1, 1}}}) {
        const auto composed = step(past, counts, false);
        const auto fused = step(past, counts, true);
        EXPECT_LT(relative_error(fused, composed), 3e-3);
      }
    }
  }
}

TEST_F(BlockTest, ReplayedStepsAreTheSameBits) {
  make_model(true);
  step({0, 0, 0}, {30, 20, 10}, true);
  bool replayed = false;
  const auto first = step({30, 20, 10}, {1, 1, 1}, true, &replayed);
  EXPECT_FALSE(replayed);
  EXPECT_EQ(step({30, 20, 10}, {1, 1, 1}, true), first);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(step({30, 20, 10}, {1, 1, 1}, true, &replayed), first);
    EXPECT_TRUE(replayed);
  }
  // Other lengths and tokens through the same graph, against a step of its own that is not recorded.
  const auto later = step({31, 21, 11}, {1, 1, 1}, true, &replayed);
  EXPECT_TRUE(replayed);
  const auto alone = step({31, 21}, {1, 1}, true);
  EXPECT_EQ(std::memcmp(alone.data(), later.data(), alone.size() * sizeof(float)), 0);
}

TEST_F(BlockTest, AnOperationThatFailsWhileAStepIsRecordedHarmsNoLaterStep) {
  make_model(true);
  step({0, 0}, {30, 20}, true);
  const auto expected = step({30, 20}, {1, 1}, true);
  for (int i = 0; i < 2; ++i) {
    const BatchView batch = bind({30, 20}, {1, 1});
    StepAction action = StepAction::replayed;
    ASSERT_EQ(table_->begin_step(context_, &batch, &action), Status::ok) << failure();
    ASSERT_EQ(action, StepAction::run);  // the second of its kind: it is recorded
    embed(batch);
    LinearParams product;
    product.weight = embedding_;
    product.rows = batch.num_tokens;
    EXPECT_EQ(table_->linear(context_, &product), Status::invalid_argument);
    EXPECT_EQ(failure(), "a product with something that is no matrix");
  }
  bool replayed = true;
  EXPECT_EQ(step({30, 20}, {1, 1}, true, &replayed), expected);
  EXPECT_FALSE(replayed);
  EXPECT_EQ(step({30, 20}, {1, 1}, true, &replayed), expected);
  EXPECT_TRUE(replayed);
}

TEST_F(BlockTest, CompanyAndChunksDoNotShow) {
  for (const auto& [format, page_tokens] :
       {std::pair{KvFormat::f16, 32}, {KvFormat::f16, 256}, {KvFormat::q8, 256}, {KvFormat::q4, 128}}) {
    SCOPED_TRACE(testing::Message() << "format " << static_cast<int>(format) << ", pages of " << page_tokens);
    table_->release_context(context_);
    make_context(small_limits());
    make_model(true, format, page_tokens);
    const auto whole = step({0, 0, 0}, {40, 33, 50}, true);
    const auto alone = step({0}, {40}, true);
    EXPECT_EQ(std::memcmp(alone.data(), whole.data(), alone.size() * sizeof(float)), 0);
    step({0}, {17}, true);
    step({17}, {22}, true);
    EXPECT_EQ(step({39}, {1}, true), alone);
    // Past the first chunk of keys, so that blocks merge.
    const auto late = step({0}, {140}, true);
    step({0}, {128}, true);
    std::vector<float> last;
    for (int32_t position = 128; position < 140; ++position) last = step({position}, {1}, true);
    EXPECT_EQ(last, late);
  }
}

// Which kernel attends depends on how many chunks a step may have; what it appends and computes does not.
TEST_F(BlockTest, ManyChunksAndFewAreTheSameBits) {
  for (const auto& [format, page_tokens] :
       {std::pair{KvFormat::f16, 256}, {KvFormat::q8, 256}, {KvFormat::q4, 128}}) {
    SCOPED_TRACE(testing::Message() << "format " << static_cast<int>(format));
    table_->release_context(context_);
    make_context(small_limits());
    make_model(true, format, page_tokens);
    std::vector<int32_t> past{127, 40, 300};
    step({0, 0, 0}, {1, 1, 150}, true);
    step({0, 0, 150}, {1, 1, 150}, true);
    step({0, 0, 300}, {127, 25, 1}, true);
    step({127, 25, 300}, {1, 15, 1}, true);
    for (int i = 0; i < 3; ++i) {
      kv_bound_ = 0;
      const auto few = step(past, {1, 1, 1}, true);
      kv_bound_ = 60000;
      EXPECT_EQ(step(past, {1, 1, 1}, true), few);
      kv_bound_ = 0;
      EXPECT_EQ(step(past, {1, 1, 1}, true), few);
      for (int32_t& p : past) ++p;
    }
    kv_bound_ = 0;
  }
}

TEST_F(OperationsTest, OutOfMemoryIsToldAndHarmsNothing) {
  void* memory = nullptr;
  EXPECT_EQ(table_->allocate(device_, size_t{1} << 50, &memory), Status::out_of_memory);
  EXPECT_NE(failure().find("cudaErrorMemoryAllocation"), std::string::npos);
  EXPECT_EQ(table_->allocate(device_, 1000, &memory), Status::ok);
  table_->release(device_, memory);
}

}  // namespace
}  // namespace quire::kernels
