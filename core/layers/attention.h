// Attention as the mixer of a layer: multi-head, multi-query and grouped-query attention (MHA, MQA, GQA), and
// multi-head latent attention (MLA).
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "core/layers/differential.h"
#include "core/layers/head_experts.h"
#include "core/layers/indexer.h"
#include "core/layers/latent.h"
#include "core/layers/low_rank.h"
#include "core/layers/output_gate.h"
#include "core/layers/shard_cut.h"

namespace quire {

// Columns of a shard.
struct AttentionColumns {
  ShardColumns results;  // columns of attention's result, which the output matrix reads
  ShardColumns outputs;  // columns that the output matrix computes
};

// Change of attention's result before the output matrix.
using ResultChange = std::variant<std::monostate, DifferentialLayer, OutputGateLayer>;
// Parameters of the norms of q and k. An empty buffer means that the norm has none.
struct HeadNorms {
  DeviceBuffer q, k;  // weights
  DeviceBuffer q_bias, k_bias;
};

// Product of low rank that is added to some columns of q, k and v.
struct QkvAdapter {
  LowRankLayer path;
  int32_t columns = 0;
};

struct QkvLayer {
  PreparedWeight matrix;             // parts q, k, v
  std::vector<QkvAdapter> adapters;  // of consecutive columns; empty: none
};

// hidden += o(attention(rope(qkv(norm(hidden))))), with the variants that its spec and its optional parts
// select.
struct AttentionLayer : kernels::AttentionSpec {
  std::optional<NormLayer> sub_norm;
  QkvLayer qkv;
  PreparedWeight output;
  HeadNorms norms;
  DeviceBuffer sinks;
  DeviceBuffer slopes;
  int32_t rope_idx = -1;
  std::optional<LatentLayer> latent;
  std::optional<IndexerLayer> indexer;
  std::optional<HeadExpertsLayer> head_experts;
  ResultChange change;
  AttentionColumns columns;

  // Adds the result to the residual stream.
  void forward(const ForwardPass& pass, const LayerCache& cache, const Block& block) const;

 private:
  kernels::AttentionBlockParams params(const ForwardPass& pass, const LayerCache& cache) const;
  void run(const ForwardPass& pass, const kernels::AttentionBlockParams& params) const;
  // Writes the products of `qkv` and of the adapters to workspace.qkv.
  void adapt_qkv(const ForwardPass& pass, const void* input) const;
  // Multiplies changed results of attention by the output matrix.
  void add_results(const ForwardPass& pass, const void* results, const Block& block) const;
  void run_head_experts(const ForwardPass& pass, const LayerCache& cache, const Block& block) const;
};

void build(const AttentionPart& part, LayerBuilder& builder, AttentionLayer& layer);
// Keeps the shard's KV heads and their query heads if `cuts_heads`, and the shard's columns of the output
// matrix. Head experts stay whole.
void cut(AttentionPart& part, bool cuts_heads, ShardCut& shard);
void needs(const AttentionPart& part, Needs& all);
void each_weight(const AttentionLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const AttentionPart& part);

// True if the KV heads can be divided among the shards, so that each shard stores only the pages of its own
// heads.
bool can_cut_heads(const AttentionPart& part, const ShardCut& shard);
// Returns the layer whose pages this part reads; -1 if it has pages of its own.
int32_t source_of_pages(const AttentionPart& part);
// Returns the earliest layer whose pages or selected keys this part uses; `layer`, its own index, if it uses
// none.
int32_t first_source(const AttentionPart& part, int32_t layer);

}  // namespace quire
