// All device memory that running a stage of a transformer needs beside its weights, taken once at fixed
// addresses.
#pragma once

#include <memory>
#include <vector>

#include "core/base/ids.h"
#include "core/layers/forward_pass.h"
#include "core/layers/needs.h"
#include "core/step/window_group.h"
#include "core/tensor/device.h"

namespace quire {

// Of `num_pages` and `page_tokens` and formats, the layers without a window; heads come from the layer. Those
// with one have num_slots pages of the first group whose window is not smaller.
struct CachePages : kernels::KvShape {
  std::vector<WindowGroup> windows;  // by rising window
  // Of num_pages those that have memory at first, where the others get theirs later; 0: all.
  int32_t least_pages = 0;
};

// The page table of a layer: 0, or 1 + its group.
int32_t page_table_of(const CachePages& pages, const LayerCacheSize& size);

struct StepLimits {
  int32_t max_tokens = 0;      // of one step
  int32_t max_logit_rows = 0;  // of one step
  int32_t max_context = 0;     // tokens of a sequence
};

// Bytes of each kind, computed from sizes alone, before anything is taken.
struct TransformerMemoryPlan {
  uint64_t kv_bytes = 0;
  uint64_t activation_bytes = 0;
  uint64_t total_bytes() const { return kv_bytes + activation_bytes; }
};

TransformerMemoryPlan plan_transformer_memory(const KernelTable& table, const TransformerShape& shape,
                                              const CachePages& kv, const StepLimits& limits);

// Of the pages of one layer that have memory at first; 0 where it reads another's.
uint64_t layer_kv_bytes(const KernelTable& table, const LayerCacheSize& size, const CachePages& kv);

// The part of one page in one buffer.
struct PagePiece {
  std::byte* address = nullptr;  // of device memory
  uint64_t bytes = 0;
};

// Throws ErrorCode::out_of_memory with the bytes of the buffer that did not fit; nothing stays taken.
class TransformerMemory {
 public:
  TransformerMemory(const std::shared_ptr<Device>& device, const TransformerShape& shape,
                    const CachePages& kv, const StepLimits& limits);

  const kernels::Workspace& workspace() const { return workspace_; }
  gsl::span<const LayerCache> caches() const { return caches_; }
  // Whether a layer's pages are its own.
  bool owns_pages(size_t layer) const { return owns_pages_[layer]; }
  gsl::span<const RopeTables> ropes() const { return ropes_; }
  // Where pages may come later: the first num_pages have memory from now on, more or fewer than before. No
  // work reaches pages that lose theirs. Throws ErrorCode::out_of_memory and leaves it as it was.
  void set_num_pages(int32_t num_pages);
  // All that a page holds, in the same order for each; of layers without a window.
  std::vector<PagePiece> pieces_of(PageId page) const;

 private:
  // Of one layer's pages.
  struct Growing {
    ElasticBuffer buffer;
    uint64_t page_bytes = 0;
  };

  template <typename T>
  T* take(const std::shared_ptr<Device>& device, uint64_t bytes, std::string_view what);
  LayerCache take_pages(const std::shared_ptr<Device>& device, const LayerCacheSize& size,
                        const CachePages& kv);

  kernels::Workspace workspace_;
  std::vector<LayerCache> caches_;
  std::vector<bool> owns_pages_;
  std::vector<RopeTables> ropes_;
  std::vector<DeviceBuffer> buffers_;
  std::vector<Growing> growing_;
  int32_t num_pages_ = 0;  // of growing_
};

}  // namespace quire
