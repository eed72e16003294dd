// Time of one draw from a vocabulary of 128k tokens, for different settings.
#include <random>

#include <benchmark/benchmark.h>

#include "core/sampling/sampler.h"

namespace quire {
namespace {

constexpr int32_t kVocabSize = 128256;

// Returns logits that resemble a language model's: a long normal tail and a few likely tokens.
std::vector<float> make_row() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 1.5F);
  std::vector<float> row(kVocabSize);
  for (float& logit : row) logit = normal(random);
  for (size_t idx = 0; idx < 20; ++idx) row[idx * 5003] = 14.0F - 0.4F * static_cast<float>(idx);
  return row;
}

void run(benchmark::State& bench, SamplingSettings settings, int num_top_log_probs = -1) {
  const std::vector<float> row = make_row();
  Sampler sampler(kVocabSize);
  SamplerState state(std::move(settings), kVocabSize);
  for (TokenId token = 0; token < 1000; ++token) state.append(token);
  for (auto _ : bench) {
    benchmark::DoNotOptimize(sampler.sample({.logits = row,
                                             .state = &state,
                                             .want_log_prob = num_top_log_probs >= 0,
                                             .num_top_log_probs = std::max(0, num_top_log_probs)}));
    state.append(1);
  }
}

void greedy(benchmark::State& bench) {
  run(bench, {.temperature = 0.0F});
}
void plain_softmax(benchmark::State& bench) {
  run(bench, {});
}
void top_k_40(benchmark::State& bench) {
  run(bench, {.top_k = 40});
}
void top_p_90(benchmark::State& bench) {
  run(bench, {.top_p = 0.9F});
}
void top_p_90_hot(benchmark::State& bench) {
  run(bench, {.temperature = 10.0F, .top_p = 0.9F});
}
void min_p_05(benchmark::State& bench) {
  run(bench, {.min_p = 0.05F});
}
void common_chat(benchmark::State& bench) {
  run(bench, {.temperature = 0.7F, .top_k = 40, .top_p = 0.95F, .min_p = 0.05F, .repetition_penalty = 1.1F});
}
void greedy_with_log_prob(benchmark::State& bench) {
  run(bench, {.temperature = 0.0F}, 0);
}
void greedy_with_top_20(benchmark::State& bench) {
  run(bench, {.temperature = 0.0F}, 20);
}

BENCHMARK(greedy);
BENCHMARK(plain_softmax);
BENCHMARK(top_k_40);
BENCHMARK(top_p_90);
BENCHMARK(top_p_90_hot);
BENCHMARK(min_p_05);
BENCHMARK(common_chat);
BENCHMARK(greedy_with_log_prob);
BENCHMARK(greedy_with_top_20);

}  // namespace
}  // namespace quire

BENCHMARK_MAIN();
