// Memory plan: bytes of a model and its cache by kind and by device, computed before anything is allocated.
#pragma once

#include <cstdint>
#include <vector>

#include "core/models/placement.h"
#include "core/models/split.h"
#include "core/models/stage_sizes.h"
#include "core/models/transformer.h"

namespace quire {

// Bytes on one device, by kind. They are computed by the functions that lay out the allocations, so they are
// the same for a planned and a prepared transformer.
struct MemoryBytes {
  uint64_t embedding = 0;
  uint64_t layers = 0;     // weights
  uint64_t head = 0;       // including the last norm
  uint64_t drafter = 0;    // weights of the draft network
  uint64_t kv = 0;         // pages, also those of the draft network
  uint64_t states = 0;     // slots of recurrent states
  uint64_t workspace = 0;  // activations, logits, scratch memory of the backend
  uint64_t staging = 0;    // host memory for copies; not part of the sums

  uint64_t weights() const { return embedding + layers + head + drafter; }
  uint64_t cache() const { return kv + states + workspace; }
  uint64_t total() const { return weights() + cache(); }
  MemoryBytes& operator+=(const MemoryBytes& other);
};

// Plans the pages, activations and context of one shard of a stage.
MemoryBytes plan_stage(const Device& device, const StageSizes& sizes);

// Memory of a stage on one device.
struct StageDeviceMemory {
  std::shared_ptr<Device> device;
  MemoryBytes bytes;
};
// Plans the pages, activations and contexts of all shards of a stage, and on the last stage of the draft
// network. Each device occurs once, that of the first shard first.
std::vector<StageDeviceMemory> plan_stage(const Transformer& transformer, size_t stage_idx,
                                          const TransformerExecutorOptions& options);
// Plans the pages, activations and context of the draft network; all bytes are 0 if there is no network.
MemoryBytes plan_drafter(const Transformer& transformer, const TransformerExecutorOptions& options);

// Plans the activations and the context of the host experts; all bytes are 0 if there are none.
MemoryBytes plan_host_experts(const Transformer& transformer, const TransformerExecutorOptions& options);

// Returns the device memory that each shard needs for pages, activations and contexts, over all stages.
std::vector<uint64_t> plan_shards(const Transformer& transformer, const TransformerExecutorOptions& options);

// Pages of a cache group, whose layers share a page table.
struct CacheGroupPlan {
  int32_t window = 0;  // largest number of tokens that its layers attend to; 0: unlimited
  int32_t num_pages = 0;
  int32_t num_layers = 0;  // layers with their own pages
  uint64_t bytes = 0;      // all pages of these layers, over all devices and shards
};

// Slots of the layers with a recurrent state.
struct StateGroupPlan {
  int32_t num_slots = 0;
  int32_t num_layers = 0;
  uint64_t bytes = 0;  // over all devices and shards
};

struct MemoryPlan {
  Placement placement;
  int32_t num_shards = 1;
  std::vector<uint64_t> layer_bytes;         // weights and pages of each layer, on all devices
  std::vector<MemoryBytes> devices;          // in the order of the model's devices
  std::vector<uint64_t> step_bytes;          // weights that a step of one token reads on each device
  std::vector<CacheGroupPlan> cache_groups;  // the group without a window first, then by ascending window
  StateGroupPlan states;

  MemoryBytes total() const;
  // Returns the number of layers that a device has, whole or a shard of them.
  int32_t num_layers_on(int32_t device) const;
};

// Plans the memory of a transformer. `placement` is the one that it was built with, on num_devices devices.
MemoryPlan plan_memory(const Transformer& transformer, const Placement& placement, size_t num_devices,
                       const TransformerExecutorOptions& options);

// Return the memory demand of one shard, and of all shards on one device, from a transformer that has all its
// layers in one stage. See split.h.
DeviceDemand demand_of_shard(const Transformer& transformer, int32_t rank, bool crosses_backends,
                             const TransformerExecutorOptions& options);
DeviceDemand demand_of(const Transformer& transformer, bool crosses_backends,
                       const TransformerExecutorOptions& options);
// Returns the demand on the device of another process, from all layers of the model built there. is_linked:
// see RemoteLayers::plan_cache.
DeviceDemand demand_of(const RemoteLayers& layers, const TransformerExecutorOptions& options, bool is_linked);

// Returns the bytes of a cache of a stage alone (Transformer::is_inner).
RemoteCacheBytes plan_inner_stage(const Transformer& stage, const TransformerExecutorOptions& options);

}  // namespace quire
