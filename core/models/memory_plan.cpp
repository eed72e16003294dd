#include "core/models/memory_plan.h"

#include <algorithm>
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

int32_t MemoryPlan::num_layers_on(int32_t device) const {
  const std::vector<int32_t>& first = placement.device_of_layer;
  return static_cast<int32_t>(std::count_if(first.begin(), first.end(), [&](int32_t of_layer) {
    return of_layer <= device && device <= placement.device_of_shard(of_layer, num_shards - 1);
  }));
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
  if (remote != nullptr) return bytes_of(remote->plan_cache(options, of.is_linked(stage_idx)));
  return plan_stage(*of.stages[stage_idx].device,
                    stage_sizes(position_of_stage(of, stage_idx), of.shape, options));
}

}  // namespace

std::vector<StageDeviceMemory> plan_stage(const Transformer& transformer, size_t stage_idx,
                                          const TransformerExecutorOptions& options) {
  std::vector<StageDeviceMemory> memory;
  for (int32_t rank = 0; rank < transformer.num_shards_of(stage_idx); ++rank) {
    const Transformer& of = transformer.at_rank(rank);
    const std::shared_ptr<Device>& device = of.stages[stage_idx].device;
    const auto found = std::find_if(memory.begin(), memory.end(),
                                    [&](const StageDeviceMemory& other) { return other.device == device; });
    StageDeviceMemory& on_device = found == memory.end() ? memory.emplace_back() : *found;
    on_device.device = device;
    on_device.bytes += plan_stage_of_shard(of, stage_idx, options);
  }
  if (transformer.is_last(stage_idx)) memory.front().bytes += plan_drafter(transformer, options);
  return memory;
}

MemoryBytes plan_drafter(const Transformer& transformer, const TransformerExecutorOptions& options) {
  if (transformer.drafter == nullptr) return {};
  return plan_stage_of_shard(transformer.drafter->network, 0,
                             draft_executor_options(*transformer.drafter, options));
}

MemoryBytes plan_host_experts(const Transformer& transformer, const TransformerExecutorOptions& options) {
  if (!transformer.host_experts.exist()) return {};
  return plan_stage(*transformer.host_experts.device, host_experts_sizes(transformer, options));
}

std::vector<uint64_t> plan_shards(const Transformer& transformer, const TransformerExecutorOptions& options) {
  std::vector<uint64_t> bytes(static_cast<size_t>(transformer.shard.num_shards));
  for (size_t i = 0; i < transformer.stages.size(); ++i) {
    for (int32_t rank = 0; rank < transformer.num_shards_of(i); ++rank)
      bytes[static_cast<size_t>(rank)] += plan_stage_of_shard(transformer.at_rank(rank), i, options).cache();
  }
  bytes.front() +=
      plan_drafter(transformer, options).cache() + plan_host_experts(transformer, options).cache();
  return bytes;
}

namespace {

// Plans a stage of one layer of a shard.
MemoryBytes plan_place(const Transformer& of, StagePosition place,
                       const TransformerExecutorOptions& options) {
  place.draws = place.draws && of.shard.rank == 0;
  place.num_shards = of.shard.num_shards;
  place.gathers_on_host = of.stages.front().gathers_on_host;
  return plan_stage(*of.stages.front().device, stage_sizes(place, of.shape, options));
}

std::vector<CacheGroupPlan> cache_groups_of(const CachePages& pages) {
  std::vector<CacheGroupPlan> groups = {{0, pages.num_pages}};
  for (const WindowGroup& group : pages.windows) groups.push_back({group.window, group.num_slots});
  return groups;
}

// Memory of a stage of a shard, without weights, and the part of each layer.
struct StageCachePlan {
  MemoryBytes bytes;
  std::vector<RemoteCacheBytes::Layer> layers;
};

// Asks another process only once: its answer has both.
StageCachePlan plan_cache_of(const Transformer& of, size_t stage_idx,
                             const TransformerExecutorOptions& options) {
  const PipelineStage& stage = of.stages[stage_idx];
  if (stage.remote != nullptr) {
    RemoteCacheBytes cache = stage.remote->plan_cache(options, of.is_linked(stage_idx));
    return {bytes_of(cache), std::move(cache.layers)};
  }
  StageCachePlan plan = {plan_stage_of_shard(of, stage_idx, options), {}};
  const KernelTable& table = stage.device->table();
  const auto num_layers = static_cast<size_t>(stage.num_layers);
  plan.layers.reserve(num_layers);
  for (size_t i = 0; i < num_layers; ++i) {
    const LayerCacheSize& size = of.shape.caches[static_cast<size_t>(stage.first_layer) + i];
    plan.layers.push_back(
        {layer_kv_bytes(table, size, options.kv), layer_state_bytes(table, size, options.kv)});
  }
  return plan;
}

// Adds the pages and states of a layer of all shards to the plan of their group. Returns their bytes.
uint64_t add_layer(MemoryPlan& plan, const RemoteCacheBytes::Layer& layer, int32_t table) {
  plan.states.num_layers += layer.states > 0 ? 1 : 0;
  plan.states.bytes += layer.states;
  CacheGroupPlan& group = plan.cache_groups[static_cast<size_t>(table)];
  group.num_layers += layer.kv > 0 ? 1 : 0;
  group.bytes += layer.kv;
  return layer.kv + layer.states;
}

// Adds a stage. `device` is that of its first shard.
void add_stage(MemoryPlan& plan, const Transformer& transformer, size_t stage_idx, int32_t device,
               const TransformerExecutorOptions& options) {
  const PipelineStage& stage = transformer.stages[stage_idx];
  const auto num_layers = static_cast<size_t>(stage.num_layers);
  std::vector<RemoteCacheBytes::Layer> caches(num_layers);
  std::vector<uint64_t> weights(num_layers);
  for (int32_t rank = 0; rank < transformer.num_shards_of(stage_idx); ++rank) {
    const Transformer& of = transformer.at_rank(rank);
    const auto own_device = static_cast<size_t>(plan.placement.device_of_shard(device, rank));
    MemoryBytes& bytes = plan.devices[own_device];
    const StageCachePlan own = plan_cache_of(of, stage_idx, options);
    bytes += own.bytes;
    plan.step_bytes[own_device] +=
        stage.remote != nullptr ? stage.remote->bytes().step : of.own_step_bytes(stage_idx, 1);
    bytes.layers += of.stages[stage_idx].rope_bytes();
    for (size_t layer = 0; layer < num_layers; ++layer) {
      const uint64_t taken = of.own_layer_bytes(stage_idx, layer);
      bytes.layers += taken;
      weights[layer] += taken;
      caches[layer] += own.layers[layer];
    }
  }
  for (size_t layer = 0; layer < num_layers; ++layer) {
    const size_t of_model = static_cast<size_t>(stage.first_layer) + layer;
    const int32_t table = page_table_of(options.kv, transformer.shape.caches[of_model]);
    plan.layer_bytes.push_back(weights[layer] + transformer.host_experts_taken_bytes(stage_idx, layer) +
                               add_layer(plan, caches[layer], table));
  }
}

// Returns the bytes of host experts that a step of one token reads from the slots of a stage's card, if each
// expert is as likely to be chosen and to have a slot as any other.
uint64_t slot_step_bytes(const Transformer& transformer, size_t stage_idx,
                         const TransformerExecutorOptions& options) {
  const StagePosition position = position_of_stage(transformer, stage_idx);
  if (position.packed.num_slots == 0) return 0;
  const StageSizes sizes = stage_sizes(position, transformer.shape, options);
  double bytes = 0.0;
  for (const TransformerLayer& layer : transformer.stages[stage_idx].layers)
    if (const ExpertsLayer* const experts = packed_experts_of(layer)) bytes += experts->step_bytes();
  return static_cast<uint64_t>(bytes * sizes.context.packed.num_slots / position.packed.num_slots);
}

void add_host_experts(MemoryPlan& plan, const Transformer& transformer, size_t host,
                      const std::vector<LayerRange>& runs, const TransformerExecutorOptions& options) {
  MemoryBytes& bytes = plan.devices[host];
  bytes += plan_host_experts(transformer, options);
  plan.step_bytes[host] += transformer.host_experts_step_bytes(1);
  for (size_t i = 0; i < transformer.stages.size(); ++i) {
    for (size_t layer = 0; layer < transformer.stages[i].layers.size(); ++layer)
      bytes.layers += transformer.host_experts_taken_bytes(i, layer);
    const uint64_t in_slots = slot_step_bytes(transformer, i, options);
    plan.step_bytes[host] -= in_slots;
    plan.step_bytes[static_cast<size_t>(runs[i].device)] += in_slots;
  }
}

void add_drafter(MemoryPlan& plan, const Transformer& transformer, MemoryBytes& device,
                 const TransformerExecutorOptions& options) {
  if (transformer.drafter == nullptr) return;
  const MemoryBytes drafter = plan_drafter(transformer, options);
  device += drafter;
  device.drafter += transformer.drafter_taken_bytes();
  plan.cache_groups.front().num_layers += transformer.drafter->network.shape.num_layers;
  plan.cache_groups.front().bytes += drafter.kv;
}

}  // namespace

MemoryPlan plan_memory(const Transformer& transformer, const Placement& placement, size_t num_devices,
                       const TransformerExecutorOptions& options) {
  MemoryPlan plan;
  plan.placement = placement;
  plan.num_shards = transformer.shard.num_shards;
  plan.devices.resize(num_devices);
  plan.step_bytes.resize(num_devices);
  plan.cache_groups = cache_groups_of(options.kv);
  plan.states.num_slots = options.kv.num_state_slots;
  const std::vector<LayerRange> runs = layer_ranges(placement);
  for (size_t i = 0; i < transformer.stages.size(); ++i)
    add_stage(plan, transformer, i, runs[i].device, options);
  if (const int32_t host = host_experts_device(placement); host >= 0)
    add_host_experts(plan, transformer, static_cast<size_t>(host), runs, options);
  plan.devices[static_cast<size_t>(runs.front().device)].embedding += transformer.embedding_taken_bytes();
  const int32_t last = runs.back().device;
  for (int32_t rank = 0; rank < transformer.shard.num_shards; ++rank) {
    plan.devices[static_cast<size_t>(placement.device_of_shard(last, rank))].head +=
        transformer.at_rank(rank).own_head_bytes();
  }
  add_drafter(plan, transformer, plan.devices[static_cast<size_t>(last)], options);
  return plan;
}

DeviceDemand demand_of_shard(const Transformer& transformer, int32_t rank, bool crosses_backends,
                             const TransformerExecutorOptions& options) {
  const Transformer& of = transformer.at_rank(rank);
  const PipelineStage& all = of.stages.front();
  StagePosition place = {1, false, crosses_backends};
  place.packed = position_of_stage(of, 0).packed;
  const MemoryBytes middle = plan_place(of, place, options);
  place.is_last = true;
  place.draws = all.device->has(kernels::kCapabilityDeviceSampling);
  const MemoryBytes last = plan_place(of, place, options);
  DeviceDemand demand;
  demand.stage_bytes = all.rope_bytes() + middle.workspace;
  demand.head_bytes = of.own_head_bytes() + (last.workspace - middle.workspace);
  if (rank == 0) {
    demand.embedding_bytes = of.embedding_taken_bytes();
    demand.head_bytes += of.drafter_taken_bytes() + plan_drafter(of, options).cache();
  }
  const KernelTable& table = all.device->table();
  for (size_t i = 0; i < all.layers.size(); ++i) {
    const LayerCacheSize& size = of.shape.caches[i];
    demand.layer_bytes.push_back(of.own_layer_bytes(0, i) + layer_kv_bytes(table, size, options.kv) +
                                 layer_state_bytes(table, size, options.kv));
  }
  return demand;
}

DeviceDemand demand_of(const Transformer& transformer, bool crosses_backends,
                       const TransformerExecutorOptions& options) {
  DeviceDemand all = demand_of_shard(transformer, 0, crosses_backends, options);
  for (int32_t rank = 1; rank < transformer.shard.num_shards; ++rank)
    all += demand_of_shard(transformer, rank, crosses_backends, options);
  return all;
}

DeviceDemand demand_of(const RemoteLayers& layers, const TransformerExecutorOptions& options,
                       bool is_linked) {
  const RemoteWeightBytes& weights = layers.bytes();
  const RemoteCacheBytes cache = layers.plan_cache(options, is_linked);
  DeviceDemand demand;
  demand.stage_bytes = weights.ropes + cache.workspace;
  for (size_t i = 0; i < weights.layers.size(); ++i)
    demand.layer_bytes.push_back(weights.layers[i] + cache.layers[i].kv + cache.layers[i].states);
  return demand;
}

RemoteCacheBytes plan_inner_stage(const Transformer& stage, const TransformerExecutorOptions& options) {
  StageCachePlan plan = plan_cache_of(stage, 0, options);
  for (const Transformer& peer : stage.peers) {
    const StageCachePlan own = plan_cache_of(peer, 0, options);
    plan.bytes += own.bytes;
    for (size_t layer = 0; layer < own.layers.size(); ++layer) plan.layers[layer] += own.layers[layer];
  }
  return {std::move(plan.layers), plan.bytes.kv, plan.bytes.states, plan.bytes.workspace, plan.bytes.staging};
}

}  // namespace quire
