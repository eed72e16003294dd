// The attention half of a decoder layer.
// Multi-head, multi-query and grouped-query attention (MHA, MQA, GQA), and latent attention (MLA).
#pragma once

#include <optional>

#include "core/layers/experts.h"
#include "core/layers/forward_pass.h"
#include "core/layers/norm.h"
#include "core/tensor/shard_columns.h"

namespace quire {

// Queries, keys and values out of products of low rank.
struct LatentLayer {
  PreparedWeight query_down;  // empty: queries are one product
  NormLayer query_norm;
  PreparedWeight query;
  PreparedWeight latent;
  NormLayer latent_norm;
  PreparedWeight expand;
};

struct IndexerLayer : kernels::IndexerSpec {
  PreparedWeight query;
  PreparedWeight key;
  NormLayer key_norm;
  PreparedWeight weights;
};

// Experts that hold heads.
struct HeadExpertsLayer {
  RouterLayer router;
  ExpertMatrices query;
  ExpertMatrices output;
  DeviceBuffer output_bias;
};

// What the second half of the heads gives, times lambda, is taken from the first.
struct DifferentialLayer {
  float lambda = 0.0f;
  NormLayer norm;  // of pairs of heads
};

// hidden += o(attention(rope(qkv(norm(hidden))))), with whatever of its spec differs from that.
struct AttentionLayer : kernels::AttentionSpec {
  NormLayer norm;
  std::optional<NormLayer> post_norm;
  std::optional<NormLayer> sub_norm;
  PreparedWeight qkv;  // parts q, k, v
  PreparedWeight output;
  DeviceBuffer q_norm;  // empty: without weights
  DeviceBuffer k_norm;
  DeviceBuffer sinks;
  int32_t rope_idx = -1;
  std::optional<LatentLayer> low_rank;
  std::optional<IndexerLayer> indexer;
  std::optional<HeadExpertsLayer> head_experts;
  std::optional<DifferentialLayer> differential;
  ShardColumns results;  // that the output matrix reads
  ShardColumns outputs;  // of the output matrix

  // `input`: rows that are normalised already, or nullptr. `next` is the matrix that the following block
  // reads first, or nullptr.
  void forward(const ForwardPass& pass, const LayerCache& cache, const void* input,
               const kernels::Weight* next) const;

  template <typename Visit>
  void each_matrix(Visit visit) const {
    visit(qkv, 1.0);
    visit(output, 1.0);
    if (low_rank) {
      for (const PreparedWeight* m :
           {&low_rank->query_down, &low_rank->query, &low_rank->latent, &low_rank->expand})
        visit(*m, 1.0);
    }
    if (indexer) {
      for (const PreparedWeight* m : {&indexer->query, &indexer->key, &indexer->weights}) visit(*m, 1.0);
    }
    if (!head_experts) return;
    visit(head_experts->router.matrix, 1.0);
    head_experts->query.each_matrix(head_experts->router.share(), visit);
    head_experts->output.each_matrix(head_experts->router.share(), visit);
  }
  template <typename Visit>
  void each_buffer(Visit visit) const {
    norm.each_buffer(visit);
    if (post_norm) post_norm->each_buffer(visit);
    if (sub_norm) sub_norm->each_buffer(visit);
    for (const DeviceBuffer* buffer : {&q_norm, &k_norm, &sinks}) visit(*buffer);
    if (low_rank) {
      low_rank->query_norm.each_buffer(visit);
      low_rank->latent_norm.each_buffer(visit);
    }
    if (indexer) indexer->key_norm.each_buffer(visit);
    if (!head_experts) return;
    head_experts->router.each_buffer(visit);
    visit(head_experts->output_bias);
  }

 private:
  kernels::AttentionBlockParams block(const ForwardPass& pass, const LayerCache& cache) const;
  void run(const ForwardPass& pass, const kernels::AttentionBlockParams& params) const;
  const void* input_rows(const ForwardPass& pass, const void* input) const;
  void expand_latent(const ForwardPass& pass, const void* input) const;
  void select_keys(const ForwardPass& pass, const LayerCache& cache, const void* input) const;
  void copy_to_qkv(const ForwardPass& pass, const void* rows, int32_t first, int32_t columns) const;
  void forward_head_experts(const ForwardPass& pass, const LayerCache& cache, const void* input) const;
  void finish_differential(const ForwardPass& pass) const;
};

}  // namespace quire
