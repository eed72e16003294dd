#include "core/models/transformer_shape.h"

#include <algorithm>

namespace quire {
namespace {

using kernels::Scratch;

void raise(int32_t& most, int32_t value) {
  most = std::max(most, value);
}

// Collects what layers need, the most of each.
class Needs {
 public:
  explicit Needs(const ModelSpec& model) : model_(model) {
    shape_.num_layers = static_cast<int32_t>(model.layers.size());
    shape_.hidden_size = model.hidden_size;
    shape_.vocab_size = model.vocab_size;
    shape_.max_columns = model.hidden_size;
    for (const RopeSpec& rope : model.ropes) shape_.rotary_dims.push_back(rope.rotary_dim);
  }

  void add(const LayerSpec& layer) {
    const AttentionPart& attention = layer.attention();
    add_cache(attention);
    add_attention(attention);
    add_feed_forward(layer.feed_forward);
    if (layer.attention_post_norm || layer.feed_forward_post_norm) scratch(Scratch::projected, hidden());
    if (layer.parallel && !layer.shares_norm) scratch(Scratch::normed, hidden());
    if (layer.laurel) {
      scratch(Scratch::low_rank, layer.laurel->left.num_out);
      scratch(Scratch::row, hidden());
      scratch(Scratch::projected, hidden());
    }
    if (layer.layer_input) {
      scratch(Scratch::low_rank, layer.layer_input->gate.num_out);
      scratch(Scratch::rounded, hidden());
      scratch(Scratch::projected, hidden());
      scratch(Scratch::other, hidden());
    }
  }

  void add_ends() {
    const ShardColumns& vocabulary = model_.head.vocabulary;
    shape_.columns.logits = vocabulary.rank == 0 ? model_.vocab_size : 0;
    if (vocabulary.is_split()) shape_.columns.own_logits = vocabulary.split().own();
    const EmbeddingPart& embedding = model_.embedding;
    const int32_t num_streams = model_.num_streams;
    if (!embedding.positions_key.empty()) scratch(Scratch::projected, hidden());
    if (embedding.layer_inputs) {
      const int32_t columns = embedding.layer_inputs->projection.num_out;
      scratch(Scratch::layer_input, columns);
      scratch(Scratch::other, columns);
      scratch(Scratch::rounded, hidden());
      matrix(embedding.layer_inputs->projection);
    }
    if (num_streams < 2) return;
    scratch(Scratch::rounded, hidden());
    scratch(Scratch::streams, (num_streams - 1) * hidden());
    scratch(Scratch::more_streams, num_streams * hidden());
    scratch(Scratch::router, num_streams);
    scratch(Scratch::weights, num_streams * num_streams);
    scratch(Scratch::other, hidden());
    scratch(Scratch::projected, hidden());
  }

  TransformerShape shape() && { return std::move(shape_); }

 private:
  int32_t hidden() const { return model_.hidden_size; }
  void scratch(Scratch kind, int32_t columns) { raise(shape_.columns.at(kind), columns); }
  void matrix(const MatrixPart& part) {
    raise(shape_.max_columns, part.num_in);
    raise(shape_.max_columns, part.outputs());
  }
  void expert_matrix(int32_t num_in, int32_t num_out) {
    raise(shape_.max_columns, num_in);
    raise(shape_.max_columns, num_out);
    raise(shape_.expert_columns, num_in + num_out);
  }

  void add_cache(const AttentionPart& part) {
    const KvSpec& kv = model_.kvs[static_cast<size_t>(part.kv_idx)];
    const int32_t window = window_of(part);
    shape_.caches.push_back({kv.num_heads, kv.head_dim, kv.value_dim, kv.index_dim, part.kv_source, window});
    if (part.kv_source >= 0) {
      int32_t& seen = shape_.caches[static_cast<size_t>(part.kv_source)].window;
      seen = seen == 0 || window == 0 ? 0 : std::max(seen, window);
    }
    raise(shape_.num_heads, part.heads.num_heads);
    raise(shape_.head_dim, std::max(part.heads.head_dim, value_dim(part.heads)));
  }

  // A chunk shows no more than a window of its length.
  static int32_t window_of(const AttentionPart& part) {
    if (part.sliding_window == 0 || part.chunk == 0) return std::max(part.sliding_window, part.chunk);
    return std::min(part.sliding_window, part.chunk);
  }

  // A shard's columns, before they are gathered.
  void slice(const ShardColumns& columns, int32_t rows = 1) {
    if (columns.is_split()) scratch(Scratch::slice, rows * columns.split().own());
  }

  // Of all shards.
  static int32_t all_results(const AttentionPart& part) {
    const int32_t own = result_columns(part);
    return part.results.is_split() ? own / part.results.split().own() * part.results.split().total() : own;
  }

  void add_attention(const AttentionPart& part) {
    raise(shape_.columns.qkv, qkv_columns(part));
    const int32_t results = all_results(part);
    raise(shape_.columns.attention, results);
    raise(shape_.max_columns, std::max(qkv_columns(part), results));
    if (part.results.is_split()) scratch(Scratch::slice, result_columns(part));
    slice(part.outputs);
    if (part.latent) add_latent(*part.latent);
    if (part.selects_keys) shape_.columns.selects_keys = true;
    if (part.indexer) {
      scratch(Scratch::index_query, part.indexer->query.num_out);
      scratch(Scratch::index_key, part.indexer->head_dim);
      scratch(Scratch::weights, part.indexer->num_heads);
    }
    if (part.differential) {
      scratch(Scratch::other, results / 2);
      scratch(Scratch::row, results / 2);
    }
    if (part.head_experts) add_head_experts(*part.head_experts, part);
  }

  void add_latent(const LatentPart& part) {
    if (part.query_down) {
      matrix(*part.query_down);
      scratch(Scratch::low_rank, part.query_down->num_out);
      scratch(Scratch::low_rank_normed, part.query_down->num_out);
    }
    for (const MatrixPart* of : {&part.query, &part.latent, &part.expand}) matrix(*of);
    scratch(Scratch::query, part.query.outputs());
    scratch(Scratch::latent, part.latent.num_out);
    scratch(Scratch::row, part.latent_norm.columns);
    scratch(Scratch::expanded, part.expand.num_out);
  }

  void add_router(const kernels::RouterSpec& router) {
    scratch(Scratch::router, router.num_experts);
    scratch(Scratch::chosen, router.num_chosen);
    scratch(Scratch::weights, router.num_chosen);
    scratch(Scratch::expert_out, router.num_chosen * hidden());
    scratch(Scratch::projected, hidden());
  }

  void add_head_experts(const HeadExpertsPart& part, const AttentionPart& attention) {
    add_router(part);
    scratch(Scratch::query, query_columns(attention));
    scratch(Scratch::expanded, qkv_columns(attention) - query_columns(attention));
    expert_matrix(part.query.num_in, part.query.num_out);
  }

  void add_mlp(const MlpPart& part) {
    raise(shape_.columns.gate_up, (part.gated ? 2 : 1) * part.intermediate);
    raise(shape_.columns.activated, part.activated.total(part.intermediate));
    raise(shape_.max_columns, (part.gated ? 2 : 1) * part.intermediate);
    raise(shape_.max_columns, part.activated.total(part.intermediate));
    slice(part.activated);
    slice(part.outputs);
  }

  void add_feed_forward(const FeedForwardPart& part) {
    if (part.dense) add_mlp(*part.dense);
    if (!part.experts) return;
    const ExpertsPart& experts = *part.experts;
    add_router(experts);
    const int32_t row = (experts.expert.gated ? 2 : 1) * experts.expert.intermediate;
    scratch(Scratch::expert_in, experts.num_chosen * row);
    const int32_t inner = experts.expert.activated.total(experts.expert.intermediate);
    scratch(Scratch::expert_mid, experts.num_chosen * inner);
    expert_matrix(hidden(), std::max(row, inner));
    slice(experts.expert.activated, experts.num_chosen);
    slice(experts.expert.outputs);
    if (experts.router_norm) scratch(Scratch::row, hidden());
    if (experts.shared) add_mlp(*experts.shared);
    if (experts.shared_gate || part.dense) scratch(Scratch::other, hidden());
  }

  const ModelSpec& model_;
  TransformerShape shape_;
};

}  // namespace

TransformerShape transformer_shape(const ModelSpec& model) {
  Needs needs(model);
  for (const LayerSpec& layer : model.layers) needs.add(layer);
  needs.add_ends();
  return std::move(needs).shape();
}

}  // namespace quire
