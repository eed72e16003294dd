// The router's choice of experts (MoE) for a row, by one warp.
#pragma once

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/interface/op_params.h"

namespace quire::kernels {

constexpr unsigned kAllLanes = 0xffffffffU;

__device__ __forceinline__ float hidden_score() {
  return __int_as_float(0xff800000);  // minus infinity
}

// Returns integers in the order of the scores; NaN is the smallest.
__device__ __forceinline__ uint32_t rank_of(float score) {
  const uint32_t bits = __float_as_uint(score + 0.0f);  // maps -0 to +0
  if (isnan(score)) return 0;
  return bits ^ ((bits >> 31) != 0 ? 0xffffffffU : 0x80000000U);
}

// A lane's scores of experts lane, lane + 32 and so on.
template <int kEach>
struct LaneScores {
  float score[kEach];
  uint32_t rank[kEach];

  // Scores beyond `count` get rank 0 and are never chosen.
  __device__ __forceinline__ LaneScores(const float* scores, const float* choice, int count, int lane) {
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int e = lane + 32 * k;
      score[k] = e < count ? scores[e] : 0.0f;
      rank[k] = e < count ? rank_of(choice[e]) : 0;
    }
  }
  // Removes the best expert, the first one if ranks are equal, and returns its number and score.
  __device__ __forceinline__ int remove_best(int lane, float& of_best) {
    uint32_t most = rank[0];
    int at = 0;
    float own = score[0];
#pragma unroll
    for (int k = 1; k < kEach; ++k) {
      if (rank[k] <= most) continue;
      most = rank[k];
      at = k;
      own = score[k];
    }
    const uint32_t all = reduce_max(most);
    const auto number = static_cast<uint32_t>(lane + 32 * at);
    const auto best = static_cast<int>(reduce_min(most == all ? number : 0xffffffffU));
    of_best = __shfl_sync(kAllLanes, own, best & 31);
#pragma unroll
    for (int k = 0; k < kEach; ++k)
      if (lane + 32 * k == best) rank[k] = rank_of(hidden_score());
    return best;
  }
};

// A score and its index; among equal scores the first is better.
struct Best {
  float score;
  int at;
  __device__ __forceinline__ void take(float other, int other_at) {
    if (other > score || (other == score && other_at < at)) {
      score = other;
      at = other_at;
    }
  }
};

__device__ __forceinline__ Best best_of(const float* scores, int count, int lane) {
  Best best = {hidden_score(), kMaxExperts};
  for (int i = lane; i < count; i += 32) best.take(scores[i], i);
#pragma unroll
  for (int d = 16; d > 0; d >>= 1)
    best.take(__shfl_xor_sync(kAllLanes, best.score, d), __shfl_xor_sync(kAllLanes, best.at, d));
  if (best.at == kMaxExperts) best.at = 0;  // all are NaN
  return best;
}

__device__ __forceinline__ float sum_of_lanes(float v) {
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(kAllLanes, v, d);
  return v;
}

// scores = softmax(logits).
__device__ __forceinline__ void apply_softmax(const float* logits, int count, float* scores, int lane) {
  const float largest = best_of(logits, count, lane).score;
  float sum = 0.0f;
  for (int i = lane; i < count; i += 32) sum += scores[i] = expf(logits[i] - largest);
  sum = sum_of_lanes(sum);
  for (int i = lane; i < count; i += 32) scores[i] /= sum;
  __syncwarp();
}

// Returns the score of a group: its best expert, or the sum of its two best.
__device__ __forceinline__ float group_score(const float* scores, int size, bool by_two) {
  Best first = {hidden_score(), 0};
  for (int i = 0; i < size; ++i)
    if (scores[i] > first.score) first = {scores[i], i};
  if (!by_two || size < 2) return first.score;
  float second = hidden_score();
  for (int i = 0; i < size; ++i)
    if (i != first.at) second = fmaxf(second, scores[i]);
  return first.score + second;
}

__device__ __forceinline__ void hide_other_groups(const RouterSpec& p, float* choice, float* groups,
                                                  int lane) {
  const int size = p.num_experts / p.num_groups;
  for (int g = lane; g < p.num_groups; g += 32)
    groups[g] = group_score(choice + g * size, size, p.group_by_two);
  __syncwarp();
  for (int i = 0; i < p.chosen_groups; ++i) {
    const int best = best_of(groups, p.num_groups, lane).at;
    __syncwarp();
    if (lane == 0) groups[best] = __int_as_float(0x7fc00000);  // NaN marks a chosen group
    __syncwarp();
  }
  for (int e = lane; e < p.num_experts; e += 32)
    if (!isnan(groups[e / size])) choice[e] = hidden_score();
  __syncwarp();
}

// Choice for one row by one warp; the tables belong to this warp.
struct RouteRow {
  const RouteParams& p;
  float* logits;
  float* scores;
  float* choice;
  int32_t* experts;  // out
  float* weights;
  int lane;

  __device__ __forceinline__ void choose_mixed() const {
    for (int i = 0; i < p.num_chosen; ++i) {
      const Best best = best_of(choice, p.num_experts, lane);
      float sum = 0.0f;
      for (int e = lane; e < p.num_experts; e += 32) {
        const float size = fmaxf(fabsf(logits[e]), best.score);
        const bool is_near = !((best.score - logits[e]) / size > 2.0f * p.jitter);
        if (choice[e] != hidden_score() && is_near) sum += expf(choice[e] - best.score);
      }
      sum = sum_of_lanes(sum);
      __syncwarp();
      if (lane == 0) {
        experts[i] = best.at;
        weights[i] = 1.0f / sum;
        choice[best.at] = hidden_score();
      }
      __syncwarp();
    }
  }
  template <int kEach>
  __device__ __forceinline__ void choose() const {
    LaneScores<kEach> all(scores, choice, p.num_experts, lane);
    __syncwarp();
#pragma unroll 1
    for (int i = 0; i < p.num_chosen; ++i) {
      float score;
      const int best = all.remove_best(lane, score);
      if (lane != 0) continue;
      experts[i] = best;
      logits[i] = score;  // the old logits are in scores
    }
    __syncwarp();
  }
  // Computes the weights of the chosen experts, whose scores are at the beginning of `logits`.
  __device__ __forceinline__ void weigh() const {
    const int chosen = p.num_chosen;
    if (p.score == RouterScore::softmax_of_chosen) apply_softmax(logits, chosen, logits, lane);
    float sum = 0.0f;
#pragma unroll 8
    for (int i = 0; i < chosen; ++i) sum += logits[i];
    const float divisor = p.normalised ? fmaxf(sum, p.least_sum) : 1.0f;
    for (int i = lane; i < chosen; i += 32) {
      float weight = logits[i] / divisor * p.scale;
      if (p.expert_scale != nullptr) weight *= p.expert_scale[experts[i]];
      weights[i] = weight;
    }
  }
};

// Returns the floats of shared memory that the choice of a row uses.
__host__ __device__ constexpr int route_floats(int num_experts) {
  return 3 * num_experts;
}

__device__ __forceinline__ float capped(float logit, float softcap) {
  return softcap > 0.0f ? softcap * tanhf(logit / softcap) : logit;
}

// Chooses among up to 32 * kEach experts, whose logits are at the beginning of `logits`.
template <int kEach>
__device__ __forceinline__ void route_row(const RouteParams& p, int row, float* logits, int lane) {
  float* scores = logits + p.num_experts;
  float* choice = scores + p.num_experts;
  const size_t at = static_cast<size_t>(row) * p.num_chosen;
  const RouteRow work = {p, logits, scores, choice, p.experts + at, p.weights + at, lane};
  if (p.score == RouterScore::softmax) apply_softmax(logits, p.num_experts, scores, lane);
  for (int e = lane; e < p.num_experts; e += 32) {
    if (p.score == RouterScore::sigmoid) scores[e] = 1.0f / (1.0f + expf(-capped(logits[e], p.softcap)));
    if (p.score == RouterScore::softmax_of_chosen || p.score == RouterScore::sparse_mixer)
      scores[e] = logits[e];
    choice[e] = scores[e] + (p.choice_bias != nullptr ? p.choice_bias[e] : 0.0f);
  }
  __syncwarp();
  if (p.score == RouterScore::sparse_mixer) return work.choose_mixed();
  if (p.num_groups > 1) hide_other_groups(p, choice, logits, lane);
  work.template choose<kEach>();
  work.weigh();
}

}  // namespace quire::kernels
