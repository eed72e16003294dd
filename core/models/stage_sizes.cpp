#include "core/models/stage_sizes.h"

#include <algorithm>

#include "core/layers/card_experts.h"

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

// Returns a bound of the result of any gather: each goes to a buffer of the workspace, or is logits.
uint64_t gather_bytes(const TransformerShape& shape, const TransformerExecutorOptions& options,
                      bool is_last) {
  int32_t columns = std::max({shape.hidden_size, shape.columns.attention, shape.columns.activated});
  columns = std::max(columns, *std::max_element(shape.columns.scratch.begin(), shape.columns.scratch.end()));
  const auto bytes = [](int32_t rows, int32_t width) {
    return static_cast<uint64_t>(rows) * static_cast<uint64_t>(width) * sizeof(float);
  };
  return std::max(bytes(options.max_tokens, columns),
                  is_last ? bytes(options.max_logit_rows, shape.vocab_size) : 0);
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
  return transformer.stages.size() == 1 && !transformer.host_experts.exist() &&
         draws_on_device(transformer) &&
         transformer.stages.front().device->has(kernels::kCapabilityFollowingSteps);
}

namespace {

// Returns the largest sizes of the host experts that the device of a stage can multiply, and a slot for each
// expert.
kernels::PackedExpertLimits packed_limits(const PipelineStage& stage) {
  kernels::PackedExpertLimits all;
  if (!stage.device->has(kernels::kCapabilityPackedExperts)) return all;
  for (const TransformerLayer& layer : stage.layers) {
    const ExpertsLayer* const experts = packed_experts_of(layer);
    if (experts == nullptr) continue;
    const kernels::PackedExpertLimits& own = experts->packed.limits;
    all.staging_bytes = std::max(all.staging_bytes, own.staging_bytes);
    all.slot_bytes = std::max(all.slot_bytes, own.slot_bytes);
    all.num_slots += own.num_slots;
    all.num_experts = std::max(all.num_experts, own.num_experts);
    all.num_chosen = std::max(all.num_chosen, own.num_chosen);
    all.num_in = std::max(all.num_in, own.num_in);
    all.products = std::max(all.products, own.products);
    all.activated = std::max(all.activated, own.activated);
    all.num_out = std::max(all.num_out, own.num_out);
  }
  return all;
}

// Returns the number of stages of other processes that the first shard of a stage is linked to.
int32_t num_links(const Transformer& transformer, size_t stage_idx) {
  if (transformer.shard.rank != 0 || transformer.stages[stage_idx].remote != nullptr) return 0;
  int32_t count = 0;
  for (size_t i = stage_idx + 1; i < transformer.stages.size() && transformer.stages[i].remote != nullptr;
       ++i)
    count += transformer.is_linked(i) ? 1 : 0;
  return count;
}

}  // namespace

StagePosition position_of_stage(const Transformer& transformer, size_t stage_idx) {
  const std::vector<PipelineStage>& stages = transformer.stages;
  const auto differs = [&](size_t neighbour) {
    return !stages[neighbour].device->shares_backend(*stages[stage_idx].device);
  };
  StagePosition place;
  place.num_layers = stages[stage_idx].num_layers;
  place.first_layer = stages[stage_idx].first_layer;
  place.is_last = transformer.is_last(stage_idx);
  place.num_shards = transformer.shard.num_shards;
  place.gathers_on_host = stages[stage_idx].gathers_on_host;
  place.draws = place.is_last && transformer.shard.rank == 0 && draws_on_device(transformer);
  place.crosses_backends = transformer.is_inner || (stage_idx > 0 && differs(stage_idx - 1)) ||
                           (!place.is_last && differs(stage_idx + 1));
  const PipelineStage& stage = stages[stage_idx];
  place.waits_within_steps =
      std::any_of(stage.layers.begin(), stage.layers.end(),
                  [](const TransformerLayer& layer) { return layer.feed_forward.on_host; });
  place.packed = packed_limits(stage);
  place.num_links = num_links(transformer, stage_idx);
  place.takes_rows = transformer.is_inner && transformer.shard.rank == 0;
  return place;
}

StageSizes host_experts_sizes(const Transformer& transformer, const TransformerExecutorOptions& options) {
  StageSizes sizes;
  sizes.shape = transformer.host_experts.shape;
  sizes.limits.max_tokens = options.max_tokens;
  sizes.context.max_tokens = options.max_tokens;
  sizes.context.max_sequences = 1;
  sizes.context.max_pages_per_sequence = 1;
  sizes.context.max_columns = sizes.shape.max_columns;
  sizes.context.expert_columns = sizes.shape.expert_columns;
  return sizes;
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
  sizes.context.waits_within_steps = place.waits_within_steps ? 1 : 0;
  if (place.crosses_backends || place.waits_within_steps) sizes.context.handed_columns = shape.hidden_size;
  sizes.context.num_links = place.num_links + (options.is_linked && place.takes_rows ? 1 : 0);
  sizes.context.packed = place.packed;
  if (place.packed.staging_bytes > 0) {
    kernels::PackedExpertLimits& packed = sizes.context.packed;
    packed.max_tokens = std::min(options.max_tokens, kMaxCardTokens);
    const uint64_t room = options.card_expert_bytes / packed.slot_bytes;
    packed.num_slots = static_cast<int32_t>(std::min(room, static_cast<uint64_t>(packed.num_slots)));
  }
  if (place.num_shards > 1) {
    sizes.context.num_shards = place.num_shards;
    sizes.context.gather_bytes = gather_bytes(shape, options, place.is_last);
    sizes.context.gathers_on_host = place.gathers_on_host ? 1 : 0;
  }
  if (!place.is_last) return sizes;
  sizes.limits.max_logit_rows = options.max_logit_rows;
  sizes.context.max_logit_rows = options.max_logit_rows;
  if (place.draws) sizes.context.max_sample_edits = options.max_draw_edits;
  sizes.context.vocab_size = shape.vocab_size;
  return sizes;
}

}  // namespace quire
