#include "tests/support/random_draws.h"

#include <algorithm>
#include <limits>

namespace quire::testing {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class Dice {
 public:
  explicit Dice(std::mt19937_64& random) : random_(random) {}
  bool one_in(uint64_t count) { return random_() % count == 0; }
  int32_t below(int32_t limit) { return static_cast<int32_t>(random_() % static_cast<uint64_t>(limit)); }
  // Returns one of few values, so that neighbours are sometimes equal.
  float number(float min, float max) { return min + (max - min) * static_cast<float>(below(1001)) / 1000.0F; }
  template <typename T>
  T any_of(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<int32_t>(values.size()))];
  }

 private:
  std::mt19937_64& random_;
};

std::vector<float> random_logits(Dice& dice, int32_t vocab_size) {
  const float spread = dice.any_of({0.0F, 0.5F, 3.0F, 12.0F, 60.0F});
  std::vector<float> logits(static_cast<size_t>(vocab_size));
  for (float& logit : logits) logit = dice.number(-spread, spread);
  const auto any = [&]() -> float& { return logits[static_cast<size_t>(dice.below(vocab_size))]; };
  if (dice.one_in(2)) any() = spread + 5.0F;
  for (int32_t i = 0; i < 3 && dice.one_in(2); ++i) any() = -kInfinity;
  if (dice.one_in(12)) any() = kInfinity;
  if (dice.one_in(12)) any() = std::numeric_limits<float>::quiet_NaN();
  if (dice.one_in(20)) std::fill(logits.begin(), logits.end(), -kInfinity);
  return logits;
}

SamplingSettings random_settings(Dice& dice, int32_t vocab_size, uint64_t seed) {
  SamplingSettings settings;
  settings.seed = seed;
  settings.temperature = dice.any_of({0.0F, 0.009F, 0.01F, 0.3F, 0.8F, 1.0F, 1.7F, 100.0F});
  settings.top_k = dice.any_of({0, 0, 1, 2, 40, vocab_size, vocab_size + 1});
  settings.top_p = dice.any_of({1.0F, 1.0F, 0.95F, 0.5F, 0.01F, 1e-30F});
  settings.min_p = dice.any_of({0.0F, 0.0F, 0.02F, 0.5F, 1.0F});
  if (dice.one_in(2)) {
    settings.repetition_penalty = dice.any_of({1.0F, 1.1F, 0.7F, 100.0F});
    settings.frequency_penalty = dice.any_of({0.0F, 0.3F, -0.2F});
    settings.presence_penalty = dice.any_of({0.0F, 0.9F, -100.0F});
    settings.penalty_range = dice.any_of({-1, 0, 5, 50});
  }
  // Returns each token once: consecutive tokens from a random one on.
  const auto next_tokens = [&](int32_t most) {
    TokenIds tokens(static_cast<size_t>(std::min(vocab_size, dice.below(most + 1))));
    TokenId token = dice.below(vocab_size);
    for (TokenId& each : tokens) each = token++ % vocab_size;
    return tokens;
  };
  if (dice.one_in(3)) {
    for (const TokenId token : next_tokens(6))
      settings.logit_bias.push_back(
          {token, dice.any_of({-3.0F, 2.5F, 1e30F, -std::numeric_limits<float>::max()})});
  }
  if (dice.one_in(3)) settings.banned_tokens = next_tokens(dice.one_in(4) ? vocab_size : 5);
  return settings;
}

}  // namespace

RandomDraw random_draw(std::mt19937_64& random, int32_t vocab_size) {
  Dice dice(random);
  std::vector<float> logits = random_logits(dice, vocab_size);
  SamplerState state(random_settings(dice, vocab_size, random()), vocab_size);
  const int32_t num_tokens = dice.below(80);
  for (int32_t i = 0; i < num_tokens; ++i) state.append(dice.below(std::min(vocab_size, 30)));
  TokenIds banned;
  for (int32_t i = 0; i < 4 && dice.one_in(3); ++i) banned.push_back(dice.below(vocab_size));
  return {std::move(logits), std::move(state), std::move(banned), dice.one_in(2)};
}

}  // namespace quire::testing
