// Device memory that a stage of a transformer needs in addition to its weights. Allocated once, at fixed
// addresses.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "core/base/ids.h"
#include "core/layers/forward_pass.h"
#include "core/layers/needs.h"
#include "core/step/state_slots.h"
#include "core/step/window_group.h"
#include "core/tensor/device.h"

namespace quire {

// Number and format of the pages of a cache. Layers without a window have num_pages pages. Layers with a
// window have num_slots pages, from the first group whose window is large enough. The number and size of
// heads come from the layer.
struct CachePages : kernels::KvShape {
  std::vector<WindowGroup> windows;  // by ascending window
  int32_t num_state_slots = 0;       // for recurrent states; 0: no layer has one
  // Number of pages that have memory at first, if the others get theirs later; 0: all of num_pages.
  int32_t least_pages = 0;
  int32_t least_state_slots = 0;  // the same for state slots; 0: all of num_state_slots

  StateSlotRange state_slots() const { return {num_state_slots, least_state_slots, num_pages, least_pages}; }
};

// Returns the index of a layer's page table: 0, or 1 + the index of its window group.
int32_t page_table_of(const CachePages& pages, const LayerCacheSize& size);

struct StepLimits {
  int32_t max_tokens = 0;      // of one step
  int32_t max_logit_rows = 0;  // of one step
  int32_t max_context = 0;     // of one sequence
};

// Bytes of each kind, computed from the sizes before anything is allocated.
struct TransformerMemoryPlan {
  uint64_t kv_bytes = 0;
  uint64_t state_bytes = 0;
  uint64_t activation_bytes = 0;
  uint64_t total_bytes() const { return kv_bytes + state_bytes + activation_bytes; }
};

TransformerMemoryPlan plan_transformer_memory(const KernelTable& table, const TransformerShape& shape,
                                              const CachePages& kv, const StepLimits& limits);

// Returns the bytes of a layer's pages that have memory at first; 0 if the layer reads another layer's pages.
uint64_t layer_kv_bytes(const KernelTable& table, const LayerCacheSize& size, const CachePages& kv);

// Returns the bytes of the slots of a layer's recurrent state that have memory at first; 0 if it has none.
uint64_t layer_state_bytes(const KernelTable& table, const LayerCacheSize& size, const CachePages& kv);

// Part of one page, or of a bank of a state slot, that is in one buffer.
struct PagePiece {
  std::byte* address = nullptr;  // device memory
  uint64_t bytes = 0;
};

// Pages and activations of one stage. The constructor throws ErrorCode::out_of_memory with the bytes of the
// buffer that did not fit, and frees the others.
class TransformerMemory {
 public:
  TransformerMemory(const std::shared_ptr<Device>& device, const TransformerShape& shape,
                    const CachePages& kv, const StepLimits& limits);

  const kernels::Workspace& workspace() const { return workspace_; }
  gsl::span<const LayerCache> caches() const { return caches_; }
  // Copies the states of all layers from one slot to another, in the order of the context's work.
  void copy_state(const DeviceContext& context, int32_t source, int32_t target) const;
  // True if the layer has its own pages.
  bool owns_pages(size_t layer) const { return owns_pages_[layer]; }
  gsl::span<const RopeTables> ropes() const { return ropes_; }
  // For caches that grow and shrink: gives memory to the first num_pages pages and their state slots, and
  // frees the memory of the others. Running work must not access what loses its memory. Throws
  // ErrorCode::out_of_memory and then changes nothing.
  void set_num_pages(int32_t num_pages);
  // Returns all pieces of a page of the layers with this page table (LayerCache::table). Their order is the
  // same for each page of the table.
  std::vector<PagePiece> pieces_of(int32_t table, PageId page) const;
  // Returns all pieces of a bank of a state slot. Their order is the same for each slot and bank.
  std::vector<PagePiece> pieces_of_state(int32_t slot, int32_t bank) const;

 private:
  // Buffer with one part of a layer's pages, or with its states, which grows and shrinks.
  struct GrowingPages {
    ElasticBuffer buffer;
    uint64_t page_bytes = 0;  // of a page or a slot
    bool has_states = false;
  };

  template <typename T>
  T* take(const std::shared_ptr<Device>& device, uint64_t bytes, std::string_view what);
  void* take_states(const std::shared_ptr<Device>& device, const LayerCacheSize& size, const CachePages& kv);
  LayerCache take_pages(const std::shared_ptr<Device>& device, const LayerCacheSize& size,
                        const CachePages& kv);

  kernels::Workspace workspace_;
  std::vector<LayerCache> caches_;
  std::vector<bool> owns_pages_;
  std::vector<std::array<uint64_t, 2>> state_parts_;  // LayerCacheSize::state_parts of each layer
  std::vector<RopeTables> ropes_;
  std::vector<DeviceBuffer> buffers_;
  std::vector<GrowingPages> growing_;
  StateSlotRange state_slots_;
  int32_t num_pages_ = 0;  // pages that have memory in growing_
};

}  // namespace quire
