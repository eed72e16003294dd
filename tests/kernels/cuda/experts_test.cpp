// Experts: the choice against a plain one, products against those with each matrix alone, and the sum.
#include <algorithm>
#include <numeric>

#include "kernels/interface/composite.h"
#include "tests/kernels/cuda/cuda_device.h"
#include "tests/kernels/cuda/random_weights.h"

namespace quire::kernels {
namespace {

constexpr float kNone = -INFINITY;

size_t best_of(const std::vector<float>& scores) {
  return static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

std::vector<float> softened(const std::vector<float>& logits) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  std::vector<float> out;
  for (const float v : logits) out.push_back(std::exp(v - largest));
  const float sum = std::accumulate(out.begin(), out.end(), 0.0f);
  for (float& v : out) v /= sum;
  return out;
}

float group_score(std::vector<float> scores, bool by_two) {
  std::sort(scores.begin(), scores.end(), std::greater<>());
  return by_two && scores.size() > 1 ? scores[0] + scores[1] : scores[0];
}

struct Choice {
  std::vector<int32_t> experts;
  std::vector<float> weights;
};

// As the interface says it, all but sparse_mixer.
Choice plain_choice(const RouterSpec& spec, const std::vector<float>& logits, const std::vector<float>& bias,
                    const std::vector<float>& expert_scale) {
  std::vector<float> scores = logits;
  if (spec.score == RouterScore::softmax) scores = softened(logits);
  if (spec.score == RouterScore::sigmoid)
    for (float& v : scores) v = 1.0f / (1.0f + std::exp(-v));
  std::vector<float> choice = scores;
  for (size_t e = 0; e < choice.size() && !bias.empty(); ++e) choice[e] += bias[e];
  if (spec.num_groups > 1) {
    const size_t size = choice.size() / static_cast<size_t>(spec.num_groups);
    std::vector<float> groups;
    for (size_t g = 0; g < choice.size(); g += size)
      groups.push_back(group_score(
          {choice.begin() + static_cast<ptrdiff_t>(g), choice.begin() + static_cast<ptrdiff_t>(g + size)},
          spec.group_by_two));
    std::vector<bool> kept(groups.size());
    for (int32_t i = 0; i < spec.chosen_groups; ++i) {
      const size_t best = best_of(groups);
      kept[best] = true;
      groups[best] = kNone;
    }
    for (size_t e = 0; e < choice.size(); ++e)
      if (!kept[e / size]) choice[e] = kNone;
  }
  Choice out;
  for (int32_t i = 0; i < spec.num_chosen; ++i) {
    const size_t best = best_of(choice);
    choice[best] = kNone;
    out.experts.push_back(static_cast<int32_t>(best));
    out.weights.push_back(scores[best]);
  }
  if (spec.score == RouterScore::softmax_of_chosen) out.weights = softened(out.weights);
  const float sum = std::accumulate(out.weights.begin(), out.weights.end(), 0.0f);
  for (size_t i = 0; i < out.weights.size(); ++i) {
    out.weights[i] = out.weights[i] / (spec.normalised ? std::max(sum, spec.least_sum) : 1.0f) * spec.scale;
    if (!expert_scale.empty()) out.weights[i] *= expert_scale[static_cast<size_t>(out.experts[i])];
  }
  return out;
}

class ExpertsTest : public CudaTest {
 protected:
  void SetUp() override {
    open(true);
    if (device_ == nullptr) return;
    ContextLimits limits = small_limits();
    limits.expert_columns = 1024;
    make_context(limits);
  }
  Choice route(const RouterSpec& spec, int32_t rows, const std::vector<float>& logits,
               const std::vector<float>& bias, const std::vector<float>& scale) {
    RouteParams p;
    static_cast<RouterSpec&>(p) = spec;
    p.logits = to_device(logits);
    if (!bias.empty()) p.choice_bias = to_device(bias);
    if (!scale.empty()) p.expert_scale = to_device(scale);
    p.rows = rows;
    const auto count = static_cast<size_t>(rows * spec.num_chosen);
    p.experts = poisoned<int32_t>(count);
    p.weights = poisoned<float>(count);
    EXPECT_EQ(table_->route(context_, &p), Status::ok);
    return {from_device(p.experts, count), from_device(p.weights, count)};
  }
  // Rows in a few places: logits on a grid have ties.
  void check_route(const RouterSpec& spec, bool has_bias, bool on_grid) {
    constexpr int32_t kRows = 37;
    const auto experts = static_cast<size_t>(spec.num_experts);
    std::vector<float> logits = random_floats(kRows * experts, random_);
    for (float& v : logits)
      if (on_grid) v = std::round(v * 4.0f) / 4.0f;
    const std::vector<float> bias = has_bias ? random_floats(experts, random_, 0.1f) : std::vector<float>();
    const std::vector<float> scale = has_bias ? random_floats(experts, random_) : std::vector<float>();
    const Choice all = route(spec, kRows, logits, bias, scale);
    for (size_t r = 0; r < kRows; ++r) {
      const auto first = logits.begin() + static_cast<ptrdiff_t>(r * experts);
      const Choice plain = plain_choice(spec, {first, first + static_cast<ptrdiff_t>(experts)}, bias, scale);
      const auto chosen = static_cast<size_t>(spec.num_chosen);
      for (size_t i = 0; i < chosen; ++i) {
        EXPECT_EQ(all.experts[r * chosen + i], plain.experts[i]) << "row " << r << ", place " << i;
        EXPECT_NEAR(all.weights[r * chosen + i], plain.weights[i],
                    2e-5f * (1.0f + std::fabs(plain.weights[i])));
      }
    }
  }

  // What a router leaves of `tokens` tokens.
  struct Chosen {
    std::vector<int32_t> experts;
    std::vector<float> weights, logits;
    std::vector<uint16_t> normed;
    bool operator==(const Chosen&) const = default;
  };
  // In one operation, or made of primitives.
  Chosen choose(ExpertChoiceParams p, const std::vector<float>& hidden, bool composed) {
    const auto tokens = static_cast<size_t>(p.num_tokens), experts = static_cast<size_t>(p.num_experts),
               chosen = static_cast<size_t>(p.num_chosen);
    Workspace& space = p.workspace;
    space.hidden = to_device(hidden);
    auto* normed = to_device(std::vector<uint16_t>(hidden.size(), 0x3c00));
    space.normed = normed;
    const auto set = [&](Scratch kind, float* at) { space.scratch[static_cast<size_t>(kind)] = at; };
    set(Scratch::router, poisoned<float>(tokens * experts));
    auto* of_token = poisoned<int32_t>(tokens * chosen);
    set(Scratch::chosen, reinterpret_cast<float*>(of_token));
    set(Scratch::weights, poisoned<float>(tokens * chosen));
    EXPECT_EQ(composed ? composed_choose_experts(context_, &p) : table_->choose_experts(context_, &p),
              Status::ok);
    return {from_device(of_token, tokens * chosen), from_device(space.at(Scratch::weights), tokens * chosen),
            from_device(space.at(Scratch::router), tokens * experts), from_device(normed, hidden.size())};
  }
  // A router of so many experts and what goes with it.
  ExpertChoiceParams with_router(int32_t experts, int32_t columns, ExpertChoiceParams p) {
    StoredWeight stored;
    make_dense(stored, DType::f16, columns, experts, random_);
    p.router = prepare({stored.source});
    p.num_experts = experts;
    p.num_chosen = std::min(8, experts);
    p.choice_bias = to_device(random_floats(static_cast<size_t>(experts), random_, 0.1f));
    p.norm.weight = to_device(random_floats(static_cast<size_t>(columns), random_));
    p.norm.columns = columns;
    p.norm.epsilon = 1e-5f;
    return p;
  }
  // Its choice of tokens at once, made of primitives, and of each alone.
  void check_choice(int32_t experts, int32_t columns, const ExpertChoiceParams& form) {
    ExpertChoiceParams p = with_router(experts, columns, form);
    const auto width = static_cast<size_t>(columns);
    for (const int32_t tokens : {1, 2, 7, 8, 9, 40}) {
      SCOPED_TRACE(testing::Message() << tokens << " tokens, " << experts << " experts");
      const std::vector<float> hidden = random_floats(static_cast<size_t>(tokens) * width, random_);
      p.num_tokens = tokens;
      if (p.input != nullptr) p.input = to_device(to_halves(hidden));
      const Chosen all = choose(p, hidden, false);
      EXPECT_TRUE(all == choose(p, hidden, true));
      const auto last = static_cast<size_t>(tokens - 1), chosen = static_cast<size_t>(p.num_chosen);
      const std::vector<float> row(hidden.begin() + static_cast<ptrdiff_t>(last * width), hidden.end());
      p.num_tokens = 1;
      if (p.input != nullptr) p.input = to_device(to_halves(row));
      const Chosen alone = choose(p, row, false);
      const auto tail = [](const auto& of_all, size_t first) {
        return std::vector(of_all.begin() + static_cast<ptrdiff_t>(first), of_all.end());
      };
      EXPECT_EQ(tail(all.experts, last * chosen), alone.experts);
      EXPECT_EQ(tail(all.weights, last * chosen), alone.weights);
      EXPECT_EQ(tail(all.logits, last * static_cast<size_t>(experts)), alone.logits);
      EXPECT_EQ(tail(all.normed, last * width), alone.normed);
    }
  }

  // Experts prepared together, as a model does: the two matrices of an expert side by side.
  struct Experts {
    std::vector<std::vector<std::unique_ptr<StoredWeight>>> parts;  // of each expert
    std::vector<Weight*> all;                                       // with others between them
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
  // One row by one matrix, the same bits as in any company.
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
  // Every kernel is taken by some number of rows.
  void check_products(const Experts& experts, int32_t per_input, bool scaled, size_t most_rows = 1200) {
    for (const size_t rows : {size_t{4}, size_t{12}, size_t{100}, size_t{300}, size_t{1200}}) {
      if (rows > most_rows) break;
      SCOPED_TRACE(rows);
      const size_t inputs = rows / static_cast<size_t>(per_input);
      const std::vector<float> input = to_floats(to_halves(random_floats(inputs * experts.depth, random_)));
      std::vector<int32_t> of_row;
      std::uniform_int_distribution<int32_t> any(0, static_cast<int32_t>(experts.handles.size()) - 2);
      for (size_t r = 0; r < rows; ++r) of_row.push_back(any(random_));  // the last has none
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
  std::mt19937 random_{std::random_device{}()};
};

TEST_F(ExpertsTest, MatricesOnTheirWayAreWaitedFor) {
  if (!parks()) GTEST_SKIP() << "this card maps no memory";
  const Experts experts = make_experts(24, 2, [&](StoredWeight& w, int32_t) {
    make_exl2(w, {{4, 256}}, 192, false, random_);
    w.source.prescale = 0.02f;
  });
  const std::vector<int32_t> of_row{3, 0, 21, 3};
  const std::vector<float> input = to_floats(to_halves(random_floats(4 * experts.depth, random_)));
  const std::vector<uint16_t> expected = multiply(experts, of_row, input, 1, {});
  EXPECT_EQ(park_all(), uint64_t{2} << 20) << "one piece for all";
  bring_all();
  EXPECT_EQ(num_late_copies().value_or(1), 1);
  EXPECT_EQ(multiply(experts, of_row, input, 1, {}), expected);
}

TEST_F(ExpertsTest, ARouterOnItsWayIsWaitedFor) {
  if (!parks()) GTEST_SKIP() << "this card maps no memory";
  ExpertChoiceParams p = with_router(1024, 2048, {});
  p.num_tokens = 3;
  const std::vector<float> hidden = random_floats(size_t{3} * 2048, random_);
  const Chosen expected = choose(p, hidden, false);
  EXPECT_GT(park_all(), uint64_t{2} << 20);
  bring_all();
  EXPECT_EQ(num_late_copies().value_or(1), 1);
  EXPECT_TRUE(choose(p, hidden, false) == expected);
}

TEST_F(ExpertsTest, EveryRouterChoosesAsThePlainOne) {
  for (const RouterScore score :
       {RouterScore::softmax, RouterScore::softmax_of_chosen, RouterScore::sigmoid}) {
    for (const int32_t experts : {4, 60, 128, 1024}) {
      RouterSpec spec;
      spec.num_experts = experts;
      spec.num_chosen = std::min(8, experts);
      spec.score = score;
      check_route(spec, false, false);
      spec.normalised = true;
      spec.least_sum = 1e-20f;
      spec.scale = 2.5f;
      check_route(spec, true, false);
    }
  }
}

TEST_F(ExpertsTest, AChoiceIsThatOfTheRoutersProductInAnyCompany) {
  for (const int32_t experts : {8, 100, 128, 256, 300, 1024}) check_choice(experts, 512, {});
  check_choice(128, 2048, {});
  check_choice(64, 200, {});  // not whole blocks of rows
  ExpertChoiceParams layer_norm;
  layer_norm.norm.kind = NormKind::layer;
  check_choice(128, 512, layer_norm);
  ExpertChoiceParams of_input;
  of_input.input = &of_input;  // set for each number of tokens
  of_input.score = RouterScore::sigmoid;
  check_choice(128, 512, of_input);
}

TEST_F(ExpertsTest, OfEqualScoresTheLowerExpertIsChosen) {
  RouterSpec spec;
  spec.num_experts = 128;
  spec.num_chosen = 8;
  spec.score = RouterScore::softmax_of_chosen;
  check_route(spec, false, true);
}

TEST_F(ExpertsTest, OnlyTheBestGroupsAreChosenFrom) {
  for (const bool by_two : {false, true}) {
    RouterSpec spec;
    spec.num_experts = 160;
    spec.num_chosen = 6;
    spec.num_groups = 8;
    spec.chosen_groups = 3;
    spec.group_by_two = by_two;
    spec.score = RouterScore::sigmoid;
    check_route(spec, by_two, false);
  }
}

TEST_F(ExpertsTest, AWeightCountsTheExpertsNearIt) {
  RouterSpec spec;
  spec.num_experts = 16;
  spec.num_chosen = 2;
  spec.score = RouterScore::sparse_mixer;
  spec.jitter = 0.01f;
  std::vector<float> logits(16, -5.0f);
  logits[3] = 2.0f;
  logits[7] = 1.99f;
  logits[11] = 1.0f;
  const Choice choice = route(spec, 1, logits, {}, {});
  EXPECT_EQ(choice.experts, (std::vector<int32_t>{3, 7}));
  EXPECT_NEAR(choice.weights[0], 1.0f / (1.0f + std::exp(-0.01f)), 1e-5f);
  EXPECT_NEAR(choice.weights[1], 1.0f, 1e-5f);
}

TEST_F(ExpertsTest, RowsGiveWhatTheirMatrixGivesThemAlone) {
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

// Rows that a thread block puts in order in several rounds; that leave no room for a second block beside one
// that stages them; and that end within 16 bytes.
TEST_F(ExpertsTest, LongAndOddRowsGiveWhatTheirMatrixGivesThemAlone) {
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
      gate = std::min(gate, double(mlp.limit));
      return gate / (1.0 + std::exp(-mlp.a * gate)) *
             (std::clamp(up, double(-mlp.limit), double(mlp.limit)) + 1.0);
  }
}

// Whichever kernel takes them, what a gate makes of its up has the bits of one row alone. The last activation
// is none that the matrix kernels have.
TEST_F(ExpertsTest, GatesMeetTheirUpsInAnyCompany) {
  const Experts experts = make_experts(8, 2, [&](StoredWeight& w, int32_t) {
    make_exl2(w, {{4, 256}}, 96, false, random_);
    w.source.prescale = 0.02f;
  });
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

// A product after another of the same rows takes them as they lie sorted, where both have tiles of one size.
TEST_F(ExpertsTest, ProductsOfTheSameRowsGiveWhatEachGives) {
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

TEST_F(ExpertsTest, SumsOfExpertsGoOnTopOfWhatIsThere) {
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

TEST_F(ExpertsTest, RowsGoInRoundsWhereThereIsLittleRoom) {
  table_->release_context(context_);
  ContextLimits limits = small_limits();
  limits.max_tokens = 4;
  limits.expert_columns = 1024;
  make_context(limits);
  check_products(
      make_experts(8, 1, [&](StoredWeight& w, int32_t) { make_gptq(w, 256, 72, 64, false, random_); }), 4,
      true);
}

TEST_F(ExpertsTest, ExpertsInDifferentFormsStandSideBySide) {
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
