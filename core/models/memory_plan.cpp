#include "core/models/memory_plan.h"

#include <numeric>

#include "core/models/transformer_draft_network.h"

namespace quire {

MemoryBytes& MemoryBytes::operator+=(const MemoryBytes& other) {
  embedding += other.embedding;
  layers += other.layers;
  head += other.head;
  drafter += other.drafter;
  kv += other.kv;
  states += other.states;
  workspace += other.workspace;
  staging += other.staging;
  return *this;
}

MemoryBytes plan_stage(const Device& device, const StageSizes& sizes) {
  const TransformerMemoryPlan memory =
      plan_transformer_memory(device.table(), sizes.shape, sizes.kv, sizes.limits);
  kernels::MemoryUse context;
  device.check(device.table().plan_context(device.handle(), &sizes.context, &context), "planning a context");
  MemoryBytes bytes;
  bytes.kv = memory.kv_bytes;
  bytes.states = memory.state_bytes;
  bytes.workspace = memory.activation_bytes + context.held_bytes;
  bytes.staging = context.pinned_bytes;
  return bytes;
}

MemoryBytes MemoryPlan::total() const {
  return std::accumulate(devices.begin(), devices.end(), MemoryBytes(),
                         [](MemoryBytes sum, const MemoryBytes& device) { return sum += device; });
}

namespace {

MemoryBytes bytes_of(const RemoteCacheBytes& cache) {
  MemoryBytes bytes;
  bytes.kv = cache.kv;
  bytes.states = cache.states;
  bytes.workspace = cache.workspace;
  bytes.staging = cache.staging;
  return bytes;
}

MemoryBytes plan_stage_of_shard(const Transformer& of, size_t stage_idx,
                                const TransformerExecutorOptions& options) {
  const auto& remote = of.stages[stage_idx].remote;
  if (remote != nullptr) return bytes_of(remote->plan_cache(options));
  return plan_stage(*of.stages[stage_idx].device,
                    stage_sizes(position_of_stage(of, stage_idx), of.shape, options));
}

}  // namespace

MemoryBytes plan_stage(const Transformer& transformer, size_t stage_idx,
                       const TransformerExecutorOptions& options) {
  MemoryBytes bytes = transformer.sum_over_shards(
      [&](const Transformer& of) { return plan_stage_of_shard(of, stage_idx, options); });
  if (transformer.is_last(stage_idx)) bytes += plan_drafter(transformer, options);
  return bytes;
}

MemoryBytes plan_drafter(const Transformer& transformer, const TransformerExecutorOptions& options) {
  if (transformer.drafter == nullptr) return {};
  return plan_stage(transformer.drafter->network, 0, draft_executor_options(*transformer.drafter, options));
}

std::vector<uint64_t> plan_shards(const Transformer& transformer, const TransformerExecutorOptions& options) {
  std::vector<uint64_t> bytes(static_cast<size_t>(transformer.shard.num_shards));
  for (int32_t rank = 0; rank < transformer.shard.num_shards; ++rank) {
    for (size_t i = 0; i < transformer.stages.size(); ++i)
      bytes[static_cast<size_t>(rank)] += plan_stage_of_shard(transformer.at_rank(rank), i, options).cache();
  }
  bytes.front() += plan_drafter(transformer, options).cache();
  return bytes;
}

namespace {

// Returns the bytes of a layer's pages on all shards.
uint64_t kv_bytes_of(const Transformer& transformer, const Device& device, size_t layer,
                     const CachePages& pages) {
  return transformer.sum_over_shards(
      [&](const Transformer& of) { return layer_kv_bytes(device.table(), of.shape.caches[layer], pages); });
}

// Returns the bytes of a layer's recurrent states on all shards.
uint64_t state_bytes_of(const Transformer& transformer, const Device& device, size_t layer,
                        const CachePages& pages) {
  return transformer.sum_over_shards([&](const Transformer& of) {
    return layer_state_bytes(device.table(), of.shape.caches[layer], pages);
  });
}

// Plans a stage of one layer on all shards.
MemoryBytes plan_place(const Transformer& transformer, const StagePosition& place,
                       const TransformerExecutorOptions& options) {
  return transformer.sum_over_shards([&](const Transformer& of) {
    StagePosition of_shard = place;
    of_shard.draws = place.draws && of.shard.rank == 0;
    return plan_stage(*of.stages.front().device, stage_sizes(of_shard, of.shape, options));
  });
}

// Returns the bytes of the pages and states of each layer of a stage.
std::vector<RemoteCacheBytes::Layer> layers_of_cache(const Transformer& transformer,
                                                     const PipelineStage& stage,
                                                     const TransformerExecutorOptions& options) {
  if (stage.remote != nullptr) return stage.remote->plan_cache(options).layers;
  std::vector<RemoteCacheBytes::Layer> layers;
  for (int32_t i = 0; i < stage.num_layers; ++i) {
    const auto layer = static_cast<size_t>(stage.first_layer + i);
    layers.push_back({kv_bytes_of(transformer, *stage.device, layer, options.kv),
                      state_bytes_of(transformer, *stage.device, layer, options.kv)});
  }
  return layers;
}

std::vector<CacheGroupPlan> cache_groups_of(const CachePages& pages) {
  std::vector<CacheGroupPlan> groups = {{0, pages.num_pages}};
  for (const WindowGroup& group : pages.windows) groups.push_back({group.window, group.num_slots});
  return groups;
}

}  // namespace

MemoryPlan plan_memory(const Transformer& transformer, const Placement& placement, size_t num_devices,
                       const TransformerExecutorOptions& options) {
  MemoryPlan plan;
  plan.placement = placement;
  plan.devices.resize(num_devices);
  plan.cache_groups = cache_groups_of(options.kv);
  plan.states.num_slots = options.kv.num_state_slots;
  const std::vector<LayerRange> runs = layer_ranges(placement);
  for (size_t i = 0; i < transformer.stages.size(); ++i) {
    const PipelineStage& stage = transformer.stages[i];
    MemoryBytes bytes = plan_stage(transformer, i, options);
    bytes.layers = transformer.rope_bytes(i);
    const std::vector<RemoteCacheBytes::Layer> of_cache = layers_of_cache(transformer, stage, options);
    for (size_t layer = 0; layer < of_cache.size(); ++layer) {
      const uint64_t taken = transformer.layer_taken_bytes(i, layer);
      const size_t of_model = static_cast<size_t>(stage.first_layer) + layer;
      const auto [pages, states] = of_cache[layer];
      bytes.layers += taken;
      plan.layer_bytes.push_back(taken + pages + states);
      plan.states.num_layers += states > 0 ? 1 : 0;
      plan.states.bytes += states;
      const int32_t table = page_table_of(options.kv, transformer.shape.caches[of_model]);
      CacheGroupPlan& group = plan.cache_groups[static_cast<size_t>(table)];
      group.num_layers += pages > 0 ? 1 : 0;
      group.bytes += pages;
    }
    plan.devices[static_cast<size_t>(runs[i].device)] += bytes;
  }
  plan.devices[static_cast<size_t>(runs.front().device)].embedding += transformer.embedding_taken_bytes();
  plan.devices[static_cast<size_t>(runs.back().device)].head += transformer.head_taken_bytes();
  if (transformer.drafter != nullptr) {
    const MemoryBytes drafter = plan_drafter(transformer, options);
    plan.devices[static_cast<size_t>(runs.back().device)].drafter += transformer.drafter_taken_bytes();
    plan.cache_groups.front().num_layers += transformer.drafter->network.shape.num_layers;
    plan.cache_groups.front().bytes += drafter.kv;
  }
  return plan;
}

DeviceDemand demand_of(const Transformer& transformer, bool crosses_backends,
                       const TransformerExecutorOptions& options) {
  const PipelineStage& all = transformer.stages.front();
  const MemoryBytes middle = plan_place(transformer, {1, false, crosses_backends}, options);
  const bool draws = all.device->has(kernels::kCapabilityDeviceSampling);
  const MemoryBytes last = plan_place(transformer, {1, true, crosses_backends, draws}, options);
  DeviceDemand demand;
  demand.stage_bytes = transformer.rope_bytes(0) + middle.workspace;
  demand.embedding_bytes = transformer.embedding_taken_bytes();
  demand.head_bytes = transformer.head_taken_bytes() + (last.workspace - middle.workspace) +
                      transformer.drafter_taken_bytes() + plan_drafter(transformer, options).cache();
  for (size_t i = 0; i < all.layers.size(); ++i) {
    demand.layer_bytes.push_back(transformer.layer_taken_bytes(0, i) +
                                 kv_bytes_of(transformer, *all.device, i, options.kv) +
                                 state_bytes_of(transformer, *all.device, i, options.kv));
  }
  return demand;
}

DeviceDemand demand_of(const RemoteLayers& layers, const TransformerExecutorOptions& options) {
  const RemoteWeightBytes& weights = layers.bytes();
  const RemoteCacheBytes cache = layers.plan_cache(options);
  DeviceDemand demand;
  demand.stage_bytes = weights.ropes + cache.workspace;
  for (size_t i = 0; i < weights.layers.size(); ++i)
    demand.layer_bytes.push_back(weights.layers[i] + cache.layers[i].kv + cache.layers[i].states);
  return demand;
}

RemoteCacheBytes plan_inner_stage(const Transformer& stage, const TransformerExecutorOptions& options) {
  const MemoryBytes bytes = plan_stage(stage, 0, options);
  return {layers_of_cache(stage, stage.stages.front(), options), bytes.kv, bytes.states, bytes.workspace,
          bytes.staging};
}

}  // namespace quire
