// The router's choice of experts: compared with a plain implementation, with the composition of primitives,
// and in batches of any size.
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

std::vector<float> softmax_of(const std::vector<float>& logits) {
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

// Computes the choice as the interface defines it, for all scores but sparse_mixer.
Choice plain_choice(const RouterSpec& spec, const std::vector<float>& logits, const std::vector<float>& bias,
                    const std::vector<float>& expert_scale) {
  std::vector<float> scores = logits;
  if (spec.score == RouterScore::softmax) scores = softmax_of(logits);
  if (spec.score == RouterScore::sigmoid)
    for (float& v : scores) {
      const float logit = spec.softcap > 0.0f ? spec.softcap * std::tanh(v / spec.softcap) : v;
      v = 1.0f / (1.0f + std::exp(-logit));
    }
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
  if (spec.score == RouterScore::softmax_of_chosen) out.weights = softmax_of(out.weights);
  const float sum = std::accumulate(out.weights.begin(), out.weights.end(), 0.0f);
  for (size_t i = 0; i < out.weights.size(); ++i) {
    out.weights[i] = out.weights[i] / (spec.normalised ? std::max(sum, spec.least_sum) : 1.0f) * spec.scale;
    if (!expert_scale.empty()) out.weights[i] *= expert_scale[static_cast<size_t>(out.experts[i])];
  }
  return out;
}

class ChoiceTest : public CudaTest {
 protected:
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
  // Rows with few distinct values: logits on a grid have ties.
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

  // Results of a router for `tokens` tokens.
  struct Chosen {
    std::vector<int32_t> experts;
    std::vector<float> weights, logits;
    std::vector<uint16_t> normed;
    bool operator==(const Chosen&) const = default;
  };
  // Chooses with one operation, or with primitives.
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
  // Adds a router for `experts` experts and its arguments.
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
  // Compares the choice of many tokens with that of primitives, and with each token alone.
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

  std::mt19937 random_{std::random_device{}()};
};

TEST_F(ChoiceTest, TheChoiceWaitsForARouterBeingCopied) {
  if (!parks()) GTEST_SKIP() << "this card cannot map memory";
  ExpertChoiceParams p = with_router(1024, 2048, {});
  p.num_tokens = 3;
  const std::vector<float> hidden = random_floats(size_t{3} * 2048, random_);
  const Chosen expected = choose(p, hidden, false);
  EXPECT_GT(offload_all(), uint64_t{2} << 20);
  restore_all();
  EXPECT_EQ(num_copies_in_flight().value_or(1), 1);
  EXPECT_TRUE(choose(p, hidden, false) == expected);
}

TEST_F(ChoiceTest, EveryRouterMatchesThePlainImplementation) {
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
      spec.softcap = 2.0f;
      check_route(spec, true, false);
    }
  }
}

TEST_F(ChoiceTest, TheChoiceDoesNotDependOnTheBatch) {
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

TEST_F(ChoiceTest, EqualScoresChooseTheLowerExpert) {
  RouterSpec spec;
  spec.num_experts = 128;
  spec.num_chosen = 8;
  spec.score = RouterScore::softmax_of_chosen;
  check_route(spec, false, true);
}

TEST_F(ChoiceTest, ExpertsAreChosenFromTheBestGroups) {
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

TEST_F(ChoiceTest, SparseMixerWeightsCountNearbyExperts) {
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

}  // namespace
}  // namespace quire::kernels
