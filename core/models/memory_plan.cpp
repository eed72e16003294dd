#include "core/models/memory_plan.h"

#include <numeric>

namespace quire {

MemoryBytes& MemoryBytes::operator+=(const MemoryBytes& other) {
  embedding += other.embedding;
  layers += other.layers;
  head += other.head;
  kv += other.kv;
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
  bytes.workspace = memory.activation_bytes + context.held_bytes;
  bytes.staging = context.pinned_bytes;
  return bytes;
}

MemoryBytes MemoryPlan::total() const {
  return std::accumulate(devices.begin(), devices.end(), MemoryBytes(),
                         [](MemoryBytes sum, const MemoryBytes& device) { return sum += device; });
}

MemoryPlan plan_memory(const Transformer& transformer, const Placement& placement, size_t num_devices,
                       const TransformerShape& shape, const TransformerExecutorOptions& options) {
  MemoryPlan plan;
  plan.placement = placement;
  plan.devices.resize(num_devices);
  const std::vector<LayerRun> runs = layer_runs(placement);
  for (size_t i = 0; i < transformer.stages.size(); ++i) {
    const TransformerStage& stage = transformer.stages[i];
    MemoryBytes bytes =
        plan_stage(*stage.device, stage_sizes(place_of_stage(transformer, i), shape, options));
    bytes.layers = stage.rope_bytes();
    for (size_t layer = 0; layer < stage.layers.size(); ++layer) {
      const uint64_t taken = stage.layers[layer].taken_bytes(*stage.device);
      const LayerCacheSize& cache = shape.caches[static_cast<size_t>(stage.first_layer) + layer];
      bytes.layers += taken;
      plan.layer_bytes.push_back(taken + layer_kv_bytes(stage.device->table(), cache, options.kv));
    }
    plan.devices[static_cast<size_t>(runs[i].device)] += bytes;
  }
  plan.devices[static_cast<size_t>(runs.front().device)].embedding += transformer.embedding_taken_bytes();
  plan.devices[static_cast<size_t>(runs.back().device)].head += transformer.head_taken_bytes();
  return plan;
}

DeviceDemand demand_of(const Transformer& transformer, bool crosses_backends, const TransformerShape& shape,
                       const TransformerExecutorOptions& options) {
  const TransformerStage& all = transformer.stages.front();
  const MemoryBytes middle =
      plan_stage(*all.device, stage_sizes({1, false, crosses_backends}, shape, options));
  const bool draws = all.device->has(kernels::kCapabilityDeviceSampling);
  const MemoryBytes last =
      plan_stage(*all.device, stage_sizes({1, true, crosses_backends, draws}, shape, options));
  DeviceDemand demand;
  demand.stage_bytes = all.rope_bytes() + middle.workspace;
  demand.embedding_bytes = transformer.embedding_taken_bytes();
  demand.head_bytes = transformer.head_taken_bytes() + (last.workspace - middle.workspace);
  for (size_t i = 0; i < all.layers.size(); ++i) {
    demand.layer_bytes.push_back(all.layers[i].taken_bytes(*all.device) +
                                 layer_kv_bytes(all.device->table(), shape.caches[i], options.kv));
  }
  return demand;
}

}  // namespace quire
