// Sizes of the stages of a transformer. The memory plan and the allocation both use them.
#pragma once

#include "core/models/transformer.h"
#include "core/models/transformer_executor.h"

namespace quire {

// Position of a stage in the transformer.
struct StagePosition {
  int32_t num_layers = 0;
  bool is_last = true;
  bool crosses_backends = false;  // a neighbouring stage runs on another backend
  bool draws = false;             // tokens are sampled on the device of this stage
  int32_t first_layer = 0;
  bool waits_within_steps = false;  // layers of the stage have host experts
  int32_t num_shards = 1;
  bool gathers_on_host = false;  // see PipelineStage
  // Stages of other processes whose rows come from the device of this one, and return to it.
  int32_t num_links = 0;
  bool takes_rows = false;  // first shard of a stage alone (Transformer::is_inner): a host sends it rows
  // Sizes of the host experts that the device can multiply; without max_tokens, and a slot for each expert.
  kernels::PackedExpertLimits packed{};
};

struct StageSizes {
  TransformerShape shape;  // with the layers of the stage
  CachePages kv;
  StepLimits limits;
  kernels::ContextLimits context;
};

// Returns the tokens that the pages of a sequence hold.
int32_t max_context(const TransformerExecutorOptions& options);
// Returns the tokens of the longest sequence allowed, by which long rope chooses its factors.
int32_t longest_sequence(const TransformerExecutorOptions& options);
// True if tokens are sampled on the device that computes the logits.
bool draws_on_device(const Transformer& transformer);
// True if a step can be issued before the tokens sampled in the previous step are known. One device must then
// sample the tokens and compute their embeddings, without host experts, for which the host waits.
bool follows_on_device(const Transformer& transformer);
// Returns the sizes of the memory of the host experts, which must exist: activations of a step without caches
// or logits.
StageSizes host_experts_sizes(const Transformer& transformer, const TransformerExecutorOptions& options);
StagePosition position_of_stage(const Transformer& transformer, size_t stage_idx);
StageSizes stage_sizes(const StagePosition& place, const TransformerShape& shape,
                       const TransformerExecutorOptions& options);

}  // namespace quire
