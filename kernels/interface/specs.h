// Numbers that describe a layer. These attributes pass unchanged from a model's description into the
// parameters of the operations, which embed these structs. A new attribute needs a field here, a line in the
// reader of the model family that has it, and a kernel that implements it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/interface/weight_source.h"

namespace quire::kernels {

enum class NormKind : uint8_t { rms, layer, none };  // none: y = x

struct NormSpec {
  NormKind kind = NormKind::rms;
  float epsilon = 1e-5f;
  int32_t columns = 0;
};

enum class RopeStyle : uint8_t { none, neox_halves, gptj_pairs };

struct HeadShape {
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;  // divides num_heads
  int32_t head_dim = 0;      // dimension of queries and keys
  int32_t value_dim = 0;     // dimension of values and results; 0: head_dim
};

constexpr int32_t value_dim(const HeadShape& heads) {
  return heads.value_dim != 0 ? heads.value_dim : heads.head_dim;
}

// Elements that are normalised together: none, each head by itself, or all heads of q (of k) as one row.
enum class QkNorm : uint8_t { none, each_head, all_heads };

struct AttentionSpec {
  HeadShape heads;
  RopeStyle rope = RopeStyle::neox_halves;
  int32_t rotary_dim = 0;      // number of leading elements of each head that are rotated; 0: none
  float scale = 0.0f;          // multiplies q.k
  float softcap = 0.0f;        // c * tanh(score / c); 0: off
  int32_t sliding_window = 0;  // a token attends to the last `sliding_window` positions, including its own;
                               // 0: all
  int32_t chunk = 0;           // a token attends to no position before the multiple of `chunk` at or before
                               // its own; 0: all
  // Norms of q and k; without weights if the pointers to their weights are null.
  QkNorm qk_norm = QkNorm::none;
  NormKind qk_norm_kind = NormKind::rms;
  float qk_norm_epsilon = 1e-6f;
  bool qk_weight_per_head = false;  // each_head: the weights are [heads, head_dim], not [head_dim]
  bool norm_after_rope = false;
  bool value_norm = false;        // RMS norm without weights of each head of v
  bool values_are_keys = false;   // the row has no v: v is k before norm and rotation
  bool reads_cache_only = false;  // the row has q only: keys and values are another layer's
  bool heads_apart = false;       // q heads of one KV head lie num_kv_heads apart, not side by side
  bool has_sinks = false;         // each head has an additional logit of a key without a value
  bool has_slopes = false;        // ALiBi: scores fall with the distance of the key, by a slope for each head
  bool selects_keys = false;      // a token attends to the positions that are set in its row of a bit mask
  float clip = 0.0f;              // q, k and v are clamped to -clip..clip; 0: off
  // q is multiplied by 1 + beta * ln(1 + floor((position + offset) / floor)); beta 0: off.
  float temperature_beta = 0.0f;
  float temperature_floor = 1.0f;
  float temperature_offset = 0.0f;
};

// Return the columns of the parts of a row of q, k and v.
constexpr int32_t query_columns(const AttentionSpec& spec) {
  return spec.heads.num_heads * spec.heads.head_dim;
}
constexpr int32_t key_columns(const AttentionSpec& spec) {
  return spec.reads_cache_only ? 0 : spec.heads.num_kv_heads * spec.heads.head_dim;
}
constexpr int32_t value_columns(const AttentionSpec& spec) {
  const bool has_none = spec.reads_cache_only || spec.values_are_keys;
  return has_none ? 0 : spec.heads.num_kv_heads * value_dim(spec.heads);
}
constexpr int32_t qkv_columns(const AttentionSpec& spec) {
  return query_columns(spec) + key_columns(spec) + value_columns(spec);
}
constexpr int32_t result_columns(const AttentionSpec& spec) {
  return spec.heads.num_heads * value_dim(spec.heads);
}

// How the columns of a result are split among tensor-parallel shards: shard r computes columns starts[r] to
// starts[r + 1] - 1. Without starts every shard computes all columns.
struct ColumnSplit {
  const int32_t* starts = nullptr;  // [num_shards + 1], host memory
  int32_t num_shards = 1;
  int32_t rank = 0;  // this shard's number

  bool is_split() const { return starts != nullptr; }
  int32_t total() const { return starts[num_shards]; }
  int32_t first() const { return starts[rank]; }
  int32_t own() const { return starts[rank + 1] - starts[rank]; }
};

enum class Activation : uint8_t {
  silu,
  gelu_tanh,
  gelu_erf,
  relu,
  relu_squared,
  gelu_quick,     // x * sigmoid(1.702 x)
  xielu,          // x > 0: a x^2 + b x; else c (exp(min(x, e)) - 1 - x) + b x
  clamped_swish,  // gate at most c, up within -limit..limit: gate * sigmoid(a * gate) * (up + b)
};

// out = act(gate) * up, from rows that hold gate and up side by side; ungated: out = act(row).
struct MlpSpec {
  Activation activation = Activation::silu;
  bool gated = true;
  int32_t intermediate = 0;
  float a = 0.0f;  // parameters of the activation
  float b = 0.0f;
  float c = 0.0f;
  float limit = 0.0f;
  float sparsity_deviations = 0.0f;  // number of standard deviations: gate becomes max(gate - mean - that
                                     // many deviations, 0)
  bool is_sparse = false;
};

enum class RouterScore : uint8_t {
  softmax,            // over all experts
  softmax_of_chosen,  // over the logits of the chosen experts
  sigmoid,
  sparse_mixer,  // two experts, each weighted relative to the experts with logits near its own
};

inline constexpr int32_t kMaxExperts = 1024;

// Router of an MoE layer: which experts a token goes to, and with which weights.
struct RouterSpec {
  int32_t num_experts = 0;
  int32_t num_chosen = 0;
  RouterScore score = RouterScore::softmax;
  int32_t num_groups = 1;  // groups of adjacent experts; only experts of the best groups can be chosen
  int32_t chosen_groups = 1;
  bool group_by_two = true;   // a group's score is the sum of its two best experts, not its best one
  bool normalised = false;    // the weights of the chosen experts sum to one
  float least_sum = 0.0f;     // lower bound of the sum that they are divided by
  float scale = 1.0f;         // multiplies the weights
  float jitter = 0.0f;        // sparse_mixer: how near
  float softcap = 0.0f;       // sigmoid: logits become c * tanh(logit / c); 0: off
  bool scales_input = false;  // the weight multiplies an expert's input, not its output
};

// Features of a layer beyond the plain Llama block. A backend reports which ones it supports.
enum Mechanism : uint64_t {
  kMechanismLayerNorm = 1U << 0,
  kMechanismBareNorm = 1U << 1,     // without weights, or none
  kMechanismQkNorm = 1U << 2,       // RMS norm of each head before rotation, weights shared by heads
  kMechanismOtherQkNorm = 1U << 3,  // any other norm of q, k or v
  kMechanismPostNorm = 1U << 4,
  kMechanismSubNorm = 1U << 5,
  kMechanismParallel = 1U << 6,  // attention and feed-forward part read the same rows
  kMechanismSoftcap = 1U << 7,   // softcap of attention scores
  kMechanismChunks = 1U << 8,
  kMechanismSinks = 1U << 9,
  kMechanismValueDim = 1U << 10,      // dimension of values differs from that of keys
  kMechanismSharedKv = 1U << 11,      // keys that are also values, or keys of another layer
  kMechanismQueryScaling = 1U << 12,  // temperatures, clipping
  kMechanismActivations = 1U << 13,   // beyond silu, gelu, relu
  kMechanismExperts = 1U << 14,
  kMechanismLatent = 1U << 15,
  kMechanismKeySelection = 1U << 16,
  kMechanismPositions = 1U << 17,  // learned position embeddings
  kMechanismEmbeddingNorm = 1U << 18,
  kMechanismStreams = 1U << 19,  // several residual streams, per-layer embeddings
  kMechanismHeadExperts = 1U << 20,
  kMechanismDifferential = 1U << 21,
  kMechanismLayerScale = 1U << 22,
  kMechanismByteActivations = 1U << 23,    // ActivationDtype::i8
  kMechanismFloat8Activations = 1U << 24,  // ActivationDtype::f8
  kMechanismSlopes = 1U << 25,             // ALiBi
  kMechanismDeltaRule = 1U << 26,
  kMechanismStateSpace = 1U << 27,       // Mamba-2
  kMechanismLinearAttention = 1U << 28,  // lightning attention
  kMechanismSelectiveScan = 1U << 29,    // Mamba-1
  kMechanismConvolution = 1U << 30,      // over tokens, by itself
  kNumMechanisms = 31,
};

constexpr uint64_t mechanisms_of(ActivationDtype activations) {
  if (activations == ActivationDtype::i8) return kMechanismByteActivations;
  return activations == ActivationDtype::f8 ? uint64_t{kMechanismFloat8Activations} : 0U;
}

constexpr uint64_t mechanisms_of(const NormSpec& norm) {
  return norm.kind == NormKind::layer ? uint64_t{kMechanismLayerNorm}
                                      : (norm.kind == NormKind::none ? uint64_t{kMechanismBareNorm} : 0U);
}

constexpr uint64_t mechanisms_of(const AttentionSpec& spec) {
  const auto flag = [](bool holds, Mechanism mechanism) { return holds ? uint64_t{mechanism} : 0U; };
  const bool plain_norm = spec.qk_norm == QkNorm::each_head && spec.qk_norm_kind == NormKind::rms &&
                          !spec.qk_weight_per_head && !spec.norm_after_rope;
  return flag(plain_norm, kMechanismQkNorm) |
         flag((spec.qk_norm != QkNorm::none && !plain_norm) || spec.value_norm, kMechanismOtherQkNorm) |
         flag(spec.softcap != 0.0f, kMechanismSoftcap) | flag(spec.chunk != 0, kMechanismChunks) |
         flag(spec.has_sinks, kMechanismSinks) |
         flag(value_dim(spec.heads) != spec.heads.head_dim || spec.heads_apart, kMechanismValueDim) |
         flag(spec.values_are_keys || spec.reads_cache_only, kMechanismSharedKv) |
         flag(spec.clip != 0.0f || spec.temperature_beta != 0.0f, kMechanismQueryScaling) |
         flag(spec.selects_keys, kMechanismKeySelection) | flag(spec.has_slopes, kMechanismSlopes);
}

constexpr uint64_t mechanisms_of(const MlpSpec& spec) {
  return spec.activation > Activation::relu || spec.is_sparse ? uint64_t{kMechanismActivations} : 0U;
}

}  // namespace quire::kernels
