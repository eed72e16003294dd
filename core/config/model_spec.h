// A model as a list of layers: what each is, in numbers, and the tensors that hold its weights. A family's
// reader expands config.json into it; the builder and the passes over a model know nothing else.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/config/rope_config.h"
#include "core/tensor/shard_columns.h"
#include "kernels/interface/op_params.h"

namespace quire {

// Output j of a matrix is stored output order[j]; a stored output may be given several times.
using ColumnOrder = std::shared_ptr<const std::vector<int32_t>>;

enum class BiasRule : uint8_t { none, required };

// One stored matrix. "{}" in its key stands for the number of an expert.
struct MatrixPart {
  std::string key;  // of its tensors, without the suffix of a format
  int32_t num_in = 0;
  int32_t num_out = 0;  // as stored
  BiasRule bias = BiasRule::none;
  bool transposed = false;  // stored as [in, out]
  int32_t num_slabs = 0;    // stacked for so many experts; 0: not stacked
  ColumnOrder order;        // nullptr: as stored
  float prescale = 1.0f;    // multiplies the matrix and its bias

  int32_t outputs() const { return order ? static_cast<int32_t>(order->size()) : num_out; }
};

// Parts that share their input, side by side.
using MatrixParts = std::vector<MatrixPart>;

struct VectorPart {
  std::string name;  // of the tensor; empty: there is none
  int32_t count = 0;
  float offset = 0.0f;          // added to each: Gemma's one
  float scale = 1.0f;           // multiplies each after that
  ColumnOrder order = nullptr;  // the elements that are taken of it; nullptr: all
};

struct NormPart : kernels::NormSpec {
  VectorPart weight;
  VectorPart bias;
};

// A feed-forward part: down(act(gate) * up).
struct MlpPart : kernels::MlpSpec {
  MatrixParts gate_up;
  MatrixPart down;
  std::optional<NormPart> sub_norm;
  // The numbers of xIELU, where they are tensors: alpha of positive and of negative numbers.
  std::string xielu_key;
  ShardColumns activated;  // that down reads
  ShardColumns outputs;    // of down
};

// Routed experts; `expert` is what each of them is.
struct ExpertsPart : kernels::RouterSpec {
  MatrixPart router;
  std::optional<NormPart> router_norm;  // of the residual stream, for the router alone
  VectorPart choice_bias;
  VectorPart expert_scale;
  MlpPart expert;
  std::optional<MlpPart> shared;
  std::optional<MatrixPart> shared_gate;  // one output: sigmoid of it multiplies what the shared one gives
  VectorPart output_bias;
};

// Keys and values out of a product of low rank, as DeepSeek has them.
struct LatentPart {
  std::optional<MatrixPart> query_down;  // nullptr: queries are one product
  std::optional<NormPart> query_norm;
  MatrixPart query;
  MatrixPart latent;  // the latent, then the rotary part of the keys
  NormPart latent_norm;
  MatrixPart expand;
};

// Chooses the keys that attention looks at.
struct IndexerPart : kernels::IndexerSpec {
  MatrixPart query;  // of the normalised low-rank query
  MatrixPart key;
  NormPart key_norm;
  MatrixPart weights;
};

// Experts that hold heads: queries and outputs are theirs, keys and values are shared.
struct HeadExpertsPart : kernels::RouterSpec {
  MatrixPart router;
  MatrixPart query;
  MatrixPart output;
  VectorPart output_bias;
};

// The difference of two attentions: heads of the second half are taken from those of the first.
struct DifferentialPart {
  VectorPart query_1, key_1, query_2, key_2;
  float initial = 0.0f;
  float epsilon = 1e-5f;
};

struct AttentionPart : kernels::AttentionSpec {
  int32_t rope_idx = -1;   // of ModelSpec::ropes; -1: none
  int32_t kv_idx = 0;      // of ModelSpec::kvs
  int32_t kv_source = -1;  // the layer whose keys and values it reads; -1: its own
  MatrixParts qkv;
  MatrixPart output;
  VectorPart q_norm;
  VectorPart k_norm;
  VectorPart sinks;
  std::optional<NormPart> sub_norm;
  std::optional<LatentPart> latent;
  std::optional<IndexerPart> indexer;
  int32_t selection_source = -1;  // the layer whose chosen keys it takes; -1: its own, if any
  std::optional<HeadExpertsPart> head_experts;
  std::optional<DifferentialPart> differential;
  ShardColumns results;  // that the output matrix reads; see AttentionBlockParams
  ShardColumns outputs;  // of the output matrix
};

// A dense feed-forward part and experts side by side, each with norms of its own:
// dense_post(dense(norm(hidden))) + experts_post(experts(experts_norm(hidden))).
struct MlpAndExpertsPart {
  MlpPart dense;
  ExpertsPart experts;
  NormPart dense_post_norm;
  NormPart experts_norm;
  NormPart experts_post_norm;
};

// A new kind of mixer or of feed-forward part is an alternative here, and one of the same index in
// core/layers/transformer_layer.h.
using MixerSpec = std::variant<AttentionPart>;
using FeedForwardSpec = std::variant<MlpPart, ExpertsPart, MlpAndExpertsPart>;

// A second, low-rank way around attention, as Gemma 3n has it.
struct LaurelPart {
  MatrixPart left;
  MatrixPart right;
  NormPart norm;
};

// Several residual streams, of which the blocks see one: the others are predicted and corrected.
struct StreamsPart {
  MatrixPart router;
  NormPart router_norm;
  MatrixPart prediction;
  MatrixPart correction;
  VectorPart output_scale;
};

// What the token's own embedding for this layer adds at its end.
struct LayerInputPart {
  MatrixPart gate;
  kernels::Activation activation = kernels::Activation::gelu_tanh;
  MatrixPart projection;
  NormPart norm;
};

struct LayerSpec {
  NormPart attention_norm;
  MixerSpec mixer;
  std::optional<NormPart> attention_post_norm;
  NormPart feed_forward_norm;
  FeedForwardSpec feed_forward;
  std::optional<NormPart> feed_forward_post_norm;
  bool parallel = false;     // both blocks read what came into the layer
  bool shares_norm = false;  // and the first norm serves both
  std::optional<LayerInputPart> layer_input;
  std::optional<LaurelPart> laurel;
  std::optional<StreamsPart> streams;
  VectorPart output_scale;  // one number that multiplies the stream at the layer's end

  const AttentionPart& attention() const { return std::get<AttentionPart>(mixer); }
  AttentionPart& attention() { return std::get<AttentionPart>(mixer); }
  // Return the dense part, or the experts, alone or side by side; nullptr: there are none.
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

// The keys and values of a layer: layers of one kind share pages.
struct KvSpec {
  int32_t num_heads = 0;
  int32_t head_dim = 0;
  int32_t value_dim = 0;
  int32_t index_dim = 0;
  int32_t window = 0;  // tokens that are still seen; 0: all

  bool operator==(const KvSpec&) const = default;
};

// Embeddings of their own for every layer, mixed with a product of the token's first one.
struct LayerInputsPart {
  std::string table;  // tensor [vocabulary, layers * columns]
  int32_t vocab_size = 0;
  int32_t columns = 0;  // of one layer
  float table_scale = 1.0f;
  MatrixPart projection;
  float projection_scale = 1.0f;
  NormPart norm;
  float sum_scale = 1.0f;
};

struct EmbeddingPart {
  std::string key;
  float scale = 1.0f;
  std::optional<NormPart> norm;
  // Learned positions: a tensor [rows, hidden] that is added; the position plus an offset is the row.
  std::string positions_key;
  int32_t num_positions = 0;
  int32_t position_offset = 0;
  std::optional<LayerInputsPart> layer_inputs;
  MatrixParts stream_projections;  // of the streams beside the first
};

struct HeadPart {
  NormPart norm;
  MatrixPart projection;
  bool tied = false;  // the head is the embedding, unless the files hold a head of its own
  float scale = 1.0f;
  float softcap = 0.0f;
  bool unit_rows = false;  // rows of the matrix are divided by their length
  MatrixParts stream_projections;
  ShardColumns vocabulary;
};

struct ModelSpec {
  int32_t hidden_size = 0;
  int32_t vocab_size = 0;
  int32_t num_streams = 1;
  EmbeddingPart embedding;
  std::vector<RopeSpec> ropes;
  std::vector<KvSpec> kvs;
  std::vector<LayerSpec> layers;
  HeadPart head;
};

}  // namespace quire
