// The arguments of each operation: one plain struct per operation, shapes in comments.
//
// T: tokens of a step, S: sequences, L: rows whose logits are computed, H: hidden size, V: vocabulary size.
#pragma once

#include <cstdint>

#include "kernels/interface/host_and_device.h"
#include "kernels/interface/specs.h"
#include "kernels/interface/types.h"

namespace quire::kernels {

// Batch of one step. Arrays lie in device memory once `bind_batch` has copied them.
//
// The tokens of sequence s are rows sequence_starts[s] .. sequence_starts[s+1]-1, in order of position and
// without gaps: they are the last of the sequence's kv_lengths[s] tokens. Token i of a sequence attends to
// positions 0..positions[i] of the same sequence.
struct BatchView {
  int32_t num_tokens = 0;               // T
  int32_t num_sequences = 0;            // S
  int32_t num_logit_rows = 0;           // L
  int32_t max_query_tokens = 0;         // largest number of tokens of a sequence in this step
  int32_t max_kv_tokens = 0;            // largest number of tokens of a sequence after this step
  int32_t num_single = 0;               // set by a backend: number of leading sequences with one token each
  int32_t page_table_stride = 0;        // entries per sequence
  int32_t num_page_tables = 1;          // one for all layers that have the same pages
  int32_t page_tokens = 0;              // tokens of a page; 0: unknown, and the backend derives nothing from
                                        // the page table
  const int32_t* token_ids = nullptr;   // [T]
  const int32_t* drawn_rows = nullptr;  // [T] host memory, read only by bind_batch; nullptr: use token_ids
  const int32_t* positions = nullptr;   // [T]
  const int32_t* sequence_of_token = nullptr;  // [T] index into the S sequences
  const int32_t* sequence_starts = nullptr;    // [S + 1]
  const int32_t* kv_lengths = nullptr;  // [S] tokens in the cache after this step's tokens are appended
  // [num_page_tables, S, page_table_stride] page numbers, one for every page_tokens tokens. Operations read
  // the first table. In a layer with a window they do not read pages that none of their tokens attends to;
  // such an entry may hold any page.
  const int32_t* page_table = nullptr;
  const int32_t* logit_rows = nullptr;  // [L] rows of T, ascending
  // [S] for layers with a recurrent state (state_params.h), or nullptr if the model has none: the slot that
  // holds a sequence's state before this step, the slot that holds it after, and how its first token finds
  // it.
  const int32_t* read_slots = nullptr;
  const int32_t* write_slots = nullptr;
  const int32_t* state_banks = nullptr;
};

// Returns the batch with page table number `table` first, for the layers that use those pages.
constexpr BatchView with_page_table(BatchView batch, int32_t table) {
  batch.page_table += size_t(table) * size_t(batch.num_sequences) * size_t(batch.page_table_stride);
  return batch;
}

// Storage format of keys and values. Formats q8 and q4 are described in docs/formats.md, "KV cache".
enum class KvFormat : uint8_t { f16, fp8, q8, q4 };

// Elements of a head that share a scale in the quantized formats.
inline constexpr int32_t kKvScaleGroup = 32;

QUIRE_HOST_AND_DEVICE constexpr bool is_quantized(KvFormat format) {
  return format == KvFormat::q8 || format == KvFormat::q4;
}
// True if heads of this dimension can be stored in the format.
constexpr bool holds_heads(KvFormat format, int32_t dim) {
  return !is_quantized(format) || dim % kKvScaleGroup == 0;
}

struct KvShape {
  KvFormat key_format = KvFormat::f16;
  KvFormat value_format = KvFormat::f16;
  int32_t page_tokens = 256;
  int32_t num_pages = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;   // dimension of keys
  int32_t value_dim = 0;  // dimension of values; 0: head_dim
  int32_t index_dim = 0;  // dimension of the indexer keys that select keys, f16; 0: none
};

// Returns the shape of the values in the form of a shape of keys.
constexpr KvShape value_shape(const KvShape& shape) {
  KvShape out = shape;
  if (shape.value_dim != 0) out.head_dim = shape.value_dim;
  return out;
}

// Returns the bytes of the indexer keys: [num_pages, page_tokens, index_dim] f16.
constexpr size_t kv_index_bytes(const KvShape& shape) {
  return size_t(shape.num_pages) * size_t(shape.page_tokens) * size_t(shape.index_dim) * 2;
}

// Returns the bytes of the codes of one layer's keys (given value_shape: its values): [num_pages,
// num_kv_heads, page_tokens, head_dim].
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

// Returns the bytes of the f16 scales, one per 32 elements; 0 for formats without scales.
constexpr size_t kv_scale_bytes(const KvShape& shape, KvFormat format) {
  if (!is_quantized(format)) return 0;
  const size_t elements = size_t(shape.num_pages) * size_t(shape.num_kv_heads) * size_t(shape.page_tokens) *
                          size_t(shape.head_dim);
  return elements / kKvScaleGroup * 2;
}

// One layer of the paged KV cache, device memory. Keys are stored after rotary embedding.
struct KvLayer {
  void* keys = nullptr;        // [num_pages, num_kv_heads, page_tokens, head_dim]
  void* values = nullptr;      // likewise, with value_dim
  void* key_scales = nullptr;  // [num_pages, num_kv_heads, page_tokens, head_dim / 32], or nullptr
  void* value_scales = nullptr;
  void* index_keys = nullptr;  // [num_pages, page_tokens, index_dim] f16, or nullptr
};

// Copies rows of an embedding table into the residual stream.
struct EmbedParams {
  const Weight* table = nullptr;       // prepared by prepare_table, [V, H]
  float scale = 1.0f;                  // embedding multiplier
  const int32_t* token_ids = nullptr;  // [T], each in 0..V-1 after first_row is added
  int32_t first_row = 0;               // row of id 0
  int32_t num_tokens = 0;
  float* hidden = nullptr;  // out [T, H]; the residual stream is always f32
};

// y = norm(x) * weight (+ bias). Statistics in f32.
struct NormParams : NormSpec {
  const float* weight = nullptr;       // [columns], Gemma's "+1" already added; nullptr: ones
  const float* bias = nullptr;         // [columns] or nullptr
  const float* input = nullptr;        // [rows, columns] f32
  const int32_t* row_index = nullptr;  // [rows] input row that each output row reads; nullptr: the row with
                                       // the same number
  int32_t rows = 0;
  int32_t input_stride = 0;  // elements between rows of the input; 0: columns
  // Exactly one of the three outputs is set. Only the f32 outputs may be the input itself, and only if its
  // rows are contiguous.
  void* output = nullptr;       // [rows, columns] activation dtype
  float* residual = nullptr;    // [rows, columns] f32: y is added to it
  float* output_f32 = nullptr;  // [rows, columns] f32
};

// y = x W + bias. The Weight contains its bias, its row order and its column order.
struct LinearParams {
  const Weight* weight = nullptr;  // [K, N]; N is the sum over its parts
  const void* input = nullptr;     // [rows, K] activation dtype
  int32_t rows = 0;
  void* output = nullptr;       // [rows, N] activation dtype, or nullptr
  float* residual = nullptr;    // [rows, N] f32: the product is added to it, or nullptr
  float* output_f32 = nullptr;  // [rows, N] f32, or nullptr. Exactly one of the three outputs is set
  int32_t output_stride = 0;    // elements between rows of the output; 0: N
};

// cos and sin of position * inv_freq, computed once per step for all layers that share the frequencies.
struct RopeAnglesParams {
  const float* inv_freq = nullptr;  // [rotary_dim / 2]
  int32_t rotary_dim = 0;
  float magnitude = 1.0f;              // multiplies both (YaRN, long rope)
  const int32_t* positions = nullptr;  // [T]
  int32_t num_tokens = 0;
  float* cos = nullptr;  // out [T, rotary_dim / 2]
  float* sin = nullptr;
};

// Clips, normalises and rotates q (in place) and k, then writes k and v to their pages.
struct AppendKvParams : AttentionSpec {
  void* qkv = nullptr;            // in/out [T, qkv_columns(spec)] activation dtype: q, k, v
  const float* q_norm = nullptr;  // weights of qk_norm: [head_dim], [heads, head_dim] or [heads * head_dim]
  const float* k_norm = nullptr;
  const float* q_norm_bias = nullptr;  // biases of qk_norm, shaped like its weights, or nullptr
  const float* k_norm_bias = nullptr;
  const float* cos = nullptr;  // [T, rotary_dim / 2]
  const float* sin = nullptr;
  BatchView batch;
  KvShape kv_shape;
  KvLayer kv;
};

// Causal attention of the step's queries over the paged KV cache.
struct AttentionParams : AttentionSpec {
  const void* qkv = nullptr;     // output of AppendKv; only q is read
  const float* sinks = nullptr;  // [num_heads], if has_sinks
  // [num_heads], if has_slopes: the score of a key is lowered by its distance from the token times the slope,
  // after scale and softcap.
  const float* slopes = nullptr;
  const uint32_t* selected = nullptr;  // [T, selected_words], if selects_keys: bit p of a row is position p
  int32_t selected_words = 0;
  BatchView batch;
  KvShape kv_shape;
  KvLayer kv;
  void* output = nullptr;  // [T, num_heads * value_dim] activation dtype
};

// out = act(gate) * up as MlpSpec describes, `intermediate` columns.
struct ActivationParams : MlpSpec {
  const void* input = nullptr;  // [rows, 2 * columns] gate then up, or [rows, columns]; activation dtype
  int32_t rows = 0;
  void* output = nullptr;  // [rows, columns] activation dtype
};

// Router: chooses the experts of each row. If scores are equal, the expert with the lower number wins.
struct RouteParams : RouterSpec {
  const float* logits = nullptr;        // [rows, num_experts]
  const float* choice_bias = nullptr;   // [num_experts], added to the scores for the choice only, or nullptr
  const float* expert_scale = nullptr;  // [num_experts], multiplies the weights, or nullptr
  int32_t rows = 0;
  int32_t* experts = nullptr;  // out [rows, num_chosen], the best first
  float* weights = nullptr;    // out [rows, num_chosen]
};

// y = x W + bias, each row with the matrix of its expert (MoE). Matrices without rows are not read.
struct ExpertLinearParams {
  // [num_experts], host memory, all of one shape: prepared by one call, in this order, with the same number
  // of other matrices between any two.
  const Weight* const* experts = nullptr;
  int32_t num_experts = 0;
  const int32_t* expert_of_row = nullptr;  // [rows]
  const void* input = nullptr;             // [rows / rows_per_input, K] activation dtype
  int32_t rows_per_input = 1;              // number of consecutive rows that read the same input row
  const float* input_scale = nullptr;      // [rows] multiplies the input of a row, or nullptr
  int32_t rows = 0;
  void* output = nullptr;  // [rows, N] activation dtype
  // Set if the experts are gate and up, or up alone: `output` then receives the MlpSpec activation of their
  // products, as in ActivationParams, and `products` is work memory for the products, [rows, N]. Otherwise
  // nullptr.
  const MlpSpec* mlp = nullptr;
  void* products = nullptr;
  bool same_rows = false;  // true if expert_of_row has the same content as in the previous call
};

// target[t] = (sum over i of weights[t, i] * input[t * num_chosen + i]), in order of i.
struct CombineParams {
  const void* input = nullptr;     // [tokens * num_chosen, columns] activation dtype
  const float* weights = nullptr;  // [tokens, num_chosen], or nullptr: ones
  int32_t num_chosen = 0;
  int32_t tokens = 0;
  int32_t columns = 0;
  float* target = nullptr;    // [tokens, columns]
  int32_t target_stride = 0;  // elements between rows of the target; 0: columns
  bool adds = false;          // true: add to the target
};

// Builds rows of q, k and v from the low-rank products of latent attention (MLA). Keys are [rotary | rest] in
// each head; the rotary part is the same for all heads.
struct ExpandLatentParams : AttentionSpec {
  const float* query = nullptr;     // [T, num_heads * head_dim]
  const float* latent = nullptr;    // [T, latent_columns + rotary_dim]: the last rotary_dim are read
  const float* expanded = nullptr;  // [T, num_heads * (head_dim - rotary_dim + value_dim)], head by head
  int32_t latent_columns = 0;
  int32_t num_tokens = 0;
  void* qkv = nullptr;  // out [T, qkv_columns(spec)] activation dtype
};

// Indexer of sparse attention: selects the keys that a token attends to, with queries and keys of its own.
struct IndexerSpec {
  int32_t num_heads = 0;
  int32_t head_dim = 0;
  int32_t rotary_dim = 0;
  RopeStyle rope = RopeStyle::neox_halves;
  int32_t num_selected = 0;
  float scale = 1.0f;  // multiplies a head's product, before negative ones become 0
  // Number of consecutive tokens, counted from position 0, whose keys are scored and selected as one (a
  // pool). 1: each key by itself. Otherwise the rows of keys also have a gate for each element. The key of a
  // pool is the sum of its keys, weighted by the softmax of gate + pool_bias over its tokens. num_selected is
  // then a multiple of it, and a token also attends to all tokens of the pool that ends at or after its
  // position.
  int32_t pool = 1;
};

// Returns the columns of a token's row of keys and, for pools, gates.
QUIRE_HOST_AND_DEVICE constexpr int32_t index_columns(const IndexerSpec& spec) {
  return spec.pool > 1 ? 2 * spec.head_dim : spec.head_dim;
}

// Rotates the queries and keys of the indexer, stores its keys, and returns the best positions of each token.
// If scores are equal, the earlier position is better; 0 and -0 are equal. The stored row of the last token
// of a pool begins with the key of the pool, in place of its own.
struct SelectKeysParams : IndexerSpec {
  float* query = nullptr;            // in/out [T, num_heads * head_dim]
  float* key = nullptr;              // in/out [T, index_columns]: keys, then gates
  const float* pool_bias = nullptr;  // [pool, head_dim]
  const float* weights = nullptr;    // [T, num_heads], multiply the products of the heads
  const float* cos = nullptr;        // [T, rotary_dim / 2]
  const float* sin = nullptr;
  BatchView batch;
  KvShape kv_shape;
  KvLayer kv;
  uint32_t* selected = nullptr;  // out [T, selected_words]
  int32_t selected_words = 0;
};

// Gathers the rows of all shards, with the columns of each.
struct AllGatherParams {
  ColumnSplit columns;
  const void* input = nullptr;  // [rows, columns.own()]; nullptr if the shard has no columns
  int32_t input_stride = 0;     // elements between rows of the input; 0: columns.own()
  int32_t rows = 0;
  DType dtype = DType::f32;
  // [rows, columns.total()], or nullptr: this shard does not receive the result. The input may be this
  // shard's columns of the output.
  void* output = nullptr;
  // [columns.total()] in device memory, or nullptr: column c of the result goes to column place[c] of the
  // output, the row order of the matrix that reads it. For rows of a 16-bit activation dtype only.
  const int32_t* place = nullptr;
};

// Small operations on rows that only few model families need. The parameters select f32 or the activation
// dtype.
enum class RowOp : uint8_t {
  scale,             // target = target * factor
  add,               // target += a * factor
  multiply,          // target = target * a
  gate,              // target += a * sigmoid(b), b one number per row
  add_by_row,        // target += a * b, b one number per row
  add_columns,       // target = target + a, a [columns]
  sigmoid_multiply,  // target = target * sigmoid(a)
  softplus_by_row,   // target = target * ln(1 + exp(b)), b one number per row
  sigmoid_by_row,    // target = target * sigmoid(b), b one number per row
  scale_columns,     // target = target * a, a [columns]
  match_size,        // target = target * rms(a) / rms(target), per row
  tanh_rows,         // target = tanh(target * factor)
  differ,            // target = first half of a row of a, minus factor times its second half
  copy,              // target = a * factor
};

struct RowOpParams {
  RowOp op = RowOp::scale;
  void* target = nullptr;   // [rows, columns]
  const void* a = nullptr;  // [rows, columns] unless the operation has another shape above
  const float* b = nullptr;
  bool target_is_activation = false;  // true: the activation dtype, false: f32
  bool a_is_activation = false;
  int32_t rows = 0;
  int32_t columns = 0;
  int32_t target_stride = 0;  // elements between rows; 0: columns
  int32_t a_stride = 0;
  int32_t b_stride = 0;  // 0: 1
  float factor = 1.0f;
};

// target[i] = base[i] + sum over j of coefficients[t, i * num_streams + j] * streams[j]: rows of streams.
struct MixStreamsParams {
  const float* const* streams = nullptr;  // [num_streams] pointers to [T, columns]; the pointers in host
                                          // memory
  float* const* targets = nullptr;        // likewise; no target is also a stream
  const float* coefficients = nullptr;    // [T, num_streams * num_streams]
  int32_t num_streams = 0;
  int32_t tokens = 0;
  int32_t columns = 0;
};

inline constexpr int32_t kMostConnectedStreams = 8;

// Hyper-connections (mHC): n residual streams X around a block f. A token's coefficients are made of
// s = products * scale + base, in sections of n, n and n * n numbers, each with its own scale:
//   pre = sigmoid(s) + epsilon;  post = 2 sigmoid(s);  C = sinkhorn(softmax(s) of each row + epsilon)
//   x = sum over i of pre[i] X[i];  X[j] <- post[j] f(x) + sum over i of C[i, j] X[i]
// sinkhorn divides the columns by their sums + epsilon, and then, `iterations` - 1 times, first the rows and
// then the columns.
struct ConnectionSpec {
  int32_t num_streams = 0;  // n, at most kMostConnectedStreams
  int32_t columns = 0;      // of one stream
  int32_t iterations = 0;
  float epsilon = 1e-6f;
};

// Returns the number of coefficients that are computed for a token, and how many of them the streams need
// after the block: post and C.
QUIRE_HOST_AND_DEVICE constexpr int32_t connection_products(const ConnectionSpec& spec) {
  return (2 + spec.num_streams) * spec.num_streams;
}
QUIRE_HOST_AND_DEVICE constexpr int32_t connection_coefficients(const ConnectionSpec& spec) {
  return (1 + spec.num_streams) * spec.num_streams;
}

// Computes x and the coefficients of each token.
struct CollapseStreamsParams : ConnectionSpec {
  const float* products = nullptr;  // [T, connection_products]
  const float* scale = nullptr;     // [3]
  const float* base = nullptr;      // [connection_products]
  const float* streams = nullptr;   // [T, num_streams * columns]
  float* coefficients = nullptr;    // out [T, connection_coefficients]: post, then C by rows
  float* x = nullptr;               // out [T, columns]
  int32_t tokens = 0;
};

// Replaces the streams.
struct ExpandStreamsParams : ConnectionSpec {
  const float* coefficients = nullptr;  // [T, connection_coefficients]
  const float* result = nullptr;        // f(x): [T, columns]
  float* streams = nullptr;             // in/out [T, num_streams * columns]
  int32_t tokens = 0;
};

// Copies the first num_tokens tokens of page `source` to page `target`, keys and values of one layer.
struct CopyPageParams {
  KvShape kv_shape;
  KvLayer kv;
  int32_t source = 0;
  int32_t target = 0;
  int32_t num_tokens = 0;  // 1..page_tokens
};

// Scratch buffers that only few layers need, each [T, columns] f32 with its own number of columns.
enum class Scratch : uint8_t {
  projected,  // output of a block, before its norm
  normed,     // input of a feed-forward part parallel to attention; activation dtype
  router,     // logits of the router
  chosen,     // experts and weights, [T, num_chosen] each
  weights,
  expert_in,  // rows of experts
  expert_mid,
  expert_out,
  latent,
  low_rank,
  low_rank_normed,  // activation dtype
  query,
  expanded,
  selected,  // bit masks
  index_query,
  index_key,
  layer_input,  // per-layer embeddings
  row,
  other,
  rounded,  // rows of f32 converted to the activation dtype, if that is another one
  streams,  // residual streams other than the first; all of them with hyper-connections
  more_streams,
  states,    // hidden states of a token that a draft network reads, side by side
  features,  // of a draft network
  slice,     // a shard's columns of a result, before they are gathered
  num_kinds,
};
inline constexpr size_t kNumScratch = static_cast<size_t>(Scratch::num_kinds);

// Scratch for activations, device memory, sized for the context's max_tokens. Owned by the cache.
struct Workspace {
  float* hidden = nullptr;    // [T, H] f32, the residual stream
  void* normed = nullptr;     // [T, H] activation dtype
  void* qkv = nullptr;        // [T, qkv_columns]
  void* attention = nullptr;  // [T, result_columns]
  void* gate_up = nullptr;    // [T, 2 * intermediate]
  void* activated = nullptr;  // [T, intermediate]
  float* rope_cos = nullptr;  // [T, rotary_dim / 2], for the layer
  float* rope_sin = nullptr;
  float* logits = nullptr;  // [max_logit_rows, V]
  float* scratch[kNumScratch] = {};

  float* at(Scratch kind) const { return scratch[static_cast<size_t>(kind)]; }
};

// How the result of a block enters the residual stream: hidden += norm(result). Norms at other places are in
// the block's own parameters.
struct BlockEnd {
  const NormParams* norm = nullptr;  // nullptr: none
  float* residual = nullptr;         // [T, H]
  ColumnSplit columns = {};          // columns of the result, which shards gather before it enters
};

// hidden += end(o(attention(rope(qkv(norm(hidden)))))).
struct AttentionBlockParams : AttentionSpec {
  NormParams norm;              // weight, bias, kind, epsilon
  const void* input = nullptr;  // rows that are normalised already, activation dtype; nullptr: norm(hidden)
  const Weight* qkv = nullptr;  // nullptr: workspace.qkv is filled
  const Weight* output = nullptr;
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  const float* q_norm_bias = nullptr;
  const float* k_norm_bias = nullptr;
  const float* sinks = nullptr;
  const float* slopes = nullptr;
  const uint32_t* selected = nullptr;
  int32_t selected_words = 0;
  const NormParams* sub_norm = nullptr;   // norm of attention's result, or nullptr
  const NormParams* post_norm = nullptr;  // applied to the block's result before it is added, or nullptr
  // With tensor parallelism the spec describes the shard's own heads. `results` splits the columns that the
  // output matrix reads, `outputs` those that it computes. With heads_apart `results` covers a fraction of a
  // token's columns, and a token is gathered as several rows.
  ColumnSplit results;
  ColumnSplit outputs;
  BatchView batch;
  KvShape kv_shape;
  KvLayer kv;
  Workspace workspace;
};

// hidden += end(down(act(gate(norm(hidden))) * up(norm(hidden)))).
struct MlpBlockParams : MlpSpec {
  NormParams norm;
  const void* input = nullptr;      // as in AttentionBlockParams
  const Weight* gate_up = nullptr;  // two parts: gate, up; one part if ungated
  const Weight* down = nullptr;
  const NormParams* sub_norm = nullptr;  // norm of the input of down, or nullptr
  const NormParams* post_norm = nullptr;
  // With tensor parallelism the spec describes the shard's own columns. `activated` splits the columns that
  // down reads, `outputs` the columns that it computes.
  ColumnSplit activated;
  ColumnSplit outputs;
  int32_t num_tokens = 0;
  Workspace workspace;
};

// Chooses the experts of each token and their weights. The router's logits go to Scratch::router; `experts`
// and `weights` of RouteParams go to Scratch::chosen and Scratch::weights.
struct ExpertChoiceParams : RouterSpec {
  NormParams norm;                      // as in AttentionBlockParams; the result stays in workspace.normed
  const void* input = nullptr;          // as in AttentionBlockParams
  const Weight* router = nullptr;       // [H, num_experts]
  const float* choice_bias = nullptr;   // as in RouteParams
  const float* expert_scale = nullptr;  // as in RouteParams
  int32_t num_tokens = 0;
  Workspace workspace;
};

// logits = softcap(scale * (head(norm(hidden[logit_rows])))), f32, into workspace.logits.
struct HeadParams {
  NormParams norm;
  const Weight* head = nullptr;  // [H, V]
  float logit_scale = 1.0f;
  float softcap = 0.0f;
  int32_t vocab_size = 0;
  ColumnSplit vocabulary;  // split of the vocabulary with tensor parallelism; the first shard gets the logits
  BatchView batch;
  Workspace workspace;
};

// Change to one logit of a row, applied before any sampling filter; see SampleRow.
struct LogitEdit {
  int32_t token = 0;
  float amount = 0.0f;
};

// Draw from one row of logits; see SamplingSettings in core/sampling for the meaning of each number. The
// edits of a row are three consecutive runs, applied in this order: penalised (amount is the number of times
// the token occurred), biased (added; never makes a finite logit infinite), excluded (set to -infinity). No
// token is penalised or biased twice.
struct SampleRow {
  int32_t logit_row = 0;     // row of SampleParams::logits
  float temperature = 0.0f;  // below 0.01: arg-max
  int32_t top_k = 0;         // 0: off
  float top_p = 1.0f;
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;
  float frequency_penalty = 0.0f;
  float presence_penalty = 0.0f;
  // Random bits of the position. Among the tokens that remain after the filters, the one that arrives first
  // is drawn (token_noise.h).
  uint64_t random_bits = 0;
  int32_t first_edit = 0;  // index into SampleParams::edits
  int32_t num_penalised = 0;
  int32_t num_biased = 0;
  int32_t num_excluded = 0;
  int32_t wants_log_prob = 0;
  // Host memory, read before the call returns. Bit t % 32 of word t / 32 is set if token t is allowed;
  // nullptr: all are.
  const uint32_t* mask = nullptr;

  bool operator==(const SampleRow&) const = default;
};

enum class SampleStatus : int32_t { drawn = 0, not_finite = 1, nothing_allowed = 2 };

// Result of a SampleRow.
struct SampleOutcome {
  int32_t token = -1;
  float log_prob = 0.0f;  // log-probability of the token under the softmax of the unchanged row, if it was
                          // requested
  SampleStatus status = SampleStatus::drawn;  // not_finite: NaN or +infinity in the unchanged row
};

struct SampleParams {
  const float* logits = nullptr;  // [.., stride]
  int32_t stride = 0;
  int32_t vocab_size = 0;           // number of valid logits in a row; at most stride
  const SampleRow* rows = nullptr;  // [num_rows] host memory, read before the call returns
  int32_t num_rows = 0;
  const LogitEdit* edits = nullptr;  // [num_edits] host memory, likewise
  int32_t num_edits = 0;
  // out [num_rows] host memory, filled once `synchronize` or `wait_for_draws` returns
  SampleOutcome* outcomes = nullptr;
};

}  // namespace quire::kernels
