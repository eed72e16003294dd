// Bytes that a model and a cache on it take, by kind and by device, before any of them is taken.
#pragma once

#include <cstdint>
#include <vector>

#include "core/models/placement.h"
#include "core/models/split.h"
#include "core/models/stage_sizes.h"
#include "core/models/transformer.h"

namespace quire {

// The kinds of memory on one device. Told by the functions that lay out what is then taken, of transformers
// that are planned or prepared alike.
struct MemoryBytes {
  uint64_t embedding = 0;
  uint64_t layers = 0;     // weights
  uint64_t head = 0;       // with the last norm
  uint64_t kv = 0;         // pages
  uint64_t workspace = 0;  // activations, logits, scratch of the backend
  uint64_t staging = 0;    // host memory that copies need; not part of the sums

  uint64_t weights() const { return embedding + layers + head; }
  uint64_t cache() const { return kv + workspace; }
  uint64_t total() const { return weights() + cache(); }
  MemoryBytes& operator+=(const MemoryBytes& other);
};

// Of the pages, activations and context of one stage: of one shard, and of all of them.
MemoryBytes plan_stage(const Device& device, const StageSizes& sizes);
MemoryBytes plan_stage(const Transformer& transformer, size_t stage_idx,
                       const TransformerExecutorOptions& options);

// Device memory that each shard takes of pages, activations and contexts, on all stages.
std::vector<uint64_t> plan_shards(const Transformer& transformer, const TransformerExecutorOptions& options);

// The pages of a cache group: of the layers that see back as far as `window`.
struct CacheGroupPlan {
  int32_t window = 0;  // tokens; 0: all
  int32_t num_pages = 0;
  int32_t num_layers = 0;  // with pages of their own
  uint64_t bytes = 0;      // of all pages of these layers, on all devices and shards
};

struct MemoryPlan {
  Placement placement;
  std::vector<uint64_t> layer_bytes;         // weights and pages of each layer
  std::vector<MemoryBytes> devices;          // as the model's
  std::vector<CacheGroupPlan> cache_groups;  // that without a window first, then by rising window

  MemoryBytes total() const;
};

// The placement is the transformer's.
MemoryPlan plan_memory(const Transformer& transformer, const Placement& placement, size_t num_devices,
                       const TransformerExecutorOptions& options);

// What a split has to know of one device, from a transformer that has all its layers there.
DeviceDemand demand_of(const Transformer& transformer, bool crosses_backends,
                       const TransformerExecutorOptions& options);

}  // namespace quire
