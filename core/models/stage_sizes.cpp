#include "core/models/stage_sizes.h"

#include <algorithm>

namespace quire {
namespace {

bool hands_to_another_backend(const Transformer& transformer, size_t stage_idx) {
  const Device& device = *transformer.stages[stage_idx].device;
  const auto differs = [&](size_t neighbour) {
    return !transformer.stages[neighbour].device->shares_backend(device);
  };
  return (stage_idx > 0 && differs(stage_idx - 1)) ||
         (!transformer.is_last(stage_idx) && differs(stage_idx + 1));
}

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

kernels::KvShape with_heads(kernels::KvShape kv, const TransformerShape& shape) {
  kv.num_kv_heads = shape.heads.num_kv_heads;
  kv.head_dim = shape.heads.head_dim;
  return kv;
}

StageSizes stage_sizes(const Transformer& transformer, size_t stage_idx, const TransformerShape& shape,
                       const TransformerExecutorOptions& options) {
  StageSizes sizes;
  sizes.shape = shape;
  sizes.shape.num_layers = gsl::narrow<int32_t>(transformer.stages[stage_idx].layers.size());
  sizes.kv = with_heads(options.kv, shape);
  sizes.limits.max_tokens = options.max_tokens;
  sizes.context = context_limits(shape, options);
  if (hands_to_another_backend(transformer, stage_idx)) sizes.context.handed_columns = shape.hidden_size;
  if (!transformer.is_last(stage_idx)) return sizes;
  sizes.limits.max_logit_rows = options.max_logit_rows;
  sizes.context.max_logit_rows = options.max_logit_rows;
  sizes.context.max_sample_edits = options.max_draw_edits;
  sizes.context.vocab_size = shape.vocab_size;
  return sizes;
}

}  // namespace quire
