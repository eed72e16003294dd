#include "core/models/stage_sizes.h"

#include <algorithm>

namespace quire {
namespace {

kernels::ContextLimits context_limits(const TransformerShape& shape,
                                      const TransformerExecutorOptions& options) {
  kernels::ContextLimits limits;
  limits.max_tokens = options.max_tokens;
  limits.max_sequences = options.max_sequences;
  limits.max_pages_per_sequence = options.max_pages_per_sequence;
  limits.num_page_tables = 1 + gsl::narrow_cast<int32_t>(options.kv.windows.size());
  limits.max_columns = shape.max_columns;
  limits.expert_columns = shape.expert_columns;
  limits.num_heads = shape.num_heads;
  limits.head_dim = shape.head_dim;
  limits.state_line_bytes = shape.state_line_bytes;
  return limits;
}

}  // namespace

int32_t max_context(const TransformerExecutorOptions& options) {
  const int64_t tokens = int64_t{options.max_pages_per_sequence} * options.kv.page_tokens;
  return static_cast<int32_t>(std::min<int64_t>(tokens, INT32_MAX));
}

int32_t longest_sequence(const TransformerExecutorOptions& options) {
  return options.max_seq_len > 0 ? std::min(options.max_seq_len, max_context(options)) : max_context(options);
}

bool draws_on_device(const Transformer& transformer) {
  return !transformer.is_inner && transformer.stages.back().device->has(kernels::kCapabilityDeviceSampling);
}

bool follows_on_device(const Transformer& transformer) {
  return transformer.stages.size() == 1 && draws_on_device(transformer) &&
         transformer.stages.front().device->has(kernels::kCapabilityFollowingSteps);
}

StagePosition position_of_stage(const Transformer& transformer, size_t stage_idx) {
  const std::vector<PipelineStage>& stages = transformer.stages;
  const auto differs = [&](size_t neighbour) {
    return !stages[neighbour].device->shares_backend(*stages[stage_idx].device);
  };
  StagePosition place;
  place.num_layers = stages[stage_idx].num_layers;
  place.first_layer = stages[stage_idx].first_layer;
  place.is_last = transformer.is_last(stage_idx);
  place.draws = place.is_last && transformer.shard.rank == 0 && draws_on_device(transformer);
  place.crosses_backends = transformer.is_inner || (stage_idx > 0 && differs(stage_idx - 1)) ||
                           (!place.is_last && differs(stage_idx + 1));
  return place;
}

StageSizes stage_sizes(const StagePosition& place, const TransformerShape& shape,
                       const TransformerExecutorOptions& options) {
  StageSizes sizes;
  sizes.shape = shape;
  sizes.shape.num_layers = place.num_layers;
  sizes.shape.first_layer = place.first_layer;
  const auto first = shape.caches.begin() + place.first_layer;
  sizes.shape.caches.assign(first, first + place.num_layers);
  sizes.kv = options.kv;
  sizes.limits.max_tokens = options.max_tokens;
  sizes.limits.max_context = max_context(options);
  sizes.context = context_limits(shape, options);
  if (place.crosses_backends) sizes.context.handed_columns = shape.hidden_size;
  if (!place.is_last) return sizes;
  sizes.limits.max_logit_rows = options.max_logit_rows;
  sizes.context.max_logit_rows = options.max_logit_rows;
  if (place.draws) sizes.context.max_sample_edits = options.max_draw_edits;
  sizes.context.vocab_size = shape.vocab_size;
  return sizes;
}

}  // namespace quire
