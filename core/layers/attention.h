// Attention as the mixer of a layer: multi-head, multi-query and grouped-query attention (MHA, MQA, GQA), and
// latent attention (MLA).
#pragma once

#include <optional>

#include "core/layers/differential.h"
#include "core/layers/head_experts.h"
#include "core/layers/indexer.h"
#include "core/layers/latent.h"
#include "core/layers/shard_cut.h"

namespace quire {

// hidden += o(attention(rope(qkv(norm(hidden))))), and the variations that its spec and its optional parts
// name.
struct AttentionLayer : kernels::AttentionSpec {
  std::optional<NormLayer> sub_norm;
  PreparedWeight qkv;  // parts q, k, v
  PreparedWeight output;
  DeviceBuffer q_norm;  // empty: without weights
  DeviceBuffer k_norm;
  DeviceBuffer sinks;
  int32_t rope_idx = -1;
  std::optional<LatentLayer> latent;
  std::optional<IndexerLayer> indexer;
  std::optional<HeadExpertsLayer> head_experts;
  std::optional<DifferentialLayer> differential;
  ShardColumns results;  // columns that the output matrix reads
  ShardColumns outputs;  // columns of the output matrix

  // Adds the result to the residual stream.
  void forward(const ForwardPass& pass, const LayerCache& cache, const Block& block) const;

 private:
  kernels::AttentionBlockParams params(const ForwardPass& pass, const LayerCache& cache) const;
  void run(const ForwardPass& pass, const kernels::AttentionBlockParams& params) const;
  void run_head_experts(const ForwardPass& pass, const LayerCache& cache, const Block& block) const;
};

void build(const AttentionPart& part, LayerBuilder& builder, AttentionLayer& layer);
// Cuts by heads of keys if `cuts_heads`; the columns that the output matrix gives in any case.
void cut(AttentionPart& part, bool cuts_heads, ShardCut& shard);
void needs(const AttentionPart& part, Needs& all);
void each_weight(const AttentionLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const AttentionPart& part);

// True if each shard gets heads of its own, whose pages it keeps alone.
bool can_cut_heads(const AttentionPart& part, const ShardCut& shard);
// Returns the layer whose pages this part reads; -1: its own.
int32_t source_of_pages(const AttentionPart& part);
// Returns the first layer from which this part, of layer `layer`, takes pages or a selection of keys; `layer`
// if it takes none.
int32_t first_source(const AttentionPart& part, int32_t layer);

}  // namespace quire
