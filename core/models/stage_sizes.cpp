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
  const int32_t qkv_columns = (shape.heads.num_heads + 2 * shape.heads.num_kv_heads) * shape.heads.head_dim;
  limits.max_columns = std::max({shape.hidden_size, qkv_columns, 2 * shape.intermediate_size});
  limits.num_heads = shape.heads.num_heads;
  limits.head_dim = shape.heads.head_dim;
  return limits;
}

}  // namespace

bool draws_on_device(const Transformer& transformer) {
  return transformer.stages.back().device->has(kernels::kCapabilityDeviceSampling);
}

bool follows_on_device(const Transformer& transformer) {
  return transformer.stages.size() == 1 && draws_on_device(transformer) &&
         transformer.stages.front().device->has(kernels::kCapabilityFollowingSteps);
}

StagePlace place_of_stage(const Transformer& transformer, size_t stage_idx) {
  const std::vector<TransformerStage>& stages = transformer.stages;
  const auto differs = [&](size_t neighbour) {
    return !stages[neighbour].device->shares_backend(*stages[stage_idx].device);
  };
  StagePlace place;
  place.num_layers = gsl::narrow<int32_t>(stages[stage_idx].layers.size());
  place.is_last = transformer.is_last(stage_idx);
  place.draws = place.is_last && draws_on_device(transformer);
  place.crosses_backends =
      (stage_idx > 0 && differs(stage_idx - 1)) || (!place.is_last && differs(stage_idx + 1));
  return place;
}

StageSizes stage_sizes(const StagePlace& place, const TransformerShape& shape,
                       const TransformerExecutorOptions& options) {
  StageSizes sizes;
  sizes.shape = shape;
  sizes.shape.num_layers = place.num_layers;
  sizes.kv = options.kv;
  sizes.kv.num_kv_heads = shape.heads.num_kv_heads;
  sizes.kv.head_dim = shape.heads.head_dim;
  sizes.limits.max_tokens = options.max_tokens;
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
