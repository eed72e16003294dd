// Experts (MoE): the router's choice, products of rows with the matrices of their experts, and the weighted
// sum of the results. A row's result depends only on that row, not on the other rows of its experts.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/device.h"
#include "kernels/cpu/table_entries.h"
#include "kernels/cpu/weight.h"
#include "kernels/interface/expert_activation.h"

namespace quire::kernels::cpu_entries {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

// Returns the index of the largest of `count` scores; the first one if several are equal.
int32_t best_of(const float* scores, int32_t count) {
  return static_cast<int32_t>(std::max_element(scores, scores + count) - scores);
}

void apply_softmax(const float* logits, int32_t count, float* out) {
  const float largest = logits[best_of(logits, count)];
  float sum = 0.0f;
  for (int32_t e = 0; e < count; ++e) sum += out[e] = std::exp(logits[e] - largest);
  for (int32_t e = 0; e < count; ++e) out[e] /= sum;
}

// Returns the score of a group of experts: its best expert, or the sum of its two best.
float group_score(const float* scores, int32_t size, bool by_two) {
  const int32_t first = best_of(scores, size);
  if (!by_two || size < 2) return scores[first];
  float second = kHidden;
  for (int32_t e = 0; e < size; ++e)
    if (e != first) second = std::max(second, scores[e]);
  return scores[first] + second;
}

void hide_other_groups(const RouterSpec& spec, float* scores) {
  if (spec.num_groups <= 1) return;
  const int32_t size = std::max(spec.num_experts / spec.num_groups, 1);
  float groups[kMaxExperts];
  for (int32_t g = 0; g < spec.num_groups; ++g)
    groups[g] = group_score(scores + ptrdiff_t{g} * size, size, spec.group_by_two);
  bool kept[kMaxExperts] = {};
  for (int32_t i = 0; i < spec.chosen_groups; ++i) {
    const int32_t best = best_of(groups, spec.num_groups);
    kept[best] = true;
    groups[best] = kHidden;
  }
  for (int32_t e = 0; e < spec.num_experts; ++e)
    if (!kept[e / size]) scores[e] = kHidden;
}

// Returns the weight of the best expert among those whose logits are near its own.
float mixed_weight(const float* logits, const float* candidates, int32_t count, int32_t best, float jitter) {
  const float highest = candidates[best];
  float sum = 0.0f;
  for (int32_t e = 0; e < count; ++e) {
    const float size = std::max(std::fabs(logits[e]), highest);
    if (candidates[e] == kHidden || (highest - logits[e]) / size > 2.0f * jitter) continue;
    sum += std::exp(candidates[e] - highest);
  }
  return 1.0f / sum;
}

void route_sparse_mixer(const RouteParams& params, const float* logits, int32_t* experts, float* weights) {
  float left[kMaxExperts];
  std::copy_n(logits, params.num_experts, left);
  for (int32_t i = 0; i < params.num_chosen; ++i) {
    const int32_t best = best_of(left, params.num_experts);
    experts[i] = best;
    weights[i] = mixed_weight(logits, left, params.num_experts, best, params.jitter);
    left[best] = kHidden;
  }
}

float capped(float logit, float softcap) {
  return softcap > 0.0f ? softcap * std::tanh(logit / softcap) : logit;
}

void score_experts(const RouteParams& params, const float* logits, float* scores) {
  const int32_t count = params.num_experts;
  switch (params.score) {
    case RouterScore::softmax:
      return apply_softmax(logits, count, scores);
    case RouterScore::sigmoid:
      for (int32_t e = 0; e < count; ++e)
        scores[e] = 1.0f / (1.0f + std::exp(-capped(logits[e], params.softcap)));
      return;
    default:
      std::copy_n(logits, count, scores);
  }
}

void make_chosen_weights(const RouteParams& params, const int32_t* experts, float* weights) {
  const int32_t chosen = params.num_chosen;
  if (params.score == RouterScore::softmax_of_chosen) {
    float logits[kMaxExperts];
    std::copy_n(weights, chosen, logits);
    apply_softmax(logits, chosen, weights);
  }
  float sum = 0.0f;
  for (int32_t i = 0; i < chosen; ++i) sum += weights[i];
  const float divisor = params.normalised ? std::max(sum, params.least_sum) : 1.0f;
  for (int32_t i = 0; i < chosen; ++i) {
    weights[i] = weights[i] / divisor * params.scale;
    if (params.expert_scale != nullptr) weights[i] *= params.expert_scale[experts[i]];
  }
}

void route_row(const RouteParams& params, const float* logits, int32_t* experts, float* weights) {
  if (params.score == RouterScore::sparse_mixer) return route_sparse_mixer(params, logits, experts, weights);
  float scores[kMaxExperts];
  float choice[kMaxExperts];
  score_experts(params, logits, scores);
  for (int32_t e = 0; e < params.num_experts; ++e)
    choice[e] = scores[e] + (params.choice_bias != nullptr ? params.choice_bias[e] : 0.0f);
  hide_other_groups(params, choice);
  for (int32_t i = 0; i < params.num_chosen; ++i) {
    experts[i] = best_of(choice, params.num_experts);
    choice[experts[i]] = kHidden;
  }
  for (int32_t i = 0; i < params.num_chosen; ++i) weights[i] = scores[experts[i]];
  make_chosen_weights(params, experts, weights);
}

void gather(const ExpertLinearParams& params, const int32_t* rows, int32_t count, int32_t columns,
            float* target) {
  const auto* input = static_cast<const float*>(params.input);
  const auto width = static_cast<size_t>(columns);
  for (int32_t i = 0; i < count; ++i) {
    const float* source = input + static_cast<size_t>(rows[i] / params.rows_per_input) * width;
    float* out = target + static_cast<size_t>(i) * width;
    const float factor = params.input_scale != nullptr ? params.input_scale[rows[i]] : 1.0f;
    for (size_t c = 0; c < width; ++c) out[c] = source[c] * factor;
  }
}

Status multiply_by_experts(Context* context, const ExpertLinearParams* params, float* output) {
  const Weight& shape = *params->experts[0];
  const size_t room = context->expert_rows.bytes() / sizeof(float);
  const size_t row_floats = static_cast<size_t>(shape.num_in) + static_cast<size_t>(shape.num_out);
  if (row_floats * kExpertRows > room) {
    return failed(Status::invalid_argument, "expert_linear: rows of %d and %d columns", shape.num_in,
                  shape.num_out);
  }
  float* gathered = context->expert_rows.as<float>();
  float* products = gathered + static_cast<size_t>(kExpertRows) * static_cast<size_t>(shape.num_in);
  const auto width = static_cast<size_t>(shape.num_out);
  const auto multiply = [&](int32_t expert, const int32_t* rows, int32_t count) {
    gather(*params, rows, count, shape.num_in, gathered);
    LinearParams product;
    product.weight = params->experts[expert];
    product.input = gathered;
    product.rows = count;
    product.output = products;
    const Status status = linear(context, &product);
    for (int32_t i = 0; status == Status::ok && i < count; ++i)
      std::memcpy(output + static_cast<size_t>(rows[i]) * width, products + static_cast<size_t>(i) * width,
                  width * sizeof(float));
    return status;
  };
  for (int32_t expert = 0; expert < params->num_experts; ++expert) {
    int32_t rows[kExpertRows];
    int32_t count = 0;
    for (int32_t r = 0; r < params->rows; ++r) {
      if (params->expert_of_row[r] != expert) continue;
      rows[count++] = r;
      if (count < kExpertRows) continue;
      if (const Status status = multiply(expert, rows, count); status != Status::ok) return status;
      count = 0;
    }
    if (count == 0) continue;
    if (const Status status = multiply(expert, rows, count); status != Status::ok) return status;
  }
  return Status::ok;
}

}  // namespace

Status route(Context* context, const RouteParams* params) {
  if (params->num_experts <= 0 || params->num_experts > kMaxExperts || params->num_chosen <= 0 ||
      params->num_chosen > params->num_experts) {
    return failed(Status::invalid_argument, "route: %d of %d experts (at most %d)", params->num_chosen,
                  params->num_experts, kMaxExperts);
  }
  const int64_t work = int64_t{8} * params->num_experts * (params->num_chosen + 4);
  share_work(context, params->rows, work, [&](int32_t, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      route_row(*params, params->logits + r * params->num_experts, params->experts + r * params->num_chosen,
                params->weights + r * params->num_chosen);
    }
  });
  return Status::ok;
}

Status expert_linear(Context* context, const ExpertLinearParams* params) {
  if (params->rows <= 0) return Status::ok;
  const MlpSpec* const mlp = params->mlp;
  const Status multiplied = multiply_by_experts(
      context, params, static_cast<float*>(mlp != nullptr ? params->products : params->output));
  if (multiplied != Status::ok || mlp == nullptr) return multiplied;
  const ActivationParams of_products = activation_of(*params);
  return activation(context, &of_products);
}

Status combine(Context* context, const CombineParams* params) {
  constexpr size_t kSumColumns = 256;  // columns at a time, so that rows are read contiguously
  const auto* input = static_cast<const float*>(params->input);
  const auto width = static_cast<size_t>(params->columns);
  const auto stride = params->target_stride != 0 ? static_cast<size_t>(params->target_stride) : width;
  const auto chosen = static_cast<size_t>(params->num_chosen);
  share_work(context, params->tokens, int64_t{2} * params->columns * params->num_chosen,
             [&](int32_t, int64_t first, int64_t last) {
               for (auto t = static_cast<size_t>(first); t < static_cast<size_t>(last); ++t) {
                 float* out = params->target + t * stride;
                 for (size_t first_column = 0; first_column < width; first_column += kSumColumns) {
                   float sums[kSumColumns] = {};
                   const size_t count = std::min(kSumColumns, width - first_column);
                   for (size_t i = 0; i < chosen; ++i) {
                     const float* row = input + (t * chosen + i) * width + first_column;
                     const float weight = params->weights != nullptr ? params->weights[t * chosen + i] : 1.0f;
                     for (size_t c = 0; c < count; ++c) sums[c] += weight * row[c];
                   }
                   float* to = out + first_column;
                   for (size_t c = 0; c < count; ++c) to[c] = params->adds ? to[c] + sums[c] : sums[c];
                 }
               }
             });
  return Status::ok;
}

}  // namespace quire::kernels::cpu_entries
