// Products of experts (MoE), compared with a product with each matrix alone, and their weighted sum.
#include <algorithm>
#include <deque>

#include "tests/kernels/cuda/cuda_device.h"
#include "tests/kernels/cuda/random_blocks.h"
#include "tests/support/trellis_fixture.h"

namespace quire::kernels {
namespace {

class ExpertsTest : public CudaTest {
 protected:
  void SetUp() override {
    open(true);
    if (device_ == nullptr) return;
    ContextLimits limits = small_limits();
    limits.expert_columns = 1024;
    make_context(limits);
  }
  // Experts prepared together, as for a model: the two matrices of an expert side by side.
  struct Experts {
    std::vector<std::vector<std::unique_ptr<StoredWeight>>> parts;  // [expert]
    std::vector<Weight*> all;  // all weights, including the others between the experts
    std::vector<const Weight*> handles;
    size_t depth = 0, columns = 0;
  };
  template <typename Make>
  Experts make_experts(int32_t count, int32_t num_parts, Make make) {
    Experts out;
    StoredWeight between;
    make_dense(between, DType::f16, 64, 32, random_);
    std::vector<std::vector<WeightSource>> sources;
    for (int32_t e = 0; e < count; ++e) {
      out.parts.emplace_back();
      sources.emplace_back();
      for (int32_t p = 0; p < num_parts; ++p) {
        out.parts.back().push_back(std::make_unique<StoredWeight>());
        make(*out.parts.back().back(), e);
        sources.back().push_back(out.parts.back().back()->source);
      }
      for (WeightSource& part : sources.back()) part.row_order = sources.back().front().row_order;
    }
    std::vector<MatrixSource> matrices;
    for (const auto& parts : sources) {
      matrices.push_back({parts.data(), num_parts});
      matrices.push_back({&between.source, 1});
    }
    std::vector<uint64_t> bytes(matrices.size());
    const auto total = static_cast<int32_t>(matrices.size());
    EXPECT_EQ(table_->plan_weights(device_, matrices.data(), total, bytes.data()), Status::ok);
    out.all.resize(matrices.size());
    EXPECT_EQ(table_->prepare_weights(device_, matrices.data(), total, out.all.data()), Status::ok);
    for (size_t i = 0; i < out.all.size(); ++i) {
      weights_.push_back(out.all[i]);
      EXPECT_EQ(table_->weight_bytes(out.all[i]), bytes[i]);
      if (i % 2 == 0) out.handles.push_back(out.all[i]);
    }
    out.depth = static_cast<size_t>(sources[0][0].num_in);
    for (const WeightSource& part : sources[0]) out.columns += static_cast<size_t>(part.num_out);
    return out;
  }
  std::vector<uint16_t> multiply(const Experts& experts, const std::vector<int32_t>& of_row,
                                 const std::vector<float>& input, int32_t per_input,
                                 const std::vector<float>& scale) {
    ExpertLinearParams p;
    p.experts = experts.handles.data();
    p.num_experts = static_cast<int32_t>(experts.handles.size());
    p.expert_of_row = to_device(of_row);
    p.input = to_device(to_halves(input));
    p.rows_per_input = per_input;
    if (!scale.empty()) p.input_scale = to_device(scale);
    p.rows = static_cast<int32_t>(of_row.size());
    auto* out = poisoned<uint16_t>(of_row.size() * experts.columns);
    p.output = out;
    EXPECT_EQ(table_->expert_linear(context_, &p), Status::ok);
    return from_device(out, of_row.size() * experts.columns);
  }
  std::vector<uint16_t> multiply(const Experts& experts, const int32_t* of_row, size_t rows,
                                 const std::vector<float>& input, bool same_rows) {
    ExpertLinearParams p;
    p.experts = experts.handles.data();
    p.num_experts = static_cast<int32_t>(experts.handles.size());
    p.expert_of_row = of_row;
    p.input = to_device(to_halves(input));
    p.rows = static_cast<int32_t>(rows);
    p.same_rows = same_rows;
    auto* out = poisoned<uint16_t>(rows * experts.columns);
    p.output = out;
    EXPECT_EQ(table_->expert_linear(context_, &p), Status::ok);
    return from_device(out, rows * experts.columns);
  }
  // Multiplies one row by one matrix; batches of any size must return the same bits.
  std::vector<uint16_t> alone(const Weight* weight, const std::vector<float>& row, size_t columns) {
    LinearParams p;
    p.weight = weight;
    p.input = to_device(to_halves(row));
    p.rows = 1;
    auto* out = poisoned<uint16_t>(columns);
    p.output = out;
    EXPECT_EQ(table_->linear(context_, &p), Status::ok);
    return from_device(out, columns);
  }
  // The numbers of rows are chosen so that every kernel is used.
  void check_products(const Experts& experts, int32_t per_input, bool scaled, size_t most_rows = 1200) {
    for (const size_t rows : {size_t{4}, size_t{12}, size_t{100}, size_t{300}, size_t{1200}}) {
      if (rows > most_rows) break;
      SCOPED_TRACE(rows);
      const size_t inputs = rows / static_cast<size_t>(per_input);
      const std::vector<float> input = to_floats(to_halves(random_floats(inputs * experts.depth, random_)));
      std::vector<int32_t> of_row;
      std::uniform_int_distribution<int32_t> any(0, static_cast<int32_t>(experts.handles.size()) - 2);
      for (size_t r = 0; r < rows; ++r) of_row.push_back(any(random_));  // the last expert has no rows
      const std::vector<float> scale = scaled ? random_floats(rows, random_) : std::vector<float>();
      const std::vector<uint16_t> out = multiply(experts, of_row, input, per_input, scale);
      for (size_t r = 0; r < rows; r += 1 + rows / 24) {
        const auto first =
            input.begin() + static_cast<ptrdiff_t>(r / static_cast<size_t>(per_input) * experts.depth);
        std::vector<float> row(first, first + static_cast<ptrdiff_t>(experts.depth));
        for (float& v : row) v *= scaled ? scale[r] : 1.0f;
        const auto expert = static_cast<size_t>(of_row[r]);
        const std::vector<uint16_t> expected = alone(experts.handles[expert], row, experts.columns);
        EXPECT_EQ(std::memcmp(out.data() + r * experts.columns, expected.data(), expected.size() * 2), 0)
            << "row " << r;
      }
    }
  }
  void make_trellis(StoredWeight& w, const testing::TrellisKind& kind, int32_t num_in, int32_t num_out) {
    trellises_.push_back(testing::make_trellis(kind, num_in, num_out, random_()));
    w.source = trellises_.back().source();
    w.source.is_expert = true;
  }
  void check_activations(const Experts& experts);

  std::mt19937 random_{std::random_device{}()};
  std::deque<testing::TrellisFixture> trellises_;  // of the matrices made
};

TEST_F(ExpertsTest, ProductsWaitForMatricesBeingCopied) {
  if (!parks()) GTEST_SKIP() << "this card cannot map memory";
  const Experts experts = make_experts(24, 2, [&](StoredWeight& w, int32_t) {
    make_exl2(w, {{4, 256}}, 192, false, random_);
    w.source.prescale = 0.02f;
  });
  const std::vector<int32_t> of_row{3, 0, 21, 3};
  const std::vector<float> input = to_floats(to_halves(random_floats(4 * experts.depth, random_)));
  const std::vector<uint16_t> expected = multiply(experts, of_row, input, 1, {});
  EXPECT_EQ(offload_all(), uint64_t{2} << 20) << "one memory block for all";
  restore_all();
  EXPECT_EQ(num_copies_in_flight().value_or(1), 1);
  EXPECT_EQ(multiply(experts, of_row, input, 1, {}), expected);
}

TEST_F(ExpertsTest, RowsEqualProductsWithTheirMatrixAlone) {
  const auto exl2 = [&](StoredWeight& w, int32_t e) {
    make_exl2(w,
              e % 3 == 0 ? std::vector<std::pair<int, int>>{{5, 128}, {4, 128}}
                         : std::vector<std::pair<int, int>>{{4, 128}, {3, 64}, {3, 64}},
              96, true, random_);
  };
  check_products(make_experts(8, 2, exl2), 4, false);
  check_products(
      make_experts(8, 1, [&](StoredWeight& w, int32_t) { make_gptq(w, 256, 72, 64, false, random_); }), 1,
      true);
  check_products(
      make_experts(8, 2, [&](StoredWeight& w, int32_t) { make_fp8(w, 384, 64, 32, 128, random_); }), 2,
      false);
  check_products(make_experts(8, 2, [&](StoredWeight& w, int32_t) { make_mxfp4(w, 384, 64, random_); }), 4,
                 false);
  check_products(
      make_experts(8, 1, [&](StoredWeight& w, int32_t) { make_eight_bits(w, 384, 64, 128, random_); }), 2,
      false);
  check_products(
      make_experts(8, 1, [&](StoredWeight& w, int32_t) { make_dense(w, DType::bf16, 200, 40, random_); }), 1,
      true);
}

// Experts of one matrix may have different types.
TEST_F(ExpertsTest, RowsEqualProductsWithTheirBlocksAlone) {
  check_products(make_experts(8, 2,
                              [&](StoredWeight& w, int32_t e) {
                                make_blocks(w, e % 3 == 0 ? BlockType::q6_k : BlockType::q4_k, 512, 96,
                                            random_);
                                w.source.prescale = 0.1f;
                              }),
                 4, false);
  for (const BlockType type : {BlockType::q8_0, BlockType::iq3_s, BlockType::mxfp4})
    check_products(make_experts(8, 1,
                                [&](StoredWeight& w, int32_t) {
                                  make_blocks(w, type, 256, 72, random_);
                                  w.source.prescale = 0.1f;
                                }),
                   2, true, 100);
}

// Each expert, and each part of its matrix, has scales of its own.
TEST_F(ExpertsTest, RowsEqualProductsWithTheirTrellisAlone) {
  const testing::TrellisKind kinds[] = {
      {TrellisCodebook::mul1, 8}, {TrellisCodebook::mcg, 6}, {TrellisCodebook::mul1, 5}};
  check_products(
      make_experts(8, 2, [&](StoredWeight& w, int32_t e) { make_trellis(w, kinds[e % 3], 256, 200); }), 4,
      false, 300);
  check_products(make_experts(8, 1, [&](StoredWeight& w, int32_t) { make_trellis(w, kinds[0], 300, 128); }),
                 2, true, 100);
}

// Rows that a thread block reorders in several rounds, rows so long that a second block does not fit next to
// their copy in shared memory, and rows that are not a multiple of 16 bytes.
TEST_F(ExpertsTest, LongAndOddRowsEqualProductsWithTheirMatrixAlone) {
  for (const int32_t depth : {5120, 20480})
    check_products(make_experts(8, 1,
                                [&](StoredWeight& w, int32_t) {
                                  make_exl2(w, {{4, depth}}, 64, true, random_);
                                  w.source.prescale = 0.02f;
                                }),
                   1, false, 4);
  check_products(
      make_experts(8, 1, [&](StoredWeight& w, int32_t) { make_dense(w, DType::f16, 203, 40, random_); }), 1,
      false, 4);
}

double plain_gate(const MlpSpec& mlp, double gate, double up) {
  switch (mlp.activation) {
    case Activation::silu:
      return gate / (1.0 + std::exp(-gate)) * up;
    case Activation::gelu_tanh:
      return 0.5 * gate * (1.0 + std::tanh(0.7978845608028654 * (gate + 0.044715 * gate * gate * gate))) * up;
    default:
      gate = std::min(gate, double(mlp.c));
      return gate / (1.0 + std::exp(-mlp.a * gate)) *
             (std::clamp(up, double(-mlp.limit), double(mlp.limit)) + mlp.b);
  }
}

// Whichever kernel runs, gate and up have the same bits as for one row alone. The matrix kernels do not
// support the last activation.
void ExpertsTest::check_activations(const Experts& experts) {
  const auto activated = [&](const MlpSpec& mlp, const std::vector<int32_t>& of_row,
                             const std::vector<float>& input) {
    const size_t columns = experts.columns / 2;
    ExpertLinearParams p;
    p.experts = experts.handles.data();
    p.num_experts = static_cast<int32_t>(experts.handles.size());
    p.expert_of_row = to_device(of_row);
    p.input = to_device(to_halves(input));
    p.rows = static_cast<int32_t>(of_row.size());
    p.mlp = &mlp;
    p.products = poisoned<uint16_t>(of_row.size() * experts.columns);
    auto* out = poisoned<uint16_t>(of_row.size() * columns);
    p.output = out;
    EXPECT_EQ(table_->expert_linear(context_, &p), Status::ok);
    return from_device(out, of_row.size() * columns);
  };
  std::uniform_int_distribution<int32_t> any(0, 7);
  for (const Activation kind : {Activation::silu, Activation::gelu_tanh, Activation::clamped_swish}) {
    MlpSpec mlp;
    mlp.activation = kind;
    mlp.intermediate = 96;
    mlp.a = 1.702f;
    mlp.b = 0.75f;
    mlp.c = 0.4f;
    mlp.limit = 0.5f;
    for (const size_t rows : {size_t{3}, size_t{12}, size_t{100}, size_t{300}}) {
      SCOPED_TRACE(rows);
      const std::vector<float> input = to_floats(to_halves(random_floats(rows * experts.depth, random_)));
      std::vector<int32_t> of_row;
      for (size_t r = 0; r < rows; ++r) of_row.push_back(any(random_));
      const std::vector<float> out = to_floats(activated(mlp, of_row, input));
      for (size_t r = 0; r < rows; r += 1 + rows / 12) {
        const auto first = input.begin() + static_cast<ptrdiff_t>(r * experts.depth);
        const std::vector<float> row(first, first + static_cast<ptrdiff_t>(experts.depth));
        const std::vector<float> one = to_floats(activated(mlp, {of_row[r]}, row));
        const Weight* const expert = experts.handles[static_cast<size_t>(of_row[r])];
        const std::vector<float> products = to_floats(alone(expert, row, experts.columns));
        for (size_t c = 0; c < one.size(); ++c) {
          EXPECT_EQ(out[r * one.size() + c], one[c]) << "row " << r;
          const double expected = plain_gate(mlp, products[c], products[c + one.size()]);
          EXPECT_NEAR(one[c], expected, 2e-3 * (1.0 + std::fabs(expected)));
        }
      }
    }
  }
}

TEST_F(ExpertsTest, GateAndUpDoNotDependOnTheBatch) {
  check_activations(make_experts(8, 2, [&](StoredWeight& w, int32_t) {
    make_exl2(w, {{4, 256}}, 96, false, random_);
    w.source.prescale = 0.02f;
  }));
}

TEST_F(ExpertsTest, GateAndUpOfATrellisDoNotDependOnTheBatch) {
  check_activations(make_experts(8, 2, [&](StoredWeight& w, int32_t) {
    make_trellis(w, {TrellisCodebook::mul1, 8}, 256, 96);
  }));
}

// A product with the same rows as the previous one reuses their sorted order if both have tiles of one size.
TEST_F(ExpertsTest, ProductsThatReuseSortedRowsAreUnchanged) {
  const auto make = [&](int32_t depth, int32_t columns) {
    return make_experts(8, 1,
                        [&](StoredWeight& w, int32_t) { make_gptq(w, depth, columns, 64, false, random_); });
  };
  const Experts first = make(256, 72), second = make(128, 40);
  std::uniform_int_distribution<int32_t> any(0, 7);
  for (const size_t rows : {size_t{3}, size_t{12}, size_t{100}, size_t{300}}) {
    SCOPED_TRACE(rows);
    std::vector<int32_t> of_row, others;
    for (size_t r = 0; r < rows; ++r) {
      of_row.push_back(any(random_));
      others.push_back(any(random_));
    }
    const std::vector<float> input = to_floats(to_halves(random_floats(rows * 256, random_)));
    const std::vector<float> narrow(input.begin(), input.begin() + static_cast<ptrdiff_t>(rows * 128));
    const std::vector<uint16_t> expected = multiply(second, of_row, narrow, 1, {});
    int32_t* const experts = to_device(others);
    multiply(first, experts, rows, input, false);
    EXPECT_EQ(table_->upload(device_, experts, of_row.data(), rows * sizeof(int32_t)), Status::ok);
    multiply(first, experts, rows, input, false);
    EXPECT_EQ(multiply(second, experts, rows, narrow, true), expected);
  }
}

TEST_F(ExpertsTest, SumsOfExpertsAreAddedToTheTarget) {
  const std::vector<float> before = random_floats(3 * 40, random_);
  const std::vector<uint16_t> given = to_halves(random_floats(3 * 4 * 40, random_));
  const auto combined = [&](const std::vector<float>& start, bool adds) {
    CombineParams p;
    p.input = to_device(given);
    p.num_chosen = 4;
    p.tokens = 3;
    p.columns = 40;
    p.adds = adds;
    float* const target = to_device(start);
    p.target = target;
    EXPECT_EQ(table_->combine(context_, &p), Status::ok);
    return from_device(target, start.size());
  };
  const std::vector<float> sums = combined(std::vector<float>(before.size(), 7.0f), false);
  const std::vector<float> onto = combined(before, true);
  for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(onto[i], before[i] + sums[i]);
}

TEST_F(ExpertsTest, RowsAreProcessedInRoundsIfMemoryIsShort) {
  table_->release_context(context_);
  ContextLimits limits = small_limits();
  limits.max_tokens = 4;
  limits.expert_columns = 1024;
  make_context(limits);
  check_products(
      make_experts(8, 1, [&](StoredWeight& w, int32_t) { make_gptq(w, 256, 72, 64, false, random_); }), 4,
      true);
}

TEST_F(ExpertsTest, ExpertsOfDifferentFormatsAreMultipliedTogether) {
  const auto any = [&](StoredWeight& w, int32_t e) {
    if (e % 2 == 0) {
      make_gptq(w, 256, 64, 128, false, random_);
    } else {
      make_dense(w, DType::f16, 256, 64, random_);
    }
  };
  check_products(make_experts(6, 1, any), 1, false);
}

TEST_F(ExpertsTest, ExpertsThatWereNotPreparedTogetherAreRefused) {
  std::vector<StoredWeight> stored(3);
  std::vector<const Weight*> handles;
  for (StoredWeight& w : stored) {
    make_dense(w, DType::f16, 64, 32, random_);
    handles.push_back(prepare({w.source}));
  }
  std::swap(handles[0], handles[2]);
  ExpertLinearParams p;
  p.experts = handles.data();
  p.num_experts = 3;
  p.rows = 1;
  const Status refused = table_->expert_linear(context_, &p);
  EXPECT_EQ(refused, Status::invalid_argument);
  EXPECT_NE(std::string(refused.words).find("together"), std::string::npos);
}

TEST_F(ExpertsTest, ResultsAreAddedInTheOrderOfTheChoice) {
  constexpr size_t kTokens = 5, kChosen = 3, kColumns = 300;
  const std::vector<float> rows = to_floats(to_halves(random_floats(kTokens * kChosen * kColumns, random_)));
  const std::vector<float> weights = random_floats(kTokens * kChosen, random_);
  for (const bool weighted : {true, false}) {
    CombineParams p;
    p.input = to_device(to_halves(rows));
    p.weights = weighted ? to_device(weights) : nullptr;
    p.num_chosen = kChosen;
    p.tokens = kTokens;
    p.columns = kColumns;
    p.target = poisoned<float>(kTokens * kColumns);
    ASSERT_EQ(table_->combine(context_, &p), Status::ok);
    const std::vector<float> out = from_device(p.target, kTokens * kColumns);
    for (size_t t = 0; t < kTokens; ++t) {
      for (size_t c = 0; c < kColumns; ++c) {
        float sum = 0.0f;
        for (size_t i = 0; i < kChosen; ++i)
          sum = std::fma(weighted ? weights[t * kChosen + i] : 1.0f, rows[(t * kChosen + i) * kColumns + c],
                         sum);
        EXPECT_EQ(out[t * kColumns + c], sum) << t << ", " << c;
      }
    }
  }
}

}  // namespace
}  // namespace quire::kernels
