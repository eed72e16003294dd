// The specification of a model: a list of layers with their sizes and the names of their weight tensors. The
// reader of a family expands config.json into it; the builder and the forward passes use only this.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/config/rope_config.h"
#include "core/tensor/shard_columns.h"
#include "kernels/interface/mixer_specs.h"
#include "kernels/interface/op_params.h"

namespace quire {

// Order of the columns of a matrix: output j is the stored output order[j]. A stored output may occur several
// times.
using ColumnOrder = std::shared_ptr<const std::vector<int32_t>>;

enum class BiasRule : uint8_t { none, required };

// One stored matrix. "{}" in its key is replaced by the number of an expert.
struct MatrixPart {
  std::string key;  // tensor name without the suffix of a quantization format
  int32_t num_in = 0;
  int32_t num_out = 0;  // as stored
  BiasRule bias = BiasRule::none;
  bool transposed = false;  // stored as [in, out]
  int32_t num_slabs = 0;    // number of experts stacked in one tensor; 0: not stacked
  ColumnOrder order;        // nullptr: as stored
  float prescale = 1.0f;    // multiplies the matrix and its bias
  // Set by the cut if a shard has some of the outputs (shard_cut.h).
  int32_t whole_outputs = 0;      // of all shards
  int32_t whole_parts = 0;        // matrices that are evaluated together without shards
  bool whole_is_ordered = false;  // `order` was set before

  int32_t outputs() const { return order ? static_cast<int32_t>(order->size()) : num_out; }
};

// Matrices with the same input, evaluated together.
using MatrixParts = std::vector<MatrixPart>;

struct VectorPart {
  std::string name;  // tensor name; empty: there is no vector
  int32_t count = 0;
  float offset = 0.0f;          // added to each element; 1 for Gemma
  float scale = 1.0f;           // multiplies each element after the offset
  ColumnOrder order = nullptr;  // selected elements; nullptr: all
  bool may_be_absent = false;   // the files may lack it: then there is no vector
  int32_t num_tensors = 1;      // equal parts in tensors of their own, whose numbers replace "{}" in the name
  std::string other_name = {};  // used if the files have it and lack the tensor `name`
};

struct NormPart : kernels::NormSpec {
  VectorPart weight;
  VectorPart bias;
  // For norms after a block. True: the norm reads the sum of the block's result and the residual stream, and
  // replaces the stream (post-LN). False: it reads the result, which is then added.
  bool of_sum = false;
  // For norms before a block. The normalised rows times this replace the residual stream, and the block's
  // result is added to them; 0: it is added to the stream as it was.
  float stream_scale = 0.0f;
};

// A dense feed-forward part (MLP): down(act(gate) * up).
struct MlpPart : kernels::MlpSpec {
  MatrixParts gate_up;
  MatrixPart down;
  std::optional<NormPart> sub_norm;
  // Prefix of the tensors with the parameters of xIELU: alpha for positive and for negative inputs. Empty if
  // the parameters are not tensors.
  std::string xielu_key;
  ShardColumns activated;  // columns that `down` reads
  ShardColumns outputs;    // columns that `down` writes
};

// A product by two matrices with a narrow row between them: up(down(x)).
struct LowRankPart {
  MatrixPart down;
  MatrixPart up;
};

// A narrower space for experts: down(input) is what they read, up(weighted sum) is the result.
struct NarrowPart {
  MatrixPart down;
  MatrixPart up;
  ShardColumns outputs = {};  // columns that `up` writes
};

// Routed experts (MoE); `expert` describes each of them.
struct ExpertsPart : kernels::RouterSpec {
  MatrixPart router;
  std::optional<NormPart> router_norm;  // norm of the residual stream for the router alone
  VectorPart choice_bias;
  VectorPart expert_scale;
  MlpPart expert;
  std::optional<NarrowPart> narrow;  // the router and the shared expert read the input itself
  std::optional<MlpPart> shared;
  std::optional<MatrixPart> shared_gate;  // its sigmoid (one output) scales the shared expert
  VectorPart output_bias;
};

// Multi-head latent attention (MLA): low-rank keys and values, as in DeepSeek.
struct LatentPart {
  std::optional<MatrixPart> query_down;  // nullopt: queries are computed by one matrix
  std::optional<NormPart> query_norm;
  MatrixPart query;
  MatrixPart latent;           // the latent, followed by the part of the keys that all heads share
  int32_t shared_key_dim = 0;  // columns of that part; the rotary dimensions, if there is RoPE
  NormPart latent_norm;
  MatrixPart expand;
};

// The indexer of sparse attention: chooses the keys to attend to.
struct IndexerPart : kernels::IndexerSpec {
  MatrixPart query;  // reads the normalized low-rank query
  MatrixPart key;
  NormPart key_norm;
  MatrixPart weights;
  MatrixPart gate;       // for pools: the gates of the keys
  VectorPart pool_bias;  // for pools
};

// Mixture of attention heads (JetMoE): experts have their own queries and outputs, but share keys and values.
struct HeadExpertsPart : kernels::RouterSpec {
  MatrixPart router;
  MatrixPart query;
  MatrixPart output;
  VectorPart output_bias;
};

// Differential attention: the heads of the second half are subtracted from the heads of the first half.
struct DifferentialPart {
  VectorPart query_1, key_1, query_2, key_2;
  float initial = 0.0f;
  float epsilon = 1e-5f;
};

// Gate of attention's result, before its output matrix: a function of projection(input). The projection has
// an output for each element, or for each of several consecutive elements, such as a head.
struct OutputGatePart {
  MatrixPart projection;
  bool is_softplus = false;  // false: sigmoid
};

// Attention of one layer.
// Wide type: the optional parts of attention in all families.
struct AttentionPart : kernels::AttentionSpec {
  int32_t rope_idx = -1;   // index into ModelSpec::ropes; -1: no RoPE
  int32_t kv_idx = 0;      // index into ModelSpec::kvs
  int32_t kv_source = -1;  // the layer whose keys and values it uses (KV sharing); -1: its own
  MatrixParts qkv;
  std::vector<LowRankPart> adapters;  // added to the products of `qkv`, one for each matrix; empty: none
  MatrixPart output;
  VectorPart q_norm;
  VectorPart k_norm;
  VectorPart q_norm_bias;
  VectorPart k_norm_bias;
  VectorPart sinks;
  std::vector<float> slopes;  // ALiBi: one for each query head; empty: none
  std::optional<NormPart> sub_norm;
  std::optional<LatentPart> latent;
  std::optional<IndexerPart> indexer;
  int32_t selection_source = -1;  // the layer whose chosen keys it uses; -1: its own, if any
  std::optional<HeadExpertsPart> head_experts;
  std::optional<DifferentialPart> differential;
  std::optional<OutputGatePart> gate;
  ShardColumns results;  // columns that the output matrix reads; see AttentionBlockParams
  ShardColumns outputs;  // columns that the output matrix writes
};

// A causal convolution of some channels. The tensors of `weights` are [channels, 1, taps], of consecutive
// channels; the tap of the newest token is the last.
struct ConvPart : kernels::ConvSpec {
  std::vector<VectorPart> weights;
  VectorPart bias;  // [channels]; without name: none
};

// Gated delta rule (GDN, KDA): out(norm(o) * act(gate)), o by DeltaSpec. The convolution covers q, k and v in
// this order.
struct DeltaPart : kernels::DeltaSpec {
  // Matrices that read the layer's input. The outputs of `in`, side by side: q, k, v, and the gate unless
  // `gate_path` is set. Those of `rates`: b (for beta) for each value head, and the input of the decay unless
  // `decay_path` is set.
  MatrixParts in;
  MatrixParts rates;
  std::optional<LowRankPart> decay_path;
  std::optional<LowRankPart> gate_path;
  ConvPart conv;
  VectorPart a_log;
  VectorPart dt_bias;
  NormPart norm;  // of the value_dim elements of a head; all heads share the weights
  MatrixPart out;
  ShardColumns outputs;  // columns that `out` writes
};

// Mamba-2. The outputs of `in`, side by side: the gate z, then x, B, C, which the convolution covers, then dt
// for each head. Multipliers of the inputs and of these five sections are prescales of `in`, in which a
// stored matrix then occurs once for each section; a multiplier of the result is a prescale of `out`.
struct Mamba2Part : kernels::Mamba2Spec {
  MatrixParts in;
  ConvPart conv;
  VectorPart a_log;  // [num_heads], as dt_bias and skip
  VectorPart dt_bias;
  VectorPart skip;                     // D
  std::optional<NormPart> gated_norm;  // columns: those of one group; the weights are [all channels]
  MatrixPart out;
  ShardColumns outputs;  // columns that `out` writes
};

// Mamba-1. The outputs of `in`, side by side: x, z. The convolution covers x.
struct Mamba1Part : kernels::Mamba1Spec {
  MatrixPart in;
  ConvPart conv;
  MatrixPart select;                  // x_proj: dt of low rank, B, C of the convolved x, side by side
  std::optional<NormPart> step_norm;  // of dt of low rank
  std::optional<NormPart> b_norm;
  std::optional<NormPart> c_norm;
  MatrixPart step;   // dt_proj, from low rank to all channels, with its bias
  VectorPart a_log;  // [channels, state_dim]
  VectorPart skip;   // D, [channels]
  MatrixPart out;
  ShardColumns outputs;  // columns that `out` writes
};

// RG-LRU (RecurrentGemma): out(h * gelu(y)), h by SelectiveScanSpec. The outputs of `in`, side by side: x,
// which is convolved, then y. Both gates read the convolved x by matrices with a block for each head.
struct RgLruPart {
  int32_t channels = 0;
  int32_t num_blocks = 0;  // divides channels
  MatrixParts in;
  ConvPart conv;
  MatrixPart step_gate;   // a slab for each block
  MatrixPart input_gate;  // likewise
  VectorPart step_bias;   // [channels]
  VectorPart input_bias;  // [channels]
  VectorPart decay;       // [channels]: a = exp(-8 softplus(decay) step)
  MatrixPart out;
  ShardColumns outputs;  // columns that `out` writes
};

// Lightning attention: out(sigmoid(gate) * norm(o)), o by LightningSpec. The outputs of `in`, side by side:
// q, k, v, each of all heads, then the gate.
struct LightningPart : kernels::LightningSpec {
  MatrixParts in;
  std::vector<float> slopes;  // [num_heads]
  NormPart norm;              // of all heads as one row
  MatrixPart out;
  ShardColumns outputs;  // columns that `out` writes
};

// Short convolution (LFM2): out(C * conv(B * x)). The outputs of `in`, side by side: B, C, x.
struct ShortConvPart {
  MatrixPart in;
  ConvPart conv;
  MatrixPart out;
  ShardColumns outputs;  // columns that `out` writes
};

// Attention and Mamba-2 side by side (Falcon-H1): both read the same normalised rows, and both results are
// added. Multipliers of inputs, keys and results are prescales of their matrices.
struct AttentionAndMambaPart {
  AttentionPart attention;
  Mamba2Part mamba;
};

// Mamba-2 after a block of attention and an MLP (Zamba2). The block has no residual sums:
//   t = linear(mlp(feed_forward_norm(attention(norm([stream | embedding])))))
//   stream += mamba(layer's norm(stream + t))
// `adapter` is added to the products of gate and up, which are one matrix. Layers that use the same block
// name the same tensors, and each prepares its own copy of them.
struct SharedBlockPart {
  NormPart norm;
  AttentionPart attention;
  NormPart feed_forward_norm;
  MlpPart mlp;
  LowRankPart adapter;
  MatrixPart linear;
  Mamba2Part mamba;
};

// Attention of the first layer of an EAGLE-3 network. Its matrices read [embedding_norm(e) | norm(stream)],
// twice the hidden size, if e is the token's embedding and `norm` is the norm before the mixer.
struct PairAttentionPart {
  NormPart embedding_norm;
  bool norms_stream = false;  // norm(stream) replaces the stream, to which the result is added
  AttentionPart attention;
};

// Place of a mixer or a feed-forward part in a layer that has only the other one. The norms of the block are
// without effect.
struct EmptyPart {};

// A dense feed-forward part and experts side by side, each with its own norms:
// dense_post(dense(norm(hidden))) + experts_post(experts(experts_norm(hidden))).
struct MlpAndExpertsPart {
  MlpPart dense;
  ExpertsPart experts;
  NormPart dense_post_norm;
  NormPart experts_norm;
  NormPart experts_post_norm;
};

// To add a kind of mixer or feed-forward part, add an alternative here, and one with the same index in
// core/layers/transformer_layer.h.
using MixerSpec =
    std::variant<AttentionPart, EmptyPart, DeltaPart, Mamba2Part, Mamba1Part, LightningPart, ShortConvPart,
                 AttentionAndMambaPart, RgLruPart, SharedBlockPart, PairAttentionPart>;
using FeedForwardSpec = std::variant<MlpPart, ExpertsPart, MlpAndExpertsPart, EmptyPart>;

// Returns the name of a mixer for messages, such as "Mamba-2".
std::string_view mixer_name(const MixerSpec& mixer);
// Returns the matrix that writes a mixer's result; nullptr if it has none, or more than one.
MatrixPart* output_of(MixerSpec& mixer);

// LAuReL of Gemma 3n: a low-rank path parallel to attention.
struct LaurelPart {
  MatrixPart left;
  MatrixPart right;
  NormPart norm;
};

// AltUp of Gemma 3n: several residual streams. The blocks process one of them; the others are predicted and
// corrected.
struct StreamsPart {
  MatrixPart router;
  NormPart router_norm;
  MatrixPart prediction;
  MatrixPart correction;
  VectorPart output_scale;
};

// Hyper-connections (mHC): how a block reads several residual streams and adds to all of them. `products`
// reads the streams of a token as one row, divided by its root mean square.
struct ConnectionPart : kernels::ConnectionSpec {
  MatrixPart products;
  NormPart norm;  // without weights
  VectorPart scale;
  VectorPart base;
};

// Connections of the two blocks of a layer.
struct ConnectionsPart {
  ConnectionPart mixer;
  ConnectionPart feed_forward;
};

// Per-layer embedding of Gemma 3n and 4: added at the end of the layer.
struct LayerInputPart {
  MatrixPart gate;
  kernels::Activation activation = kernels::Activation::gelu_tanh;
  MatrixPart projection;
  NormPart norm;
};

struct LayerSpec {
  NormPart attention_norm;  // the norm before the mixer, whatever it is
  MixerSpec mixer;
  std::optional<NormPart> attention_post_norm;
  NormPart feed_forward_norm;
  FeedForwardSpec feed_forward;
  std::optional<NormPart> feed_forward_post_norm;
  bool parallel = false;     // attention and MLP both read the input of the layer
  bool shares_norm = false;  // attention and MLP share the first norm
  std::optional<LayerInputPart> layer_input;
  std::optional<LaurelPart> laurel;
  std::variant<std::monostate, StreamsPart, ConnectionsPart> streams;  // of models with several of them
  VectorPart output_scale;  // a scalar that multiplies the residual stream at the end of the layer

  const AttentionPart& attention() const { return std::get<AttentionPart>(mixer); }
  AttentionPart& attention() { return std::get<AttentionPart>(mixer); }
  // Return the attention of the mixer, alone or beside Mamba; nullptr if it has none.
  AttentionPart* find_attention();
  const AttentionPart* find_attention() const { return const_cast<LayerSpec*>(this)->find_attention(); }
  // Return the dense part or the experts, alone or side by side; nullptr if the layer has none.
  MlpPart* dense();
  ExpertsPart* experts();
  const MlpPart* dense() const { return const_cast<LayerSpec*>(this)->dense(); }
  const ExpertsPart* experts() const { return const_cast<LayerSpec*>(this)->experts(); }
};

struct RopeSpec {
  RopeConfig config;
  int32_t rotary_dim = 0;
  bool reversed = false;

  bool operator==(const RopeSpec&) const = default;
};

// The keys and values of a layer. Layers with equal specs share a kind of KV pages.
struct KvSpec {
  int32_t num_heads = 0;
  int32_t head_dim = 0;
  int32_t value_dim = 0;
  int32_t index_dim = 0;
  int32_t window = 0;  // sliding window in tokens; 0: unlimited

  bool operator==(const KvSpec&) const = default;
};

// Per-layer embeddings, mixed with a projection of the token embedding.
struct LayerInputsPart {
  std::string table;  // tensor [vocabulary, layers * columns]
  int32_t vocab_size = 0;
  int32_t columns = 0;  // per layer
  float table_scale = 1.0f;
  MatrixPart projection;
  float projection_scale = 1.0f;
  NormPart norm;
  float sum_scale = 1.0f;
};

// Hidden states of another model, which a draft network reads beside its tokens. A token has num_states of
// them side by side. A network that goes on after a draft reads its own hidden state in their place; `norm`
// and `reduction` do not apply to it.
struct FeaturesPart {
  int32_t num_states = 1;
  int32_t state_columns = 0;             // hidden size of the other model
  std::optional<NormPart> norm;          // of a state, such as the last norm of the other model
  std::optional<MatrixPart> reduction;   // from all states of a token to `hidden` columns
  std::optional<MatrixPart> projection;  // of [embedding_norm(e) | state_norm(s)] to the residual stream;
                                         // nullopt: s becomes the stream, and the first layer reads e as well
  NormPart embedding_norm;               // for the projection, as state_norm
  NormPart state_norm;
  bool state_first = false;  // the projection reads [state_norm(s) | embedding_norm(e)]
};

struct EmbeddingPart {
  std::string key;
  int32_t num_rows = 0;  // 0: as many as the vocabulary; more if the head has no logits for the last ones
  std::optional<MatrixPart> projection;  // from the width of the table to that of the residual stream
  float scale = 1.0f;
  std::optional<NormPart> norm;
  // Learned positions: a tensor [rows, hidden] that is added to the embedding. The row is the position plus
  // position_offset.
  std::string positions_key;
  int32_t num_positions = 0;
  int32_t position_offset = 0;
  std::optional<LayerInputsPart> layer_inputs;
  MatrixParts stream_projections;  // of the residual streams after the first
  std::optional<FeaturesPart> features;
};

struct HeadPart {
  NormPart norm;
  std::optional<MatrixPart> narrowing;  // from the normalized stream to the narrower input of `projection`
  MatrixPart projection;
  bool tied = false;           // the head uses the embedding table, unless the files have a separate head
  bool may_be_absent = false;  // the files may have no head: an embedding model
  float scale = 1.0f;
  float softcap = 0.0f;
  bool unit_rows = false;  // rows of the matrix are divided by their norm
  MatrixParts stream_projections;
  ShardColumns vocabulary;
};

struct ModelSpec {
  int32_t hidden_size = 0;
  int32_t vocab_size = 0;
  int32_t num_streams = 1;        // residual streams
  bool connects_streams = false;  // by hyper-connections: they begin as copies, and their mean is the result
  bool keeps_embedding = false;   // for SharedBlockPart and PairAttentionPart
  EmbeddingPart embedding;
  std::vector<RopeSpec> ropes;
  std::vector<KvSpec> kvs;
  std::vector<LayerSpec> layers;
  HeadPart head;
};

}  // namespace quire
