// The arguments of each operation: one plain struct per operation, shapes in comments.
//
// T tokens of a step, S sequences, L rows whose logits are wanted, H hidden size, V vocabulary.
#pragma once

#include <cstdint>

#include "kernels/interface/types.h"

namespace quire::kernels {

// What one step works on. Arrays lie in device memory once `bind_batch` has placed them.
//
// The tokens of sequence s are rows sequence_starts[s] .. sequence_starts[s+1]-1, in order of position and
// without gaps: they are the last tokens of its kv_lengths[s] tokens. Token i of a sequence attends to
// positions 0..positions[i] of the same sequence.
struct BatchView {
  int32_t num_tokens = 0;                      // T
  int32_t num_sequences = 0;                   // S
  int32_t num_logit_rows = 0;                  // L
  int32_t max_query_tokens = 0;                // of any sequence in this step
  int32_t max_kv_tokens = 0;                   // of any sequence, after this step
  int32_t page_table_stride = 0;               // entries per sequence
  const int32_t* token_ids = nullptr;          // [T]
  const int32_t* positions = nullptr;          // [T]
  const int32_t* sequence_of_token = nullptr;  // [T] index into the S sequences
  const int32_t* sequence_starts = nullptr;    // [S + 1]
  const int32_t* kv_lengths = nullptr;         // [S] tokens in the cache after this step's are appended
  const int32_t* page_table = nullptr;         // [S, page_table_stride] page of each page_tokens tokens
  const int32_t* logit_rows = nullptr;         // [L] rows of T, ascending
};

// How keys and values are stored. Formats q8 and q4 are those of docs/formats.md, "KV cache".
enum class KvFormat : uint8_t { f16, fp8, q8, q4 };

struct KvShape {
  KvFormat key_format = KvFormat::f16;
  KvFormat value_format = KvFormat::f16;
  int32_t page_tokens = 256;
  int32_t num_pages = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
};

// Bytes of the codes of one layer's keys (or values): [num_pages, num_kv_heads, page_tokens, head_dim].
constexpr size_t kv_data_bytes(const KvShape& shape, KvFormat format) {
  const size_t elements = size_t(shape.num_pages) * size_t(shape.num_kv_heads) * size_t(shape.page_tokens) *
                          size_t(shape.head_dim);
  switch (format) {
    case KvFormat::f16:
      return elements * 2;
    case KvFormat::fp8:
    case KvFormat::q8:
      return elements;
    case KvFormat::q4:
      return elements / 2;
  }
  return 0;
}

// Bytes of the f16 scales, one per 32 elements; 0 for the formats without.
constexpr size_t kv_scale_bytes(const KvShape& shape, KvFormat format) {
  if (format == KvFormat::f16 || format == KvFormat::fp8) return 0;
  const size_t elements = size_t(shape.num_pages) * size_t(shape.num_kv_heads) * size_t(shape.page_tokens) *
                          size_t(shape.head_dim);
  return elements / 32 * 2;
}

// One layer of the paged cache, device memory. Keys are stored after rotary embedding.
struct KvLayer {
  void* keys = nullptr;        // [num_pages, num_kv_heads, page_tokens, head_dim]
  void* values = nullptr;      // likewise
  void* key_scales = nullptr;  // [num_pages, num_kv_heads, page_tokens, head_dim / 32], or nullptr
  void* value_scales = nullptr;
};

// Rows of an embedding table into the residual stream.
struct EmbedParams {
  const Weight* table = nullptr;       // prepared by prepare_table, [V, H]
  float scale = 1.0f;                  // embedding multiplier
  const int32_t* token_ids = nullptr;  // [T], each in 0..V-1
  int32_t num_tokens = 0;
  float* hidden = nullptr;  // out [T, H]; the residual stream is always f32
};

enum class NormKind : uint8_t { rms, layer };

// y = norm(x) * weight (+ bias). Statistics in f32.
struct NormParams {
  NormKind kind = NormKind::rms;
  const float* weight = nullptr;  // [columns]; Gemma's "+1" is already in it
  const float* bias = nullptr;    // [columns] or nullptr (layer norm only)
  float epsilon = 1e-5f;
  const float* input = nullptr;        // [rows, columns] f32
  const int32_t* row_index = nullptr;  // [rows] which input row each output row reads, or nullptr: itself
  int32_t rows = 0;
  int32_t columns = 0;
  void* output = nullptr;     // [rows, columns] activation dtype
  float* residual = nullptr;  // [rows, columns] f32: y is added to it and output is not written, or nullptr
};

// y = x W + bias. The Weight knows its bias, its row order and its column order.
struct LinearParams {
  const Weight* weight = nullptr;  // [K, N]; N is the sum over its parts
  const void* input = nullptr;     // [rows, K] activation dtype
  int32_t rows = 0;
  void* output = nullptr;       // [rows, N] activation dtype, or nullptr
  float* residual = nullptr;    // [rows, N] f32: the product is added to it, or nullptr
  float* output_f32 = nullptr;  // [rows, N] f32, or nullptr. Exactly one of the three outputs is set
};

enum class RopeStyle : uint8_t { none, neox_halves, gptj_pairs };

// cos and sin of position * inv_freq, once per step for all layers that share the frequencies.
struct RopeAnglesParams {
  const float* inv_freq = nullptr;  // [rotary_dim / 2]
  int32_t rotary_dim = 0;
  float magnitude = 1.0f;              // multiplies both (YaRN, long rope)
  const int32_t* positions = nullptr;  // [T]
  int32_t num_tokens = 0;
  float* cos = nullptr;  // out [T, rotary_dim / 2]
  float* sin = nullptr;
};

struct HeadShape {
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;  // divides num_heads
  int32_t head_dim = 0;
};

// Applies per-head norms and rotary embedding to q (in place) and k, then writes k and v to their pages.
struct AppendKvParams {
  HeadShape heads;
  void* qkv = nullptr;  // in/out [T, (num_heads + 2 * num_kv_heads) * head_dim] activation dtype: q, k, v
  const float* q_norm = nullptr;  // [head_dim] RMS weight or nullptr
  const float* k_norm = nullptr;
  float norm_epsilon = 1e-6f;
  RopeStyle rope = RopeStyle::neox_halves;
  int32_t rotary_dim = 0;
  const float* cos = nullptr;  // [T, rotary_dim / 2]
  const float* sin = nullptr;
  BatchView batch;
  KvShape kv_shape;
  KvLayer kv;
};

// Causal attention of the step's queries over the paged cache.
struct AttentionParams {
  HeadShape heads;
  const void* qkv = nullptr;   // as AppendKvParams left it; only q is read
  float scale = 0.0f;          // multiplies q.k
  float softcap = 0.0f;        // c * tanh(score / c); 0: off
  int32_t sliding_window = 0;  // a token sees the last `sliding_window` positions, itself included; 0: all
  BatchView batch;
  KvShape kv_shape;
  KvLayer kv;
  void* output = nullptr;  // [T, num_heads * head_dim] activation dtype
};

enum class Activation : uint8_t { silu, gelu_tanh, gelu_erf, relu };

// out = act(gate) * up, from rows that hold gate and up side by side; ungated: out = act(row).
struct ActivationParams {
  Activation kind = Activation::silu;
  bool gated = true;
  const void* input = nullptr;  // [rows, 2 * columns] gate then up, or [rows, columns]; activation dtype
  int32_t rows = 0;
  int32_t columns = 0;
  void* output = nullptr;  // [rows, columns] activation dtype
};

// Copies the first num_tokens tokens of page `source` to page `target`, keys and values of one layer.
struct CopyPageParams {
  KvShape kv_shape;
  KvLayer kv;
  int32_t source = 0;
  int32_t target = 0;
  int32_t num_tokens = 0;  // 1..page_tokens
};

// Scratch for activations, device memory, sized for the context's max_tokens. Owned by the cache.
struct Workspace {
  float* hidden = nullptr;     // [T, H] f32, the residual stream
  void* normed = nullptr;      // [T, H] activation dtype
  float* projected = nullptr;  // [T, H] f32, what post_norm is applied to; nullptr where no layer has one
  void* qkv = nullptr;         // [T, (num_heads + 2 * num_kv_heads) * head_dim]
  void* attention = nullptr;   // [T, num_heads * head_dim]
  void* gate_up = nullptr;     // [T, 2 * intermediate]
  void* activated = nullptr;   // [T, intermediate]
  float* rope_cos = nullptr;   // [T, rotary_dim / 2]
  float* rope_sin = nullptr;
  float* logits = nullptr;  // [max_logit_rows, V]
};

// hidden += o(attention(rope(qkv(norm(hidden))))). `append` and `attention` are filled but for the buffers,
// which come from the workspace.
struct AttentionBlockParams {
  NormParams norm;              // weight, bias, kind, epsilon
  const Weight* qkv = nullptr;  // three parts: q, k, v
  const Weight* output = nullptr;
  HeadShape heads;
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  float qk_norm_epsilon = 1e-6f;
  RopeStyle rope = RopeStyle::neox_halves;
  int32_t rotary_dim = 0;
  float scale = 0.0f;
  float softcap = 0.0f;
  int32_t sliding_window = 0;
  const NormParams* post_norm = nullptr;  // applied to the block's result before it is added, or nullptr
  BatchView batch;
  KvShape kv_shape;
  KvLayer kv;
  Workspace workspace;
  const Weight* next = nullptr;  // the matrix that the following block reads first: a hint to prefetch
};

// hidden += down(act(gate(norm(hidden))) * up(norm(hidden))).
struct MlpBlockParams {
  NormParams norm;
  const Weight* gate_up = nullptr;  // two parts: gate, up; one part where ungated
  const Weight* down = nullptr;
  Activation activation = Activation::silu;
  bool gated = true;
  int32_t intermediate = 0;
  const NormParams* post_norm = nullptr;
  int32_t num_tokens = 0;
  Workspace workspace;
  const Weight* next = nullptr;
};

// logits = softcap(scale * (head(norm(hidden[logit_rows])))), f32, into workspace.logits.
struct HeadParams {
  NormParams norm;
  const Weight* head = nullptr;  // [H, V]
  float logit_scale = 1.0f;
  float softcap = 0.0f;
  int32_t vocab_size = 0;
  BatchView batch;
  Workspace workspace;
};

// One change to one logit of a row, made before anything is cut; see SampleRow.
struct LogitEdit {
  int32_t token = 0;
  float amount = 0.0f;
};

// A draw from one row of logits; see SamplingSettings in core/sampling for the meaning of each number. The
// edits of a row are three runs, one behind the other, that take effect in this order: penalised (amount: how
// often the token occurred), biased (added; never makes a finite logit infinite), excluded (-infinity). No
// token is penalised or biased twice.
struct SampleRow {
  int32_t logit_row = 0;     // of SampleParams::logits
  float temperature = 0.0f;  // below 0.01: arg-max
  int32_t top_k = 0;         // 0: off
  float top_p = 1.0f;
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;
  float frequency_penalty = 0.0f;
  float presence_penalty = 0.0f;
  // The draw: with t the sum of the weights that the cuts left, the token whose weights, summed in order of
  // id, first exceed the high 64 bits of random_bits * t.
  uint64_t random_bits = 0;
  int32_t first_edit = 0;  // of SampleParams::edits
  int32_t num_penalised = 0;
  int32_t num_biased = 0;
  int32_t num_excluded = 0;
  int32_t wants_log_prob = 0;
  const uint32_t* mask = nullptr;  // device memory, bit t of word t/32 set: allowed; nullptr: all

  bool operator==(const SampleRow&) const = default;
};

enum class SampleStatus : int32_t { drawn = 0, not_finite = 1, nothing_allowed = 2 };

// What came of a SampleRow.
struct SampleOutcome {
  int32_t token = -1;
  float log_prob = 0.0f;  // of the token under the softmax of the unchanged row, where it was wanted
  SampleStatus status = SampleStatus::drawn;  // not_finite: NaN or +infinity in the unchanged row
};

struct SampleParams {
  const float* logits = nullptr;  // [.., stride]
  int32_t stride = 0;
  int32_t vocab_size = 0;           // logits of a row that count; at most stride
  const SampleRow* rows = nullptr;  // [num_rows] host memory, read before the call returns
  int32_t num_rows = 0;
  const LogitEdit* edits = nullptr;  // [num_edits] host memory, likewise
  int32_t num_edits = 0;
  // out [num_rows] host memory, filled once `synchronize` or `wait_for_draws` returns
  SampleOutcome* outcomes = nullptr;
};

}  // namespace quire::kernels
